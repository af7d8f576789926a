import { Mirror } from '../gateway/index.js';

/** So many events are kept, and so many characters of them; the oldest are folded into the state that all begins with. */
const MOST_EVENTS = 100_000;
const MOST_CHARACTERS = 32 * 1024 * 1024;
/** An event costs about so much beside its texts, in characters. */
const OVERHEAD = 120;
/** A state is kept after so many events at first; with too many states kept, after twice as many. */
const STRIDE = 500;
const MOST_STATES = 40;

/** A history as it was told, and the context at any offset of it: folded by the library's mirror. Pure. */
export class Recording {
  topic;
  /** Before the first event that is kept. */
  #base;
  /** After the last. */
  #tip;
  /** @type {Board.Told[]} */
  #events = [];
  #characters = 0;
  /** States on the way, by the events before them. @type {{index: number, state: any}[]} */
  #states = [];
  #stride = STRIDE;
  /** Where the last answer ended. @type {{index: number, mirror: Mirror}|null} */
  #cursor = null;
  #limits;

  /**
   * @param {string} topic
   * @param {{events: number, characters: number}} [limits] - what is kept
   */
  constructor(topic, limits = { events: MOST_EVENTS, characters: MOST_CHARACTERS }) {
    this.topic = topic;
    this.#limits = limits;
    this.#base = new Mirror({ topic });
    this.#tip = new Mirror({ topic });
  }

  get epoch() {
    return this.#tip.epoch;
  }

  /** The first offset whose context can be shown: that before the first event. */
  get floor() {
    return this.#base.offset;
  }

  /** The offset of the last event. */
  get upto() {
    return this.#tip.offset;
  }

  /** @returns {readonly Board.Told[]} */
  get events() {
    return this.#events;
  }

  /**
   * Forgets everything, and begins after an offset.
   * @param {{epoch: string, offset: number}} position
   */
  begin({ epoch, offset }) {
    this.#base = new Mirror({ topic: this.topic, epoch, offset });
    this.#tip = new Mirror({ topic: this.topic, epoch, offset });
    this.#events = [];
    this.#characters = 0;
    this.#states = [];
    this.#stride = STRIDE;
    this.#cursor = null;
  }

  /**
   * The same history goes on under another epoch.
   * @param {string} epoch
   */
  resume(epoch) {
    this.#base.resume(epoch);
    this.#tip.resume(epoch);
    for (const { state } of this.#states) state.epoch = epoch;
    this.#cursor = null;
  }

  /**
   * @param {Board.Told} told
   * @returns {'applied'|'repeated'|'hole'}
   */
  take(told) {
    const result = this.#tip.apply(told);
    if (result !== 'applied') return result;
    this.#events.push(told);
    this.#characters += weight(told.data);
    if (this.#events.length % this.#stride === 0) this.#keep();
    if (this.#events.length > this.#limits.events || this.#characters > this.#limits.characters) this.#trim();
    return result;
  }

  /**
   * The context after an event.
   * @param {number} offset - clipped to what is kept
   * @returns {Mirror} to be read until the next call
   */
  at(offset) {
    const index = this.indexOf(offset);
    let from = this.#cursor !== null && this.#cursor.index <= index ? this.#cursor : null;
    const state = this.#states.findLast((kept) => kept.index <= index);
    if (state !== undefined && (from === null || state.index > from.index)) from = { index: state.index, mirror: Mirror.restore(state.state) };
    from ??= { index: 0, mirror: Mirror.restore(this.#base.snapshot()) };
    for (let next = from.index; next < index; next += 1) from.mirror.apply(this.#events[next]);
    this.#cursor = { index, mirror: from.mirror };
    return from.mirror;
  }

  /**
   * How many events lie at or before an offset.
   * @param {number} offset
   */
  indexOf(offset) {
    let [low, high] = [0, this.#events.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.#events[middle].offset <= offset) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  #keep() {
    this.#states.push({ index: this.#events.length, state: this.#tip.snapshot() });
    if (this.#states.length <= MOST_STATES) return;
    this.#stride *= 2;
    this.#states = this.#states.filter((_, index) => index % 2 === 1);
  }

  #trim() {
    const count = Math.ceil(this.#events.length / 4);
    this.#base = Mirror.restore(this.at(this.#events[count - 1].offset).snapshot());
    for (const { data } of this.#events.slice(0, count)) this.#characters -= weight(data);
    this.#events = this.#events.slice(count);
    this.#states = this.#states.filter(({ index }) => index > count).map(({ index, state }) => ({ index: index - count, state }));
    this.#cursor = null;
  }
}

/** @param {any} data */
function weight(data) {
  let characters = OVERHEAD;
  for (const value of Object.values(data ?? {})) if (typeof value === 'string') characters += value.length;
  return characters;
}
