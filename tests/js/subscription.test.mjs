import assert from 'node:assert/strict';
import { test } from 'node:test';

import { CommandError, Gateway, SnapshotError } from '../../static/gateway/index.js';
import { settled } from './clock.mjs';
import { sensibleRun } from './events.mjs';
import { FakeGateway } from './fake_gateway.mjs';

const plain = (value) => JSON.parse(JSON.stringify(value));
const delta = (text) => ({ type: 'agent_delta', message: 'm', text });

/** A page that follows `t`, and what it heard. */
async function following(server = new FakeGateway(), { topic: name = 't', ...wants } = {}) {
  const gateway = new Gateway(server.options);
  const errors = [];
  gateway.on('error', (error) => errors.push(error));
  const topic = gateway.subscribe(name, wants);
  const [states, changes] = [[topic.state], []];
  topic.on('state', (state) => states.push(state));
  topic.on('change', (change) => changes.push(change));
  gateway.connect();
  await settled();
  return { server, gateway, topic, states, changes, errors };
}

function assertExact(server, topic) {
  assert.deepEqual(plain(topic.mirror.snapshot()), plain(server.topic(topic.name).snapshot(topic.name)));
}

function text(topic) {
  return topic.mirror.open[0]?.text;
}

function offsets(change) {
  return change.events.map(({ offset }) => offset);
}

/** A snapshot at the top as its parts on the wire. */
function partsOf(server, name, parts, snapshot = server.topic(name).snapshot(name)) {
  const whole = JSON.stringify(snapshot);
  const size = Math.ceil(whole.length / parts);
  const { epoch, offset } = snapshot;
  return Array.from({ length: parts }, (_, index) => {
    const part = { part: index + 1, parts, text: whole.slice(index * size, (index + 1) * size) };
    return server.push(name, { pub: { data: { type: 'snapshot', epoch, offset, ...part } } });
  });
}

// Beginning

test('the first subscribe asks for the mirror and gets the state', async () => {
  const server = new FakeGateway();
  await server.publish('t', ...sensibleRun({ run: 'r' }));
  const { topic, states, changes } = await following(server);
  assert.deepEqual(server.asked('subscribe'), [{ channel: 't', data: { mirror: true } }]);
  assertExact(server, topic);
  assert.deepEqual(changes, [{ events: [], reset: true }]);
  assert.deepEqual(states, ['subscribing', 'live']);
});

test('its mirror is there before, and empty', () => {
  const topic = new Gateway(new FakeGateway().options).subscribe('t');
  assert.equal(topic.state, 'subscribing');
  assert.equal(topic.mirror.topic, 't');
  assert.deepEqual(topic.mirror.messages(), []);
});

test('a topic that nobody has written is live, and is followed from its first event', async () => {
  const { server, topic } = await following();
  assert.equal(topic.state, 'live');
  await server.publish('t', ...sensibleRun({ run: 'r' }));
  assert.deepEqual(plain(topic.mirror.snapshot().mirror), plain(server.topic('t').snapshot('t').mirror));
});

test('so it is where the gateway sends no snapshot of nothing', async () => {
  const server = new FakeGateway();
  server.answers.set('subscribe', () => ({ reply: { recoverable: true, positioned: true, epoch: '', offset: 0 } }));
  const { topic } = await following(server);
  assert.equal(topic.state, 'live');
});

test('a change comes once for a frame, after the mirror changed', async () => {
  const { server, topic, changes } = await following();
  const seen = [];
  topic.on('change', () => seen.push(text(topic)));
  await server.publish('t', delta('a'), delta('b'), delta('c'));
  await server.publish('t', delta('d'));
  assert.deepEqual(seen, ['abc', 'abcd']);
  assert.deepEqual(changes.slice(-2), [
    {
      events: [
        { offset: 1, data: delta('a') },
        { offset: 2, data: delta('b') },
        { offset: 3, data: delta('c') },
      ],
      reset: false,
    },
    { events: [{ offset: 4, data: delta('d') }], reset: false },
  ]);
});

test('two topics in one frame change once each', async () => {
  const server = new FakeGateway();
  const { gateway, topic, changes } = await following(server);
  const other = gateway.subscribe('u');
  const otherChanges = [];
  other.on('change', (change) => otherChanges.push(offsets(change)));
  await settled();
  const pub = (name, offset) => server.push(name, { pub: { offset, data: delta('x') } });
  server.socket.deliver(pub('t', 1), pub('u', 1), pub('t', 2));
  assert.deepEqual(offsets(changes.at(-1)), [1, 2]);
  assert.deepEqual(otherChanges, [[], [1]]);
  assert.equal(text(topic), 'xx');
});

test('what comes twice counts once', async () => {
  const { server, topic, changes } = await following();
  await server.publish('t', delta('a'), delta('b'));
  const count = changes.length;
  server.socket.deliver(server.push('t', { pub: { offset: 1, data: delta('a') } }));
  assert.equal(text(topic), 'ab');
  assert.equal(changes.length, count);
});

test('a merged publication says what it stands for', async () => {
  const { server, topic, changes } = await following();
  await server.publish('t', delta('a'));
  await server.publishMerged('t', delta('bcd'), { first: 2, offset: 4 });
  assert.deepEqual(changes.at(-1).events, [{ offset: 4, first: 2, data: delta('bcd') }]);
  assert.equal(text(topic), 'abcd');
  assert.equal(topic.mirror.offset, 4);
});

// Coming back

test('after a drop it goes on from its position, with its options, and misses and doubles nothing', async () => {
  const events = sensibleRun({ run: 'r' });
  const { server, topic, states, changes } = await following();
  await server.publish('t', ...events.slice(0, 3));
  server.socket.drop(1006);
  await server.clock.advance(200);
  for (let at = 3; at < events.length; at += 4) {
    server.socket.drop(1006);
    assert.equal(topic.state, 'reconnecting');
    await server.publish('t', ...events.slice(at, at + 2));
    await server.clock.advance(20_000);
    await server.publish('t', ...events.slice(at + 2, at + 4));
    assertExact(server, topic);
  }
  const [, , again] = server.asked('subscribe');
  assert.deepEqual(again, { channel: 't', recover: true, epoch: 'epochAAA', offset: 3, data: { mirror: true } });
  assert.deepEqual(
    changes.flatMap(offsets),
    Array.from(events, (_, index) => index + 1),
  );
  assert.equal(states.at(-1), 'live');
});

test('a position that cannot go on gets the new state', async () => {
  const { server, topic, changes } = await following();
  await server.publish('t', delta('old'));
  server.socket.drop(1006);
  server.topics.delete('t');
  server.topic('t').epoch = 'epochBBB';
  await server.publish('t', { type: 'user_message', seq: 0, content: 'new' });
  await server.clock.advance(200);
  assertExact(server, topic);
  assert.equal(topic.mirror.epoch, 'epochBBB');
  assert.deepEqual(changes.at(-1), { events: [], reset: true });
});

test('a history that goes on under another name is followed under it', async () => {
  const server = new FakeGateway();
  await server.publish('t', delta('a'));
  const { topic, changes } = await following(server);
  server.socket.drop(1006);
  server.topic('t').lineage.set('epochAAA', 1);
  server.topic('t').epoch = 'epochBBB';
  await server.publish('t', delta('b'));
  await server.clock.advance(200);
  assertExact(server, topic);
  assert.equal(changes.filter(({ reset }) => reset).length, 1);
  server.socket.drop(1006);
  await server.clock.advance(400);
  assert.equal(server.asked('subscribe').at(-1).epoch, 'epochBBB');
});

test('all topics go on from positions of their own', async () => {
  const server = new FakeGateway();
  const { gateway } = await following(server);
  gateway.subscribe('u');
  await settled();
  await server.publish('t', delta('a'));
  await server.publish('u', delta('a'), delta('b'));
  server.socket.drop(3001);
  await server.clock.advance(200);
  assert.deepEqual(
    server
      .asked('subscribe')
      .slice(2)
      .map(({ channel, offset }) => [channel, offset]),
    [
      ['t', 1],
      ['u', 2],
    ],
  );
});

test('after close and connect it goes on where it was', async () => {
  const { server, gateway, topic } = await following();
  await server.publish('t', delta('a'));
  gateway.close();
  assert.equal(topic.state, 'ended');
  await server.publish('t', delta('b'));
  gateway.connect();
  assert.equal(topic.state, 'reconnecting');
  await settled();
  assert.equal(text(topic), 'ab');
  assert.equal(topic.state, 'live');
});

// Holes

test('a hole is asked for at once, on the same connection', async () => {
  const { server, topic } = await following();
  await server.publish('t', delta('a'));
  server.topic('t').append(delta('b'));
  await server.publish('t', delta('c'));
  assert.equal(text(topic), 'abc');
  assert.equal(server.sockets.length, 1);
  assert.deepEqual(
    server.commands.slice(-3).map(({ method }) => method),
    ['unsubscribe', 'subscribe', 'history'],
  );
  await server.publish('t', delta('d'));
  assert.equal(text(topic), 'abcd');
});

test('a publication from another cursor is a hole as well', async () => {
  const { server, topic } = await following();
  await server.publish('t', delta('a'), delta('b'));
  server.topic('t').append(delta('c'));
  server.socket.deliver(server.push('t', { pub: { offset: 3, data: delta('bc'), tags: { from: '2' } } }));
  await settled();
  assert.equal(text(topic), 'abc');
});

test('tags that name no offset are a hole', async () => {
  const { server, topic } = await following();
  for (const from of ['x', 1, null, '-1']) {
    server.topic('t').append(delta('a'));
    server.socket.deliver(
      server.push('t', { pub: { offset: topic.mirror.offset + 1, data: delta('?'), tags: { from } } }),
    );
    await server.clock.advance(30_000);
  }
  assert.equal(text(topic), 'aaaa');
});

test('holes that do not end are asked for at a bounded rate', async () => {
  const { server } = await following();
  await server.publish('t', delta('a'));
  server.answers.set('subscribe', () => ({ reply: { epoch: 'epochAAA', offset: 5, recovered: true } }));
  server.topic('t').append(delta('b'));
  await server.publish('t', delta('c'));
  const before = server.asked('subscribe').length;
  await server.clock.advance(300_000);
  const asked = server.asked('subscribe').length - before;
  assert.ok(asked >= 15 && asked <= 30, `${asked} times in five minutes`);
});

test('being behind without progress is a hole that nobody saw', async () => {
  const server = new FakeGateway();
  await server.publish('t', delta('a'));
  const { topic } = await following(server);
  server.topic('t').append(delta('b'));
  server.answers.set('subscribe', (_, times) =>
    times === 1 ? { reply: { epoch: 'epochAAA', offset: 1, recovered: true, was_recovering: true } } : undefined,
  );
  server.socket.deliver(server.push('t', { unsubscribe: { code: 2500, reason: 'insufficient state' } }));
  await settled();
  assert.equal(topic.state, 'catching-up');
  assert.equal(topic.behind, 1);
  server.socket.readers.add('t');
  for (let passed = 0; passed < 30; passed += 10) {
    server.socket.deliver({});
    await server.clock.advance(10_000);
  }
  assert.equal(text(topic), 'ab');
  assert.equal(topic.state, 'live');
});

// Snapshots pushed

test('a snapshot push replaces the state, what follows goes on from it', async () => {
  const { server, topic, changes } = await following();
  await server.publish('t', delta('a'));
  server.topic('t').append(delta('b'));
  const push = server.push('t', { pub: { data: { type: 'snapshot', ...server.topic('t').snapshot('t') } } });
  server.topic('t').append(delta('c'));
  server.socket.deliver(push, server.push('t', { pub: { offset: 3, data: delta('c') } }));
  assertExact(server, topic);
  assert.deepEqual(changes.at(-1), { events: [{ offset: 3, data: delta('c') }], reset: true });
});

test('a large one comes in parts; until the last the old state stays, and what comes between is kept', async () => {
  const server = new FakeGateway();
  const { topic, changes, states } = await following(server);
  await server.publish('t', delta('a'));
  const heard = changes.length;
  server.topic('t').append({ type: 'user_message', seq: 0, content: 'U+2028 \u2028 and 🚀' });
  const parts = partsOf(server, 't', 3);
  server.socket.deliver(parts[0]);
  assert.equal(topic.state, 'loading');
  assert.deepEqual(topic.loading, { part: 1, parts: 3 });
  server.socket.deliver({});
  await server.publish('t', delta('b'));
  server.socket.deliver(parts[1]);
  assert.deepEqual(topic.loading, { part: 2, parts: 3 });
  assert.equal(topic.mirror.offset, 1);
  assert.equal(changes.length, heard);
  server.socket.deliver(parts[2]);
  assert.equal(topic.loading, null);
  assertExact(server, topic);
  assert.deepEqual(changes.at(-1), { events: [{ offset: 3, data: delta('b') }], reset: true });
  assert.deepEqual(states, ['subscribing', 'live', 'loading', 'loading', 'live']);
});

test('a reply may announce the parts', async () => {
  const server = new FakeGateway();
  await server.publish('t', ...sensibleRun({ run: 'r' }));
  const { epoch, top: offset } = server.topic('t');
  server.answers.set('subscribe', ({ channel }) => {
    server.socket.readers.add(channel);
    return { reply: { epoch, offset, data: { snapshot: { parts: 4 } } } };
  });
  const { topic, changes } = await following(server);
  assert.equal(topic.state, 'loading');
  assert.deepEqual(topic.loading, { part: 0, parts: 4 });
  const parts = partsOf(server, 't', 4);
  await server.publish('t', { type: 'log', message: 'meanwhile' });
  server.socket.deliver(...parts);
  assertExact(server, topic);
  assert.equal(topic.state, 'live');
  assert.equal(changes.length, 1);
});

test('parts of a newer snapshot replace older ones', async () => {
  const { server, topic } = await following();
  await server.publish('t', delta('a'));
  server.topic('t').append(delta('b'));
  const [older] = partsOf(server, 't', 2);
  server.topic('t').append(delta('c'));
  const newer = partsOf(server, 't', 3);
  server.socket.deliver(older, newer[0]);
  assert.deepEqual(topic.loading, { part: 1, parts: 3 });
  server.socket.deliver(newer[1], newer[2]);
  assertExact(server, topic);
});

test('a whole one in between does too', async () => {
  const { server, topic } = await following();
  await server.publish('t', delta('a'));
  server.topic('t').append(delta('b'));
  const [older] = partsOf(server, 't', 2);
  server.topic('t').append(delta('c'));
  const whole = { type: 'snapshot', ...server.topic('t').snapshot('t') };
  server.socket.deliver(older, server.push('t', { pub: { data: whole } }));
  assert.equal(topic.state, 'live');
  assertExact(server, topic);
});

test('parts that were under way when the connection ended are forgotten', async () => {
  const { server, topic } = await following();
  await server.publish('t', delta('a'));
  server.topic('t').append(delta('b'));
  server.socket.deliver(partsOf(server, 't', 2)[0]);
  server.socket.drop(1006);
  assert.equal(topic.loading, null);
  await server.clock.advance(200);
  assertExact(server, topic);
  assert.equal(topic.state, 'live');
});

test('what is kept for the last part has a bound', async () => {
  const { server, topic } = await following();
  await server.publish('t', delta('a'));
  server.topic('t').append(delta('b'));
  server.socket.deliver(partsOf(server, 't', 2)[0]);
  const large = 'x'.repeat(100_000);
  for (let count = 0; count < 100; count += 1) await server.publish('t', delta(large));
  assert.equal(topic.loading, null);
  await server.clock.advance(1_000);
  assertExact(server, topic);
});

for (const [what, push] of [
  ['is none', { type: 'snapshot', epoch: 'epochAAA', offset: -1, mirror: {} }],
  ['has a part beyond its parts', { type: 'snapshot', epoch: 'epochAAA', offset: 2, part: 3, parts: 2, text: '' }],
  ['joins to no JSON', { type: 'snapshot', epoch: 'epochAAA', offset: 2, part: 1, parts: 1, text: '{' }],
]) {
  test(`a snapshot that ${what} is reported, and the state asked for anew`, async () => {
    const { server, topic, errors } = await following();
    await server.publish('t', delta('a'));
    server.socket.deliver(server.push('t', { pub: { data: push } }));
    assert.ok(errors[0] instanceof SnapshotError);
    assert.equal(text(topic), 'a', 'the old state stays');
    await server.clock.advance(200);
    assert.deepEqual(server.asked('subscribe').at(-1), { channel: 't', data: { mirror: true } });
    assertExact(server, topic);
    assert.equal(topic.state, 'live');
  });
}

test('a reply that owes a snapshot is reported, and the state asked for anew', async () => {
  const server = new FakeGateway();
  await server.publish('t', delta('a'));
  server.answers.set('subscribe', (_, times) =>
    times === 0 ? { reply: { epoch: 'epochAAA', offset: 1 } } : undefined,
  );
  const { topic, errors } = await following(server);
  assert.ok(errors[0] instanceof SnapshotError);
  assert.equal(topic.state, 'subscribing');
  await server.clock.advance(200);
  assertExact(server, topic);
});

test('a pushed thing without an offset that is no snapshot changes nothing', async () => {
  const { server, topic, changes } = await following();
  const count = changes.length;
  server.socket.deliver(
    server.push('t', { pub: { data: { type: 'summary' } } }),
    server.push('t', { pub: { data: null } }),
  );
  assert.equal(topic.mirror.offset, 0);
  assert.equal(changes.length, count);
});

// Ends and refusals

test('an unsubscribe push from 2500 on is followed by another subscribe', async () => {
  const { server, topic } = await following();
  await server.publish('t', delta('a'));
  server.socket.readers.delete('t');
  server.socket.deliver(server.push('t', { unsubscribe: { code: 2500, reason: 'insufficient state' } }));
  await server.publish('t', delta('b'));
  assert.equal(text(topic), 'ab');
  assert.equal(server.asked('unsubscribe').length, 0);
});

test('one below ends the topic, until it is asked for again', async () => {
  const { server, gateway, topic } = await following();
  server.socket.readers.delete('t');
  server.socket.deliver(server.push('t', { unsubscribe: { code: 2000, reason: 'by the server' } }));
  assert.equal(topic.state, 'ended');
  assert.deepEqual([topic.error.code, topic.error.message], [2000, 'by the server']);
  server.socket.drop(1006);
  await server.clock.advance(200);
  assert.equal(server.asked('subscribe').length, 1);
  assert.equal(gateway.subscribe('t'), topic);
  await settled();
  assert.equal(topic.state, 'live');
  assert.equal(topic.error, null);
});

test('a refused topic is denied, the others are not', async () => {
  const server = new FakeGateway();
  server.answers.set('subscribe', ({ channel }) =>
    channel === 't' ? { error: { code: 103, message: 'permission denied' } } : undefined,
  );
  const { gateway, topic, errors } = await following(server);
  const other = gateway.subscribe('u');
  await settled();
  assert.equal(topic.state, 'denied');
  assert.ok(topic.error instanceof CommandError);
  assert.equal(topic.error.code, 103);
  assert.deepEqual(errors, [topic.error]);
  assert.equal(other.state, 'live');
  server.socket.drop(1006);
  await server.clock.advance(200);
  assert.deepEqual(
    server.asked('subscribe').map(({ channel }) => channel),
    ['t', 'u', 'u'],
  );
});

test('close and connect ask for a denied one again, perhaps with another token', async () => {
  const server = new FakeGateway();
  server.answers.set('subscribe', (_, times) => (times === 0 ? { error: { code: 103, message: 'no' } } : undefined));
  const { gateway, topic } = await following(server);
  assert.equal(topic.state, 'denied');
  gateway.close();
  gateway.connect();
  await settled();
  assert.equal(topic.state, 'live');
});

test('a temporary error is tried again after growing waits', async () => {
  const server = new FakeGateway();
  server.answers.set('subscribe', (_, times) =>
    times < 3 ? { error: { code: 100, message: 'internal', temporary: true } } : undefined,
  );
  const { topic } = await following(server);
  assert.equal(topic.state, 'subscribing');
  await server.clock.advance(200 + 400);
  assert.equal(server.asked('subscribe').length, 3);
  await server.clock.advance(799);
  assert.equal(topic.state, 'subscribing');
  await server.clock.advance(1);
  assert.equal(topic.state, 'live');
});

test('when the broker is back, a topic does not wait any longer', async () => {
  const server = new FakeGateway();
  const broker = (sure) => server.socket.deliver({ push: { message: { data: { type: 'broker', sure } } } });
  let away = true;
  server.answers.set('subscribe', () =>
    away ? { error: { code: 100, message: 'the broker is away', temporary: true } } : undefined,
  );
  const { topic } = await following(server);
  broker(false);
  for (let passed = 0; passed < 60; passed += 20) {
    server.socket.deliver({});
    await server.clock.advance(20_000);
  }
  away = false;
  broker(true);
  await settled();
  assert.equal(topic.state, 'live');
  const asked = server.asked('subscribe').length;
  await server.clock.advance(25_000);
  assert.equal(server.asked('subscribe').length, asked);
});

test('a subscribe without a reply costs the connection: what comes next could not be judged', async () => {
  const server = new FakeGateway();
  server.answers.set('subscribe', (_, times) => (times === 0 ? { silence: true } : undefined));
  const { gateway, topic } = await following(server);
  await server.clock.advance(10_000);
  assert.equal(gateway.state, 'reconnecting');
  await server.clock.advance(200);
  assert.equal(topic.state, 'live');
});

test('a subscription that the gateway still holds is given up first', async () => {
  const server = new FakeGateway();
  server.answers.set('subscribe', (_, times) => {
    if (times === 0) server.socket.readers.add('t');
    return undefined;
  });
  const { topic } = await following(server);
  await server.clock.advance(200);
  assert.equal(topic.state, 'live');
  assert.equal(server.asked('unsubscribe').length, 1);
});

test('a position that the gateway calls lost is forgotten', async () => {
  const { server, topic } = await following();
  await server.publish('t', delta('a'));
  server.answers.set('subscribe', ({ recover }) => (recover ? { error: { code: 112, message: 'lost' } } : undefined));
  server.socket.drop(1006);
  await server.clock.advance(400);
  assert.equal(topic.state, 'live');
  assertExact(server, topic);
});

test('what it may do is told with the reply', async () => {
  const server = new FakeGateway();
  await server.publish('t', delta('a'));
  const { epoch } = server.topic('t');
  server.answers.set('subscribe', () => ({
    reply: { epoch, offset: 1, data: { grants: ['read', 'send'], snapshot: server.topic('t').snapshot('t') } },
  }));
  const { topic } = await following(server);
  assert.deepEqual(topic.grants, ['read', 'send']);
});

// Holding and giving back

test('the same name gives the same object, until the last one gives it back', async () => {
  const { server, gateway, topic, states } = await following();
  assert.equal(gateway.subscribe('t'), topic);
  topic.unsubscribe();
  await settled();
  assert.equal(topic.state, 'live');
  topic.unsubscribe();
  topic.unsubscribe();
  await settled();
  assert.equal(topic.state, 'ended');
  assert.equal(states.at(-1), 'ended');
  assert.deepEqual(server.asked('unsubscribe'), [{ channel: 't' }]);
  const next = gateway.subscribe('t');
  assert.notEqual(next, topic);
  await settled();
  assert.equal(next.state, 'live');
});

test('given back and asked for in one task, it is subscribed to once', async () => {
  const { server, gateway, topic } = await following();
  await server.publish('t', delta('a'));
  topic.unsubscribe();
  const next = gateway.subscribe('t');
  await settled();
  await server.publish('t', delta('b'));
  assert.equal(text(next), 'ab');
  assert.equal(text(topic), 'a');
});

test('given back while it is being asked for', async () => {
  const server = new FakeGateway();
  const gateway = new Gateway(server.options);
  gateway.connect();
  await settled();
  gateway.subscribe('t').unsubscribe();
  await settled();
  assert.equal(server.socket.readers.size, 0);
  assert.equal(gateway.state, 'connected');
});

test('given back by a listener in the middle of a frame, it says nothing more', async () => {
  const { server, gateway, topic, changes } = await following();
  const other = gateway.subscribe('u');
  other.on('change', () => topic.unsubscribe());
  await settled();
  const count = changes.length;
  const pub = (name) => server.push(name, { pub: { offset: 1, data: delta('x') } });
  server.socket.deliver(pub('u'), pub('t'));
  assert.equal(topic.state, 'ended');
  assert.equal(changes.length, count);
});

test('one topic cannot be followed in two ways', async () => {
  const { gateway } = await following();
  assert.throws(() => gateway.subscribe('t', { mirror: false }), TypeError);
});

// Where it stands

test('what is missing up to the top is counted down', async () => {
  const server = new FakeGateway();
  await server.publish('t', delta('a'));
  const { topic, states } = await following(server);
  server.socket.drop(1006);
  for (let count = 0; count < 9; count += 1) server.topic('t').append(delta('b'));
  const missed = server.topic('t').history.slice(1);
  server.answers.set('subscribe', () => {
    server.socket.readers.add('t');
    const reply = { epoch: 'epochAAA', offset: 4, was_recovering: true, recovered: true };
    return { reply: { ...reply, publications: missed.slice(0, 3) } };
  });
  await server.clock.advance(200);
  assert.equal(topic.state, 'catching-up');
  assert.equal(topic.behind, 6);
  server.socket.deliver(...missed.slice(3, 7).map((pub) => server.push('t', { pub })));
  assert.equal(topic.behind, 2);
  server.socket.deliver(...missed.slice(7).map((pub) => server.push('t', { pub })));
  assert.equal(topic.behind, 0);
  assert.deepEqual(states, ['subscribing', 'live', 'reconnecting', 'catching-up', 'live']);
  assertExact(server, topic);
});

test('a reader that may not see the history is live when it is subscribed', async () => {
  const server = new FakeGateway();
  server.answers.set('history', () => ({ error: { code: 103, message: 'permission denied' } }));
  const { topic, errors } = await following(server);
  assert.equal(topic.state, 'live');
  assert.deepEqual(errors, []);
});

test('so is one whose question for the top is not answered', async () => {
  const server = new FakeGateway();
  server.answers.set('history', () => ({ silence: true }));
  const { topic, states } = await following(server);
  await server.clock.advance(10_000);
  assert.deepEqual(states, ['subscribing', 'catching-up', 'live']);
  assert.equal(topic.behind, 0);
});

test('a reader that lags looks how far the top is', async () => {
  const server = new FakeGateway();
  await server.publish('t', delta('a'));
  const { topic, states } = await following(server);
  await server.clock.advance(1_000);
  const history = server.asked('history').length;
  server.answers.set('history', () => ({ reply: { epoch: 'epochAAA', offset: 300 } }));
  await server.publishMerged('t', delta('b'), { first: 2, offset: 200 });
  assert.equal(server.asked('history').length, history + 1);
  assert.equal(topic.state, 'catching-up');
  assert.equal(topic.behind, 100);
  await server.publishMerged('t', delta('c'), { first: 201, offset: 300 });
  assert.equal(server.asked('history').length, history + 1, 'at most once a second');
  assert.equal(topic.state, 'live');
  assert.deepEqual(states.slice(-2), ['catching-up', 'live']);
});

test('it is unsure while the gateway is', async () => {
  const { server, topic } = await following();
  server.socket.deliver({ push: { message: { data: { type: 'broker', sure: false } } } });
  assert.equal(topic.state, 'unsure');
  server.socket.deliver({ push: { message: { data: { type: 'broker', sure: true } } } });
  assert.equal(topic.state, 'live');
});

test('a refused gateway ends its topics', async () => {
  const { server, topic, states } = await following();
  server.socket.drop(3507, 'permission denied');
  assert.equal(topic.state, 'ended');
  assert.equal(states.at(-1), 'ended');
});

// Without a mirror

test('events only: from now on, and from the position after a drop', async () => {
  const server = new FakeGateway();
  await server.publish('t', delta('a'));
  const { topic, changes } = await following(server, { mirror: false });
  assert.deepEqual(server.asked('subscribe'), [{ channel: 't' }]);
  await server.publish('t', delta('b'));
  server.socket.drop(1006);
  await server.publish('t', delta('c'));
  await server.clock.advance(200);
  assert.deepEqual(server.asked('subscribe')[1], { channel: 't', recover: true, epoch: 'epochAAA', offset: 2 });
  assert.deepEqual(
    changes.flatMap(({ events }) => events.map(({ data }) => data.text)),
    ['b', 'c'],
  );
  assert.equal(topic.mirror.offset, 3);
  assert.deepEqual(topic.mirror.open, []);
});

test('events only: a position that cannot go on is a reset', async () => {
  const server = new FakeGateway();
  await server.publish('t', delta('a'));
  const { topic, changes } = await following(server, { mirror: false });
  server.socket.drop(1006);
  server.topics.delete('t');
  server.topic('t').epoch = 'epochBBB';
  await server.publish('t', delta('x'), delta('y'), delta('z'));
  await server.clock.advance(200);
  assert.deepEqual(changes, [{ events: [], reset: true }]);
  assert.deepEqual([topic.mirror.epoch, topic.mirror.offset], ['epochBBB', 3]);
  await server.publish('t', delta('!'));
  assert.deepEqual(offsets(changes[1]), [4]);
});

// Lenses

test('a lens is asked for, and asked for again after a drop', async () => {
  const { server } = await following(new FakeGateway(), { lens: { types: ['logs'], rate: 2 } });
  const data = { mirror: true, lens: { types: ['logs'], rate: 2 } };
  assert.deepEqual(server.asked('subscribe')[0], { channel: 't', data });
  server.socket.drop(1006);
  await server.clock.advance(200);
  assert.deepEqual(server.asked('subscribe').at(-1).data, data);
});

test('what is hidden moves the position, and is no event', async () => {
  const { server, topic, states, changes } = await following(new FakeGateway(), { lens: { types: ['logs'] } });
  const before = changes.length;
  server.socket.deliver(server.push('t', { pub: { data: { type: 'hidden' }, offset: 3, tags: { from: '1' } } }));
  assert.equal(topic.mirror.offset, 3);
  assert.equal(changes.length, before);
  server.socket.deliver(server.push('t', { pub: { data: { type: 'log', message: 'm' }, offset: 900, tags: { from: '4' } } }));
  assert.deepEqual(offsets(changes.at(-1)), [900]);
  assert.equal(server.asked('history').length, 1);
  assert.equal(states.at(-1), 'live');
});

test('another rate goes on from the position, other events begin with a snapshot', async () => {
  const server = new FakeGateway();
  await server.publish('t', delta('a'));
  const { topic } = await following(server);
  topic.setLens({ rate: 1 });
  await settled();
  assert.deepEqual(server.asked('subscribe').at(-1), {
    channel: 't',
    recover: true,
    epoch: 'epochAAA',
    offset: 1,
    data: { mirror: true, lens: { rate: 1 } },
  });
  await server.publish('t', delta('b'));
  assert.equal(text(topic), 'ab');
  topic.setLens({ rate: 1, finished: true });
  await settled();
  assert.deepEqual(server.asked('subscribe').at(-1), {
    channel: 't',
    data: { mirror: true, lens: { rate: 1, finished: true } },
  });
  const asked = server.asked('subscribe').length;
  topic.setLens({ finished: true, rate: 1 });
  await settled();
  assert.equal(server.asked('subscribe').length, asked);
  assert.throws(() => topic.setLens('summary'), TypeError);
});

test('a lens that changes while there is no connection is asked for with the next', async () => {
  const { server, topic } = await following();
  server.socket.drop(1006);
  topic.setLens({ rate: 1 });
  await server.clock.advance(200);
  assert.deepEqual(server.asked('subscribe').at(-1).data, { mirror: true, lens: { rate: 1 } });
});

test('summaries come with the reply, with pushes, and again after a drop', async () => {
  const server = new FakeGateway();
  server.answers.set('subscribe', () => ({ reply: { data: { summary: { type: 'summary', topic: 't', offset: 4 } } } }));
  const gateway = new Gateway(server.options);
  const topic = gateway.subscribe('t', { lens: 'summary' });
  const heard = [];
  topic.on('summary', (summary) => heard.push(summary.offset));
  gateway.connect();
  await settled();
  assert.equal(topic.state, 'live');
  assert.deepEqual(server.asked('subscribe'), [{ channel: 't', data: { lens: 'summary' } }]);
  server.socket.deliver(server.push('t', { pub: { data: { type: 'summary', topic: 't', offset: 9 } } }));
  server.socket.drop(1006);
  await server.clock.advance(200);
  assert.deepEqual(heard, [4, 9, 4]);
  assert.deepEqual(server.asked('subscribe').at(-1), { channel: 't', data: { lens: 'summary' } });
  assert.deepEqual(server.asked('history'), []);
  assert.throws(() => gateway.subscribe('t'), TypeError);
});

test('a hidden page is content with fewer frames, and goes on from where it is', async () => {
  const server = new FakeGateway();
  await server.publish('t', delta('a'));
  const gateway = new Gateway({ ...server.options, hiddenRate: 1 });
  const [topic, slow, board] = [
    gateway.subscribe('t'),
    gateway.subscribe('u', { lens: { types: ['logs'], rate: 4 } }),
    gateway.subscribe('v', { lens: 'summary' }),
  ];
  gateway.connect();
  await settled();
  const asked = (name) => server.asked('subscribe').filter(({ channel }) => channel === name);
  server.page.set({ visible: false });
  await settled();
  const position = { recover: true, epoch: 'epochAAA', offset: 1 };
  assert.deepEqual(asked('t').at(-1), { channel: 't', ...position, data: { mirror: true, lens: { rate: 1 } } });
  assert.deepEqual(asked('u').at(-1).data.lens, { types: ['logs'], rate: 1 });
  assert.deepEqual([topic.lens, slow.lens, asked('v').length], [null, { types: ['logs'], rate: 4 }, 1]);
  await server.publish('t', delta('b'));
  server.page.set({ visible: true });
  await settled();
  assert.deepEqual(asked('t').at(-1), { channel: 't', ...position, offset: 2, data: { mirror: true } });
  assert.deepEqual(asked('u').at(-1).data.lens, { types: ['logs'], rate: 4 });
  assert.equal(text(topic), 'ab');
  board.unsubscribe();
});
