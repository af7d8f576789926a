import { DELTA_TYPES } from './event_types.js';
import { id, index, integer, object, text } from './fields.js';

/** @typedef {import('./index.js').Publication} Publication */

/** A merged text grows no further, so that an event stays below the 120 KiB of PROTOCOL.md 4.4. */
const MAX_MERGED_CODE_POINTS = 16384;

/** Of each field that a delta may have: whether a value is of its kind. @type {Map<string, (value: unknown) => boolean>} */
const KINDS = new Map([
  ['type', (value) => text(value) !== null],
  ['at', (value) => integer(value) !== null],
  ['run', (value) => id(value) !== null],
  ['message', (value) => id(value) !== null],
  ['text', (value) => text(value) !== null],
]);
/** @type {typeof KINDS} */
const TOOL_CALL_KINDS = new Map([
  ...KINDS,
  ['index', (value) => index(value) !== null],
  ['id', (value) => value === '' || id(value) !== null],
  ['name', (value) => text(value) !== null],
]);

/** @param {Record<string, any>} event */
function isMergeable(event) {
  if (object(event) === null || !DELTA_TYPES.has(event.type)) return false;
  const ofToolCall = event.type === 'tool_call_delta';
  const kinds = ofToolCall ? TOOL_CALL_KINDS : KINDS;
  return (
    id(event.message) !== null &&
    text(event.text) !== null &&
    (ofToolCall ? index(event.index) !== null : event.text !== '') &&
    Object.entries(event).every(([key, value]) => kinds.get(key)?.(value) ?? false)
  );
}

/** @param {string} value */
function codePoints(value) {
  let count = 0;
  for (const _ of value) count += 1;
  return count;
}

/**
 * Join neighbouring publications of one growing text; no mirror can tell the difference (PROTOCOL.md 5.6).
 * @param {Iterable<Publication>} publications in order
 * @returns {Publication[]} the unmerged ones are the same objects
 */
export function merge(publications) {
  /** @type {Publication[]} */
  const merged = [];
  let mergeable = false;
  let length = 0;
  for (const publication of publications) {
    const earlier = merged.at(-1);
    const { offset, data } = publication;
    const joinable = isMergeable(data);
    const added = joinable ? codePoints(data.text) : 0;
    if (
      earlier !== undefined &&
      mergeable &&
      joinable &&
      (publication.first ?? offset) === earlier.offset + 1 &&
      data.type === earlier.data.type &&
      data.message === earlier.data.message &&
      data.run === earlier.data.run &&
      data.index === earlier.data.index &&
      length + added <= MAX_MERGED_CODE_POINTS
    ) {
      merged[merged.length - 1] = {
        offset,
        first: earlier.first ?? earlier.offset,
        data: join(earlier.data, data),
      };
      length += added;
    } else {
      merged.push(publication);
      mergeable = joinable;
      length = added;
    }
  }
  return merged;
}

/**
 * @param {Record<string, any>} earlier
 * @param {Record<string, any>} later
 */
function join(earlier, later) {
  /** @type {Record<string, any>} */
  const joined = { ...earlier, ...later, text: earlier.text + later.text };
  for (const key of ['id', 'name']) {
    if (later[key] === '' && earlier[key] !== undefined) joined[key] = earlier[key];
  }
  return joined;
}
