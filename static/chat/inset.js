import { Conversation } from './conversation.js';
import { el } from './dom.js';
import { Thread } from './thread.js';

/** @typedef {Chat.Page} Page */

/** A conversation inside another one, on a short rail of its own. A part of the painter. */
export class Inset {
  /** @type {HTMLElement} */
  element = el('div', { class: 'inner' });
  conversation;
  #page;
  #thread;
  #mirror;
  #painted;

  /**
   * @param {Chat.Page} page - of the conversation around it
   * @param {Chat.InsetOptions} options
   */
  constructor(page, { topic, mirror, most, painted = () => {} }) {
    this.#page = page;
    this.#painted = painted;
    this.#mirror = mirror;
    this.#thread = new Thread(page.clock);
    this.conversation = new Conversation({
      lane: this.element,
      thread: this.#thread,
      mirror,
      page: { ...page, topic, depth: page.depth + 1, redraw: (key) => this.#redraw(key) },
      following: () => true,
      pending: () => [],
      most,
    });
  }

  /** @param {{events: any[], reset: boolean}} change */
  take(change) {
    this.#thread.take(change);
    this.#page.mark(this);
  }

  /** Looks for runs in it that went silent. Call now and then, while what is shown is current. */
  listen() {
    if (this.#thread.listen(this.#mirror())) this.#page.mark(this);
  }

  /** Shows more or less of it. */
  again() {
    this.take({ events: [], reset: true });
  }

  /** @param {number} deadline */
  paint(deadline) {
    const done = this.conversation.paint(deadline);
    this.#painted();
    return done;
  }

  /** @param {string} key */
  #redraw(key) {
    this.conversation.redraw(key);
    this.#page.mark(this);
  }
}
