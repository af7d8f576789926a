// The library on a real gateway, whose http address is in GATEWAY_URL; with GATEWAY_AGENT there is an agent that
// answers messages. tests/test_browser_library.py starts both.
import assert from 'node:assert/strict';
import { test as anyTest } from 'node:test';

import { CommandError, Gateway } from '../../static/gateway/index.js';

const { GATEWAY_URL: address, GATEWAY_AGENT: agent } = process.env;

function missing() {
  if (!address) return 'GATEWAY_URL is not set';
  if (!globalThis.WebSocket) return 'this Node.js has no WebSocket: use 22 or newer, or --experimental-websocket';
  return false;
}

const skip = missing();

/** A test that hangs says which one it is. */
const test = (name, options, run) => anyTest(name, { timeout: 60_000, ...options }, run);
const fresh = () => `e2e:${crypto.getRandomValues(new Uint32Array(2)).join('')}`;

/** The platform's WebSocket, with a record of the open ones, so that a test can cut them. */
function cuttable() {
  const sockets = [];
  class WebSocket extends globalThis.WebSocket {
    constructor(url) {
      super(url);
      sockets.push(this);
    }
  }
  return { WebSocket, cut: () => sockets.at(-1).close() };
}

/** A connected gateway, closed after the test. */
function connect(context, options = {}) {
  const gateway = new Gateway({ url: new URL('/connection/websocket', address).href, ...options });
  context.after(() => gateway.close());
  gateway.connect();
  return gateway;
}

/** Wait until a condition holds that a topic's changes can make true. */
function until(topic, holds) {
  return new Promise((resolve) => {
    const offs = [];
    const check = () => {
      if (!holds()) return;
      for (const off of offs) off();
      resolve();
    };
    offs.push(topic.on('change', check), topic.on('state', check));
    check();
  });
}

async function stored(name) {
  const response = await fetch(new URL(`/topics/${encodeURIComponent(name)}`, address));
  assert.equal(response.status, 200);
  return response.json();
}

const plain = (value) => JSON.parse(JSON.stringify(value));

test('a topic is followed from before its first event', { skip }, async (context) => {
  const name = fresh();
  const gateway = connect(context);
  const topic = gateway.subscribe(name);
  await until(topic, () => topic.state === 'live');
  assert.equal(topic.mirror.offset, 0);
  for (let n = 0; n < 20; n += 1) await gateway.publish(name, { type: 'test.count', n });
  await until(topic, () => topic.mirror.offset === 20);
  await until(topic, () => topic.state === 'live');
  assert.deepEqual(plain(topic.mirror.snapshot()), await stored(name));
});

test('a cut connection loses and doubles nothing', { skip }, async (context) => {
  const name = fresh();
  const writer = connect(context);
  await writer.publish(name, { type: 'test.count', n: 0 });
  const { WebSocket, cut } = cuttable();
  const reader = connect(context, { WebSocket });
  const topic = reader.subscribe(name);
  await until(topic, () => topic.state === 'live');
  const heard = [];
  topic.on('change', ({ events, reset }) => {
    assert.equal(reset, false);
    heard.push(...events.map(({ data }) => data.n));
  });
  for (let n = 1; n <= 60; n += 1) {
    await writer.publish(name, { type: 'test.count', n });
    if (n % 20 === 10) cut();
  }
  await until(topic, () => topic.mirror.offset === 61);
  assert.deepEqual(
    heard,
    Array.from({ length: 60 }, (_, index) => index + 1),
  );
});

test('a message reaches every reader; the same id is the same message', { skip }, async (context) => {
  const name = fresh();
  const [one, other] = [connect(context), connect(context)];
  // Written first: the reader of a topic without any event gets its beginning as a snapshot, not as events.
  await one.publish(name, { type: 'test.begin' });
  const topic = other.subscribe(name);
  const queued = [];
  topic.on('change', ({ events }) => queued.push(...events.filter(({ data }) => data.type === 'message_queued')));
  await until(topic, () => topic.state === 'live');
  const first = await one.send(name, 'Hello 🚀', { id: 'mine' });
  const again = await other.send(name, 'Hello 🚀', { id: 'mine' });
  assert.equal(again.message, first.message);
  await assert.rejects(one.send(name, 'Something else', { id: 'mine' }), (error) => {
    assert.ok(error instanceof CommandError);
    assert.equal(error.code, 409);
    return true;
  });
  const last = await one.send(name, 'Bye');
  await until(topic, () => queued.some(({ data }) => data.id === last.message));
  assert.deepEqual(
    queued.map(({ data: { id, content } }) => [id, content]),
    [
      [first.message, 'Hello 🚀'],
      [last.message, 'Bye'],
    ],
  );
  const names = (await one.topics()).map((entry) => entry.topic);
  assert.ok(names.includes(name));
});

test('nobody forges history', { skip }, async (context) => {
  const gateway = connect(context);
  await assert.rejects(gateway.publish(fresh(), { type: 'agent_delta', message: 'm', text: 'x' }), { code: 103 });
  await assert.rejects(gateway.publish(fresh(), { type: 'not a type' }), { code: 107 });
});

test('a name that is no topic is denied, and the connection lives', { skip }, async (context) => {
  const gateway = connect(context);
  const topic = gateway.subscribe('no topic');
  await until(topic, () => topic.state === 'denied');
  assert.equal(topic.error.code, 102);
  assert.equal(gateway.state, 'connected');
});

test(
  'a run is mirrored exactly, over cuts and by those who join in the middle',
  { skip: skip || (!agent && 'GATEWAY_AGENT is not set') },
  async (context) => {
    const name = fresh();
    const { WebSocket, cut } = cuttable();
    const asking = connect(context);
    const steady = asking.subscribe(name);
    const shaken = connect(context, { WebSocket, random: () => 0 }).subscribe(name);
    await until(steady, () => steady.state === 'live');
    await until(shaken, () => shaken.state === 'live');

    const joining = connect(context);
    const followers = [steady, shaken];
    let [cuts, nextCut] = [0, 20];
    shaken.on('change', () => {
      if (shaken.mirror.offset < nextCut) return;
      nextCut = shaken.mirror.offset + 60;
      cuts += 1;
      cut();
    });
    steady.on('change', () => {
      if (followers.length === 2 && steady.mirror.open.some(({ text }) => text !== '')) {
        followers.push(joining.subscribe(name));
      }
    });
    await asking.send(name, 'Hello 🚀');
    const ended = ({ mirror }) => mirror.runs.some(({ status }) => status === 'completed');
    await until(steady, () => ended(steady));
    for (const topic of followers) await until(topic, () => ended(topic) && topic.state === 'live');

    assert.ok(cuts > 0);
    assert.equal(followers.length, 3);
    const expected = await stored(name);
    for (const topic of followers) assert.deepEqual(plain(topic.mirror.snapshot()), expected);
    assert.deepEqual(
      steady.mirror.messages().map(({ role }) => role),
      ['user', 'assistant', 'tool', 'assistant'],
    );
  },
);

test('a lens shows its types, before and after a drop, and moves over the others', { skip }, async (context) => {
  const name = fresh();
  const { WebSocket, cut } = cuttable();
  const writer = connect(context);
  const gateway = connect(context, { WebSocket });
  const topic = gateway.subscribe(name, { lens: { types: ['note'] } });
  const seen = [];
  topic.on('change', ({ events }) => seen.push(...events.map(({ offset, data }) => [offset, data.n])));
  await until(topic, () => topic.state === 'live');
  await writer.publish(name, { type: 'note', n: 1 }); // the history begins: a reset
  await until(topic, () => topic.mirror.offset === 1);
  await writer.publish(name, { type: 'other', n: 2 });
  await writer.publish(name, { type: 'note', n: 3 });
  await until(topic, () => topic.mirror.offset === 3);
  cut();
  await writer.publish(name, { type: 'note', n: 4 });
  await writer.publish(name, { type: 'other', n: 5 });
  await until(topic, () => topic.mirror.offset === 5 && topic.state === 'live');
  assert.deepEqual(seen, [
    [3, 3],
    [4, 4],
  ]);
  topic.setLens({ types: ['note'], rate: 20 });
  await writer.publish(name, { type: 'other', n: 6 });
  await writer.publish(name, { type: 'note', n: 7 });
  await until(topic, () => topic.mirror.offset === 7);
  assert.deepEqual(seen.slice(2), [[7, 7]]);
});

test('summaries follow a topic', { skip }, async (context) => {
  const name = fresh();
  const gateway = connect(context);
  const topic = gateway.subscribe(name, { lens: 'summary' });
  const heard = [];
  const told = new Promise((resolve) => {
    topic.on('summary', (summary) => {
      heard.push(summary);
      if (summary.offset === 1) resolve(summary);
    });
  });
  await until(topic, () => topic.state === 'live');
  await gateway.publish(name, { type: 'note' });
  await told;
  assert.deepEqual([heard[0].offset, heard[0].state, heard[0].topic], [0, 'idle', name]);
});
