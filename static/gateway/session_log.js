import { SURFACE_TYPES } from './event_types.js';
import { id, index, list, object, text } from './fields.js';

/** @typedef {import('./index.js').LogEntry} LogEntry */
/** @typedef {import('./index.js').ContextState} ContextState */

const MAX_BOOKKEEPING = 1000;
const ENVELOPE = new Set(['type', 'at', 'run', 'seq', 'time', 'message', 'blobs']);

/** @param {LogEntry} entry */
const isSurface = (entry) => SURFACE_TYPES.has(entry.type);

/**
 * @param {Record<string, any>} data
 * @returns {[start: number, stop: number] | null} the range that the event replaces
 */
function replacedRange(data) {
  const operation = list(data.surface_op);
  if (operation === null || operation.length !== 3 || operation[0] !== 'replace') return null;
  const [start, stop] = [index(operation[1]), index(operation[2])];
  return start !== null && stop !== null && start <= stop ? [start, stop] : null;
}

/** @param {LogEntry} entry */
function positionOf(entry) {
  const range = isSurface(entry) ? replacedRange(entry.data) : null;
  return range === null ? entry.seq : range[0];
}

/** @param {Record<string, any> | null} blobs the references to an event's large values */
const withBlobs = (blobs) => (blobs === null ? {} : { blobs });

/** The visible part of a topic's session log: the `events` of a context, kept in order (PROTOCOL.md 5.3, logged types). */
export class SessionLog {
  /** The state that this log keeps: its `events` and `next_seq`. @type {ContextState} */
  #context;
  /** How many surface entries carry a message id. @type {Map<string, number>} */
  #carried = new Map();
  #bookkeeping = 0;

  /** @param {ContextState} context */
  constructor(context) {
    this.#context = context;
    for (const entry of context.events) this.#count(entry, 1);
  }

  /**
   * Say whether a message has its final form in the log, so that late deltas of it mean nothing.
   * @param {string} message
   */
  carries(message) {
    return this.#carried.has(message);
  }

  /**
   * Take a logged event.
   * @param {Record<string, any>} event its type is one of the logged types
   * @param {string | null} run
   * @returns {LogEntry | null} null where it has no place or was there already
   */
  put(event, run) {
    const seq = index(event.seq);
    if (seq === null || seq < this.#context.next_seq) return null;
    this.#context.next_seq = seq + 1;
    const entry = {
      seq,
      type: event.type,
      time: text(event.time),
      // Not by assignment: a key `__proto__` would be lost.
      data: Object.fromEntries(Object.entries(event).filter(([key]) => !ENVELOPE.has(key))),
      run,
      message: id(event.message),
      ...withBlobs(object(event.blobs)),
    };
    if (isSurface(entry)) this.#putSurface(entry);
    else this.#putBookkeeping(entry);
    return entry;
  }

  /**
   * Remove bookkeeping entries.
   * @param {(entry: LogEntry) => boolean} [which] all of them by default
   */
  dropBookkeeping(which = () => true) {
    if (this.#bookkeeping > 0) this.#remove((entry) => !isSurface(entry) && which(entry));
  }

  /** @param {LogEntry} entry */
  #putSurface(entry) {
    const range = replacedRange(entry.data);
    if (entry.type === 'cleared') {
      this.#remove(isSurface);
    } else if (range !== null) {
      const [start, stop] = range;
      this.#remove((other) => isSurface(other) && positionOf(other) >= start && positionOf(other) <= stop);
    }
    this.#insert(entry);
  }

  /** @param {LogEntry} entry */
  #putBookkeeping(entry) {
    if (entry.type === 'turn_start' || entry.type === 'turn_end') this.dropBookkeeping();
    if (entry.type === 'turn_end') return;
    this.#insert(entry);
    if (this.#bookkeeping > MAX_BOOKKEEPING) {
      const { events } = this.#context;
      const oldest = events.findIndex((other) => !isSurface(other));
      this.#count(events[oldest], -1);
      events.splice(oldest, 1);
    }
  }

  /** @param {LogEntry} entry its seq is above all others, so it comes after all of its position */
  #insert(entry) {
    const { events } = this.#context;
    const position = positionOf(entry);
    let at = events.length;
    while (at > 0 && positionOf(events[at - 1]) > position) at -= 1;
    events.splice(at, 0, entry);
    this.#count(entry, 1);
  }

  /** @param {(entry: LogEntry) => boolean} which */
  #remove(which) {
    this.#context.events = this.#context.events.filter((entry) => {
      if (!which(entry)) return true;
      this.#count(entry, -1);
      return false;
    });
  }

  /**
   * @param {LogEntry} entry
   * @param {1 | -1} change
   */
  #count(entry, change) {
    if (!isSurface(entry)) {
      this.#bookkeeping += change;
    } else if (entry.message !== null) {
      const left = (this.#carried.get(entry.message) ?? 0) + change;
      if (left > 0) this.#carried.set(entry.message, left);
      else this.#carried.delete(entry.message);
    }
  }
}
