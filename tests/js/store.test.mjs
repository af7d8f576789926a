import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Gateway, perFrame, store } from '../../static/gateway/index.js';
import { settled } from './clock.mjs';
import { FakeGateway } from './fake_gateway.mjs';

const delta = (text) => ({ type: 'agent_delta', message: 'm', text });

/** Frames that come when a test says so. */
class Screen {
  #asked = [];
  schedule = (run) => void this.#asked.push(run);

  frame() {
    for (const run of this.#asked.splice(0)) run();
  }
}

async function made() {
  const server = new FakeGateway();
  server.topic('t').epoch = 'epochAAA';
  const gateway = new Gateway(server.options);
  gateway.connect();
  await settled();
  const screen = new Screen();
  return { server, gateway, screen, topic: store(gateway, 't', { schedule: screen.schedule }) };
}

test('many events are one word a frame, and one value', async () => {
  const { server, screen, topic } = await made();
  const seen = [];
  topic.subscribe(() => seen.push(topic.get()));
  await settled();
  screen.frame();
  for (const word of ['a', 'b', 'c']) await server.publish('t', delta(word));
  assert.equal(seen.length, 1);
  screen.frame();
  assert.equal(seen.length, 2);
  assert.equal(seen[1].open[0].text, 'abc');
  assert.equal(seen[1].state, 'live');
  assert.equal(topic.get(), seen[1]);
  screen.frame();
  assert.equal(seen.length, 2);
});

test('a value does not change any more', async () => {
  const { server, screen, topic } = await made();
  topic.subscribe(() => {});
  await settled();
  await server.publish('t', delta('a'));
  const before = topic.get();
  await server.publish('t', delta('b'));
  screen.frame();
  assert.equal(before.open[0].text, 'a');
  assert.equal(topic.get().open[0].text, 'ab');
  assert.throws(() => {
    before.state = 'live';
  }, TypeError);
});

test('the topic is followed while somebody listens', async () => {
  const { server, topic } = await made();
  assert.equal(topic.get().state, 'subscribing');
  assert.equal(server.asked('subscribe').length, 0);
  const [one, other] = [topic.subscribe(() => {}), topic.subscribe(() => {})];
  await settled();
  assert.deepEqual([...server.socket.readers], ['t']);
  one();
  one();
  await settled();
  assert.deepEqual([...server.socket.readers], ['t']);
  other();
  await settled();
  assert.deepEqual([...server.socket.readers], []);
  topic.subscribe(() => {});
  await settled();
  assert.deepEqual([...server.socket.readers], ['t']);
});

test('each frame acts once, and what is asked for meanwhile belongs to the next', () => {
  const screen = new Screen();
  let acts = 0;
  const mark = perFrame(() => {
    acts += 1;
    if (acts === 1) mark();
  }, screen.schedule);
  mark();
  mark();
  assert.equal(acts, 0);
  screen.frame();
  assert.equal(acts, 1);
  screen.frame();
  assert.equal(acts, 2);
  screen.frame();
  assert.equal(acts, 2);
});
