import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Feed } from '../../static/dashboard/feed.js';
import { History } from '../../static/dashboard/history.js';
import { Recording } from '../../static/dashboard/recording.js';
import { Mirror } from '../../static/gateway/index.js';

/** A feed over a list of topics that the test changes; time goes on when it is told to. */
class World {
  topics = [];
  connected = true;
  time = 0;
  heard = [];
  gone = [];
  subscriptions = new Map();
  #later = [];

  constructor() {
    this.feed = new Feed({
      topics: async () => {
        if (this.topics === null) throw new Error('permission denied');
        return this.topics;
      },
      connected: () => this.connected,
      now: () => this.time,
      later: (act, ms) => this.#later.push({ act, at: this.time + ms }),
      changed: () => {},
      follow: (topic, heard) => {
        const subscription = { topic, tell: heard, unsubscribe: () => this.subscriptions.delete(topic) };
        this.subscriptions.set(topic, subscription);
        return subscription;
      },
      heard: (topic, at, summary) => this.heard.push([topic, at, summary]),
      gone: (topic) => this.gone.push(topic),
    });
  }

  async pass(ms) {
    this.time += ms;
    const due = this.#later.filter(({ at }) => at <= this.time);
    this.#later = this.#later.filter(({ at }) => at > this.time);
    for (const { act } of due) act();
    for (let turn = 0; turn < 10; turn += 1) await Promise.resolve();
  }

  async start() {
    this.feed.start();
    await this.pass(0);
  }
}

test('feed: follows what the gateway names, in batches, and is settled when all have told', async () => {
  const world = new World();
  world.topics = Array.from({ length: 120 }, (_, index) => ({ topic: `t${index}`, at: 1000 - index }));
  await world.start();
  assert.deepEqual([world.subscriptions.size, world.feed.settled], [50, false]);
  await world.pass(100);
  await world.pass(100);
  assert.equal(world.subscriptions.size, 120);
  assert.equal(world.feed.settled, false);
  for (const { topic, tell } of world.subscriptions.values()) tell({ topic });
  assert.equal(world.feed.settled, true);
  assert.deepEqual(world.heard[0], ['t0', 1000, { topic: 't0' }]);
});

test('feed: a topic that was let go is followed again when it is heard of', async () => {
  const world = new World();
  world.topics = [{ topic: 'a', at: 5 }];
  await world.start();
  world.feed.drop('a', 5);
  assert.deepEqual([world.gone, world.subscriptions.size], [['a'], 0]);
  await world.pass(2000);
  assert.equal(world.subscriptions.size, 0);
  world.topics = [{ topic: 'a', at: 6 }];
  await world.pass(2000);
  assert.equal(world.subscriptions.size, 1);
});

test('feed: a topic that is no more is let go; a gateway that is away names none', async () => {
  const world = new World();
  world.topics = [{ topic: 'a', at: 5 }];
  await world.start();
  world.connected = false;
  world.topics = [];
  await world.pass(2000);
  assert.equal(world.subscriptions.size, 1);
  world.connected = true;
  await world.pass(2000);
  assert.deepEqual([world.subscriptions.size, world.feed.any], [0, false]);
});

test('feed: no more than a connection takes, and the rest is counted', async () => {
  const world = new World();
  world.topics = Array.from({ length: 1240 }, (_, index) => ({ topic: `t${index}`, at: 5000 - index }));
  await world.start();
  for (let turn = 0; turn < 30; turn += 1) await world.pass(100);
  assert.deepEqual([world.subscriptions.size, world.feed.left], [1000, 240]);
});

test('feed: a refusal is told, and over when the names come', async () => {
  const world = new World();
  world.topics = null;
  await world.start();
  assert.equal(world.feed.error.message, 'permission denied');
  world.topics = [];
  await world.pass(2000);
  assert.deepEqual([world.feed.error, world.feed.known], [null, true]);
});

const stored = (count) => Array.from({ length: count }, (_, index) => ({ offset: index + 1, data: { type: 'log', level: 'info', message: `line ${index}` } }));

function recorded(events, { fails = 0 } = {}) {
  const mirror = new Mirror({ topic: 't', epoch: 'abcdefgh' });
  const took = [];
  const later = [];
  const recording = new Recording('t');
  const state = { fails, reads: [], restarts: 0 };
  const history = new History(recording, {
    mirror: () => mirror,
    read: async (position) => {
      state.reads.push(position?.offset ?? 0);
      if (state.fails > 0) {
        state.fails -= 1;
        throw Object.assign(new Error('away'), { code: 100 });
      }
      const from = position?.offset ?? 0;
      return { publications: events.filter(({ offset }) => offset > from).slice(0, 10), epoch: mirror.epoch, offset: events.length };
    },
    took: ({ offset }) => took.push(offset),
    changed: () => {},
    restarted: () => void (state.restarts += 1),
    later: (act) => later.push(act),
  });
  return { history, recording, mirror, took, later, state };
}
const settle = async () => {
  for (let turn = 0; turn < 200; turn += 1) await Promise.resolve();
};

test('history: what is stored is read, what is told meanwhile follows, each once and in order', async () => {
  const events = stored(40);
  const { history, recording, mirror, took } = recorded(events);
  mirror.offset = 35;
  history.take({ events: [], reset: true });
  for (const told of events.slice(35)) {
    mirror.offset = told.offset;
    history.take({ events: [told], reset: false });
  }
  await settle();
  assert.deepEqual(took, events.map(({ offset }) => offset));
  assert.deepEqual([recording.upto, history.complete], [40, true]);
});

test('history: a reading that failed is made again from where it was', async () => {
  const events = stored(25);
  const { history, recording, mirror, later, state } = recorded(events, { fails: 1 });
  mirror.offset = 25;
  history.take({ events: [], reset: true });
  await settle();
  assert.equal(history.error.message, 'away');
  later.shift()();
  await settle();
  assert.deepEqual([recording.upto, history.error, state.reads], [25, null, [0, 0, 10, 20]]);
});

test('history: another epoch after a reset begins anew, a continued one goes on', async () => {
  const events = stored(5);
  const { history, recording, mirror, state } = recorded(events);
  mirror.offset = 5;
  history.take({ events: [], reset: true });
  await settle();
  mirror.resume('continue');
  history.take({ events: [], reset: false });
  assert.deepEqual([state.restarts, recording.epoch], [0, 'continue']);
  mirror.resume('recreate');
  history.take({ events: [], reset: true });
  await settle();
  assert.deepEqual([state.restarts, recording.epoch, recording.upto], [1, 'recreate', 5]);
});
