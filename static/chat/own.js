/** What this browser did: messages it wrote, runs it stopped, questions it decided. The gateway does not tell anonymous people apart. */

import { SOMEONE, person } from './content.js';

const STORED = 'gateway.own';
const REMEMBERED = 300;

export class Own {
  /** How the gateway names this reader; null for an anonymous one. @type {string|null} */
  name = null;
  #storage;
  /** @type {Set<string>} */
  #acts = new Set();

  /** @param {Pick<Storage, 'getItem'|'setItem'>} storage */
  constructor(storage) {
    this.#storage = storage;
    try {
      for (const act of JSON.parse(storage.getItem(STORED) ?? '[]')) this.#acts.add(String(act));
    } catch {
      // What is stored is not ours to read.
    }
  }

  /** @param {string} act - a message, a run, or a run and its call */
  add(act) {
    this.#acts.add(act);
    const [oldest] = this.#acts;
    if (this.#acts.size > REMEMBERED) this.#acts.delete(oldest);
    try {
      this.#storage.setItem(STORED, JSON.stringify([...this.#acts]));
    } catch {
      // Without room to store it, it is known as long as the page lives.
    }
  }

  /** @param {string|null} act */
  has(act) {
    return act !== null && this.#acts.has(act);
  }

  /**
   * Who did something, for a sentence.
   * @param {string|null} act
   * @param {unknown} by - as the topic names them
   * @returns {string|null} `you`, a name, `someone`, or null where it was no person
   */
  who(act, by) {
    const name = person(by);
    return this.has(act) && (name === null || name === SOMEONE || this.name === null || name === this.name) ? 'you' : name;
  }
}
