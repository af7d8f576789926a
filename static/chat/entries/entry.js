import { el, setChildren } from '../dom.js';

/**
 * What the entries of a conversation need of the page.
 * @typedef {object} Page
 * @property {import('../time.js').ServerClock} clock
 * @property {import('../ticker.js').Ticker} ticker
 * @property {(element: Element) => void} hold - what the reader opens or folds keeps its place; following ends
 * @property {(element: Element|null) => void} pin - what a pointer is over keeps its place, until null
 * @property {import('../own.js').Own} own
 * @property {import('../decisions.js').Decisions} decisions
 * @property {string} topic - whose conversation it is
 * @property {number} depth - 0, or how many sub-agents deep
 * @property {(verb: string) => boolean} may - what this reader may do
 * @property {(words: string) => void} alert - said at once to those who listen
 * @property {(part: import('../painter.js').Part) => void} mark - to be painted
 * @property {(key: string) => void} redraw - an entry of this conversation
 * @property {import('../../gateway/index.js').Gateway} gateway
 * @property {(page: Page, options: {topic: string, mirror: () => any, most?: () => number, painted?: () => void}) => import('../inset.js').Inset} inset - a
 *   conversation inside this one
 * @property {(topic: string, run: string) => void} stop
 * @property {(run: string) => boolean} stopping - this page asked, and no event says so yet
 * @property {(message: string) => string} linkTo - the address of a message
 * @property {(topic: string) => string} topicLink - the address of another conversation
 */

/** One row on the rail: a node and a body. It is made at once and drawn when its turn comes. */
export class EntryView {
  /** @type {any} */
  entry = null;
  /** Whether what is drawn is not `entry` yet. */
  dirty = true;
  /** @type {HTMLElement} */
  element;
  /** @type {HTMLElement} */
  body = el('div', { class: 'body' });
  /** @protected */
  node = el('span', { class: 'node' });
  /** @protected @type {Page} */
  page;

  /** @param {Page} page */
  constructor(page) {
    this.page = page;
    this.element = el('div', { class: 'entry' }, this.node, this.body);
  }

  /** @param {any} entry */
  take(entry) {
    this.entry = entry;
    this.dirty = true;
  }

  /** Draws the entry. */
  draw() {
    this.dirty = false;
    this.render();
  }

  /** @protected */
  render() {}

  /**
   * Draws text that came since, if the entry's text is still growing.
   * @param {string[]} _pieces
   */
  grow(_pieces) {}

  /** The view is not shown any more. */
  leave() {}

  /** The questions in it that wait, with where they stand. @returns {{question: import('./question.js').Question, element: Element}[]} */
  get questions() {
    return [];
  }

  /**
   * @protected
   * @param {string} kind - of the rail
   * @param {{live?: boolean, tight?: boolean}} [options]
   */
  look(kind, { live = false, tight = false } = {}) {
    if (this.element.dataset.kind !== kind) this.element.dataset.kind = kind;
    this.element.toggleAttribute('data-live', live);
    this.element.classList.toggle('tight', tight);
  }

  /**
   * @protected
   * @param {string} name - of what is drawn, so that the same is not drawn again
   * @param {() => Node} make
   */
  setNode(name, make) {
    if (this.node.dataset.shows === name) return;
    this.node.dataset.shows = name;
    setChildren(this.node, [make()]);
  }
}
