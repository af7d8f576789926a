/** Time that stands still until a test moves it. */
export class Clock {
  #now = 1_000_000;
  #lastTimer = 0;
  #timers = new Map();

  now = () => this.#now;

  setTimeout = (run, ms) => {
    this.#lastTimer += 1;
    this.#timers.set(this.#lastTimer, { run, at: this.#now + ms });
    return this.#lastTimer;
  };

  clearTimeout = (timer) => void this.#timers.delete(timer);

  /** How many timers wait. */
  get waiting() {
    return this.#timers.size;
  }

  /** Let time pass; what is due runs in its order. */
  async advance(ms) {
    const until = this.#now + ms;
    await settled();
    for (;;) {
      const [next] = [...this.#timers].filter(([, { at }]) => at <= until).sort(([, a], [, b]) => a.at - b.at);
      if (next === undefined) break;
      const [timer, { run, at }] = next;
      this.#timers.delete(timer);
      this.#now = Math.max(this.#now, at);
      run();
      await settled();
    }
    this.#now = until;
  }

  /** Let time pass without running a timer, as in a frozen tab. */
  skip(ms) {
    this.#now += ms;
  }
}

/** After everything that is ready to run has run. */
export function settled() {
  return new Promise((resolve) => setImmediate(resolve));
}
