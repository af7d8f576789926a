/** Draws the inline content of one block, and lets it grow. */

import { el } from '../dom.js';
import { parseInline, safeCut } from './inline.js';

/**
 * Longer inline content is cut in pieces that are parsed and laid out apart, so that a frame's work is bounded: a browser
 * breaks all the lines of a paragraph anew for each word that it gets. In UTF-16 units.
 */
const INLINE_WINDOW = 8192;
const INLINE_TAGS = new Map([
  ['strong', 'strong'],
  ['em', 'em'],
  ['del', 'del'],
  ['code', 'code'],
  ['link', 'a'],
  ['break', 'br'],
]);

/** One drawn inline node. */
class InlineNode {
  /** @param {Chat.Inline} source */
  constructor(source) {
    this.type = source.type;
    const tag = INLINE_TAGS.get(source.type);
    /** @type {Text|HTMLElement} */
    this.node = tag === undefined ? document.createTextNode('') : el(tag);
    /** @type {InlineNode[]} */
    this.children = [];
    this.shown = '';
    this.update(source);
  }

  /** @param {Chat.Inline} source */
  update(source) {
    if (this.node instanceof Text) {
      grow(this.node, this.shown, source.text);
      this.shown = source.text;
      return;
    }
    if (source.type === 'code') {
      let text = this.node.firstChild;
      if (!(text instanceof Text)) {
        text = document.createTextNode('');
        this.node.append(text);
      }
      grow(/** @type {Text} */ (text), this.shown, source.text);
      this.shown = source.text;
      return;
    }
    if (source.type === 'link') {
      if (source.href === null) {
        this.node.removeAttribute('href');
      } else if (this.node.getAttribute('href') !== source.href) {
        this.node.setAttribute('href', source.href);
        this.node.setAttribute('rel', 'noopener noreferrer');
        this.node.setAttribute('target', '_blank');
      }
      if (source.title !== null) this.node.title = source.title;
    }
    drawInline(this.node, this.children, source.children);
  }
}

/**
 * @param {Text} node
 * @param {string} shown
 * @param {string} text
 */
function grow(node, shown, text) {
  if (text === shown) return;
  if (text.startsWith(shown)) node.appendData(text.slice(shown.length));
  else node.data = text;
}

/**
 * @param {HTMLElement} parent
 * @param {InlineNode[]} drawn - changed to what is drawn now
 * @param {Chat.Inline[]} sources
 */
function drawInline(parent, drawn, sources) {
  for (let index = 0; index < sources.length; index += 1) {
    const source = sources[index];
    const old = drawn[index];
    if (old !== undefined && old.type === source.type) {
      old.update(source);
    } else {
      const made = new InlineNode(source);
      if (old === undefined) {
        parent.append(made.node);
      } else {
        old.node.replaceWith(made.node);
      }
      drawn[index] = made;
    }
  }
  for (const extra of drawn.splice(sources.length)) extra.node.remove();
}

/** The inline content of one element. */
export class InlineView {
  #parent;
  /** How much of the text is drawn for good. */
  #fixed = 0;
  /** What is drawn of it. @type {HTMLElement[]} */
  #done = [];
  /** What the rest is drawn in. @type {HTMLElement} */
  #last;
  /** What is drawn of the rest. @type {InlineNode[]} */
  #drawn = [];
  #text = '';
  #open = true;

  /** @param {HTMLElement} parent */
  constructor(parent) {
    this.#parent = parent;
    this.#last = parent;
  }

  /**
   * @param {string} text
   * @param {boolean} open
   */
  update(text, open) {
    if (open === this.#open && text === this.#text) return;
    if (!text.startsWith(this.#text.slice(0, this.#fixed))) {
      this.#parent.replaceChildren();
      this.#last = this.#parent;
      this.#done = [];
      this.#drawn = [];
      this.#fixed = 0;
    }
    this.#text = text;
    this.#open = open;
    while (text.length - this.#fixed > INLINE_WINDOW) {
      const piece = text.slice(this.#fixed, this.#fixed + INLINE_WINDOW);
      const cut = safeCut(piece, INLINE_WINDOW);
      this.#intoPiece();
      this.#draw(piece.slice(0, cut), false);
      this.#done.push(this.#last);
      this.#last = el('span', { class: 'piece' });
      this.#parent.append(this.#last);
      this.#drawn = [];
      this.#fixed += cut;
    }
    this.#draw(text.slice(this.#fixed), open);
  }

  /** The first piece is drawn in the element itself until there is a second. */
  #intoPiece() {
    if (this.#last !== this.#parent) return;
    this.#last = el('span', { class: 'piece' });
    this.#last.append(...this.#parent.childNodes);
    this.#parent.append(this.#last);
  }

  /**
   * @param {string} text
   * @param {boolean} open
   */
  #draw(text, open) {
    drawInline(this.#last, this.#drawn, parseInline(text, open).nodes);
  }
}
