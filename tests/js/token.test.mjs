import assert from 'node:assert/strict';
import { test } from 'node:test';

import { keepToken, pageToken, readToken } from '../../static/token.js';

function tab(hash = '', kept = new Map(), { locked = false } = {}) {
  const replaced = [];
  const guard = (act) => {
    if (locked) throw new Error('SecurityError');
    return act();
  };
  return {
    replaced,
    location: { hash, pathname: '/', search: '?topic=t' },
    history: { state: null, replaceState: (_state, _title, address) => replaced.push(address) },
    sessionStorage: {
      getItem: (key) => guard(() => kept.get(key) ?? null),
      setItem: (key, value) => guard(() => kept.set(key, value)),
    },
  };
}

test('a token in the fragment is taken out of the address and kept for the tab', () => {
  const kept = new Map();
  const first = tab('#token=a.b-c.d_e', kept);
  assert.equal(pageToken(first), 'a.b-c.d_e');
  assert.deepEqual(first.replaced, ['/?topic=t']);
  const later = tab('', kept);
  assert.equal(pageToken(later), 'a.b-c.d_e');
  assert.deepEqual(later.replaced, []);
  assert.equal(pageToken(tab('#token=new', kept)), 'new');
});

test('other fragments are left alone', () => {
  for (const hash of ['', '#m-1', '#token=', '#token=a b', '#x&token=a']) {
    const page = tab(hash);
    assert.equal(pageToken(page), undefined);
    assert.deepEqual(page.replaced, []);
  }
});

test('a browser that keeps nothing has it for the page', () => {
  assert.equal(pageToken(tab('#token=a', new Map(), { locked: true })), 'a');
  assert.equal(pageToken(tab('', new Map(), { locked: true })), undefined);
});

for (const [pasted, token] of [
  ['a.b-c_D.9', 'a.b-c_D.9'],
  ['  a.b.c\n', 'a.b.c'],
  ['Bearer a.b.c', 'a.b.c'],
  ['https://example.org/?topic=t#token=a.b.c', 'a.b.c'],
  ['two words', null],
  ['', null],
  ['https://example.org/', null],
]) {
  test(`token: pasted as ${JSON.stringify(pasted)}`, () => assert.equal(readToken(pasted), token));
}

test('token: kept for the tab, and said where it cannot be', () => {
  const kept = new Map();
  assert.equal(keepToken('a.b', { sessionStorage: { setItem: (key, value) => void kept.set(key, value) } }), true);
  assert.deepEqual([...kept.values()], ['a.b']);
  const full = { setItem() { throw new Error('full'); } };
  assert.equal(keepToken('a.b', { sessionStorage: full }), false);
});
