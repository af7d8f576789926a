import { integer } from './fields.js';

/** @typedef {import('./connection.js').Connection} Connection */
/** @typedef {import('./host.js').Environment} Environment */
/** @typedef {import('./mirror.js').Mirror} Mirror */

/** Being behind without any progress for so long means that something was lost on the way, ms. */
const STALL_MS = 30_000;
/** At most one question in this time where a reader only lags, ms. */
const INTERVAL_MS = 1_000;

/**
 * The head of a topic's history, as last heard: how far a mirror is behind it. It has to be asked for, since no reply to
 * `subscribe` and no push tells.
 */
export class Head {
  #mirror;
  #environment;
  #listener;
  /** @type {{ epoch: unknown, offset: number } | null} */
  #position = null;
  /** The question whose answer counts. @type {object | null} */
  #question = null;
  #askedAt = -Infinity;
  #progressAt = 0;
  /** @type {unknown} */
  #timer = null;

  /**
   * @param {Mirror} mirror
   * @param {Environment} environment
   * @param {{ heard: () => void, stalled: () => void }} listener `heard`: a question was answered, or will not be;
   *   `stalled`: behind for 30 s without progress
   */
  constructor(mirror, environment, listener) {
    this.#mirror = mirror;
    this.#environment = environment;
    this.#listener = listener;
  }

  /** Whether a question is on its way. */
  get asked() {
    return this.#question !== null;
  }

  /** How many offsets the mirror is behind, as far as known. */
  get behind() {
    if (this.#position === null || this.#position.epoch !== this.#mirror.epoch) return 0;
    return Math.max(0, this.#position.offset - this.#mirror.offset);
  }

  /**
   * @param {Connection} connection
   * @param {string} topic
   */
  ask(connection, topic) {
    const { now } = this.#environment;
    const question = {};
    this.#question = question;
    this.#askedAt = now();
    connection.request('history', { channel: topic, limit: 0 }, (error, { epoch, offset }) => {
      if (this.#question !== question) return;
      this.#question = null;
      // Who may not read the history is not told; then what comes is all that is known.
      if (error === null) this.#position = { epoch, offset: integer(offset) ?? 0 };
      this.progressed();
      this.#listener.heard();
    });
  }

  /**
   * Ask once more, unless that was done just now.
   * @param {Connection | null} connection
   * @param {string} topic
   */
  askAgain(connection, topic) {
    if (connection === null || this.asked || this.#environment.now() - this.#askedAt < INTERVAL_MS) return;
    this.ask(connection, topic);
  }

  /** The mirror moved. */
  progressed() {
    this.#progressAt = this.#environment.now();
  }

  /** Forget a head that was reached, watch over the way to one that was not. */
  settle() {
    if (this.behind === 0) this.#drop();
    else this.#watch();
  }

  /** What was heard and asked is void. */
  forget() {
    this.#question = null;
    this.#drop();
  }

  #drop() {
    this.#position = null;
    this.#environment.clearTimeout(this.#timer);
    this.#timer = null;
  }

  #watch() {
    if (this.#timer !== null) return;
    const { now, setTimeout } = this.#environment;
    this.#timer = setTimeout(
      () => {
        this.#timer = null;
        if (this.behind === 0) return;
        if (now() - this.#progressAt >= STALL_MS) this.#listener.stalled();
        else this.#watch();
      },
      Math.max(0, this.#progressAt + STALL_MS - now()),
    );
  }
}
