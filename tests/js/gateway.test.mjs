import assert from 'node:assert/strict';
import { test } from 'node:test';

import {
  CommandError,
  CommandTimeoutError,
  ConnectionLostError,
  Gateway,
  NotConnectedError,
  TokenError,
} from '../../static/gateway/index.js';
import { settled } from './clock.mjs';
import { FakeGateway } from './fake_gateway.mjs';

function make(options = {}, server = new FakeGateway()) {
  const gateway = new Gateway({ ...server.options, ...options });
  const states = [];
  const errors = [];
  gateway.on('state', (state) => states.at(-1) === state || states.push(state));
  gateway.on('error', (error) => errors.push(error));
  return { server, gateway, states, errors };
}

async function connected(options, server) {
  const made = make(options, server);
  made.gateway.connect();
  await settled();
  assert.equal(made.gateway.state, 'connected');
  return made;
}

// Connecting and staying connected

test('nothing happens before connect', async () => {
  const { server, gateway } = make();
  gateway.subscribe('t');
  await settled();
  assert.equal(gateway.state, 'idle');
  assert.equal(server.sockets.length, 0);
});

test('connecting, then connected, with what the reply grants', async () => {
  const server = new FakeGateway();
  server.connectData = { grants: [{ topic: '*', verbs: ['read'] }] };
  const { gateway, states } = await connected({}, server);
  assert.deepEqual(states, ['connecting', 'connected']);
  assert.deepEqual(gateway.grants, [{ topic: '*', verbs: ['read'] }]);
});

test('a second connect is none', async () => {
  const { server, gateway } = await connected();
  gateway.connect();
  await settled();
  assert.equal(server.sockets.length, 1);
});

test('a lost connection comes back after a wait, of which retryAt tells', async () => {
  const { server, gateway, states } = await connected();
  server.socket.drop(1006);
  assert.equal(gateway.state, 'reconnecting');
  assert.equal(gateway.retryAt, server.clock.now() + 200);
  await server.clock.advance(199);
  assert.equal(server.sockets.length, 1);
  await server.clock.advance(1);
  assert.equal(gateway.retryAt, null);
  assert.deepEqual(states, ['connecting', 'connected', 'reconnecting', 'connected']);
});

test('waits grow while it fails, also over connections that die young', async () => {
  const { server, gateway } = await connected();
  const waits = [];
  const fail = async () => {
    waits.push(gateway.retryAt - server.clock.now());
    await server.clock.advance(waits.at(-1));
  };
  server.socket.drop(1006);
  server.refuse = true;
  await fail();
  await fail();
  server.refuse = false;
  await fail();
  assert.equal(gateway.state, 'connected');
  await server.clock.advance(9_999);
  server.socket.drop(3001);
  await fail();
  assert.deepEqual(waits, [200, 400, 800, 1600]);
});

test('a connection that lived for 10 s makes the next wait short again', async () => {
  const { server, gateway } = await connected();
  server.socket.drop(1006);
  server.refuse = true;
  await server.clock.advance(2_000);
  server.refuse = false;
  await server.clock.advance(20_000);
  assert.equal(gateway.state, 'connected');
  await server.clock.advance(10_000);
  server.socket.drop(3001, 'shutdown');
  assert.equal(gateway.retryAt - server.clock.now(), 200);
});

test('a first attempt that fails is tried again', async () => {
  const server = new FakeGateway();
  server.refuse = true;
  const { gateway, states } = make({}, server);
  gateway.connect();
  await settled();
  server.refuse = false;
  await server.clock.advance(200);
  assert.deepEqual(states, ['connecting', 'reconnecting', 'connected']);
});

test('retryNow does not wait, and does nothing where nothing is waited for', async () => {
  const { server, gateway } = await connected();
  gateway.retryNow();
  server.socket.drop(1006);
  gateway.retryNow();
  gateway.retryNow();
  await settled();
  assert.equal(gateway.state, 'connected');
  assert.equal(server.sockets.length, 2);
});

for (const code of [1000, 1006, 1012, 3000, 3001, 3008, 3012, 3499, 4000, 4499, 5000]) {
  test(`close code ${code} invites a reconnect`, async () => {
    const { server, gateway } = await connected();
    server.socket.drop(code);
    assert.equal(gateway.state, 'reconnecting');
  });
}

for (const code of [3500, 3501, 3507, 3999, 4500, 4999]) {
  test(`close code ${code} forbids it`, async () => {
    const { server, gateway, states } = await connected();
    server.socket.drop(code, 'no');
    assert.equal(gateway.state, 'refused');
    assert.deepEqual(gateway.refusal, { code, reason: 'no' });
    await server.clock.advance(3_600_000);
    assert.equal(server.sockets.length, 1);
    assert.equal(server.page.watchers, 0);
    assert.deepEqual(states, ['connecting', 'connected', 'refused']);
  });
}

test('an error reply to connect refuses, unless it is temporary', async () => {
  const server = new FakeGateway();
  server.answers.set('connect', (_, times) =>
    times === 0
      ? { error: { code: 100, message: 'not now', temporary: true } }
      : { error: { code: 101, message: 'unauthorized' } },
  );
  const { gateway } = make({}, server);
  gateway.connect();
  await settled();
  assert.equal(gateway.state, 'reconnecting');
  await server.clock.advance(200);
  assert.equal(gateway.state, 'refused');
  assert.deepEqual(gateway.refusal, { code: 101, reason: 'unauthorized' });
});

test('after a refusal, connect begins anew', async () => {
  const { server, gateway } = await connected();
  server.socket.drop(3500);
  gateway.connect();
  assert.equal(gateway.refusal, null);
  await settled();
  assert.equal(gateway.state, 'connected');
});

test('close ends it for good, whatever was going on', async () => {
  const { server, gateway } = await connected();
  server.socket.drop(1006);
  gateway.close();
  gateway.close();
  assert.equal(gateway.state, 'closed');
  assert.equal(gateway.retryAt, null);
  await server.clock.advance(3_600_000);
  assert.equal(server.sockets.length, 1);
  assert.equal(server.clock.waiting, 0);
  gateway.connect();
  await settled();
  assert.equal(gateway.state, 'connected');
});

test('a listener may close it in the middle of a frame', async () => {
  const { server, gateway } = await connected();
  const topic = gateway.subscribe('t');
  topic.on('change', () => gateway.close());
  await settled();
  await server.publish('t', { type: 'x' });
  assert.equal(gateway.state, 'closed');
  assert.equal(server.clock.waiting, 0);
});

// Tokens

test('a token function is asked for each attempt', async () => {
  let count = 0;
  const { server } = await connected({ token: async () => `token ${(count += 1)}` });
  server.socket.drop(3005, 'expired');
  await server.clock.advance(200);
  assert.deepEqual(server.asked('connect'), [{ token: 'token 1' }, { token: 'token 2' }]);
});

test('an expired token of a function is renewed, a fixed one is refused', async () => {
  const expired = (_, times) => (times === 0 ? { error: { code: 109, message: 'token expired' } } : undefined);
  const [one, other] = [new FakeGateway(), new FakeGateway()];
  one.answers.set('connect', expired);
  other.answers.set('connect', expired);
  const renewing = make({ token: async () => 'new' }, one).gateway;
  const fixed = make({ token: 'old' }, other).gateway;
  renewing.connect();
  fixed.connect();
  await settled();
  await one.clock.advance(200);
  assert.equal(renewing.state, 'connected');
  assert.equal(fixed.state, 'refused');
});

test('a token function that fails is asked again later', async () => {
  let fails = true;
  const token = async () => {
    if (fails) throw new Error('no session');
    return 'x';
  };
  const { server, gateway, errors } = make({ token });
  gateway.connect();
  await settled();
  assert.equal(gateway.state, 'reconnecting');
  assert.ok(errors[0] instanceof TokenError);
  assert.equal(errors[0].cause.message, 'no session');
  fails = false;
  await server.clock.advance(200);
  assert.equal(gateway.state, 'connected');
});

/** A gateway that says how long a token lasts. */
function lasting(ttl) {
  const server = new FakeGateway();
  server.answers.set('connect', () => {
    server.socket.connected = true;
    return { reply: { client: 'c', version: '0', ping: server.ping, pong: true, expires: true, ttl } };
  });
  server.answers.set('refresh', () => ({ reply: { client: 'c', version: '0', expires: true, ttl } }));
  return server;
}

test('a fresh token is shown before each one expires', async () => {
  let count = 0;
  const { server, gateway } = await connected({ token: async () => `token ${(count += 1)}` }, lasting(10));
  await server.clock.advance(7_900);
  assert.deepEqual(server.asked('refresh'), []);
  await server.clock.advance(200);
  await server.clock.advance(8_000);
  assert.deepEqual(server.asked('refresh'), [{ token: 'token 2' }, { token: 'token 3' }]);
  assert.equal(server.asked('connect').length, 1);
  gateway.close();
  await server.clock.advance(60_000);
  assert.equal(server.asked('refresh').length, 2);
});

test('a renewal that comes to nothing is tried again, and a later answer of another connection is ignored', async () => {
  let fails = true;
  const server = lasting(10);
  const { gateway } = await connected(
    {
      token: async () => {
        if (fails && server.asked('connect').length > 0) throw new Error('no session');
        return 'x';
      },
    },
    server,
  );
  await server.clock.advance(8_000);
  assert.deepEqual(server.asked('refresh'), []);
  fails = false;
  server.answers.set('refresh', (_, times) => (times === 0 ? { error: { code: 109, temporary: true } } : { silence: true }));
  await server.clock.advance(1_000);
  await server.clock.advance(2_000);
  assert.equal(server.asked('refresh').length, 2);
  server.socket.drop(3005);
  await server.clock.advance(500);
  assert.equal(gateway.state, 'connected');
  await server.clock.advance(8_000);
  assert.equal(server.asked('refresh').length, 3);
  gateway.close();
});

test('a fixed token is not renewed', async () => {
  const { server, gateway } = await connected({ token: 'x' }, lasting(10));
  await server.clock.advance(20_000);
  assert.deepEqual(server.asked('refresh'), []);
  gateway.close();
});

test('what is loaded beside the websocket is asked for with a token, never in the address', async () => {
  const asked = [];
  const fetch = async (address, options) => {
    asked.push([address, options.headers]);
    return new Response('x');
  };
  await make({ fetch, token: async () => 'secret' }).gateway.blob('t', 'abc');
  await make({ fetch }).gateway.blob('t', 'abc');
  const address = 'http://gateway.test/topics/t/blobs/abc';
  assert.deepEqual(asked.map(([, headers]) => headers), [{ authorization: 'Bearer secret' }, undefined]);
  assert.ok(asked.every(([place]) => !place.includes('secret')), address);
  const failing = async () => {
    throw new Error('no session');
  };
  await assert.rejects(make({ fetch, token: failing }).gateway.blob('t', 'abc'), TokenError);
});

test('a token that comes after close opens nothing', async () => {
  let give;
  const { server, gateway } = make({ token: () => new Promise((resolve) => (give = resolve)) });
  gateway.connect();
  gateway.close();
  give('late');
  await settled();
  assert.equal(server.sockets.length, 0);
});

test('a websocket that the browser does not open is tried again', async () => {
  const server = new FakeGateway();
  let forbidden = true;
  const WebSocket = class {
    constructor(url) {
      if (forbidden) throw new DOMException('insecure', 'SecurityError');
      return new server.WebSocket(url);
    }
  };
  const { gateway, errors } = make({ WebSocket }, server);
  gateway.connect();
  await settled();
  assert.ok(errors[0] instanceof NotConnectedError);
  forbidden = false;
  await server.clock.advance(200);
  assert.equal(gateway.state, 'connected');
});

// The page and its network

test('a page that becomes visible does not wait', async () => {
  const { server, gateway } = await connected();
  server.page.set({ visible: false });
  server.socket.drop(1006);
  assert.equal(gateway.state, 'reconnecting');
  server.page.set({ visible: true });
  await settled();
  assert.equal(gateway.state, 'connected');
});

test('a network that returns does not wait, and cuts a hanging attempt short', async () => {
  const { server, gateway } = await connected();
  server.page.set({ online: false });
  server.hang = true;
  server.socket.drop(1006);
  assert.equal(gateway.state, 'offline');
  assert.equal(gateway.retryAt, null);
  await server.clock.advance(200);
  assert.equal(server.sockets.length, 2);
  assert.equal(gateway.state, 'offline');
  server.hang = false;
  server.page.set({ online: true });
  await settled();
  assert.equal(gateway.state, 'connected');
  assert.equal(server.sockets.length, 3);
  assert.ok(server.sockets[1].closed);
});

test('without a network it is still tried: the browser may be wrong', async () => {
  const server = new FakeGateway();
  server.page.online = false;
  const { gateway, states } = make({}, server);
  gateway.connect();
  await settled();
  assert.deepEqual(states, ['connecting', 'connected']);
  server.socket.drop(1006);
  assert.equal(gateway.state, 'offline');
  await server.clock.advance(200);
  assert.equal(gateway.state, 'connected');
});

test('while it waits, a vanished network is told', async () => {
  const { server, gateway, states } = await connected();
  server.socket.drop(1006);
  server.page.set({ online: false });
  assert.equal(gateway.retryAt, null);
  assert.deepEqual(states, ['connecting', 'connected', 'reconnecting', 'offline']);
});

test('a vanished network is believed when the gateway does not answer', async () => {
  const { server, gateway } = await connected();
  server.page.set({ online: false });
  await settled();
  assert.equal(gateway.state, 'connected', 'it did answer');
  server.answers.set('ping', () => ({ silence: true }));
  server.page.set({ online: true });
  server.page.set({ online: false });
  await server.clock.advance(2_000);
  assert.equal(gateway.state, 'offline');
});

test('a page that was hidden asks whether its socket still hears', async () => {
  const { server, gateway } = await connected();
  server.answers.set('ping', () => ({ silence: true }));
  server.page.set({ visible: false });
  server.page.set({ visible: true });
  await server.clock.advance(5_000);
  assert.equal(gateway.state, 'reconnecting');
});

// Being sure

test('the broker being away makes unsure, a new connection begins sure', async () => {
  const { server, gateway } = await connected();
  const heard = [];
  gateway.on('sure', (sure) => heard.push(sure));
  const broker = (sure) => ({ push: { message: { data: { type: 'broker', sure } } } });
  server.socket.deliver(broker(false), broker(false));
  server.socket.deliver(broker(true));
  server.socket.deliver(broker(false));
  assert.equal(gateway.sure, false);
  server.socket.drop(1006);
  await server.clock.advance(200);
  assert.deepEqual(heard, [false, true, false, true]);
});

// Commands

test('a command waits for the connection', async () => {
  const { server, gateway } = make();
  server.answers.set('rpc', ({ method, data }) => ({ reply: { data: { method, data } } }));
  const answer = gateway.rpc('act', { x: 1 });
  gateway.connect();
  assert.deepEqual(await answer, { method: 'act', data: { x: 1 } });
});

test('but for 30 s only', async () => {
  const { server, gateway } = make();
  server.refuse = true;
  gateway.connect();
  const failed = gateway.rpc('act').catch((error) => error);
  await server.clock.advance(30_000);
  const error = await failed;
  assert.ok(error instanceof NotConnectedError);
  assert.equal(error.temporary, true);
});

for (const end of ['close', 'refuse']) {
  test(`after ${end} it fails at once, those that wait too`, async () => {
    const { server, gateway } = await connected();
    server.socket.drop(1006);
    const waiting = assert.rejects(gateway.rpc('act'), NotConnectedError);
    if (end === 'close') {
      gateway.close();
    } else {
      server.answers.set('connect', () => ({ error: { code: 101, message: 'unauthorized' } }));
      gateway.retryNow();
    }
    await waiting;
    await assert.rejects(gateway.rpc('act'), { name: 'NotConnectedError', temporary: false });
  });
}

test('an error reply rejects with its facts', async () => {
  const { gateway } = await connected();
  await assert.rejects(gateway.rpc('unknown'), (error) => {
    assert.ok(error instanceof CommandError);
    assert.deepEqual([error.code, error.message, error.temporary], [104, 'no method rpc', false]);
    return true;
  });
});

test('topics and publish', async () => {
  const { server, gateway } = await connected();
  server.answers.set('rpc', ({ method }) => ({ reply: { data: { topics: [{ topic: method, at: 5 }] } } }));
  assert.deepEqual(await gateway.topics(), [{ topic: 'topics', at: 5 }]);
  assert.equal(await gateway.publish('t', { type: 'x' }), undefined);
  assert.deepEqual(server.asked('publish'), [{ channel: 't', data: { type: 'x' } }]);
});

test('a command that could be done twice is never sent again', async () => {
  const { server, gateway } = await connected();
  server.answers.set('rpc', () => ({ silence: true }));
  server.answers.set('publish', () => ({ silence: true }));
  const lost = [gateway.rpc('act', { x: 1 }), gateway.publish('t', {})].map((answer) =>
    assert.rejects(answer, ConnectionLostError),
  );
  await settled();
  server.socket.drop(1006);
  await Promise.all(lost);
  await server.clock.advance(200);
  assert.equal(gateway.state, 'connected');
  server.answers.set('rpc', () => ({ error: { code: 100, message: 'internal', temporary: true } }));
  await assert.rejects(gateway.rpc('act', { x: 1 }), { code: 100, temporary: true });
  assert.equal(server.asked('rpc').length, 2);
  assert.equal(server.asked('publish').length, 1);
});

test('unless the gateway said that it did nothing', async () => {
  const { server, gateway } = await connected();
  server.answers.set('rpc', (_, times) =>
    times < 2 ? { error: { code: 111, message: 'too many', temporary: true } } : { reply: { data: { done: true } } },
  );
  const answer = gateway.rpc('act');
  await server.clock.advance(600);
  assert.deepEqual(await answer, { done: true });
  assert.equal(server.asked('rpc').length, 3);
});

test('send is sent again with the same id, over errors, silence and new connections', async () => {
  const { server, gateway } = await connected();
  server.answers.set('rpc', ({ data }, times) => {
    if (times === 0) return { error: { code: 108, message: 'broker away', temporary: true } };
    if (times < 3) return { silence: true };
    return { reply: { data: { message: `m-${data.id}`, offset: 1, epoch: 'epochAAA' } } };
  });
  const answer = gateway.send('t', 'hello', { id: 'mine' });
  await server.clock.advance(200);
  assert.equal(server.asked('rpc').length, 2);
  server.socket.drop(1006);
  await server.clock.advance(600);
  assert.equal(server.asked('rpc').length, 3);
  await server.clock.advance(12_000);
  assert.deepEqual(await answer, { message: 'm-mine', offset: 1, epoch: 'epochAAA' });
  const sent = server.asked('rpc');
  assert.equal(sent.length, 4);
  for (const { method, data } of sent) {
    assert.equal(method, 'send');
    assert.deepEqual(data, { topic: 't', content: 'hello', id: 'mine' });
  }
});

test('for 30 s only', async () => {
  const { server, gateway } = await connected();
  server.answers.set('rpc', () => ({ silence: true }));
  const failed = gateway.send('t', 'hello').catch((error) => error);
  await server.clock.advance(40_000);
  assert.ok((await failed) instanceof CommandTimeoutError);
});

test('a message gets an id of its own', async () => {
  const { server, gateway } = await connected();
  server.answers.set('rpc', () => ({ reply: { data: { message: 'm' } } }));
  await gateway.send('t', 'a');
  await gateway.send('t', 'a');
  const ids = server.asked('rpc').map(({ data }) => data.id);
  for (const id of ids) assert.match(id, /^[A-Za-z0-9_.-]{1,64}$/);
  assert.notEqual(ids[0], ids[1]);
});

// People's actions, and who reads

const RUN = { run: 'r', tool_call_id: 'c' };
for (const [method, what, body] of [
  ['edit', { message: 'm', content: 'b' }, { message: 'm', content: 'b' }],
  ['withdraw', { message: 'm' }, { message: 'm' }],
  ['cancel', { run: 'r' }, { run: 'r', mode: 'now' }],
  ['cancel', { message: 'm', mode: 'after_step' }, { message: 'm', mode: 'after_step' }],
  ['decide', { ...RUN, decision: 'approve' }, { ...RUN, decision: 'approve' }],
  ['decide', { ...RUN, decision: 'edit', arguments: '{"a": 1.0}' }, { ...RUN, decision: 'edit', arguments: '{"a": 1.0}' }],
  ['decide', { ...RUN, decision: 'reject', reason: 'no' }, { ...RUN, decision: 'reject', reason: 'no' }],
]) {
  test(`${method} ${JSON.stringify(what)} is one action, also over a lost reply`, async () => {
    const server = new FakeGateway();
    server.answers.set('rpc', (_, times) => (times === 0 ? { silence: true } : { reply: { data: { told: times } } }));
    const { gateway } = await connected({}, server);
    const [drawn, own] = [gateway[method]('t', what), gateway[method]('t', { ...what, id: 'mine' })];
    await settled();
    server.socket.drop(1006);
    await server.clock.advance(1_000);
    assert.deepEqual(await Promise.all([drawn, own]), [{ told: 2 }, { told: 1 }]);
    const [first, second, again] = server.asked('rpc');
    assert.deepEqual(first, { method, data: { topic: 't', ...body, id: first.data.id } });
    assert.match(first.data.id, /^[0-9a-f]{32}$/);
    assert.deepEqual(second, { method, data: { topic: 't', ...body, id: 'mine' } });
    assert.deepEqual(again, first);
  });
}

test('history gives publications as they are read everywhere', async () => {
  const server = new FakeGateway();
  const publications = [{ offset: 3, data: { type: 'x' }, tags: { from: '2' } }];
  server.answers.set('history', () => ({ reply: { epoch: 'epochAAA', offset: 9, publications } }));
  const { gateway } = await connected({}, server);
  assert.deepEqual(await gateway.history('t', { since: { epoch: 'epochAAA', offset: 1 } }), {
    epoch: 'epochAAA',
    offset: 9,
    publications: [{ offset: 3, first: 2, data: { type: 'x' } }],
  });
  assert.deepEqual(server.asked('history'), [{ channel: 't', since: { epoch: 'epochAAA', offset: 1 }, limit: -1 }]);
});

test('who reads a topic is asked for, counted, and told while it changes', async () => {
  const server = new FakeGateway();
  const reader = { client: 'c', user: 'ada' };
  server.answers.set('presence', () => ({ reply: { presence: { c: reader } } }));
  server.answers.set('presence_stats', () => ({ reply: { num_clients: 2, num_users: 1 } }));
  const { gateway } = await connected({}, server);
  assert.equal(gateway.client, 'c');
  const topic = gateway.subscribe('t', { joins: true });
  const heard = [];
  topic.on('join', (who) => heard.push(['join', who]));
  topic.on('leave', (who) => heard.push(['leave', who]));
  await settled();
  assert.equal(server.asked('subscribe')[0].join_leave, true);
  assert.deepEqual(await topic.presence(), [reader]);
  assert.deepEqual(await topic.presenceStats(), { num_clients: 2, num_users: 1 });
  server.socket.deliver(server.push('t', { join: { info: reader } }), server.push('t', { leave: { info: reader } }));
  server.socket.deliver(server.push('t', { join: {} }), server.push('t', { leave: null }));
  assert.deepEqual(heard, [
    ['join', reader],
    ['leave', reader],
  ]);
  assert.equal(gateway.state, 'connected');
});

// Listeners

test('a listener that throws stops nobody else', async (context) => {
  const thrown = [];
  const report = (error) => thrown.push(error.message);
  // The runner of these tests listens as well, and would fail the test for what this one expects.
  const others = process.listeners('uncaughtException');
  process.removeAllListeners('uncaughtException');
  process.on('uncaughtException', report);
  context.after(() => {
    process.removeAllListeners('uncaughtException');
    for (const other of others) process.on('uncaughtException', other);
  });
  const { server, gateway } = make();
  const heard = [];
  gateway.on('state', () => {
    throw new Error('broken page');
  });
  gateway.on('state', (state) => heard.push(state));
  gateway.connect();
  await settled();
  assert.deepEqual(heard, ['connecting', 'connected']);
  assert.deepEqual(thrown, ['broken page', 'broken page']);
  assert.equal(server.sockets.length, 1);
});

test('a listener that was taken away hears nothing more', async () => {
  const { server, gateway } = await connected();
  let count = 0;
  const listener = () => (count += 1);
  const off = gateway.on('state', listener);
  gateway.on('state', listener);
  off();
  off();
  server.socket.drop(1006);
  assert.equal(count, 1);
});

test('without a WebSocket there is no gateway', () => {
  const { options } = new FakeGateway();
  assert.throws(() => new Gateway({ ...options, WebSocket: null }), TypeError);
});

test('blob loads a text beside the websocket', async () => {
  const asked = [];
  const answers = [new Response('the whole 🚀'), new Response('{}', { status: 404 }), new Response('{}', { status: 503 })];
  const fetch = async (address) => {
    asked.push(address);
    const answer = answers.shift();
    if (answer === undefined) throw new TypeError('no network');
    return answer;
  };
  const { gateway } = make({ url: 'wss://example.org/agents/connection/websocket', fetch });
  assert.equal(await gateway.blob('chat:1/a', 'abc'), 'the whole 🚀');
  await assert.rejects(gateway.blob('chat:1/a', 'abc'), { name: 'CommandError', code: 108, temporary: false });
  await assert.rejects(gateway.blob('chat:1/a', 'abc'), { name: 'CommandError', code: 100, temporary: true });
  await assert.rejects(gateway.blob('chat:1/a', 'abc'), { name: 'NotConnectedError', temporary: true });
  assert.deepEqual(new Set(asked), new Set(['https://example.org/agents/topics/chat%3A1%2Fa/blobs/abc']));
});
