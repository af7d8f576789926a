import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Decisions } from '../../static/chat/decisions.js';
import { changesOf } from '../../static/chat/json_changes.js';
import { jsonFault } from '../../static/chat/json_fault.js';
import { originals } from '../../static/chat/originals.js';
import { Own } from '../../static/chat/own.js';
import { Stops } from '../../static/chat/stops.js';
import { Mirror } from '../../static/gateway/mirror.js';

const nowhere = { getItem: () => null, setItem: () => {} };

// Arguments as text

function isJson(text) {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/** A generator of numbers from 0 up to, without, a bound. */
function draws(seed) {
  let state = seed;
  return (bound) => {
    state = (state * 1_103_515_245 + 12_345) % 2_147_483_648;
    return Math.floor((state / 2_147_483_648) * bound);
  };
}

test('json fault: exactly what JSON.parse refuses, in every mutation of a text', () => {
  const draw = draws(7);
  const whole = '{"a": -1.50e+3, "b": [true, null, {"c": "d\\u00e9\\n"}], "e": {}, "f": [], "g": 0, "h": "\\\\"}';
  const pieces = [...'{}[],:"\\eE+-.0123 \n\tu', 'true', 'nul', '\u0001', 'é'];
  for (let round = 0; round < 20_000; round += 1) {
    let text = whole;
    for (let change = 0; change <= draw(3); change += 1) {
      const at = draw(text.length + 1);
      text = text.slice(0, at) + (draw(3) === 0 ? '' : pieces[draw(pieces.length)]) + text.slice(at + draw(3));
    }
    assert.equal(jsonFault(text) === null, isJson(text), text);
  }
});

for (const [text, line, words] of [
  ['{\n  "amount": 24.\n}', 2, 'a digit is missing after the point'],
  ['{"a": 1,\n}', 2, 'there is a comma before }'],
  ['{"a": 1\n"b": 2}', 1, 'a comma or } is missing'],
  ['{a: 1}', 1, 'a name in double quotes is missing'],
  ['{"a" 1}', 1, 'a colon is missing after the name'],
  ['{"a": "b\n}', 1, 'a closing quote is missing'],
  ['{"a": yes}', 1, 'yes stands without quotes'],
  ['{}\n{}', 2, 'nothing may follow the end'],
  ['', 1, 'a value is missing'],
  ['['.repeat(100), 1, 'it is nested too deep'],
]) {
  test(`json fault: ${JSON.stringify(text.slice(0, 20))}: line ${line}, ${words}`, () => assert.deepEqual(jsonFault(text), { line, words }));
}

test('json changes: space is none, a number that is written in another way is one', () => {
  assert.deepEqual(changesOf('{"a":1,"b":[2]}', '{\n  "a": 1,\n  "b": [2]\n}').changes, []);
  assert.deepEqual(changesOf('{"a":48.00}', '{"a": 48}').changes, [{ from: '48.00', to: '48' }]);
});

test('json changes: each place by itself, taken out and put in too', () => {
  assert.deepEqual(changesOf('[1,2,3,4,5]', '[1,9,3,5]').changes, [{ from: '2', to: '9' }, { from: ',4', to: '' }]);
  const { changes, fresh } = changesOf('{"a":1}', '{"a":1,"b":2}');
  assert.deepEqual(changes, [{ from: '', to: ',"b":2' }]);
  assert.deepEqual([...fresh], [4, 5, 6, 7]);
});

test('json changes: what is too long to compare is one change', () => {
  const long = (number) => JSON.stringify(Array.from({ length: 1000 }, (_, index) => index + number));
  assert.equal(changesOf(long(1), long(5000)).changes.length, 1);
});

// Who did what

test('own: you, a name, someone, or no person', () => {
  const own = new Own(nowhere);
  assert.equal(own.who('r', 'Jon'), 'Jon');
  assert.equal(own.who('r', 'anonymous'), 'someone');
  for (const by of ['', null, undefined]) assert.equal(own.who('r', by), null);
  own.add('r');
  assert.equal(own.who('r', 'anonymous'), 'you');
  own.name = 'Jon';
  assert.equal(own.who('r', 'anonymous'), 'you', 'before the name was known');
  assert.equal(own.who('r', { id: 'Jon' }), 'you');
  assert.equal(own.who('r', 'Lea'), 'Lea', 'she did it, whatever we asked for');
});

// Decisions

const CALL = { run: 'r', id: 'c' };

test('decisions: sending until an answer, ours where it won', async () => {
  const own = new Own(nowhere);
  const sent = [];
  const decisions = new Decisions(async (topic, what) => {
    sent.push([topic, what]);
    return { won: true, decision: 'edit', by: 'anonymous' };
  }, own);
  const done = decisions.decide('t', CALL, { decision: 'edit', arguments: '{"a": 1.0}' });
  assert.equal(decisions.of('r c').state, 'sending');
  await done;
  assert.equal(decisions.of('r c').state, 'sending', 'only the event settles it');
  assert.equal(own.has('r c'), true);
  assert.deepEqual(sent, [['t', { run: 'r', tool_call_id: 'c', decision: 'edit', arguments: '{"a": 1.0}' }]]);
});

test('decisions: a lost race tells who won it, an error why nothing was decided', async () => {
  const own = new Own(nowhere);
  const answers = [{ won: false, decision: 'reject', by: 'Lea' }, new Error('the broker is away')];
  const decisions = new Decisions(async () => {
    const answer = answers.shift();
    if (answer instanceof Error) throw answer;
    return answer;
  }, own);
  await decisions.decide('t', CALL, { decision: 'approve' });
  assert.deepEqual(decisions.of('r c'), { state: 'lost', decision: 'approve', reason: '', winner: { decision: 'reject', by: 'Lea' } });
  await decisions.decide('t', { run: 'r', id: 'd' }, { decision: 'reject' });
  assert.deepEqual(decisions.of('r d'), { state: 'failed', decision: 'reject', reason: 'the broker is away.', winner: null });
  assert.equal(own.has('r c') || own.has('r d'), false);
});

// Stops

function stopping(answer) {
  const [told, asked] = [[], []];
  const own = new Own(nowhere);
  const cancel = async (topic, what) => {
    asked.push([topic, what]);
    if (answer instanceof Error) throw answer;
    return answer;
  };
  const stops = new Stops({ own, cancel, tell: (...words) => told.push(words), changed: () => {} });
  return { stops, own, told, asked };
}

test('stops: asked once until an event settles it', async () => {
  const { stops, own, told, asked } = stopping({ status: 'requested', run: 'r' });
  await Promise.all([stops.ask('t', { run: 'r' }, 'now'), stops.ask('t', { run: 'r' }, 'now')]);
  assert.equal(stops.asked('r'), true);
  assert.deepEqual(asked, [['t', { run: 'r', mode: 'now' }]]);
  assert.deepEqual(told, []);
  assert.equal(own.has('r'), true);
  stops.settle('r');
  assert.equal(stops.asked('r'), false);
});

test('stops: a message stands for the run that took it', async () => {
  const { stops, own } = stopping({ status: 'requested', run: 'r' });
  await stops.ask('t', { message: 'm' }, 'after_step');
  assert.equal(own.has('r'), true);
  assert.deepEqual([stops.asked('m'), stops.asked('r')], [false, true]);
});

for (const [answer, words] of [
  [{ status: 'ended', as: 'completed' }, 'It was done before the stop reached it.'],
  [{ status: 'ended', as: 'lost' }, 'Its process had gone silent before.'],
  [{ status: 'unknown' }, 'The gateway knows no such run any more.'],
  [{ status: 'withdrawn' }, 'The agent had not begun with your message.'],
]) {
  test(`stops: a late answer is told: ${JSON.stringify(answer)}`, async () => {
    const { stops, told } = stopping(answer);
    await stops.ask('t', { run: 'r' }, 'now');
    assert.deepEqual(told.map(([, text, bad]) => [text, bad]), [[words, false]]);
  });
}

test('stops: what was refused can be asked again', async () => {
  const { stops, told } = stopping(new Error('permission denied.'));
  await stops.ask('t', { run: 'r' }, 'now');
  assert.equal(stops.asked('r'), false);
  assert.deepEqual(told, [['Not stopped.', 'permission denied. As far as is known it goes on.', true]]);
});

// Originals

/** The log of messages 0…n−1, a summary of those from…to, and one message after it, read by pages of three. */
function logged({ messages = 6, from = 1, to = 3, first = 0 }) {
  const time = '2026-01-01T00:00:00Z';
  const log = [];
  for (let seq = 0; seq < messages; seq += 1) {
    log.push({ type: seq % 2 === 0 ? 'user_message' : 'assistant_message', seq, time, run: 'r', message: `m${seq}`, data: { content: `text ${seq}` } });
  }
  log.push({ type: 'system_message', seq: messages, time, run: 'r', message: null, data: { content: 'short', surface_op: ['replace', from, to] } });
  log.push({ type: 'user_message', seq: messages + 1, time, run: 'r', message: null, data: { content: 'later' } });
  return { read: paged(log.filter(({ seq }) => seq >= first)), log, summary: { seq: messages, from, to } };
}

const paged = (log) => async ({ from }) => {
  const rest = log.filter(({ seq }) => seq >= from);
  return { events: rest.slice(0, 3), next: rest[3]?.seq ?? null };
};

const texts = (mirror) => mirror.messages().map(({ content }) => content);

test('originals: what a summary stands for, and nothing else', async () => {
  const { read, log, summary } = logged({});
  const { mirror, complete } = await originals(read, summary);
  assert.deepEqual(texts(mirror), ['text 1', 'text 2', 'text 3']);
  assert.equal(complete, true);
  const page = new Mirror();
  for (const { data, ...entry } of log) page.fold({ ...data, ...entry });
  assert.deepEqual(texts(page), ['text 0', 'short', 'text 4', 'text 5', 'later'], 'which the page shows as one line');
});

test('originals: of what was trimmed it is said that it is not whole', async () => {
  const { read, summary } = logged({ first: 2 });
  const { mirror, complete } = await originals(read, summary);
  assert.deepEqual(texts(mirror), ['text 2', 'text 3']);
  assert.equal(complete, false);
});

test('originals: nothing is left', async () => {
  const { read, summary } = logged({ first: 5 });
  const { mirror, complete } = await originals(read, summary);
  assert.deepEqual([texts(mirror), complete], [[], false]);
});

test('originals: a summary of summaries opens to those', async () => {
  const { log } = logged({});
  const outer = { type: 'system_message', seq: 8, data: { content: 'shorter', surface_op: ['replace', 0, 5] } };
  const { mirror } = await originals(paged([...log, outer]), { seq: 8, from: 0, to: 5 });
  assert.deepEqual(texts(mirror), ['text 0', 'short', 'text 4', 'text 5']);
});

// Whose things are

test('own: what another tab of the browser did is own as soon as it is stored', () => {
  const kept = new Map();
  const storage = { getItem: (key) => kept.get(key) ?? null, setItem: (key, value) => void kept.set(key, value) };
  const [one, other] = [new Own(storage), new Own(storage)];
  const tabs = new EventTarget();
  let told = 0;
  other.listen(tabs, () => (told += 1));
  one.add('m1');
  assert.equal(other.has('m1'), false);
  tabs.dispatchEvent(Object.assign(new Event('storage'), { key: 'gateway.own' }));
  tabs.dispatchEvent(Object.assign(new Event('storage'), { key: 'something else' }));
  assert.equal(other.has('m1'), true);
  assert.equal(told, 1);
  other.add('m2');
  assert.deepEqual(JSON.parse(kept.get('gateway.own')), ['m1', 'm2']);
});

test('own: the user of this page is "you" wherever it acted, and nobody else is', () => {
  const own = new Own(nowhere);
  assert.equal(own.wrote('m1', 'ann'), false);
  assert.equal(own.wrote('m1', null), false);
  own.name = 'ann';
  assert.equal(own.wrote('m1', 'ann'), true);
  assert.equal(own.wrote('m1', 'bob'), false);
  assert.equal(own.who('r1', 'ann'), 'you');
  assert.equal(own.who('r1', 'bob'), 'bob');
});

test('own: among people without names only what this browser did is its own', () => {
  const own = new Own(nowhere);
  own.add('m1');
  assert.equal(own.wrote('m1', 'anonymous'), true);
  assert.equal(own.wrote('m2', 'anonymous'), false);
  assert.equal(own.who('m2', 'anonymous'), 'someone');
});
