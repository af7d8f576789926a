import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Backoff } from '../../static/gateway/backoff.js';

function draw(backoff, count) {
  return Array.from({ length: count }, () => backoff.next());
}

test('the span doubles from 0.2 s up to 20 s', () => {
  const longest = draw(new Backoff(() => 1), 9);
  assert.deepEqual(longest, [200, 400, 800, 1600, 3200, 6400, 12800, 20000, 20000]);
});

test('a wait is a random part of the whole span, so that many who were cut off together spread out', () => {
  const parts = [0, 0.5, 0.25, 0.999];
  const backoff = new Backoff(() => parts.shift());
  assert.deepEqual(draw(backoff, 4), [0, 200, 200, 1598]);
});

test('a reset begins with the short span again', () => {
  const backoff = new Backoff(() => 1);
  draw(backoff, 5);
  backoff.reset();
  assert.equal(backoff.next(), 200);
});

test('a thousand attempts overflow nothing', () => {
  assert.equal(draw(new Backoff(() => 1), 2000).at(-1), 20000);
});
