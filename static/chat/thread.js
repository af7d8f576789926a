/**
 * The conversation as the page shows it: a list of entries made from the mirror. Pure: no DOM, no timers.
 *
 * The list is made anew when something but a text changed; entries have stable keys, so only those that differ are drawn.
 * Deltas do not touch the list: they are kept as pieces until the next paint takes them.
 */

import { record, textOrNull } from './content.js';
import { EntryList } from './entry_list.js';
import { remember } from './remember.js';
import { stateOf } from './run_state.js';
import { Silence } from './silence.js';

/** What a run is believed to do where it tells nothing else; without a sign of life, nothing is known. */
const AT_WORK = new Set(['writing', 'thinking', 'tool']);

const DELTAS = new Map([
  ['agent_delta', 'text'],
  ['agent_thinking', 'thinking'],
  ['tool_call_delta', 'tool'],
]);

export class Thread {
  /** Whether `entries` would give another list than the last time. */
  changed = true;
  /** The kind of text that came last, by open message. @type {Map<string, string>} */
  kinds = new Map();
  #clock;
  #silence = new Silence();
  /** Texts that came since the last paint, by entry key. @type {Map<string, string[]>} */
  #pieces = new Map();
  /** The keys of the last list. @type {Set<string>} */
  #known = new Set();
  /** When a message thought: first and last, by message. @type {Map<string, {from: number, to: number|null}>} */
  #thought = new Map();
  /** @type {Map<string, {text: string|null, fraction: number|null}>} */
  #progress = new Map();
  /** When a call started, by run and id. @type {Map<string, number>} */
  #started = new Map();
  /** The key of a call by its message and index, and by its id: it may be known by one before the other. @type {Map<string, string>} */
  #callKeys = new Map();

  /** @param {import('./time.js').ServerClock} clock */
  constructor(clock) {
    this.#clock = clock;
  }

  /**
   * Takes what a change of the mirror brought.
   * @param {{events: {data: any}[], reset: boolean}} change
   */
  take({ events, reset }) {
    if (reset) {
      this.#pieces.clear();
      this.changed = true;
    }
    for (const { data } of events) this.#event(record(data));
  }

  /** @param {Record<string, any>} event */
  #event(event) {
    this.#clock.observe(event.at);
    if (this.#silence.heard(event, this.#clock.now())) this.changed = true;
    const kind = DELTAS.get(event.type);
    if (kind === undefined) {
      this.#other(event);
      return;
    }
    const message = textOrNull(event.message);
    const text = textOrNull(event.text);
    if (message === null) return;
    if (this.kinds.get(message) !== kind) {
      remember(this.kinds, message, kind);
      this.changed = true;
    }
    const at = typeof event.at === 'number' ? event.at : this.#clock.now();
    const thought = this.#thought.get(message);
    if (kind === 'thinking') {
      if (thought === undefined) remember(this.#thought, message, { from: at, to: null });
      else thought.to = null;
    } else if (thought?.to === null) {
      thought.to = at;
    }
    if (kind === 'tool' && (textOrNull(event.id) !== null || textOrNull(event.name) !== null)) this.changed = true;
    const key = kind === 'text' ? `x:${message}` : kind === 'thinking' ? `t:${message}` : this.#callKey(event.run, message, event.index, null);
    if (!this.#known.has(key)) {
      this.changed = true;
    } else if (text !== null) {
      const pieces = this.#pieces.get(key);
      if (pieces === undefined) this.#pieces.set(key, [text]);
      else if (pieces.length < 4096) pieces.push(text);
      else this.#pieces.set(key, [pieces.join('') + text]);
    }
  }

  /** @param {Record<string, any>} event */
  #other(event) {
    switch (event.type) {
      case 'usage':
      case 'log':
        return;
      case 'progress': {
        const id = textOrNull(event.tool_call_id);
        if (id === null) return;
        const before = this.#progress.get(id);
        const fraction = typeof event.fraction === 'number' ? Math.min(1, Math.max(before?.fraction ?? 0, event.fraction)) : null;
        remember(this.#progress, id, { text: textOrNull(event.text) ?? before?.text ?? null, fraction: fraction ?? before?.fraction ?? null });
        break;
      }
      case 'tool_result':
        this.#progress.delete(event.tool_call_id);
        break;
      case 'assistant_message': {
        const thought = this.#thought.get(event.message);
        if (thought?.to === null) thought.to = typeof event.at === 'number' ? event.at : this.#clock.now();
        break;
      }
      default:
    }
    this.changed = true;
  }

  /**
   * Looks for runs that went silent, or are no more. Call now and then, while what is shown is current.
   * @param {any} mirror
   * @returns {boolean} whether it is so of another run
   */
  listen(mirror) {
    const changed = this.#silence.check(mirror, this.#clock.now());
    this.changed ||= changed;
    return changed;
  }

  /**
   * @param {string|null} run
   * @returns {number|null} since when nothing was heard of it; null where that is no news
   */
  silentSince(run) {
    return this.#silence.since(run);
  }

  /**
   * @param {any} mirror
   * @param {any} run - one of the mirror's
   * @returns {Chat.State}
   */
  state(mirror, run) {
    const state = stateOf(mirror, run, this.kinds);
    return this.silentSince(run.run) !== null && AT_WORK.has(state) ? 'silent' : state;
  }

  /**
   * The texts that came since the last time, by entry key.
   * @returns {Map<string, string[]>}
   */
  pieces() {
    const pieces = this.#pieces;
    this.#pieces = new Map();
    return pieces;
  }

  /**
   * @param {unknown} run
   * @param {string} message
   * @param {unknown} index
   * @param {string|null} id
   */
  #callKey(run, message, index, id) {
    const byPlace = `${message} ${index}`;
    const byId = `${run} ${id}`;
    const known = this.#callKeys.get(byPlace) ?? (id === null ? undefined : this.#callKeys.get(byId));
    const key = known ?? `c:${byPlace}`;
    remember(this.#callKeys, byPlace, key);
    if (id !== null) remember(this.#callKeys, byId, key);
    return key;
  }

  /**
   * @param {any} mirror
   * @returns {Chat.Entry[]}
   */
  entries(mirror) {
    this.changed = false;
    const list = new EntryList(mirror, {
      progress: this.#progress,
      started: this.#started,
      thought: this.#thought,
      kinds: this.kinds,
      silentSince: (run) => this.silentSince(run),
      callKey: (run, message, index, id) => this.#callKey(run, message, index, id),
    });
    const entries = list.make();
    this.#known = new Set(entries.map(({ key }) => key));
    return entries;
  }
}

/**
 * Whether two entries are drawn alike.
 * @param {any} one
 * @param {any} other
 */
export function same(one, other) {
  const names = Object.keys(one);
  return names.length === Object.keys(other).length && names.every((name) => Object.is(one[name], other[name]));
}
