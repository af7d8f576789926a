/** Which messages this browser wrote. The gateway does not tell anonymous people apart. */

const STORED = 'gateway.own';
const REMEMBERED = 300;

export class OwnMessages {
  #storage;
  /** @type {Set<string>} */
  #ids = new Set();

  /** @param {Pick<Storage, 'getItem'|'setItem'>} storage */
  constructor(storage) {
    this.#storage = storage;
    try {
      for (const id of JSON.parse(storage.getItem(STORED) ?? '[]')) this.#ids.add(String(id));
    } catch {
      // What is stored is not ours to read.
    }
  }

  /** @param {string} id */
  add(id) {
    this.#ids.add(id);
    const [oldest] = this.#ids;
    if (this.#ids.size > REMEMBERED) this.#ids.delete(oldest);
    try {
      this.#storage.setItem(STORED, JSON.stringify([...this.#ids]));
    } catch {
      // Without room to store it, it is known as long as the page lives.
    }
  }

  /** @param {string|null} id */
  has(id) {
    return id !== null && this.#ids.has(id);
  }
}
