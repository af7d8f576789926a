import assert from 'node:assert/strict';
import { test } from 'node:test';

import { ANSWER_MS, Outbox } from '../../static/chat/outbox.js';
import { Own } from '../../static/chat/own.js';

function setup(stored = new Map()) {
  const calls = [];
  const timers = [];
  const storage = {
    getItem: (key) => stored.get(key) ?? null,
    setItem: (key, value) => void stored.set(key, value),
    removeItem: (key) => void stored.delete(key),
  };
  let changes = 0;
  const outbox = new Outbox({
    topic: 't',
    storage,
    send: (text, id) => new Promise((resolve, reject) => calls.push({ text, id, resolve, reject })),
    later: (act, ms) => timers.push({ act, ms }),
    changed: () => {
      changes += 1;
    },
  });
  return { outbox, calls, timers, stored, storage, changes: () => changes };
}

const settled = () => new Promise((resolve) => setImmediate(resolve));
const states = ({ outbox }) => outbox.messages.map(({ state }) => state);

test('a message is on its way until its event is in the mirror', async () => {
  const page = setup();
  page.outbox.add('hi', 'id1', 5);
  assert.deepEqual(states(page), ['sending']);
  page.calls[0].resolve({ message: 'm', offset: 7, epoch: 'e' });
  await settled();
  assert.deepEqual(states(page), ['sent']);
  page.outbox.settle({ epoch: 'e', offset: 6 });
  assert.deepEqual(states(page), ['sent'], 'the event has not come');
  page.outbox.settle({ epoch: 'e', offset: 7 });
  assert.deepEqual(states(page), []);
});

test('a message of another epoch is not waited for', async () => {
  const page = setup();
  page.outbox.add('hi', 'id1', 5);
  page.calls[0].resolve({ message: 'm', offset: 700, epoch: 'e' });
  await settled();
  page.outbox.settle({ epoch: 'f', offset: 1 });
  assert.deepEqual(states(page), []);
});

test('a refused message is not sent, and is sent again under the same id', async () => {
  const page = setup();
  page.outbox.add('hi', 'id1', 5);
  page.calls[0].reject(new Error('the topic is full'));
  await settled();
  assert.deepEqual(states(page), ['failed']);
  assert.equal(page.outbox.messages[0].reason, 'the topic is full.');
  page.outbox.again('id1');
  assert.deepEqual(states(page), ['sending']);
  assert.deepEqual(page.calls.map(({ id }) => id), ['id1', 'id1']);
});

test('without an answer it counts as not sent; a late answer still counts', async () => {
  const page = setup();
  page.outbox.add('hi', 'id1', 5);
  assert.equal(page.timers[0].ms, ANSWER_MS);
  page.timers[0].act();
  assert.deepEqual(states(page), ['failed']);
  page.calls[0].resolve({ message: 'm', offset: 7, epoch: 'e' });
  await settled();
  assert.deepEqual(states(page), ['sent']);
});

test('the first attempt running out does not fail the second', async () => {
  const page = setup();
  page.outbox.add('hi', 'id1', 5);
  page.calls[0].reject(new Error('no'));
  await settled();
  page.outbox.again('id1');
  page.timers[0].act();
  assert.deepEqual(states(page), ['sending']);
  page.timers[1].act();
  assert.deepEqual(states(page), ['failed']);
});

test('what is not confirmed survives a reload as not sent', async () => {
  const page = setup();
  page.outbox.add('one', 'id1', 5);
  page.outbox.add('two', 'id2', 6);
  page.calls[0].resolve({ message: 'm', offset: 7, epoch: 'e' });
  await settled();
  const again = setup(page.stored);
  assert.deepEqual(again.outbox.messages.map(({ id, text, state }) => [id, text, state]), [['id2', 'two', 'failed']]);
  again.outbox.discard('id2');
  assert.deepEqual([...page.stored], []);
});

test('storage that holds something else is survived', () => {
  assert.deepEqual(setup(new Map([['gateway.unsent.t', '{']])).outbox.messages, []);
  assert.deepEqual(setup(new Map([['gateway.unsent.t', '5']])).outbox.messages, []);
});

test('storage that is full loses nothing while the page lives', () => {
  const page = setup();
  page.storage.setItem = () => {
    throw new Error('full');
  };
  page.outbox.add('hi', 'id1', 5);
  assert.deepEqual(states(page), ['sending']);
  assert.equal(page.changes(), 1);
});

test('own messages are known after a reload', () => {
  const page = setup();
  const own = new Own(page.storage);
  own.add('m1');
  for (let index = 0; index < 400; index += 1) own.add(`x${index}`);
  const again = new Own(page.storage);
  assert.equal(again.has('x399'), true);
  assert.equal(again.has('m1'), false, 'bounded');
  assert.equal(again.has(null), false);
});
