import { integer, object } from './fields.js';

/** @typedef {import('./index.js').Publication} Publication */

/**
 * Read a publication of the wire, `{offset, data, tags?: {from}}` (PROTOCOL.md 3.4).
 *
 * A `from` that is no offset is read as one above the publication's, so that a mirror sees a hole and asks again.
 * @param {Record<string, any>} wire
 * @returns {Publication}
 */
export function readPublication(wire) {
  const offset = integer(wire.offset) ?? 0;
  const from = object(wire.tags)?.from;
  if (from === undefined) return { offset, data: wire.data };
  const first = typeof from === 'string' && /^[0-9]{1,16}$/.test(from) ? Number(from) : offset + 1;
  return { offset, data: wire.data, first };
}
