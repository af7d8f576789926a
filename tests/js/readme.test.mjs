/** The examples of the library's README, run one after the other as one page. */

import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { fileURLToPath, pathToFileURL } from 'node:url';
import path from 'node:path';
import { test } from 'node:test';

import { createElement, act } from 'react';
import TestRenderer from 'react-test-renderer';

import { Gateway } from '../../static/gateway/index.js';
import { settled } from './clock.mjs';
import { FakeGateway } from './fake_gateway.mjs';

const LIBRARY = fileURLToPath(new URL('../../static/gateway/', import.meta.url));
const HERE = fileURLToPath(new URL('.', import.meta.url));

async function examples() {
  const text = await readFile(path.join(LIBRARY, 'README.md'), 'utf8');
  const found = [...text.matchAll(/^```js\n(.*?)^```$/gms)].map(([, code]) => code);
  return found.map((code) => code.replaceAll('/static/gateway/index.js', pathToFileURL(path.join(LIBRARY, 'index.js')).href));
}

/** Load code as a module that finds this directory's packages. */
async function load(context, code) {
  const folder = await mkdtemp(path.join(HERE, 'example-'));
  context.after(() => rm(folder, { recursive: true }));
  await writeFile(path.join(folder, 'page.mjs'), code);
  return import(pathToFileURL(path.join(folder, 'page.mjs')).href);
}

function globals(context, values) {
  for (const [name, value] of Object.entries(values)) {
    const before = Object.getOwnPropertyDescriptor(globalThis, name);
    Object.defineProperty(globalThis, name, { value, configurable: true, writable: true });
    context.after(() => {
      if (before === undefined) delete globalThis[name];
      else Object.defineProperty(globalThis, name, before);
    });
  }
}

test('the page of the README', async (context) => {
  const server = new FakeGateway();
  const [call, run] = ['call-1', 'run-1'];
  await server.publish(
    'chat:42',
    { type: 'agent_start', run, agent: 'a', at: 1 },
    { type: 'approval_required', run, tool_call_id: call, name: 'delete', arguments: '{}', at: 2 },
    { type: 'agent_delta', run, message: 'm', text: 'Hello' },
  );
  server.answers.set('rpc', ({ method }) => ({
    reply: { data: method === 'send' ? { message: 'own', offset: 4, epoch: 'e' } : { won: true, decision: 'approve', by: 'you' } },
  }));
  server.answers.set('presence', () => ({ reply: { presence: { c: { client: 'c', user: '' } } } }));
  const shown = new Map();
  const element = (name) => {
    if (!shown.has(name)) shown.set(name, { textContent: '' });
    return shown.get(name);
  };
  const frames = [];
  globals(context, {
    WebSocket: server.WebSocket,
    location: { href: 'http://gateway.test/' },
    document: { querySelector: element, visibilityState: 'visible', addEventListener() {}, removeEventListener() {} },
    requestAnimationFrame: (frame) => frames.push(frame),
  });
  const blocks = (await examples()).filter((code) => !code.includes("from 'react'"));
  assert.ok(blocks.length >= 6);
  const imports = [];
  const body = blocks.map((code) => code.replace(/^import .*\n/gm, (line) => (imports.includes(line) || imports.push(line), ''))).join('\n');
  // Meanwhile the page has connected and the topic has come.
  const waits = body.replace('gateway.connect();\n', 'gateway.connect();\nawait new Promise((done) => setTimeout(done, 20));\n');
  const page = await load(context, `${imports.join('')}${waits}\nexport { gateway, shared, topic };\n`);
  for (const frame of frames.splice(0)) frame();
  assert.equal(element('#answer').textContent, 'Hello');
  assert.equal(element('#state').textContent, 'live');
  const methods = server.asked('rpc').map(({ method }) => method);
  assert.deepEqual(methods, ['send', 'edit', 'withdraw', 'cancel', 'decide', 'send']);
  assert.deepEqual(server.asked('rpc')[4].data, { ...server.asked('rpc')[4].data, run, tool_call_id: call, decision: 'approve' });
  const lenses = server.asked('subscribe').map(({ data }) => data.lens);
  assert.deepEqual(lenses.at(-1), { rate: 4 });
  assert.deepEqual(lenses.slice(1, 3), [{ types: ['logs', 'usage'] }, 'summary']);
  page.gateway.close();
  page.shared.close();
});

test('the hook of the README in React', async (context) => {
  globals(context, { IS_REACT_ACT_ENVIRONMENT: true });
  const [hook] = (await examples()).filter((code) => code.includes("from 'react'"));
  const { useTopic } = await load(context, hook);
  const server = new FakeGateway();
  server.topic('t').epoch = 'epochAAA';
  const gateway = new Gateway(server.options);
  gateway.connect();
  await settled();
  let renders = 0;
  const Answer = ({ name }) => {
    renders += 1;
    const { state, open } = useTopic(gateway, name);
    return createElement('p', null, `${state}: ${open.map(({ text }) => text).join('')}`);
  };
  let rendered;
  const painted = () => new Promise((done) => setTimeout(done, 40));
  await act(async () => {
    rendered = TestRenderer.create(createElement(Answer, { name: 't' }));
    await painted();
  });
  await act(async () => {
    for (const text of ['one ', 'two ', 'three']) await server.publish('t', { type: 'agent_delta', message: 'm', text });
    await painted();
  });
  assert.deepEqual(rendered.toJSON().children, ['live: one two three']);
  assert.ok(renders < 8, `${renders} renders`);
  await act(async () => rendered.unmount());
  await settled();
  assert.deepEqual([...server.socket.readers], []);
  gateway.close();
});
