/**
 * A person's messages between the Enter key and the event that shows them. Nothing written is lost: what is not
 * confirmed is stored, and comes back after a reload as not sent. Sending again uses the same id, so it cannot double;
 * what a lost connection left without an answer is sent again by itself.
 */

import { GatewayError, LocalCode } from '../gateway/index.js';
import { sentence } from './content.js';

/** Without an answer for so long a message counts as not sent, in ms. */
export const ANSWER_MS = 10_000;

export class Outbox {
  /** In the order they were written. @type {Chat.Outgoing[]} */
  messages = [];
  #key;
  #options;

  /**
   * @param {Chat.OutboxOptions} options
   */
  constructor(options) {
    this.#options = options;
    const { topic } = options;
    this.#key = `gateway.unsent.${topic}`;
    this.#restore();
  }

  /**
   * @param {string} text
   * @param {string} id - a fresh one
   * @param {number} at
   */
  add(text, id, at) {
    this.messages.push({ id, text, at, state: 'sending', reason: '', final: false, position: null, attempts: 0 });
    this.#dispatch(id);
  }

  /** @param {string} id */
  again(id) {
    const message = this.#find(id);
    if (message === undefined || message.state !== 'failed') return;
    message.state = 'sending';
    this.#dispatch(id);
  }

  /**
   * The connection went or came.
   * @param {boolean} connected
   */
  connection(connected) {
    for (const message of [...this.messages]) {
      if (connected && message.state === 'waiting') {
        message.state = 'sending';
        this.#dispatch(message.id);
      } else if (!connected && message.state === 'sending') {
        // Its time without an answer does not count as long as there is nobody to answer.
        message.attempts += 1;
        message.state = 'waiting';
        this.#store();
      }
    }
  }

  /** @param {string} id */
  discard(id) {
    this.messages = this.messages.filter((message) => message.id !== id);
    this.#store();
  }

  /** Drops what the mirror now shows by itself. */
  settle() {
    const { epoch, offset } = this.#options.mirror();
    const left = this.messages.filter(({ state, position }) => {
      if (state !== 'sent' || position === null) return true;
      // A mirror that has seen nothing is before the topic's first event.
      return epoch === '' || (position.epoch === epoch && position.offset > offset);
    });
    if (left.length === this.messages.length) return;
    this.messages = left;
    this.#store();
  }

  /** @param {string} id */
  #dispatch(id) {
    const outgoing = this.#find(id);
    if (outgoing === undefined) return;
    outgoing.attempts += 1;
    if (!this.#options.connected()) outgoing.state = 'waiting';
    this.#store();
    if (outgoing.state === 'waiting') return;
    const attempt = outgoing.attempts;
    const failed = (/** @type {string} */ reason, /** @type {boolean} */ final) => {
      const message = this.#find(id);
      if (message === undefined || message.state !== 'sending' || message.attempts !== attempt) return;
      Object.assign(message, { state: 'failed', reason, final });
      this.#store();
    };
    this.#options.later(() => failed('No answer for 10 s.', false), ANSWER_MS);
    this.#options.send(outgoing.text, id).then(
      ({ offset, epoch }) => {
        const message = this.#find(id);
        if (message === undefined) return;
        message.state = 'sent';
        message.position = typeof offset === 'number' && typeof epoch === 'string' ? { offset, epoch } : null;
        // Without a position there is nothing to wait for.
        if (message.position === null) this.discard(id);
        else this.#store();
        // Its event may have come before the answer.
        this.settle();
      },
      (error) => failed(sentence(error), isFinal(error)),
    );
  }

  /** @param {string} id */
  #find(id) {
    return this.messages.find((message) => message.id === id);
  }

  #store() {
    try {
      const unsent = this.messages.filter(({ state }) => state !== 'sent').map(({ id, text, at }) => ({ id, text, at }));
      if (unsent.length === 0) this.#options.storage.removeItem(this.#key);
      else this.#options.storage.setItem(this.#key, JSON.stringify(unsent));
    } catch {
      // Without room to store it, it lives as long as the page.
    }
    this.#options.changed();
  }

  #restore() {
    try {
      for (const { id, text, at } of JSON.parse(this.#options.storage.getItem(this.#key) ?? '[]')) {
        const reason = 'The page was closed before an answer came.';
        this.messages.push({ id: String(id), text: String(text), at: Number(at), state: 'failed', reason, final: false, position: null, attempts: 0 });
      }
    } catch {
      // What is stored is not ours to read.
    }
  }
}

/**
 * Whether the same message would be refused again.
 * @param {unknown} error
 */
function isFinal(error) {
  // Without a connection nobody has refused the message itself.
  return error instanceof GatewayError && !error.temporary && error.code !== LocalCode.NOT_CONNECTED;
}
