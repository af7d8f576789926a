/** The seven counters of a model call (PROTOCOL.md 4.1, `usage`). */

import { integer } from './fields.js';

/** @typedef {import('./index.js').Usage} Usage */

const COUNTERS = /** @type {const} */ ([
  'requests',
  'tool_calls',
  'input_tokens',
  'output_tokens',
  'total_tokens',
  'cache_creation_input_tokens',
  'cache_read_input_tokens',
]);

/** Above it, sums of counters would stop being exact in a double. */
const MAX_COUNTER = 2 ** 40 - 1;

/** @returns {Usage} seven zeros */
export function noUsage() {
  return {
    requests: 0,
    tool_calls: 0,
    input_tokens: 0,
    output_tokens: 0,
    total_tokens: 0,
    cache_creation_input_tokens: 0,
    cache_read_input_tokens: 0,
  };
}

/**
 * Read the counters of one call; what is no counter is 0.
 * @param {Record<string, unknown>} source
 * @returns {Usage}
 */
export function readUsage(source) {
  const usage = noUsage();
  for (const counter of COUNTERS) {
    const value = integer(source[counter]);
    if (value !== null && value >= 0 && value <= MAX_COUNTER) usage[counter] = value;
  }
  return usage;
}

/**
 * Read counters that are sums, which may be of any size.
 * @param {Record<string, unknown>} source
 * @returns {Usage}
 */
export function readTotals(source) {
  const usage = noUsage();
  for (const counter of COUNTERS) usage[counter] = integer(source[counter]) ?? 0;
  return usage;
}

/**
 * @param {Usage} usage changed in place
 * @param {Usage} other
 * @param {1 | -1} sign
 */
export function addUsage(usage, other, sign) {
  for (const counter of COUNTERS) usage[counter] += sign * other[counter];
}

/**
 * @param {Iterable<Usage>} usages
 * @returns {Usage}
 */
export function sumUsage(usages) {
  const sum = noUsage();
  for (const usage of usages) addUsage(sum, usage, 1);
  return sum;
}
