import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { fileURLToPath } from 'node:url';
import path from 'node:path';
import { test } from 'node:test';

const LIBRARY = fileURLToPath(new URL('../../static/gateway/', import.meta.url));

test('npm packs every module, and the package is imported by its name', (context) => {
  const folder = mkdtempSync(path.join(tmpdir(), 'package-'));
  context.after(() => rmSync(folder, { recursive: true }));
  const run = (...command) => execFileSync(command[0], command.slice(1), { cwd: folder, encoding: 'utf8' });
  const [{ filename, files }] = JSON.parse(run('npm', 'pack', '--json', '--offline', LIBRARY));
  const modules = readdirSync(LIBRARY).filter((name) => name.endsWith('.js'));
  const packed = files.map(({ path: name }) => name);
  assert.deepEqual(packed.filter((name) => name.endsWith('.js')).sort(), modules.sort());
  assert.ok(['README.md', 'index.d.ts', 'package.json'].every((name) => packed.includes(name)));
  run('npm', 'install', '--offline', '--no-audit', '--no-fund', '--no-save', `./${filename}`);
  const script = "import { Gateway } from 'agent-gateway'; console.log(typeof Gateway)";
  assert.equal(run(process.execPath, '--input-type=module', '-e', script), 'function\n');
});

test('it has the version of the gateway, and no dependency', () => {
  const { version, dependencies } = JSON.parse(readFileSync(path.join(LIBRARY, 'package.json'), 'utf8'));
  const python = readFileSync(fileURLToPath(new URL('../../gateway/__init__.py', import.meta.url)), 'utf8');
  assert.equal(version, /__version__ = "(.*)"/.exec(python)[1]);
  assert.equal(dependencies, undefined);
});
