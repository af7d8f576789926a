import assert from 'node:assert/strict';
import { test } from 'node:test';

import { headRun, stateOf } from '../../static/chat/run_state.js';
import { Thread, same } from '../../static/chat/thread.js';
import { ServerClock } from '../../static/chat/time.js';
import { Mirror } from '../../static/gateway/mirror.js';

const AT = 1_700_000_000_000;

/** A mirror, and the page's view of it, fed together. */
class Page {
  mirror = new Mirror({ topic: 't' });
  thread = new Thread(new ServerClock(() => AT));
  #seq = 0;

  feed(...list) {
    const events = list.map((data) => {
      const offset = this.mirror.offset + 1;
      this.mirror.apply({ offset, data });
      return { offset, data };
    });
    this.thread.take({ events, reset: false });
    return this;
  }

  logged(type, fields, at = AT) {
    return { type, at, time: new Date(at).toISOString(), seq: this.#seq++, run: 'r', ...fields };
  }

  get entries() {
    return this.thread.entries(this.mirror);
  }

  outline() {
    return this.entries.map((entry) => `${entry.kind}${entry.phase ? `:${entry.phase}` : ''}${entry.live ? '*' : ''}`).join(' ');
  }
}

const start = (fields = {}) => ({ type: 'agent_start', run: 'r', at: AT, agent: 'a', ...fields });
const delta = (text, message = 'm') => ({ type: 'agent_delta', run: 'r', at: AT + 3000, message, text });
const think = (text, message = 'm') => ({ type: 'agent_thinking', run: 'r', at: AT + 1000, message, text });

test('an empty mirror has no entries', () => assert.deepEqual(new Page().entries, []));

test('a run that has said nothing is starting', () => {
  const page = new Page().feed(start());
  assert.equal(page.outline(), 'start:starting');
  assert.equal(stateOf(page.mirror, headRun(page.mirror), page.thread.kinds), 'writing');
});

test('thinking is live until text comes, and its time is from the events', () => {
  const page = new Page().feed(start(), think('hm'));
  assert.equal(page.outline(), 'think*');
  assert.equal(stateOf(page.mirror, headRun(page.mirror), page.thread.kinds), 'thinking');
  page.feed(delta('Hi'));
  assert.equal(page.outline(), 'think text*');
  assert.equal(page.entries[0].ms, 2000);
  assert.equal(stateOf(page.mirror, headRun(page.mirror), page.thread.kinds), 'writing');
});

test('a delta of a known text changes no list, and is kept as a piece', () => {
  const page = new Page().feed(start(), delta('a'));
  page.thread.entries(page.mirror);
  assert.equal(page.thread.changed, false);
  page.feed(delta('b'), delta('c'));
  assert.equal(page.thread.changed, false);
  assert.deepEqual([...page.thread.pieces()], [['x:m', ['b', 'c']]]);
  assert.equal(page.thread.pieces().size, 0);
});

test('pieces do not pile up while nothing is painted', () => {
  const page = new Page().feed(start(), delta('a'));
  page.thread.entries(page.mirror);
  for (let count = 0; count < 10_000; count += 1) page.feed(delta('x'));
  const [pieces] = page.thread.pieces().values();
  assert.ok(pieces.length <= 4096);
  assert.equal(pieces.join('').length, 10_000);
});

test('a written message keeps the keys that it was written under', () => {
  const page = new Page().feed(start(), think('hm'), delta('Hi'), { type: 'tool_call_delta', run: 'r', at: AT, message: 'm', index: 3, id: 'c1', name: 'look', text: '{"a"' });
  const before = page.entries.map(({ key }) => key);
  assert.equal(page.outline(), 'think text tool:arriving');
  page.feed(page.logged('assistant_message', { message: 'm', content: 'Hi', thinking: 'hm', tool_calls: [{ id: 'c1', name: 'look', arguments: '{"a":1}' }] }));
  assert.deepEqual(page.entries.map(({ key }) => key).slice(0, 3), before);
  assert.equal(page.outline(), 'think text tool:ready');
});

test('a call goes from ready over running to done', () => {
  const page = new Page().feed(start());
  page.feed(page.logged('assistant_message', { message: 'm', content: null, tool_calls: [{ id: 'c', name: 'look', arguments: '{}' }] }));
  assert.equal(page.outline(), 'tool:ready');
  page.feed(page.logged('tool_call', { id: 'c', name: 'look', arguments: '{}' }, AT + 1000));
  assert.equal(page.outline(), 'tool:running');
  assert.equal(page.entries[0].started, AT + 1000);
  assert.equal(stateOf(page.mirror, headRun(page.mirror), page.thread.kinds), 'tool');
  page.feed({ type: 'progress', run: 'r', at: AT, tool_call_id: 'c', fraction: 0.5 }, { type: 'progress', run: 'r', at: AT, tool_call_id: 'c', fraction: 0.2, text: 'half' });
  assert.equal(page.entries[0].fraction, 0.5, 'never goes back');
  assert.equal(page.entries[0].progressText, 'half');
  page.feed(page.logged('tool_result', { tool_call_id: 'c', name: 'look', content: 'x' }, AT + 3500));
  assert.equal(page.outline(), 'tool:done start:between');
  assert.equal(page.entries[0].ms, 2500);
});

test('a failed call, and a duration that the agent measured', () => {
  const page = new Page().feed(start());
  page.feed(
    page.logged('assistant_message', { message: 'm', content: null, tool_calls: [{ id: 'c', name: 'look', arguments: '{}' }] }),
    page.logged('tool_result', { tool_call_id: 'c', name: 'look', content: 'no', metadata: { error: true, duration_ms: 7 } }),
  );
  assert.equal(page.entries[0].phase, 'failed');
  assert.equal(page.entries[0].ms, 7);
});

test('an id that is used again belongs to each call in turn', () => {
  const page = new Page().feed(start());
  for (const round of [1, 2]) {
    page.feed(
      page.logged('assistant_message', { message: `m${round}`, content: null, tool_calls: [{ id: 'c', name: 'look', arguments: `{"n":${round}}` }] }),
      page.logged('tool_result', { tool_call_id: 'c', name: 'look', content: `result ${round}` }),
    );
  }
  const tools = page.entries.filter(({ kind }) => kind === 'tool');
  assert.deepEqual(tools.map(({ result }) => result.content), ['result 1', 'result 2']);
  assert.equal(new Set(tools.map(({ key }) => key)).size, 2);
});

test('a tool that the provider runs is shown before a message tells of it', () => {
  const page = new Page().feed(start());
  page.feed(page.logged('tool_call', { id: 's', name: 'web_search', arguments: '{"q":1}', server: true }));
  assert.equal(page.outline(), 'tool:running');
  assert.equal(page.entries[0].server, true);
  page.feed(page.logged('tool_result', { tool_call_id: 's', name: 'web_search', content: 'found' }));
  assert.equal(page.entries[0].phase, 'done');
});

test('a result without a call is shown', () => {
  const page = new Page().feed(start());
  page.feed(page.logged('tool_result', { tool_call_id: 'x', name: 'look', content: 'found' }));
  assert.equal(page.outline(), 'tool:done start:between');
  assert.equal(page.entries[0].name, 'look');
});

test('a question waits, and is settled by its decision', () => {
  const page = new Page().feed(start());
  page.feed(page.logged('assistant_message', { message: 'm', content: null, tool_calls: [{ id: 'c', name: 'pay', arguments: '{"sum":1}' }] }));
  const ask = { type: 'approval_required', run: 'r', at: AT, tool_call_id: 'c', name: 'pay', arguments: '{"sum":1}', expires_at: AT + 60_000 };
  page.feed(ask);
  assert.equal(page.outline(), 'tool:waiting');
  assert.equal(page.entries[0].asked, '{"sum":1}');
  assert.equal(stateOf(page.mirror, headRun(page.mirror), page.thread.kinds), 'waiting');
  page.feed({ type: 'approval_decided', run: 'r', at: AT, tool_call_id: 'c', decision: 'reject', by: { name: 'Lea' }, reason: 'no' });
  assert.equal(page.outline(), 'tool:rejected start:between');
  assert.deepEqual([page.entries[0].by, page.entries[0].reason], [{ name: 'Lea' }, 'no']);
});

test('a question about a call that no message tells of is shown', () => {
  const page = new Page().feed(start(), { type: 'approval_required', run: 'r', at: AT, tool_call_id: 'c', name: 'pay', arguments: '{}' });
  assert.equal(page.outline(), 'tool:waiting');
});

test('a stop is asked for before it is done', () => {
  const page = new Page().feed(start(), delta('Hi'), { type: 'cancel_requested', run: 'r', at: AT, by: 'Jon', mode: 'after_step' });
  assert.equal(page.outline(), 'text* start:stopping');
  assert.equal(page.entries[1].by, 'Jon');
  assert.equal(stateOf(page.mirror, headRun(page.mirror), page.thread.kinds), 'stopping');
  page.feed(page.logged('assistant_message', { message: 'm', content: 'Hi', metadata: { interrupted: true } }), { type: 'agent_cancelled', run: 'r', at: AT + 100 });
  assert.equal(page.outline(), 'text', 'the broken-off text says it');
  assert.equal(page.entries[0].interrupted, true);
  assert.equal(page.entries[0].ended, `cancelled ${AT + 100} Jon`);
});

for (const [end, status] of [
  ['agent_complete', 'completed'],
  ['agent_error', 'failed'],
  ['agent_cancelled', 'cancelled'],
  ['agent_lost', 'lost'],
]) {
  test(`an end is shown: ${status}`, () => {
    const page = new Page().feed(start());
    page.feed(page.logged('assistant_message', { message: 'm', content: null, tool_calls: [{ id: 'c', name: 'look', arguments: '{}' }] }), { type: end, run: 'r', at: AT + 5000, error: 'why', reason: 'why' });
    const last = page.entries.at(-1);
    assert.deepEqual([last.kind, last.status, last.ms, last.tools], ['end', status, 5000, 1]);
    assert.equal(page.entries[0].phase, 'interrupted', 'no result will come');
  });
}

test('a reason that only names who stopped a run is not said twice', () => {
  const stopped = (by, reason) => new Page().feed(start(), { type: 'cancel_requested', run: 'r', by, mode: 'now' }, { type: 'agent_cancelled', run: 'r', at: AT, reason }).entries.at(-1);
  assert.deepEqual([stopped('anonymous', 'stopped by anonymous').by, stopped('anonymous', 'stopped by anonymous').error], ['someone', null]);
  assert.deepEqual([stopped('ann', 'the budget is spent').by, stopped('ann', 'the budget is spent').error], ['ann', 'the budget is spent']);
});

test('open text of a lost run stays, broken off', () => {
  const page = new Page().feed(start(), delta('half'), { type: 'agent_lost', run: 'r', at: AT });
  assert.equal(page.outline(), 'text end');
  assert.equal(page.entries[0].interrupted, true);
});

test('each run ends after its own last entry', () => {
  const page = new Page().feed(start());
  page.feed(page.logged('user_message', { message: 'u1', content: 'one' }), { type: 'agent_error', run: 'r', at: AT + 1, error: 'x' });
  page.feed(start({ run: 'q', at: AT + 10 }), page.logged('user_message', { message: 'u2', content: 'two', run: 'q' }, AT + 11));
  assert.equal(page.outline(), 'user end user start:starting');
});

test('a sub-agent stands where its parent started it', () => {
  const page = new Page().feed(start());
  page.feed(page.logged('assistant_message', { message: 'm1', content: 'before' }, AT + 1000), start({ run: 's', parent: 'r', topic: 't/s', agent: 'sub', at: AT + 2000 }));
  page.feed(page.logged('assistant_message', { message: 'm2', content: 'after' }, AT + 3000));
  assert.deepEqual(page.entries.map(({ kind }) => kind), ['text', 'sub', 'text', 'start']);
  assert.equal(page.entries[1].topic, 't/s');
  assert.equal(headRun(page.mirror).run, 'r', 'the head is about the parent');
});

test('what was cleared or summarised is a note', () => {
  const page = new Page().feed(start());
  page.feed(page.logged('user_message', { message: 'u', content: 'old' }), page.logged('cleared', {}));
  assert.equal(page.outline(), 'note start:starting');
  page.feed(page.logged('custom_message', { role: 'summary', content: 'short', surface_op: ['replace', 0, 1] }));
  const { title, seq, from, to } = page.entries[0];
  assert.deepEqual({ title, seq, from, to }, { title: 'earlier messages, summarised', seq: 2, from: 0, to: 1 });
});

for (const [metadata, text, verdict] of [
  [{ refusal: 'refused', finish_reason: 'refusal' }, null, 'The model refused.'],
  [{ refusal: 'It is against the policy' }, '', 'The model refused: It is against the policy.'],
  [{ refusal: 'I cannot.', finish_reason: 'stop' }, 'I cannot.', 'The model refused.'],
  [{ finish_reason: 'content_filter' }, 'half', 'The provider’s content filter stopped it.'],
  [{ finish_reason: 'max_output_tokens' }, 'half', 'Cut off at the length limit.'],
  [{ finish_reason: 'length' }, null, 'Cut off at the length limit.'],
]) {
  test(`an answer that is not whole says so: ${JSON.stringify(metadata)}`, () => {
    const page = new Page().feed(start());
    page.feed(page.logged('assistant_message', { message: 'm', content: text, metadata }));
    assert.equal(page.entries[0].kind, 'text');
    assert.equal(page.entries[0].verdict, verdict);
  });
}

test('what nobody knows of an answer is an entry of its own', () => {
  const item = { type: 'mcp_approval_request', name: 'search', arguments: '{}' };
  const page = new Page().feed(start());
  page.feed(page.logged('assistant_message', { message: 'm', content: null, metadata: { items: [item, 5] } }));
  assert.deepEqual(page.entries.slice(0, 2).map(({ kind, name, item: shown }) => [kind, name, shown]), [['item', 'mcp_approval_request', item], ['item', 'item', 5]]);
});

test('a call whose result only says that it was interrupted is interrupted, whoever says so', () => {
  const call = (page, id) => page.logged('assistant_message', { message: `m${id}`, content: null, tool_calls: [{ id, name: 'look', arguments: '{}' }] });
  const page = new Page().feed(start());
  page.feed(call(page, 'c'), call(page, 'd'), { type: 'agent_lost', run: 'r', at: AT });
  page.feed(start({ run: 'q' }), page.logged('tool_result', { run: 'q', tool_call_id: 'c', name: 'look', content: 'The tool call was interrupted before it gave a result.' }));
  page.feed(page.logged('tool_result', { run: 'q', tool_call_id: 'd', name: 'look', content: 'found' }));
  const tools = page.entries.filter(({ kind }) => kind === 'tool');
  assert.deepEqual(tools.map(({ id, run, phase, result }) => [id, run, phase, result?.content]), [['c', 'r', 'interrupted', undefined], ['d', 'r', 'done', 'found']]);
});

test('a run that says nothing for long is silent until it says something, and its text is not', () => {
  let now = AT;
  const page = new Page();
  page.thread = new Thread(new ServerClock(() => now));
  page.feed(start(), { ...delta('Hi'), at: AT });
  assert.equal(page.thread.listen(page.mirror), false);
  now += 14_999;
  assert.equal(page.thread.listen(page.mirror), false);
  now += 1;
  assert.equal(page.thread.listen(page.mirror), true);
  assert.equal(page.thread.changed, true);
  assert.equal(page.outline(), 'text* start:silent');
  assert.deepEqual([page.entries[0].silent, page.entries[1].since], [true, AT]);
  assert.equal(page.thread.state(page.mirror, headRun(page.mirror)), 'silent');
  page.feed({ type: 'cancel_requested', run: 'other', at: AT });
  assert.equal(page.thread.silentSince('r'), AT);
  page.feed({ ...delta(' there'), at: now });
  assert.equal(page.thread.changed, true);
  assert.equal(page.outline(), 'text*');
  assert.equal(page.entries[0].silent, false);
  assert.equal(page.thread.state(page.mirror, headRun(page.mirror)), 'writing');
});

test('a run that waits for a tool, a person or another run is not silent, and is timed anew after', () => {
  let now = AT;
  const events = {
    tool: (page) => page.logged('tool_call', { id: 'c', name: 'look', arguments: '{}' }),
    person: () => ({ type: 'approval_required', run: 'r', at: AT, tool_call_id: 'a', name: 'pay', arguments: '{}' }),
    run: () => start({ run: 's', parent: 'r' }),
  };
  for (const event of Object.values(events)) {
    const page = new Page();
    page.thread = new Thread(new ServerClock(() => now));
    page.feed(start());
    page.feed(event(page));
    now += 60_000;
    page.thread.listen(page.mirror);
    now += 60_000;
    page.thread.listen(page.mirror);
    assert.equal(page.thread.silentSince('r'), null);
  }
});

test('of several questions the oldest is the foremost', () => {
  const ask = (id) => ({ type: 'approval_required', run: 'r', at: AT, tool_call_id: id, name: 'pay', arguments: '{}' });
  const page = new Page().feed(start(), ask('a'), ask('b'));
  assert.deepEqual(page.entries.map(({ foremost }) => foremost), [true, false]);
  page.feed({ type: 'approval_decided', run: 'r', at: AT, tool_call_id: 'a', decision: 'approve', by: 'Jon' });
  assert.deepEqual(page.entries.filter(({ phase }) => phase === 'waiting').map(({ foremost }) => foremost), [true]);
});

test('content in parts is read as text', () => {
  const page = new Page().feed(start());
  page.feed(page.logged('user_message', { message: 'u', content: [{ type: 'text', text: 'look' }, { type: 'image_url', url: 'https://x.dev/i.png' }, 'more'] }));
  assert.equal(page.entries[0].text, 'look\n\nmore');
  assert.equal(page.entries[0].attachments, 'image');
});

test('a snapshot replaces everything, pieces too', () => {
  const page = new Page().feed(start(), delta('a'));
  page.thread.entries(page.mirror);
  page.feed(delta('b'));
  page.thread.take({ events: [], reset: true });
  assert.equal(page.thread.changed, true);
  assert.equal(page.thread.pieces().size, 0);
});

test('whatever the events are, there is a list with distinct keys', () => {
  const values = [null, 1, 'x', [], {}, [null], { id: 5 }, { name: null, id: 'c' }];
  const types = ['user_message', 'assistant_message', 'tool_result', 'tool_call', 'system_message', 'custom_message', 'cleared', 'agent_delta', 'tool_call_delta', 'approval_required', 'progress', 'agent_start', 'usage', 'nonsense'];
  const page = new Page();
  for (const type of types) {
    for (const value of values) {
      page.feed(page.logged(type, { content: value, tool_calls: [value, value], tool_call_id: value, id: value, name: value, metadata: value, message: value, thinking: value, index: 0, text: 't', arguments: value, fraction: value, surface_op: value }));
    }
    page.feed({ ...page.logged(type, { tool_call_id: 'c', id: 'c', message: 'm' }), run: undefined });
  }
  const keys = page.entries.map(({ key }) => key);
  assert.equal(new Set(keys).size, keys.length);
});

test('same: compares field by field', () => {
  assert.equal(same({ a: 1, b: null }, { a: 1, b: null }), true);
  assert.equal(same({ a: 1 }, { a: 1, b: 2 }), false);
  assert.equal(same({ a: 1 }, { a: 2 }), false);
});
