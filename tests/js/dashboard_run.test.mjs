import assert from 'node:assert/strict';
import { test } from 'node:test';

import { markAt, spanAt, totalsAt } from '../../static/dashboard/as_of.js';
import { Axis, density } from '../../static/dashboard/axis.js';
import { factsOf } from '../../static/dashboard/facts.js';
import { found, severity, shownLines } from '../../static/dashboard/log_lines.js';
import { Player } from '../../static/dashboard/player.js';
import { Recording } from '../../static/dashboard/recording.js';
import { Timeline, rowsOf, spent } from '../../static/dashboard/timeline.js';
import { usageAreas } from '../../static/dashboard/usage_chart.js';
import { Mirror } from '../../static/gateway/index.js';
import { junk, seededRandom, sensibleRun } from './events.mjs';

const told = (events, first = 1) => events.map((data, index) => ({ offset: first + index, data }));

function mixed(length) {
  const random = seededRandom(7);
  const runs = ['r1', 'r2', 'r3'].flatMap((run) => sensibleRun({ run }));
  const events = [];
  while (events.length < length) events.push(random() < 0.3 ? junk(random) : runs[events.length % runs.length]);
  return told(events);
}

function folded(events, upto) {
  const mirror = new Mirror({ topic: 't', epoch: 'abcdefgh' });
  for (const event of events) if (event.offset <= upto) mirror.apply(event);
  return mirror.snapshot();
}

test('recording: the context at any offset is the fold of all events up to it, in any order of asking', () => {
  const events = mixed(1700);
  const recording = new Recording('t');
  recording.begin({ epoch: 'abcdefgh', offset: 0 });
  for (const event of events) assert.equal(recording.take(event), 'applied');
  const random = seededRandom(3);
  for (const offset of [0, 1, 500, 499, 501, 1700, 1699, ...Array.from({ length: 40 }, () => Math.floor(random() * 1701))])
    assert.deepEqual(recording.at(offset).snapshot(), folded(events, offset), `at ${offset}`);
});

test('recording: holes are told, repetitions change nothing, merged events count once', () => {
  const recording = new Recording('t');
  recording.begin({ epoch: 'abcdefgh', offset: 10 });
  assert.equal(recording.take({ offset: 13, first: 12, data: {} }), 'hole');
  assert.equal(recording.take({ offset: 13, first: 11, data: { type: 'x' } }), 'applied');
  assert.equal(recording.take({ offset: 13, data: {} }), 'repeated');
  assert.deepEqual([recording.floor, recording.upto, recording.events.length, recording.at(12).offset, recording.at(99).offset], [10, 13, 1, 10, 13]);
});

test('recording: what is kept is bounded, and what is left is exact', () => {
  const events = mixed(3000);
  for (const limits of [{ events: 800, characters: 1e9 }, { events: 1e9, characters: 120_000 }]) {
    const recording = new Recording('t', limits);
    recording.begin({ epoch: 'abcdefgh', offset: 0 });
    for (const event of events) {
      recording.take(event);
      assert.ok(recording.events.length <= 1000);
    }
    assert.ok(recording.floor > 0);
    for (const offset of [recording.floor, recording.floor + 1, 2990, 3000]) assert.deepEqual(recording.at(offset).snapshot(), folded(events, offset));
  }
});

const AT = 1_700_000_000_000;
function researchedEvents() {
  const run = 'r';
  return [
    { type: 'agent_start', run, agent: 'researcher', model: 'atlas', at: AT },
    { type: 'step_start', run, seq: 0, at: AT + 100 },
    { type: 'agent_thinking', run, message: 'm', text: 'hm', at: AT + 1100 },
    { type: 'agent_thinking', run, message: 'm', text: 'm', at: AT + 1500 },
    { type: 'agent_delta', run, message: 'm', text: 'Well', at: AT + 2100 },
    { type: 'usage', run, call: 'c', input_tokens: 100, cache_read_input_tokens: 60, output_tokens: 10, at: AT + 3000 },
    { type: 'assistant_message', run, message: 'm', seq: 1, content: 'Well', at: AT + 3100 },
    { type: 'approval_required', run, tool_call_id: 't', name: 'refund', arguments: '{"a":1.0}', expires_at: AT + 60_000, at: AT + 3200 },
    { type: 'approval_decided', run, tool_call_id: 't', decision: 'edit', arguments: '{"a":2.0}', by: 'ann', at: AT + 5200 },
    { type: 'tool_call', run, id: 't', name: 'refund', arguments: '{"a":2.0}', at: AT + 5300 },
    { type: 'log', run, level: 'warning', message: 'slow', logger: 'agent.tools', fields: { ms: 3 }, at: AT + 5400 },
    { type: 'tool_result', run, tool_call_id: 't', name: 'refund', content: 'no', metadata: { error: true }, at: AT + 6300 },
    { type: 'agent_start', run: 'child', parent: run, agent: 'reader', topic: 't/child', at: AT + 6400 },
    { type: 'step_end', run, seq: 2, at: AT + 7000 },
    { type: 'agent_error', run, error: 'quota', at: AT + 8000 },
  ];
}

function researched() {
  const timeline = new Timeline();
  const events = researchedEvents();
  for (const event of told(events)) timeline.take(event);
  return timeline;
}

test('timeline: a run as spans, each with its states in sequence', () => {
  const timeline = researched();
  const rows = rowsOf(timeline.roots[0]);
  assert.deepEqual(rows.map(({ span, level }) => `${level} ${span.kind} ${span.name} ${span.state} ${span.from - AT}-${span.to - AT}`), [
    '0 run researcher failed 0-8000',
    '1 step Step 1 done 100-7000',
    '2 call model call done 100-3100',
    '2 tool refund failed 3200-6300',
    '2 sub reader lost 6400-8000',
  ]);
  const [, , call, tool] = rows.map(({ span }) => span);
  assert.deepEqual(call.segments.map(({ tone, from, to }) => [tone, from - AT, to - AT]), [['gone', 100, 1100], ['think', 1100, 2100], ['live', 2100, 3100]]);
  assert.deepEqual(tool.segments.map(({ tone, from, to }) => [tone, from - AT, to - AT]), [['wait', 3200, 5200], ['tool', 5300, 6300]]);
  assert.deepEqual([tool.args, tool.result, tool.question.by, tool.question.decision], ['{"a":2.0}', 'no', 'ann', 'edit']);
  assert.deepEqual(call.usage, { input: 100, cached: 60, output: 10 });
  assert.deepEqual([tool.first, tool.last, timeline.roots[0].last, timeline.roots[0].error], [8, 12, 15, 'quota']);
  assert.equal(timeline.logs.length, 1);
});

test('timeline: time that is spent at once counts once', () => {
  const timeline = researched();
  const [root] = timeline.roots;
  assert.deepEqual(['think', 'live', 'wait', 'tool'].map((tone) => spent(root, tone, AT + 8000)), [1000, 1000, 2000, 1000]);
  const tools = { segments: [], children: [[0, 10], [5, 15], [20, null]].map(([from, to]) => ({ segments: [{ tone: 'tool', from, to }], children: [] })) };
  assert.equal(spent(tools, 'tool', 30), 25);
});

test('timeline: any events give a defined state', () => {
  const timeline = new Timeline();
  for (const event of mixed(3000)) timeline.take(event);
  for (const root of timeline.roots) for (const { span } of rowsOf(root)) assert.ok(span.to === null || span.to >= span.from);
  assert.equal(timeline.marks.length, 3000);
});

test('axis: marks are round, bars are cut to what is in view', () => {
  const axis = new Axis();
  axis.follow(AT, AT + 150_000, true);
  assert.deepEqual(axis.ticks(AT, 8).map(({ text }) => text), ['0:00', '0:20', '0:40', '1:00', '1:20', '1:40', '2:00', '2:20']);
  axis.zoom(10);
  assert.equal(axis.following, false);
  axis.follow(AT, AT + 1, true);
  assert.ok(axis.from > AT);
  axis.from = AT + 1000;
  axis.to = AT + 2000;
  const segments = [{ tone: 'live', from: AT, to: AT + 500 }, { tone: 'tool', from: AT + 500, to: AT + 1500 }, { tone: 'wait', from: AT + 1900, to: null }, { tone: 'bad', from: AT + 3000, to: null }];
  assert.deepEqual(axis.bars(segments, AT + 9000, 100, 2), [{ tone: 'tool', x: 0, width: 50 }, { tone: 'wait', x: 90, width: 10 }]);
  axis.pan(1);
  assert.equal(axis.from, AT + 2000);
});

test('density: what the run did colours a bar, its bookkeeping does not', () => {
  const marks = [{ at: 0, tone: 'gone' }, { at: 1, tone: 'gone' }, { at: 2, tone: 'tool' }, { at: 99, tone: 'live' }, { at: 100, tone: 'live' }];
  const bars = density(marks, 0, 100, 2);
  assert.deepEqual(bars.map(({ tone }) => tone), ['tool', 'live']);
  assert.deepEqual(density([], 0, 0, 3).map(({ height }) => height), [0, 0, 0]);
  assert.equal(bars[0].height, 1);
});

test('usage: areas stand on each other; without points there are none', () => {
  const frame = { from: 0, to: 10, width: 100, height: 50 };
  assert.equal(usageAreas([], frame).input, '');
  const areas = usageAreas([{ at: 5, offset: 1, input: 100, cached: 60, output: 20 }], frame);
  for (const path of Object.values(areas)) assert.match(path, /^M[-0-9. L]+Z$/);
});

test('log: levels, runs and search', () => {
  assert.deepEqual(['DEBUG', 'info', 'warn', 'critical', 'strange'].map(severity), ['debug', 'info', 'warning', 'error', 'info']);
  const line = (level, run = 'r', message = 'x', fields = null) => ({ at: 0, offset: 1, run, level, logger: 'agent', message, fields });
  const lines = [line('info'), line('warning', 'other'), line('error', 'r', 'broke', { code: 'E42' })];
  assert.equal(shownLines(lines, { level: 'warning', runs: null }).length, 2);
  assert.equal(shownLines(lines, { level: 'warning', runs: new Set(['r']) }).length, 1);
  assert.deepEqual([found(lines, 'e42'), found(lines, 'AGENT').length, found(lines, '  ')], [[2], 3, []]);
});

test('timeline: a run shows its highest open state', () => {
  const timeline = new Timeline();
  const run = 'r';
  const states = [
    { type: 'agent_start', run, agent: 'a' },
    { type: 'step_start', run },
    { type: 'agent_thinking', run, message: 'm', text: 'x' },
    { type: 'agent_delta', run, message: 'm', text: 'x' },
    { type: 'assistant_message', run, message: 'm' },
    { type: 'tool_call', run, id: 't', name: 'x' },
    { type: 'approval_required', run, tool_call_id: 'u', name: 'y' },
    { type: 'approval_decided', run, tool_call_id: 'u', decision: 'reject' },
    { type: 'tool_result', run, tool_call_id: 'u' },
    { type: 'tool_result', run, tool_call_id: 't' },
    { type: 'cancel_requested', run, by: 'ann' },
    { type: 'agent_cancelled', run },
    { type: 'agent_complete', run },
  ].map((event, index) => {
    timeline.take({ offset: index + 1, data: { at: AT + index, ...event } });
    return timeline.roots[0].state;
  });
  assert.deepEqual(states, ['writing', 'writing', 'thinking', 'writing', 'writing', 'tool', 'waiting', 'tool', 'tool', 'writing', 'stopping', 'stopped', 'stopped']);
});

test('timeline: a run whose start is no longer in the history is shown from its first event on', () => {
  const known = (run) => (run === 'r1' ? { agent: 'keeper', model: 'm', parent: null } : undefined);
  const timeline = new Timeline(known);
  const events = [
    { type: 'approval_decided', run: 'r0', at: 1 },
    { type: 'agent_complete', run: 'r0', at: 2 },
    { type: 'tool_result', run: 'r1', tool_call_id: 'c1', content: 'x', at: 5 },
    { type: 'agent_delta', run: 'r1', message: 'm1', text: 'a', at: 6 },
    { type: 'agent_complete', run: 'r1', at: 9 },
  ];
  for (const event of told(events, 4000)) timeline.take(event);
  assert.deepEqual(timeline.runs.map(({ run, model, first, span }) => [run, model, first, span.name, span.from, span.to, span.state]), [['r1', 'm', 4002, 'keeper', 5, 9, 'done']]);
});

test('as of: the totals of a run follow the place that is looked at, as a timeline of only what was told by then says', () => {
  const events = [...researchedEvents().slice(0, 12), { type: 'message_discarded', run: 'r', message: 'm2', call: 'c', at: AT + 6350 }, ...researchedEvents().slice(12)];
  const whole = new Timeline();
  for (const one of told(events)) whole.take(one);
  const run = whole.run('r');
  for (let offset = 1; offset <= events.length; offset += 1) {
    const [part, mirror] = [new Timeline(), new Mirror({ topic: 't' })];
    for (const one of told(events.slice(0, offset))) {
      part.take(one);
      mirror.apply(one);
    }
    const now = part.now;
    const wanted = totalsAt(part.run('r'), { moment: null, marks: part.marks, lines: part.logs, entry: undefined, now });
    const { at } = whole.marks[markAt(whole.marks, offset)];
    const entry = mirror.runs.find(({ run: id }) => id === 'r');
    const about = { moment: { offset, at }, marks: whole.marks, lines: whole.logs, now: whole.now };
    for (const known of [entry, undefined]) assert.deepEqual(totalsAt(run, { ...about, entry: known }), wanted, `at ${offset}`);
    assert.deepEqual(factsOf(run, wanted, null).map(({ value, note }) => [value, note]), factsOf(part.run('r'), wanted, null).map(({ value, note }) => [value, note]));
    for (const { span } of rowsOf(part.roots[0])) {
      const same = rowsOf(whole.roots[0]).find((row) => row.span.first === span.first && row.span.kind === span.kind);
      assert.equal(spanAt(same.span, { offset, at }).open, span.to === null, `${span.name} at ${offset}`);
    }
  }
});

test('player: a run is played at its pace, silence is cut, and it ends in the present', () => {
  const at = [0, 100, 200, 60_200, 60_300];
  const marks = at.map((ms, index) => ({ at: ms, offset: index + 1, tone: 'live', run: 'r', state: 'writing' }));
  let [time, offset, next] = [0, null, null];
  const went = [];
  const player = new Player({
    marks: () => marks,
    offset: () => offset,
    go: (to) => {
      assert.ok(player.moving);
      offset = to;
      went.push([time, to]);
    },
    changed: () => {},
    now: () => time,
    later: (act, ms) => (next = { act, ms }),
  });
  const run = () => {
    while (player.playing) {
      time += next.ms;
      next.act();
    }
  };
  player.toggle();
  assert.ok(player.playing);
  run();
  assert.deepEqual(went, [[0, 1], [100, 2], [200, 3], [1200, 4], [1300, null]]);
  offset = 4;
  player.toggle();
  const late = next;
  player.toggle();
  late.act();
  assert.deepEqual([player.playing, offset], [false, 4]);
});

test('player: a long run is over in half a minute', () => {
  const marks = Array.from({ length: 2000 }, (_, index) => ({ at: index * 900, offset: index + 1, tone: 'live', run: 'r', state: 'writing' }));
  let [time, offset, next] = [0, null, null];
  const player = new Player({ marks: () => marks, offset: () => offset, go: (to) => (offset = to), changed: () => {}, now: () => time, later: (act, ms) => (next = { act, ms }) });
  player.toggle();
  while (player.playing) {
    time += next.ms;
    next.act();
  }
  assert.ok(time > 29_000 && time < 31_000, `${time} ms`);
});
