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
    this.#read();
  }

  #read() {
    try {
      for (const act of JSON.parse(this.#storage.getItem(STORED) ?? '[]')) this.#acts.add(String(act));
    } catch {
      // What is stored is not ours to read.
    }
  }

  /** @param {string} act - a message, a run, or a run and its call */
  add(act) {
    // What another tab stored meanwhile stays there.
    this.#read();
    this.#acts.add(act);
    for (const oldest of this.#acts) {
      if (this.#acts.size <= REMEMBERED) break;
      this.#acts.delete(oldest);
    }
    try {
      this.#storage.setItem(STORED, JSON.stringify([...this.#acts]));
    } catch {
      // Without room to store it, it is known as long as the page lives.
    }
  }

  /**
   * Learn what this person does in other tabs of the browser.
   * @param {Pick<EventTarget, 'addEventListener'>} tabs - where `storage` events come
   * @param {() => void} changed
   */
  listen(tabs, changed) {
    tabs.addEventListener('storage', (event) => {
      if (/** @type {StorageEvent} */ (event).key !== STORED) return;
      this.#read();
      changed();
    });
  }

  /**
   * Whether a message is this reader's own, wherever it was sent from.
   * @param {string|null} message
   * @param {unknown} by - as the topic names the author
   */
  wrote(message, by) {
    return this.has(message) || (this.name !== null && person(by) === this.name);
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
    if (this.name !== null && name === this.name) return 'you';
    return this.has(act) && (name === null || name === SOMEONE || this.name === null) ? 'you' : name;
  }
}
