// PROTOCOL.md 5 by the vectors that the Python mirror is held to as well.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Mirror, SnapshotError, merge } from '../../static/gateway/index.js';
import { readPublication } from '../../static/gateway/publication.js';
import { complete, emptyState, vectors } from './vectors.mjs';

/** As JSON has it: -0 is 0. */
function plain(value) {
  return JSON.parse(JSON.stringify(value));
}

function applyAll(mirror, publications) {
  return publications.map((publication) => mirror.apply(publication));
}

function publicationsOf({ events, when, publications }, start) {
  const wire = when ?? publications ?? events.map((data, index) => ({ offset: start + 1 + index, data }));
  return wire.map(readPublication);
}

function checkFold(vector) {
  const given = { topic: '', epoch: '', offset: 0, ...vector.given };
  const base = complete(vector.given?.mirror ?? {}, emptyState());
  const snapshot = vector.snapshot ?? { ...given, mirror: base };
  if (vector.then.refused) {
    assert.throws(() => Mirror.restore(snapshot), SnapshotError);
    return;
  }
  const untouched = structuredClone(snapshot);
  const mirror = Mirror.restore(snapshot);
  const publications = publicationsOf(vector, snapshot.offset);
  const results = applyAll(mirror, publications);
  assert.deepEqual(results, vector.then.results ?? publications.map(() => 'applied'));

  const after = mirror.snapshot();
  const expected = complete(vector.then.mirror ?? {}, vector.snapshot === undefined ? base : emptyState());
  assert.deepEqual(plain(after.mirror), plain(expected));
  if (vector.then.offset !== undefined) assert.equal(mirror.offset, vector.then.offset);
  if (vector.then.messages !== undefined) assert.deepEqual(plain(mirror.messages()), plain(vector.then.messages));

  assert.deepEqual(plain(Mirror.restore(plain(after)).snapshot()), plain(after));
  const again = applyAll(mirror, publications);
  results.forEach((result, index) => result === 'applied' && assert.equal(again[index], 'repeated'));
  if (results.every((result) => result !== 'hole')) assert.deepEqual(plain(mirror.snapshot()), plain(after));
  assert.deepEqual(snapshot, untouched, 'the snapshot it was restored from is not changed');
}

function checkMerge(vector) {
  const publications = publicationsOf(vector);
  const merged = merge(publications);
  assert.deepEqual(plain(merged), plain(vector.merged.map(readPublication)));
  const start = (publications[0]?.first ?? publications[0]?.offset ?? 1) - 1;
  const [one, other] = [new Mirror({ offset: start }), new Mirror({ offset: start })];
  applyAll(one, publications);
  applyAll(other, merged);
  assert.deepEqual(plain(other.snapshot()), plain(one.snapshot()));
}

for (const vector of vectors()) {
  test(`${vector.file}: ${vector.id} (${vector.section})`, () => {
    if (vector.merged === undefined) checkFold(vector);
    else checkMerge(vector);
  });
}
