// One connection: handshake, frames, signs of life, ends. Driven through `Gateway`, on a gateway that speaks the protocol.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { CommandTimeoutError, FrameError, Gateway, TooLargeError } from '../../static/gateway/index.js';
import { settled } from './clock.mjs';
import { FakeGateway } from './fake_gateway.mjs';

const SILENCE = { silence: true };

async function connected(server = new FakeGateway(), options = {}) {
  const gateway = new Gateway({ ...server.options, ...options });
  const errors = [];
  gateway.on('error', (error) => errors.push(error));
  gateway.connect();
  await settled();
  return { server, gateway, errors };
}

test('connect comes first, with the token, and alone', async () => {
  const server = new FakeGateway();
  const gateway = new Gateway({ ...server.options, token: 'secret' });
  gateway.subscribe('t');
  gateway.connect();
  await settled();
  assert.equal(server.frames[0], '{"id":1,"connect":{"token":"secret"}}');
  assert.equal(gateway.state, 'connected');
});

test('without a token none is sent', async () => {
  const { server } = await connected();
  assert.deepEqual(server.asked('connect'), [{}]);
});

test('an http address becomes one of a websocket', async () => {
  const { server } = await connected(undefined, { url: 'https://gateway.test/connection/websocket' });
  assert.equal(server.socket.url, 'wss://gateway.test/connection/websocket');
});

test('commands of one task go out in one frame', async () => {
  const { server, gateway } = await connected();
  const before = server.frames.length;
  for (const name of ['a', 'b', 'c']) gateway.subscribe(name);
  await settled();
  assert.equal(server.frames.length, before + 1);
  assert.deepEqual(
    server.asked('subscribe').map(({ channel }) => channel),
    ['a', 'b', 'c'],
  );
});

test('a frame stays below the limit of the gateway', async () => {
  const { server, gateway } = await connected();
  server.answers.set('rpc', ({ data }) => ({ reply: { data: { length: data.text.length } } }));
  const lengths = await Promise.all(
    [60_000, 60_000, 60_000].map((length) => gateway.rpc('count', { text: 'x'.repeat(length) })),
  );
  assert.deepEqual(lengths, [{ length: 60_000 }, { length: 60_000 }, { length: 60_000 }]);
  assert.equal(server.frames.length, 1 + 2);
});

test('a command above the limit is not sent, and does not cost the connection', async () => {
  const { server, gateway } = await connected();
  await assert.rejects(gateway.publish('t', { text: '🚀'.repeat(32_800) }), TooLargeError);
  assert.deepEqual(server.asked('publish'), []);
  assert.equal(gateway.state, 'connected');
});

test('a ping is answered where the gateway wants it', async () => {
  const { server } = await connected();
  server.socket.deliver({});
  await settled();
  assert.equal(server.socket.pongs, 1);
});

test('a ping among other lines is answered too', async () => {
  const { server, gateway } = await connected();
  const topic = gateway.subscribe('t');
  await settled();
  server.socket.deliver({}, server.push('t', { pub: { offset: 1, data: { type: 'x' } } }), {});
  await settled();
  assert.equal(server.socket.pongs, 2);
  assert.equal(topic.mirror.offset, 1);
});

test('a gateway that says nothing for longer than its pings allow is asked, then left', async () => {
  const { server, gateway } = await connected();
  await server.clock.advance(29_999);
  assert.equal(gateway.sure, true);
  server.answers.set('ping', () => SILENCE);
  await server.clock.advance(1);
  assert.equal(gateway.sure, false);
  assert.equal(gateway.state, 'connected');
  assert.equal(server.asked('ping').length, 1);
  await server.clock.advance(5_000);
  assert.equal(gateway.state, 'reconnecting');
  await server.clock.advance(200);
  assert.equal(gateway.state, 'connected');
  assert.equal(gateway.sure, true);
  assert.equal(server.sockets.length, 2);
});

test('any traffic is a sign of life', async () => {
  const { server, gateway } = await connected();
  gateway.subscribe('t');
  for (let round = 0; round < 10; round += 1) {
    await server.clock.advance(20_000);
    await server.publish('t', { type: 'x' });
  }
  assert.equal(server.asked('ping').length, 0);
  assert.equal(server.sockets.length, 1);
});

test('an answer to the question is enough', async () => {
  const { server, gateway } = await connected();
  await server.clock.advance(30_000);
  assert.equal(server.asked('ping').length, 1);
  assert.equal(gateway.sure, true);
  await server.clock.advance(25_000);
  assert.equal(server.sockets.length, 1);
});

test('a frozen tab does not take its own absence for silence', async () => {
  const { server, gateway } = await connected();
  server.clock.skip(3_600_000);
  await server.clock.advance(0);
  assert.equal(gateway.state, 'connected');
  assert.equal(gateway.sure, true);
  assert.equal(server.sockets.length, 1);
});

test('a gateway without pings is not watched', async () => {
  const server = new FakeGateway();
  server.ping = 0;
  const { gateway } = await connected(server);
  await server.clock.advance(3_600_000);
  assert.equal(gateway.state, 'connected');
  assert.equal(server.asked('ping').length, 0);
});

for (const [what, frame] of [
  ['no JSON', '{"push":'],
  ['a number', '5'],
  ['a binary frame', new ArrayBuffer(2)],
]) {
  test(`${what} from the gateway ends the connection, which comes back`, async () => {
    const { server, gateway, errors } = await connected();
    server.socket.deliverText(frame);
    assert.equal(gateway.state, 'reconnecting');
    assert.ok(errors[0] instanceof FrameError);
    assert.ok(server.sockets[0].closed);
    await server.clock.advance(200);
    assert.equal(gateway.state, 'connected');
  });
}

test('replies and pushes that nobody waits for are skipped', async () => {
  const { server, gateway, errors } = await connected();
  server.socket.deliver({ id: 99, rpc: {} }, { push: { channel: 'nobody', pub: { offset: 1, data: {} } } });
  server.socket.deliver({ push: { channel: 't', join: { info: {} } } }, { push: null });
  await settled();
  assert.equal(gateway.state, 'connected');
  assert.deepEqual(errors, []);
});

test('a connect without a reply is given up after 10 s', async () => {
  const server = new FakeGateway();
  server.answers.set('connect', () => SILENCE);
  const { gateway } = await connected(server);
  assert.equal(gateway.state, 'connecting');
  await server.clock.advance(10_000);
  assert.equal(gateway.state, 'reconnecting');
});

test('so is a socket that does not open', async () => {
  const server = new FakeGateway();
  server.hang = true;
  const { gateway } = await connected(server);
  await server.clock.advance(10_000);
  assert.equal(gateway.state, 'reconnecting');
  server.hang = false;
  await server.clock.advance(200);
  assert.equal(gateway.state, 'connected');
});

test('a command without a reply fails after 10 s, and a late reply is skipped', async () => {
  const { server, gateway } = await connected();
  server.answers.set('rpc', () => SILENCE);
  const answer = assert.rejects(gateway.rpc('act'), CommandTimeoutError);
  await server.clock.advance(10_000);
  await answer;
  server.socket.deliver({ id: 2, rpc: { data: {} } });
  assert.equal(gateway.state, 'connected');
});

test('a disconnect push is a close with its code', async () => {
  const { server, gateway } = await connected();
  server.socket.deliver({ push: { disconnect: { code: 3507, reason: 'permission denied' } } });
  assert.equal(gateway.state, 'refused');
  assert.deepEqual(gateway.refusal, { code: 3507, reason: 'permission denied' });
});

test('nothing is sent, and no timer is left, after the end', async () => {
  const { server, gateway } = await connected();
  gateway.subscribe('t');
  await settled();
  gateway.subscribe('u');
  gateway.close();
  await settled();
  assert.equal(server.asked('subscribe').length, 1);
  assert.equal(server.clock.waiting, 0);
});
