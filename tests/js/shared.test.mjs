import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Gateway } from '../../static/gateway/index.js';
import { Relay, identityOf } from '../../static/gateway/relay.js';
import { settled } from './clock.mjs';
import { sensibleRun } from './events.mjs';
import { FakeGateway, FakePage } from './fake_gateway.mjs';

const plain = (value) => JSON.parse(JSON.stringify(value));
const delta = (text) => ({ type: 'agent_delta', message: 'm', text });

/** One end of a channel; what is posted arrives at the other as a copy, later. */
class Port {
  onmessage = null;
  other = null;
  closed = false;

  postMessage(message) {
    const { other } = this;
    queueMicrotask(() => other.closed || other.onmessage?.({ data: structuredClone(message) }));
  }

  close() {
    this.closed = true;
  }
}

/** A gateway, the worker of a browser, and its tabs. */
class Browser {
  server = new FakeGateway();
  relay = new Relay({ ...this.server.options, url: undefined });
  ports = [];

  constructor() {
    this.server.topic('t').epoch = 'epochAAA';
  }

  /** A tab, and how it is closed. */
  tab(options = {}) {
    const browser = this;
    const page = new FakePage();
    class SharedWorker {
      constructor() {
        [this.port, this.theirs] = [new Port(), new Port()];
        [this.port.other, this.theirs.other] = [this.theirs, this.port];
        browser.ports.push(this.port);
        browser.relay.join(this.theirs);
      }
    }
    const gateway = new Gateway({ ...this.server.options, page, SharedWorker, shared: true, ...options });
    gateway.connect();
    return { gateway, page };
  }

  get open() {
    return this.server.sockets.filter(({ closed }) => !closed);
  }
}

async function quiet() {
  for (let round = 0; round < 8; round += 1) await settled();
}

function assertExact({ server }, topic) {
  assert.deepEqual(plain(topic.mirror.snapshot()), plain(server.topic(topic.name).snapshot(topic.name)));
}

test('tabs share one connection and one subscription, and each has its exact mirror', async () => {
  const browser = new Browser();
  await browser.server.publish('t', ...sensibleRun({ run: 'r' }));
  const topics = [1, 2, 3].map(() => browser.tab().gateway.subscribe('t'));
  await quiet();
  await browser.server.publish('t', delta('one '), delta('two'));
  await quiet();
  assert.equal(browser.open.length, 1);
  assert.equal(browser.server.asked('subscribe').length, 1);
  for (const topic of topics) {
    assert.equal(topic.state, 'live');
    assertExact(browser, topic);
  }
});

test('a tab that comes in the middle begins where the others are', async () => {
  const browser = new Browser();
  const early = browser.tab().gateway.subscribe('t');
  await quiet();
  await browser.server.publish('t', ...sensibleRun({ run: 'r' }));
  await quiet();
  const late = browser.tab().gateway.subscribe('t');
  await quiet();
  await browser.server.publish('t', delta('more'));
  await quiet();
  assertExact(browser, early);
  assertExact(browser, late);
  assert.equal(browser.server.asked('subscribe').length, 1);
});

test('closing a tab ends what only it followed, the last one the connection', async () => {
  const browser = new Browser();
  const [one, other] = [browser.tab().gateway, browser.tab().gateway];
  one.subscribe('mine');
  one.subscribe('ours');
  other.subscribe('ours');
  await quiet();
  assert.deepEqual([...browser.server.socket.readers].sort(), ['mine', 'ours']);
  one.close();
  await quiet();
  assert.deepEqual([...browser.server.socket.readers], ['ours']);
  other.close();
  await quiet();
  await browser.server.clock.advance(3_000);
  assert.equal(browser.open.length, 0);
  assert.equal(browser.relay.connections, 0);
});

test('a tab that vanished without a word is noticed', async () => {
  const browser = new Browser();
  browser.tab({ setTimeout: () => 0 }).gateway.subscribe('t');
  await quiet();
  browser.ports[0].onmessage = null; // it does not run any more
  await browser.server.clock.advance(75_000);
  await browser.server.clock.advance(3_000);
  assert.equal(browser.open.length, 0);
});

test('the next page finds the connection of the one before', async () => {
  const browser = new Browser();
  const before = browser.tab().gateway;
  await quiet();
  before.close();
  await quiet();
  browser.tab();
  await browser.server.clock.advance(10_000);
  assert.equal(browser.server.sockets.length, 1);
  assert.equal(browser.open.length, 1);
});

test('a lost connection is lost for every tab, and what was missed comes with the next', async () => {
  const browser = new Browser();
  const topics = [browser.tab(), browser.tab()].map(({ gateway }) => gateway.subscribe('t'));
  await quiet();
  await browser.server.publish('t', delta('one '));
  await quiet();
  browser.server.refuse = true;
  browser.server.socket.drop(1006);
  await quiet();
  assert.deepEqual(topics.map(({ state }) => state), ['reconnecting', 'reconnecting']);
  await browser.server.publish('t', delta('two '), delta('three'));
  browser.server.refuse = false;
  await browser.server.clock.advance(5_000);
  await quiet();
  for (const topic of topics) {
    assert.equal(topic.state, 'live');
    assertExact(browser, topic);
  }
  assert.equal(browser.open.length, 1);
});

test('a tab that lost its way to the worker goes on from its position without a snapshot', async () => {
  const browser = new Browser();
  const topics = [browser.tab(), browser.tab()].map(({ gateway }) => gateway.subscribe('t'));
  const resets = [];
  topics[0].on('change', ({ reset }) => resets.push(reset));
  await quiet();
  await browser.server.publish('t', delta('one '));
  await quiet();
  browser.ports[0].onmessage({ data: { closed: { code: 0, reason: 'test' } } });
  await browser.server.publish('t', delta('two '), delta('three'));
  await browser.server.clock.advance(5_000);
  await quiet();
  assertExact(browser, topics[0]);
  assert.deepEqual(resets, [true, false, false]);
});

test('a snapshot that replaces the state reaches every tab', async () => {
  const browser = new Browser();
  const topics = [browser.tab(), browser.tab()].map(({ gateway }) => gateway.subscribe('t'));
  await quiet();
  const { server } = browser;
  await server.publish('t', delta('one '));
  await quiet();
  const topic = server.topic('t');
  topic.epoch = 'epochBBB';
  topic.append(delta('two'));
  const data = { type: 'snapshot', ...topic.snapshot('t') };
  server.socket.deliver(server.push('t', { pub: { data } }));
  await quiet();
  for (const each of topics) assertExact(browser, each);
  await server.publish('t', delta(' three'));
  await quiet();
  for (const each of topics) assertExact(browser, each);
});

test('what is hidden moves every tab', async () => {
  const browser = new Browser();
  const lens = { types: ['logs'] };
  const topics = [browser.tab(), browser.tab()].map(({ gateway }) => gateway.subscribe('t', { lens }));
  await quiet();
  const { server } = browser;
  const log = (message) => ({ type: 'log', level: 'info', message });
  await server.publishMerged('t', log('a'), { first: 1, offset: 5 });
  await server.publishMerged('t', { type: 'hidden' }, { first: 6, offset: 9 });
  await quiet();
  assert.deepEqual(topics.map(({ mirror }) => mirror.offset), [9, 9]);
  await server.publishMerged('t', log('b'), { first: 10, offset: 12 });
  await quiet();
  for (const { mirror, state } of topics) {
    assert.equal(mirror.offset, 12);
    assert.deepEqual(mirror.log.map(({ message }) => message), ['a', 'b']);
    assert.equal(state, 'live');
  }
  assert.equal(server.asked('subscribe').length, 1);
});

test('the gateway is asked for the rate of the tab that wants most', async () => {
  const browser = new Browser();
  const tabs = [browser.tab({ hiddenRate: 1 }), browser.tab({ hiddenRate: 1 })];
  const topics = tabs.map(({ gateway }) => gateway.subscribe('t'));
  await quiet();
  const lenses = () => browser.server.asked('subscribe').map(({ data }) => data.lens ?? null);
  tabs[0].page.set({ visible: false });
  await quiet();
  assert.deepEqual(lenses().at(-1), null);
  tabs[1].page.set({ visible: false });
  await quiet();
  assert.deepEqual(lenses().at(-1), { rate: 1 });
  await browser.server.publish('t', delta('one '));
  tabs[0].page.set({ visible: true });
  await quiet();
  assert.deepEqual(lenses().at(-1), null);
  await browser.server.publish('t', delta('two'));
  await quiet();
  for (const topic of topics) assertExact(browser, topic);
  assert.equal(browser.open.length, 1);
});

test('two ways to follow one topic are two connections', async () => {
  const browser = new Browser();
  const whole = browser.tab().gateway.subscribe('t');
  await quiet();
  const events = [];
  const part = browser.tab().gateway.subscribe('t', { mirror: false });
  part.on('change', (change) => events.push(...change.events));
  await quiet();
  await browser.server.publish('t', delta('one'));
  await quiet();
  assertExact(browser, whole);
  assert.deepEqual(events.map(({ data }) => data.text), ['one']);
  assert.equal(browser.open.length, 2);
});

test('commands go through, and their errors with code and temporary', async () => {
  const browser = new Browser();
  browser.server.answers.set('rpc', ({ data }) =>
    data.topic === 'full'
      ? { error: { code: 100, message: 'broker away', temporary: true } }
      : { reply: { data: { message: data.id, offset: 1, epoch: 'e' } } },
  );
  const { gateway } = browser.tab();
  await quiet();
  assert.equal((await gateway.send('t', 'hello', { id: 'own' })).message, 'own');
  await assert.rejects(gateway.command('rpc', { method: 'x', data: { topic: 'full' } }), { code: 100, temporary: true });
  await assert.rejects(gateway.command('nothing', {}), { code: 104, temporary: false });
});

test('a denied topic is denied in every tab', async () => {
  const browser = new Browser();
  browser.server.answers.set('subscribe', () => ({ error: { code: 103, message: 'permission denied' } }));
  const topics = [browser.tab(), browser.tab()].map(({ gateway }) => gateway.subscribe('t'));
  await quiet();
  for (const { state, error } of topics) {
    assert.equal(state, 'denied');
    assert.equal(error.code, 103);
  }
});

test('that the gateway does not hear its broker is told to every tab, also to one that comes later', async () => {
  const browser = new Browser();
  const early = browser.tab().gateway;
  await quiet();
  browser.server.socket.deliver({ push: { message: { data: { type: 'broker', sure: false } } } });
  const late = browser.tab().gateway;
  await quiet();
  assert.deepEqual([early.sure, late.sure], [false, false]);
  browser.server.socket.deliver({ push: { message: { data: { type: 'broker', sure: true } } } });
  await quiet();
  assert.deepEqual([early.sure, late.sure], [true, true]);
});

// Tokens

const jwt = (claims) => `h.${Buffer.from(JSON.stringify(claims)).toString('base64url')}.s`;

test('tabs of different people, or of different rights, do not share', async () => {
  assert.equal(identityOf(jwt({ sub: 'ana', exp: 1 })), identityOf(jwt({ exp: 2, sub: 'ana', jti: 'x' })));
  assert.notEqual(identityOf(jwt({ sub: 'ana' })), identityOf(jwt({ sub: 'jon' })));
  const browser = new Browser();
  const token = (claims) => async () => jwt(claims);
  browser.tab({ token: token({ sub: 'ana', exp: 1 }) });
  browser.tab({ token: token({ sub: 'ana', exp: 2 }) });
  browser.tab({ token: token({ sub: 'ana', channels: ['t'] }) });
  browser.tab({ token: token({ sub: 'jön' }) });
  browser.tab();
  await quiet();
  assert.equal(browser.open.length, 4);
});

test('a fresh token for the shared connection comes from any tab that is left', async () => {
  const browser = new Browser();
  browser.server.answers.set('connect', () => ({
    reply: { client: 'c', version: '0', expires: true, ttl: 100 },
  }));
  browser.server.answers.set('refresh', () => ({ reply: { expires: true, ttl: 100 } }));
  const asked = [0, 0];
  const [one] = [0, 1].map((tab) =>
    browser.tab({
      token: async () => {
        asked[tab] += 1;
        return jwt({ sub: 'ana', exp: asked[tab] });
      },
    }),
  );
  for (const socket of browser.server.sockets) socket.connected = true;
  await quiet();
  one.gateway.close();
  await quiet();
  for (const socket of browser.server.sockets) socket.connected = true;
  await browser.server.clock.advance(81_000);
  await quiet();
  assert.deepEqual(browser.server.asked('refresh').map(({ token }) => token), [jwt({ sub: 'ana', exp: asked[1] })]);
});

test('a refusal is one for every tab', async () => {
  const browser = new Browser();
  const gateways = [browser.tab().gateway, browser.tab().gateway];
  await quiet();
  browser.server.socket.drop(3500, 'invalid token');
  await quiet();
  for (const gateway of gateways) {
    assert.equal(gateway.state, 'refused');
    assert.deepEqual(gateway.refusal, { code: 3500, reason: 'invalid token' });
  }
  gateways[0].connect();
  await quiet();
  assert.equal(gateways[0].state, 'connected');
});

// Without a worker

test('without a shared worker each tab has its own connection', async () => {
  const browser = new Browser();
  for (const SharedWorker of [undefined, class { constructor() { throw new Error('not from this origin'); } }]) {
    const topic = browser.tab({ SharedWorker }).gateway.subscribe('t');
    await quiet();
    assert.equal(topic.state, 'live');
  }
  assert.equal(browser.open.length, 2);
});

test('a worker that fails, or says nothing, is done without', async () => {
  const browser = new Browser();
  let made = 0;
  class Silent {
    port = Object.assign(new Port(), { other: new Port() });
    constructor() {
      made += 1;
    }
  }
  class Failing extends Silent {
    constructor() {
      super();
      queueMicrotask(() => this.onerror?.({}));
    }
  }
  const failing = browser.tab({ SharedWorker: Failing }).gateway;
  await quiet();
  assert.equal(failing.state, 'connected');
  const silent = browser.tab({ SharedWorker: Silent }).gateway;
  await browser.server.clock.advance(3_000);
  await quiet();
  assert.equal(silent.state, 'connected');
  browser.server.socket.drop(1006);
  await browser.server.clock.advance(300);
  await quiet();
  assert.equal(silent.state, 'connected');
  assert.equal(made, 2);
});
