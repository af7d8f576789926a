import { el, setChildren } from '../dom.js';

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
  /** @protected @type {Chat.Page} */
  page;

  /** @param {Chat.Page} page */
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
    const silent = this.entry.silent === true;
    this.element.toggleAttribute('data-live', live && !silent);
    this.element.toggleAttribute('data-silent', silent);
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
