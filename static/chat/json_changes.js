/** What an edit changed in a JSON text, token by token; space does not count. Pure. */

import { tokens } from './json_text.js';

/** Longer differences are one change: comparing them costs the product of their lengths. In tokens. */
const COMPARED = 400;

/** @param {string} text */
function solid(text) {
  return tokens(text)
    .filter(({ kind }) => kind !== 'space')
    .map((token) => token.text);
}

/**
 * @param {string} before
 * @param {string} after
 * @returns {{changes: Chat.Changed[], fresh: Set<number>}} `fresh`: which of the tokens of `after` that are no space are new
 */
export function changesOf(before, after) {
  const [old, now] = [solid(before), solid(after)];
  let start = 0;
  while (start < old.length && start < now.length && old[start] === now[start]) start += 1;
  let [oldEnd, nowEnd] = [old.length, now.length];
  while (oldEnd > start && nowEnd > start && old[oldEnd - 1] === now[nowEnd - 1]) [oldEnd, nowEnd] = [oldEnd - 1, nowEnd - 1];
  /** @type {Chat.Changed[]} */
  const changes = [];
  const fresh = new Set();
  const common = lengths(old.slice(start, oldEnd), now.slice(start, nowEnd));
  let [at, to] = [start, start];
  while (at < oldEnd || to < nowEnd) {
    if (at < oldEnd && to < nowEnd && common !== null && old[at] === now[to]) {
      [at, to] = [at + 1, to + 1];
      continue;
    }
    const change = { from: '', to: '' };
    while ((at < oldEnd || to < nowEnd) && (common === null || at === oldEnd || to === nowEnd || old[at] !== now[to])) {
      if (to === nowEnd || (at < oldEnd && (common === null || common[at - start + 1][to - start] >= common[at - start][to - start + 1]))) {
        change.from += old[at];
        at += 1;
      } else {
        change.to += now[to];
        fresh.add(to);
        to += 1;
      }
    }
    changes.push(change);
  }
  return { changes, fresh };
}

/**
 * How much two lists have in common from each pair of places on, or null where they are too long to compare.
 * @param {string[]} one
 * @param {string[]} other
 * @returns {number[][]|null}
 */
function lengths(one, other) {
  if (one.length > COMPARED || other.length > COMPARED) return null;
  const table = Array.from({ length: one.length + 1 }, () => new Array(other.length + 1).fill(0));
  for (let at = one.length - 1; at >= 0; at -= 1) {
    for (let to = other.length - 1; to >= 0; to -= 1) {
      table[at][to] = one[at] === other[to] ? table[at + 1][to + 1] + 1 : Math.max(table[at + 1][to], table[at][to + 1]);
    }
  }
  return table;
}
