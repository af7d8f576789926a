/** What a summary stands for, read back from the topic's session log. Pure but for the reading. */

import { Mirror } from '../gateway/mirror.js';

/**
 * @param {Chat.Read} read - a page of the topic's log
 * @param {{seq: number, from: number, to: number}} summary - its number in the log, and the first and last place it stands for
 * @returns {Promise<{mirror: Mirror, complete: boolean}>} a mirror of nothing else; whether all of it is stored
 */
export async function originals(read, { seq, from, to }) {
  const mirror = new Mirror();
  let first = Number.POSITIVE_INFINITY;
  /** @type {number|null} */
  let next = from;
  while (next !== null && next < seq) {
    const page = await read({ from: next });
    for (const { data, ...entry } of page.events) {
      if (entry.seq >= seq) break;
      first = Math.min(first, entry.seq);
      mirror.fold({ ...data, ...entry });
    }
    next = page.next;
  }
  const { mirror: state } = mirror.snapshot();
  const events = state.context.events.filter((event) => {
    const [, start] = Array.isArray(event.data.surface_op) ? event.data.surface_op : [];
    const place = Number.isInteger(start) ? start : event.seq;
    return place >= from && place <= to;
  });
  const shown = { ...state, context: { ...state.context, events } };
  return { mirror: Mirror.restore({ topic: '', epoch: '', offset: 0, mirror: shown }), complete: first <= from };
}
