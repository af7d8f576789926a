/** One timer for everything that counts seconds, aligned to the second. */
export class Ticker {
  /** @type {Set<() => void>} */
  #listeners = new Set();
  #timer = 0;

  /**
   * @param {() => void} listener
   * @returns {() => void} takes it away again
   */
  add(listener) {
    this.#listeners.add(listener);
    if (this.#timer === 0) this.#wait();
    return () => {
      this.#listeners.delete(listener);
    };
  }

  #wait() {
    this.#timer = window.setTimeout(() => {
      this.#timer = 0;
      if (!document.hidden) for (const listener of [...this.#listeners]) listener();
      if (this.#listeners.size > 0) this.#wait();
    }, 1000 - (Date.now() % 1000));
  }
}
