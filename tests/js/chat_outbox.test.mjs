import assert from 'node:assert/strict';
import { test } from 'node:test';

import { excess } from '../../static/chat/content.js';
import { ANSWER_MS, Outbox } from '../../static/chat/outbox.js';
import { Own } from '../../static/chat/own.js';
import { retryWhenUsed } from '../../static/chat/retry.js';
import { CommandError, NotConnectedError, TooLargeError } from '../../static/gateway/index.js';

function setup(stored = new Map()) {
  const calls = [];
  const timers = [];
  const storage = {
    getItem: (key) => stored.get(key) ?? null,
    setItem: (key, value) => void stored.set(key, value),
    removeItem: (key) => void stored.delete(key),
  };
  let changes = 0;
  const world = { connected: true, mirror: { epoch: 'e', offset: 1 } };
  const outbox = new Outbox({
    topic: 't',
    storage,
    send: (text, id) => new Promise((resolve, reject) => calls.push({ text, id, resolve, reject })),
    connected: () => world.connected,
    mirror: () => world.mirror,
    later: (act, ms) => timers.push({ act, ms }),
    changed: () => {
      changes += 1;
    },
  });
  return { outbox, calls, timers, stored, storage, world, changes: () => changes };
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
  page.world.mirror.offset = 6;
  page.outbox.settle();
  assert.deepEqual(states(page), ['sent'], 'the event has not come');
  page.world.mirror.offset = 7;
  page.outbox.settle();
  assert.deepEqual(states(page), []);
});

test('a message of another epoch is not waited for', async () => {
  const page = setup();
  page.outbox.add('hi', 'id1', 5);
  page.calls[0].resolve({ message: 'm', offset: 700, epoch: 'e' });
  await settled();
  page.world.mirror = { epoch: 'f', offset: 1 };
  page.outbox.settle();
  assert.deepEqual(states(page), []);
});

test('an answer that comes after the event leaves nothing on its way', async () => {
  const page = setup();
  for (const [index, text] of ['alpha', 'beta', 'gamma'].entries()) {
    page.outbox.add(text, `id${index}`, 5);
    page.world.mirror.offset = 7 + index;
    page.outbox.settle();
    assert.deepEqual(states(page), ['sending']);
    page.calls[index].resolve({ message: text, offset: 7 + index, epoch: 'e' });
    await settled();
    assert.deepEqual(states(page), []);
  }
});

test('the first message of a topic is on its way until its event is there', async () => {
  const page = setup();
  page.world.mirror = { epoch: '', offset: 0 };
  page.outbox.add('hi', 'id1', 5);
  page.calls[0].resolve({ message: 'm', offset: 1, epoch: 'e' });
  await settled();
  assert.deepEqual(states(page), ['sent']);
  page.world.mirror = { epoch: 'e', offset: 1 };
  page.outbox.settle();
  assert.deepEqual(states(page), []);
});

test('without a connection a message waits for it, however long, and goes when it is there', async () => {
  const page = setup();
  page.world.connected = false;
  page.outbox.add('hi', 'id1', 5);
  assert.deepEqual([states(page), page.calls, page.timers], [['waiting'], [], []]);
  page.world.connected = true;
  page.outbox.connection(true);
  assert.deepEqual(states(page), ['sending']);
  page.calls[0].resolve({ message: 'm', offset: 1, epoch: 'e' });
  await settled();
  assert.deepEqual(states(page), []);
});

test('a connection that is lost before the answer leaves the message waiting, and it goes again under its id', async () => {
  const page = setup();
  page.outbox.add('hi', 'id1', 5);
  page.world.connected = false;
  page.outbox.connection(false);
  page.timers[0].act();
  page.calls[0].reject(new NotConnectedError('no connection in time', { temporary: true }));
  await settled();
  assert.deepEqual(states(page), ['waiting']);
  page.world.connected = true;
  page.outbox.connection(true);
  assert.deepEqual(page.calls.map(({ id }) => id), ['id1', 'id1']);
  page.timers[1].act();
  assert.deepEqual(states(page), ['failed'], 'the time without an answer counts again');
});

test('only a refusal of the message itself is final', async () => {
  const errors = [
    [new CommandError(107, 'too long'), true],
    [new TooLargeError(9, 8), true],
    [new CommandError(111, 'too many', { temporary: true }), false],
    [new NotConnectedError('refused', { temporary: false }), false],
    [new Error('whatever'), false],
  ];
  for (const [error, final] of errors) {
    const page = setup();
    page.outbox.add('hi', 'id1', 5);
    page.calls[0].reject(error);
    await settled();
    assert.deepEqual(states(page), ['failed']);
    assert.equal(page.outbox.messages[0].final, final, String(error));
    assert.match(page.outbox.messages[0].reason, /\.$/);
  }
});

test('how much a message is too long by is counted in bytes of its JSON', () => {
  const limit = 64 * 1024;
  assert.equal(excess('x'.repeat(limit)), 0);
  assert.equal(excess('x'.repeat(limit + 3)), 3);
  assert.equal(excess('\n'.repeat(limit / 2)), 0);
  assert.equal(excess('\n'.repeat(limit / 2 + 1)), 2);
  assert.equal(excess('\u0001'.repeat(limit / 6 + 1)), 2, 'each has six bytes');
  assert.equal(excess('😀'.repeat(limit / 4)), 0);
  assert.equal(excess('😀'.repeat(limit / 4 + 1)), 4);
});

test('a page that is used tries to connect at once, and not at each key', () => {
  const page = new EventTarget();
  let [time, tries] = [1000, 0];
  const gateway = { state: 'reconnecting', retryNow: () => void (tries += 1) };
  retryWhenUsed({ gateway, page, now: () => time });
  for (const name of ['keydown', 'keydown', 'pointerdown']) page.dispatchEvent(new Event(name));
  assert.equal(tries, 1);
  time += 2000;
  page.dispatchEvent(new Event('pointerdown'));
  assert.equal(tries, 2);
  gateway.state = 'connected';
  time += 2000;
  page.dispatchEvent(new Event('keydown'));
  assert.equal(tries, 2);
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
