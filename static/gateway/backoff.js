const FIRST_MS = 200;
const LONGEST_MS = 20_000;

/**
 * How long to wait before the next attempt: a random part of a span that doubles up to a limit ("full jitter"), so that
 * all who were cut off at one moment do not come back at one moment.
 */
export class Backoff {
  #random;
  #attempts = 0;

  /** @param {() => number} random from 0 up to, without, 1 */
  constructor(random) {
    this.#random = random;
  }

  /** @returns {number} ms */
  next() {
    const span = Math.min(LONGEST_MS, FIRST_MS * 2 ** this.#attempts);
    this.#attempts += 1;
    return Math.round(this.#random() * span);
  }

  reset() {
    this.#attempts = 0;
  }
}
