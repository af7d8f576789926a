/** Listeners by name. A listener that throws stops no other one and not the library; its error is reported as uncaught. */
export class Emitter {
  /** @type {Map<string, Set<(value: any) => void>>} */
  #listeners = new Map();

  /**
   * @param {string} name
   * @param {(value: any) => void} listener
   * @returns {() => void} takes the listener away again
   */
  on(name, listener) {
    let listeners = this.#listeners.get(name);
    if (listeners === undefined) {
      listeners = new Set();
      this.#listeners.set(name, listeners);
    }
    // One function may listen twice; each `off` takes only its own away.
    const own = (/** @type {any} */ value) => listener(value);
    listeners.add(own);
    return () => void listeners.delete(own);
  }

  /**
   * @param {string} name
   * @param {unknown} value
   */
  emit(name, value) {
    for (const listener of [...(this.#listeners.get(name) ?? [])]) {
      try {
        listener(value);
      } catch (error) {
        queueMicrotask(() => {
          throw error;
        });
      }
    }
  }
}
