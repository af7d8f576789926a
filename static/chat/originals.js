/** What a summary stands for, read back from the topic's history as far as it is still stored. Pure but for the reading. */

import { Mirror } from '../gateway/mirror.js';
import { isLive } from './run_state.js';

/** Pages of history that are read at most; each has up to 120 KiB. */
const MOST_PAGES = 500;

/**
 * @param {Chat.Read} read - a page of the topic's history
 * @param {{seq: number, from: number, to: number}} summary - its number in the log, and the first and last place it stands for
 * @returns {Promise<{mirror: Mirror, complete: boolean}>} a mirror of nothing else; whether all of it is stored
 */
export async function originals(read, { seq, from, to }) {
  const mirror = new Mirror();
  let first = Number.POSITIVE_INFINITY;
  /** @type {{epoch: string, offset: number}|undefined} */
  let since;
  let over = false;
  for (let count = 0; count < MOST_PAGES && !over; count += 1) {
    const { publications, epoch, offset: top } = await read({ since });
    for (const { data } of publications) {
      over ||= data?.seq >= seq;
      if (over) break;
      if (Number.isInteger(data?.seq)) first = Math.min(first, data.seq);
      mirror.fold(data);
    }
    const last = publications.at(-1)?.offset ?? top;
    over ||= last >= top;
    since = { epoch, offset: last };
  }
  const { mirror: state } = mirror.snapshot();
  const events = state.context.events.filter((event) => {
    const [, start] = Array.isArray(event.data.surface_op) ? event.data.surface_op : [];
    const place = Number.isInteger(start) ? start : event.seq;
    return place >= from && place <= to;
  });
  const shown = { ...state, context: { ...state.context, events }, open: [], approvals: [], queue: [], runs: state.runs.filter((run) => !isLive(run)) };
  return { mirror: Mirror.restore({ topic: '', epoch: '', offset: 0, mirror: shown }), complete: first <= from };
}
