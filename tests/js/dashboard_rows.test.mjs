import assert from 'node:assert/strict';
import { test } from 'node:test';

import { isTerm, readFilter, splitTerms } from '../../static/dashboard/filter.js';
import { ENDED_MS, LIVE_MS, Order } from '../../static/dashboard/order.js';
import { RIBBON_MS, Ribbon } from '../../static/dashboard/ribbon.js';
import { Row } from '../../static/dashboard/row.js';
import { Series } from '../../static/dashboard/series.js';
import { readSummary } from '../../static/dashboard/summary.js';
import { Totals } from '../../static/dashboard/totals.js';
import { Window } from '../../static/dashboard/window.js';

const NOW = 1_700_000_000_000;

function pushed(topic, fields = {}) {
  return {
    type: 'summary', topic, at: NOW, epoch: 'abcdefgh', offset: 7, title: `Title of ${topic}`, state: 'running', run: 'r', agent: 'researcher', model: 'atlas-large',
    parent: null, started_at: NOW - 60_000, ended_at: null, step: 2, max_iterations: 8, tokens: { input: 100, output: 20 }, tokens_per_second: 30, events_per_second: 12,
    phase: 'writing', tools: [], approvals: [], queue: 0, errors: 0, error: null, viewers: 1, lag: { readers: 0, events: 0 }, ...fields,
  };
}
const question = (requested) => ({ run: 'r', tool_call_id: 'c', name: 'refund', arguments: '{"a":1.0}', requested_at: requested, expires_at: requested + 60_000 });
const row = (topic, fields, now = NOW) => new Row(readSummary(pushed(topic, fields)), now);
const board = (...list) => new Map(list.map((one) => [one.topic, one]));
const how = { now: 0, clock: NOW, filter: () => true, still: false };
const shown = ({ items }) => items.map((item) => (item.row === null ? `[${item.title}]` : item.row.topic));

test('summary: junk is no summary, and junk inside is absent', () => {
  for (const junk of [null, 1, 'x', [], {}, { topic: 1 }, { topic: '' }]) assert.equal(readSummary(junk), null);
  const odd = readSummary({ topic: 't', tokens: 'x', lag: null, tools: [1, {}], approvals: 'x', tokens_per_second: -4, started_at: 'soon' });
  assert.deepEqual([odd.state, odd.input, odd.rate, odd.started, odd.tools.length, odd.approvals.length], ['idle', 0, 0, null, 2, 0]);
});

test('summary: the highest open state is shown', () => {
  const state = (fields) => readSummary(pushed('t', fields)).state;
  assert.equal(state({ phase: 'thinking' }), 'thinking');
  assert.equal(state({ phase: 'waiting' }), 'writing');
  assert.equal(state({ phase: 'tool', approvals: [question(NOW)] }), 'waiting');
  assert.equal(state({ state: 'cancelling', approvals: [question(NOW)] }), 'stopping');
  for (const [status, word] of [['completed', 'done'], ['failed', 'failed'], ['cancelled', 'stopped'], ['lost', 'lost'], ['idle', 'idle']]) assert.equal(state({ state: status }), word);
  assert.equal(state({ state: 'idle', queue: 2 }), 'queued');
  assert.equal(readSummary(pushed('t', { approvals: [question(NOW)] })).approvals[0].args, '{"a":1.0}');
});

test('row: a quick flip between writing, thinking and tool is held back, a question is not', () => {
  const one = row('t');
  assert.equal(one.take(readSummary(pushed('t', { phase: 'thinking' })), NOW + 100), false);
  assert.equal(one.state, 'writing');
  one.settle(NOW + 400);
  assert.equal(one.state, 'thinking');
  assert.equal(one.take(readSummary(pushed('t', { approvals: [question(NOW)] })), NOW + 410), true);
  assert.equal(one.state, 'waiting');
  assert.equal(one.activity, 'refund');
});

test('row: elapsed ends with the run', () => {
  assert.equal(row('t').elapsed(NOW), 60_000);
  assert.equal(row('t', { state: 'completed', ended_at: NOW - 50_000 }).elapsed(NOW), 10_000);
  assert.equal(row('t', { started_at: null }).elapsed(NOW), null);
});

test('series: keeps the last values and draws them to the right edge', () => {
  const series = new Series(4);
  assert.deepEqual(series.paths(30, 10), { line: '', area: '' });
  for (const value of [9, 1, 2, 3, 4]) series.push(value);
  assert.deepEqual(series.values(), [1, 2, 3, 4]);
  assert.equal(series.peak, 4);
  assert.match(series.paths(30, 10).line, /^M0\.0 .*L30\.0 1\.5$/);
  const half = new Series(4);
  half.push(0);
  half.push(0);
  assert.equal(half.paths(30, 10).line, 'M20.0 8.5L30.0 8.5');
});

test('ribbon: one segment per state, of the last two minutes', () => {
  const ribbon = new Ribbon();
  ribbon.push('writing', 0);
  ribbon.push('writing', 10);
  ribbon.push('tool', 60_000);
  ribbon.push('done', 90_000);
  assert.deepEqual(ribbon.bars(120_000, 120), [{ tone: 'live', x: 0, width: 60 }, { tone: 'tool', x: 60, width: 30 }]);
  assert.deepEqual(ribbon.bars(90_000 + RIBBON_MS, 120), []);
  for (let at = 0; at < 1000; at += 1) ribbon.push(at % 2 === 0 ? 'tool' : 'writing', 120_000 + at);
  assert.ok(ribbon.bars(121_000, 120).length <= 120);
});

test('filter: words and terms', () => {
  const one = row('chat:1', { agent: 'researcher', errors: 2, error: 'rate limit reached', tools: [{ id: 'a', name: 'run_sql', started_at: NOW }] });
  const matches = (text) => readFilter(text)(one, NOW);
  for (const text of ['', 'title', 'CHAT:1', 'research', 'agent:researcher', 'agent:res*', 'model:atlas*', 'tool:run_sql', 'error:limit', 'error:*', 'age>30s', 'age<2m', 'tokens>100', 'tokens<1k', 'state:writing state:running', 'errors>1 title'])
    assert.ok(matches(text), text);
  for (const text of ['nothing', 'agent:res', 'model:other', 'tool:run', 'age>2m', 'tokens>1k', 'state:failed', 'lag>0', 'title state:failed']) assert.ok(!matches(text), text);
  assert.ok(readFilter('state:needs-you')(row('t', { approvals: [question(NOW)] }), NOW));
});

test('filter: what is no whole term is a word', () => {
  for (const word of ['age>', 'age>x', 'age:3', 'agent>3', 'who:me', 'agent:', 'plain']) assert.ok(!isTerm(word), word);
  assert.deepEqual(splitTerms(' a state:failed  b age>5m '), { terms: ['state:failed', 'age>5m'], words: 'a b' });
});

test('order: what needs a person is on top, oldest first; the rest newest first', () => {
  const order = new Order();
  const rows = board(
    row('old', { started_at: NOW - 90_000 }),
    row('new', { started_at: NOW - 1000 }),
    row('asks-late', { approvals: [question(NOW - 1000)] }),
    row('asks-first', { approvals: [question(NOW - 9000)] }),
    row('over', { state: 'completed', ended_at: NOW - 1 }),
    row('nothing', { state: 'idle' }),
  );
  assert.equal(order.update(rows, how), true);
  assert.deepEqual(shown(order), ['[Needs you]', 'asks-first', 'asks-late', '[Running]', 'new', 'old', '[Ended]', 'over']);
  assert.equal(order.update(rows, how), false);
  order.group = 'agent';
  order.reset();
  order.update(rows, how);
  assert.equal(shown(order)[0], '[researcher]');
  order.group = 'flat';
  order.sort = { column: 'title', descending: true };
  order.reset();
  order.update(rows, how);
  assert.deepEqual(shown(order), ['over', 'old', 'new', 'asks-late', 'asks-first']);
});

test('order: new rows are held back while the table is in use, and come in together', () => {
  const order = new Order();
  const rows = board(row('a', { started_at: NOW - 3 }));
  order.update(rows, how);
  rows.set('b', row('b', { started_at: NOW - 2 }));
  order.change();
  order.update(rows, { ...how, still: true });
  assert.deepEqual([shown(order), order.fresh], [['[Running]', 'a'], 1]);
  order.change();
  order.update(rows, how);
  assert.deepEqual([shown(order), order.fresh], [['[Running]', 'b', 'a'], 0]);
});

test('order: held, nothing moves, and what is gone goes', () => {
  const order = new Order();
  const rows = board(row('a', { started_at: NOW - 3 }), row('b', { started_at: NOW - 2 }));
  order.update(rows, how);
  order.hold = true;
  rows.get('a').take(readSummary(pushed('a', { approvals: [question(NOW)] })), NOW);
  order.change();
  assert.equal(order.update(rows, how), false);
  assert.deepEqual(shown(order), ['[Running]', 'b', 'a']);
  rows.delete('b');
  order.change();
  assert.equal(order.update(rows, how), true);
  assert.deepEqual(shown(order), ['[Running]', 'a']);
});

test('order: live columns are put in order at most every two seconds', () => {
  const order = new Order();
  order.group = 'flat';
  order.sort = { column: 'rate', descending: true };
  const rows = board(row('a', { tokens_per_second: 5 }), row('b', { tokens_per_second: 9 }));
  order.update(rows, how);
  assert.deepEqual(shown(order), ['b', 'a']);
  rows.get('a').take(readSummary(pushed('a', { tokens_per_second: 99 })), NOW);
  order.change();
  assert.equal(order.update(rows, { ...how, now: LIVE_MS - 1 }), false);
  assert.equal(order.update(rows, { ...how, now: LIVE_MS }), true);
  assert.deepEqual(shown(order), ['a', 'b']);
});

test('order: ended runs leave after a quarter of an hour, in batches', () => {
  const order = new Order();
  const rows = board(row('over', { state: 'failed', ended_at: NOW }), row('live'));
  assert.deepEqual(order.leaving(rows, 0, NOW + ENDED_MS), []);
  assert.deepEqual(order.leaving(rows, 9000, NOW + ENDED_MS + 1), []);
  assert.deepEqual(order.leaving(rows, 10_000, NOW + ENDED_MS + 1), ['over']);
});

test('totals: sums of what is live', () => {
  const totals = new Totals();
  totals.count([row('a', { tools: [{ id: '1', name: 'x' }] }), row('b', { approvals: [question(NOW - 5)], lag: { readers: 2, events: 140 } }), row('c', { state: 'failed' }), row('d', { state: 'completed' })]);
  const { running, waiting, oldest, failed, rate, tools, behind, worst, viewers } = totals;
  assert.deepEqual({ running, waiting, oldest, failed, rate, tools, behind, worst, viewers }, { running: 2, waiting: 1, oldest: NOW - 5, failed: 1, rate: 60, tools: 1, behind: 2, worst: 140, viewers: 4 });
  totals.count([]);
  assert.equal(totals.oldest, null);
});

test('window: what is in view, and a little more', () => {
  const window = new Window();
  assert.deepEqual(window.range(0, 100), [0, 0]);
  window.measure(Array.from({ length: 1000 }, () => 33));
  assert.equal(window.height, 33_000);
  const [from, to] = window.range(3300, 330);
  assert.deepEqual([from, to], [90, 121]);
  assert.equal(window.top(100), 3300);
  assert.deepEqual(window.range(1e9, 330), [989, 1000]);
});
