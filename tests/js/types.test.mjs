import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { test } from 'node:test';

import ts from 'typescript';

import * as library from '../../static/gateway/index.js';

const INDEX = fileURLToPath(new URL('../../static/gateway/index.d.ts', import.meta.url));
const OPTIONS = {
  strict: true,
  noEmit: true,
  target: ts.ScriptTarget.ES2022,
  module: ts.ModuleKind.NodeNext,
  moduleResolution: ts.ModuleResolutionKind.NodeNext,
  lib: ['lib.es2023.d.ts', 'lib.dom.d.ts', 'lib.dom.iterable.d.ts'],
  types: [],
};
/** What parts of the library say to each other. */
const INTERNAL = new Map([
  ['Subscription', ['mirrored', 'slow', 'hold', 'revive', 'attach', 'detach', 'receive', 'flush', 'refresh']],
]);
/** A page's code, as strict as can be. */
const PAGE = `
import { CommandError, ErrorCode, Gateway, GatewayError, Mirror, merge, perFrame, store } from './index.js';
import type { Change, Lens, Store, Subscription, Summary, TopicState, View } from './index.js';

const gateway: Gateway = new Gateway({ url: '/connection/websocket', token: async () => 'text', shared: true, hiddenRate: 1 });
const topic: Subscription = gateway.subscribe('chat:42', { lens: { types: ['chat'], rate: 4 } });
const off: () => void = topic.on('change', ({ events, reset }: Change) => {
  for (const { offset, first, data } of events) console.log(offset + (first ?? offset), data.type, reset);
});
topic.on('state', (state: TopicState) => console.log(state, topic.loading?.part, topic.error?.code));
topic.on('moved', () => off());
gateway.subscribe('t', { lens: 'summary' }).on('summary', (summary: Summary) => console.log(summary.tokens.output));
const texts: string[] = topic.mirror.open.map(({ text }) => text);
const one: Store = store(gateway, 'chat:42', { joins: true });
const view: View = one.get();
const title: string | null = view.title;
const lens: Lens = 'summary';
const again: () => void = perFrame(() => console.log(texts, title, lens));
one.subscribe(again);
try {
  const { message } = await gateway.send('chat:42', 'hello');
  await gateway.decide('chat:42', { run: 'r', tool_call_id: 'c', decision: 'edit', arguments: '{}' });
  console.log(message.length, merge([]).length, Mirror.restore({}).offset, (await topic.presence())[0]?.client);
} catch (error) {
  if (error instanceof CommandError && error.code === ErrorCode.CONFLICT) console.log(error.message, error.temporary);
  else if (error instanceof GatewayError) console.log(error.code);
}
`;

function faults(text) {
  const page = INDEX.replace('index.d.ts', 'page.mts');
  const options = { ...OPTIONS, exactOptionalPropertyTypes: true, noUncheckedIndexedAccess: true };
  const host = ts.createCompilerHost(options);
  const { getSourceFile, fileExists, readFile } = host;
  host.fileExists = (path) => path === page || fileExists(path);
  host.readFile = (path) => (path === page ? text : readFile(path));
  host.getSourceFile = (path, ...rest) =>
    path === page ? ts.createSourceFile(path, text, ts.ScriptTarget.ES2022) : getSourceFile(path, ...rest);
  const program = ts.createProgram([page], options, host);
  return ts.getPreEmitDiagnostics(program).map(told);
}

function told({ file, start, messageText }) {
  const place = file === undefined ? '' : `${path.basename(file.fileName)}:${file.getLineAndCharacterOfPosition(start).line + 1}: `;
  return place + ts.flattenDiagnosticMessageText(messageText, '\n');
}

test('the declarations hold a strict page', () => {
  assert.deepEqual(faults(PAGE), []);
});

test('a wrong page is refused', () => {
  const wrong = PAGE.replace("decision: 'edit'", "decision: 'perhaps'").replace('offset + (', 'offset.length + (');
  assert.equal(faults(wrong).length, 2);
});

test('the library agrees with its own types', () => {
  const folder = path.dirname(INDEX);
  const modules = readdirSync(folder).filter((name) => name.endsWith('.js'));
  const options = { ...OPTIONS, allowJs: true, checkJs: true };
  const program = ts.createProgram(modules.map((name) => path.join(folder, name)), options);
  assert.deepEqual(ts.getPreEmitDiagnostics(program).map(told), []);
});

test('everything there is, is declared', () => {
  const lines = Object.entries(library).flatMap(([name, value]) => {
    if (typeof value !== 'function' || !/^[A-Z]/.test(name)) return [`library.${name};`];
    const hidden = new Set(['constructor', ...(INTERNAL.get(name) ?? [])]);
    const members = Object.getOwnPropertyNames(value.prototype).filter((member) => !hidden.has(member));
    return members.map((member) => `(null as unknown as library.${name}).${member};`);
  });
  const topic = new library.Gateway({ url: 'ws://gateway.test/', WebSocket: class {} }).subscribe('t');
  const hidden = new Set(['constructor', ...INTERNAL.get('Subscription')]);
  for (const member of [...Object.getOwnPropertyNames(Object.getPrototypeOf(topic)), ...Object.keys(topic)]) {
    if (!hidden.has(member)) lines.push(`(null as unknown as library.Subscription).${member};`);
  }
  assert.ok(lines.length > 40);
  assert.deepEqual(faults(`import * as library from './index.js';\n${lines.join('\n')}`), []);
});

test('everything declared is there', () => {
  const source = ts.createSourceFile(INDEX, ts.sys.readFile(INDEX), ts.ScriptTarget.ES2022);
  const declared = source.statements
    .filter((node) => ts.isClassDeclaration(node) || ts.isFunctionDeclaration(node) || ts.isVariableStatement(node))
    .filter((node) => node.modifiers?.some(({ kind }) => kind === ts.SyntaxKind.ExportKeyword))
    .flatMap((node) => (ts.isVariableStatement(node) ? node.declarationList.declarations : [node]))
    .map(({ name }) => name.text)
    // A topic is made by its gateway.
    .filter((name) => name !== 'Subscription');
  assert.deepEqual([...new Set(declared)].sort(), Object.keys(library).sort());
});
