/**
 * The three hidden regions for those who listen: what the agent does (polite, at most one in five seconds, the latest wins),
 * the finished message (polite), and what needs a person (at once).
 */

/** At most one status in this time, in ms. */
const STATUS_MS = 5000;
/** This much of a message is read out, in characters. */
const MESSAGE = 200;

export class Announcer {
  #regions;
  #status = '';
  #waiting = false;

  /** @param {{status: HTMLElement, message: HTMLElement, alert: HTMLElement}} regions */
  constructor(regions) {
    this.#regions = regions;
  }

  /** @param {string} text */
  status(text) {
    if (text === this.#status) return;
    this.#status = text;
    if (this.#waiting) return;
    this.#waiting = true;
    this.#regions.status.textContent = text;
    setTimeout(() => {
      this.#waiting = false;
      if (this.#regions.status.textContent !== this.#status) this.#regions.status.textContent = this.#status;
    }, STATUS_MS);
  }

  /** @param {string} text */
  message(text) {
    const characters = [...text.slice(0, 2 * MESSAGE)];
    this.#regions.message.textContent = characters.length > MESSAGE ? `${characters.slice(0, MESSAGE).join('')}…` : text;
  }

  /** @param {string} text */
  alert(text) {
    this.#regions.alert.textContent = text;
  }
}
