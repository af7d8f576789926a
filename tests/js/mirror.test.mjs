// What the vectors do not say about the mirror: what it shares, keeps and costs.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Mirror, SnapshotError, merge } from '../../static/gateway/index.js';
import { seededRandom, sensibleRun, junk } from './events.mjs';

const plain = (value) => JSON.parse(JSON.stringify(value));

function fold(events) {
  const mirror = new Mirror();
  for (const event of events) mirror.fold(event);
  return mirror;
}

test('later events do not change a snapshot', () => {
  const mirror = new Mirror();
  sensibleRun({ run: 'r' }).forEach((data, index) => {
    const before = mirror.snapshot();
    const text = JSON.stringify(before);
    mirror.apply({ offset: index + 1, data });
    assert.equal(JSON.stringify(before), text);
  });
});

test('a restored mirror does not change what it was restored from, nor another one', () => {
  const events = sensibleRun({ run: 'r' });
  const half = fold(events.slice(0, 9)).snapshot();
  const text = JSON.stringify(half);
  const [one, other] = [Mirror.restore(half), Mirror.restore(half)];
  for (const event of events.slice(9)) one.fold(event);
  assert.equal(JSON.stringify(half), text);
  assert.equal(JSON.stringify(other.snapshot()), text);
});

test('a snapshot at any place, and the events after it, give the state of all events (law 3)', () => {
  const events = sensibleRun({ run: 'r' });
  const whole = plain(fold(events).snapshot());
  for (let at = 0; at <= events.length; at += 1) {
    const rest = Mirror.restore(plain(fold(events.slice(0, at)).snapshot()));
    for (const event of events.slice(at)) rest.fold(event);
    assert.deepEqual(plain(rest.snapshot()), whole);
  }
});

test('merging neighbours changes no mirror (law 4)', () => {
  const publications = sensibleRun({ run: 'r' }).map((data, index) => ({ offset: index + 1, data }));
  const merged = merge(publications);
  assert.ok(merged.length < publications.length);
  const [one, other] = [new Mirror(), new Mirror()];
  for (const publication of publications) assert.equal(one.apply(publication), 'applied');
  for (const publication of merged) assert.equal(other.apply(publication), 'applied');
  assert.deepEqual(plain(other.snapshot()), plain(one.snapshot()));
});

test('any events from any state give a defined state (law 6)', () => {
  const random = seededRandom(7);
  for (let round = 0; round < 300; round += 1) {
    const mirror = fold(round % 2 ? sensibleRun({ run: 'r' }).slice(0, round % 17) : []);
    for (let count = 0; count < 40; count += 1) mirror.fold(junk(random));
    const snapshot = plain(mirror.snapshot());
    assert.deepEqual(plain(Mirror.restore(snapshot).snapshot()), snapshot);
  }
});

test('what is no snapshot is refused, and changes nothing', () => {
  const mirror = fold(sensibleRun({ run: 'r' }));
  const before = plain(mirror.snapshot());
  for (const snapshot of [
    null,
    'x',
    [],
    {},
    { offset: 1 },
    { ...before, offset: 1.5 },
    { ...before, mirror: { open: [{}] } },
  ]) {
    assert.throws(() => mirror.replace(snapshot), SnapshotError);
    assert.deepEqual(plain(mirror.snapshot()), before);
  }
});

test('the conversation is the same array until a message is logged, replaced or cleared', () => {
  const mirror = fold([{ type: 'user_message', seq: 0, content: 'hi' }]);
  const messages = mirror.messages();
  mirror.fold({ type: 'agent_delta', message: 'm', text: 'x' });
  mirror.fold({ type: 'step_start', seq: 1 });
  assert.equal(mirror.messages(), messages);
  mirror.fold({ type: 'assistant_message', seq: 2, message: 'm', content: 'xy' });
  assert.deepEqual(
    mirror.messages().map(({ role, content }) => [role, content]),
    [
      ['user', 'hi'],
      ['assistant', 'xy'],
    ],
  );
  mirror.fold({ type: 'cleared', seq: 3 });
  assert.deepEqual(mirror.messages(), []);
  mirror.replace({ offset: 0, mirror: {} });
  assert.deepEqual(mirror.messages(), []);
});

test('an event with a key __proto__ reaches no prototype', () => {
  const mirror = fold([JSON.parse('{"type": "user_message", "seq": 0, "__proto__": {"polluted": 1}}')]);
  assert.equal({}.polluted, undefined);
  assert.equal(mirror.context.events[0].data.polluted, undefined);
});

test('going on under another epoch keeps the rest', () => {
  const mirror = new Mirror({ topic: 't', epoch: 'aaaaaaaa', offset: 3 });
  mirror.resume('bbbbbbbb');
  assert.deepEqual([mirror.topic, mirror.epoch, mirror.offset], ['t', 'bbbbbbbb', 3]);
});

test('200,000 deltas of one message are exact', () => {
  const mirror = new Mirror();
  for (let offset = 1; offset <= 200_000; offset += 1) {
    mirror.apply({ offset, data: { type: 'agent_delta', message: 'm', text: `${offset} 🚀` } });
  }
  const expected = Array.from({ length: 200_000 }, (_, index) => `${index + 1} 🚀`).join('');
  assert.ok(mirror.open[0].text === expected);
});
