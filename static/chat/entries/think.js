import { el, glyph, icon, setText } from '../dom.js';
import { duration } from '../time.js';
import { EntryView } from './entry.js';

/** What a model thought: open while it streams, one line after, unless the reader opened it. */
export class ThinkView extends EntryView {
  #label = el('span');
  #time = el('span', { class: 'end' });
  #line = el('button', { type: 'button', class: 'line', 'aria-expanded': 'false', click: () => this.#toggle() }, icon('right', 'i-s chev'), this.#label, this.#time);
  #text = document.createTextNode('');
  #length = 0;
  #caret = el('span', { class: 'caret think', 'aria-hidden': 'true' });
  #box = el('div', { class: 'thinking' }, el('div', {}, this.#text, this.#caret));
  /** What the reader chose; null while they chose nothing. @type {boolean|null} */
  #chosen = null;
  /** @type {(() => void)|null} */
  #untick = null;

  /** @param {Chat.Page} page */
  constructor(page) {
    super(page);
    this.body.append(this.#line, this.#box);
  }

  render() {
    const { live, interrupted, ms, open, text } = this.entry;
    this.look('think', { live, tight: true });
    this.setNode(live ? 'live' : 'still', () => glyph('thinking', { still: !live }));
    if (live) this.#untick ??= this.page.ticker.add(() => this.#count());
    else this.leave();
    const label = live ? 'Thinking' : interrupted ? 'Thought, interrupted' : ms === null ? 'Thought' : `Thought for ${duration(Math.max(ms, 100))}`;
    setText(this.#label, label);
    this.#label.classList.toggle('t-think', live);
    this.#count();
    this.#set(open === null ? text : open.thinking);
    this.#fold();
  }

  /** @param {string[]} pieces */
  grow(pieces) {
    const { open } = this.entry;
    if (open === null) return;
    const text = pieces.join('');
    if (this.#length + text.length === open.thinking.length) this.#append(text);
    else this.#set(open.thinking);
  }

  leave() {
    this.#untick?.();
    this.#untick = null;
  }

  /** @param {string} text */
  #set(text) {
    if (this.#length === text.length && this.#text.data === text) return;
    this.#text.data = text;
    this.#length = text.length;
  }

  /** @param {string} text */
  #append(text) {
    this.#text.appendData(text);
    this.#length += text.length;
  }

  #count() {
    const { live, since, silent } = this.entry;
    if (silent) return;
    setText(this.#time, live && since !== null ? duration(this.page.clock.now() - since) : '');
  }

  #toggle() {
    this.page.hold(this.element);
    this.#chosen = this.#line.getAttribute('aria-expanded') !== 'true';
    this.#fold();
  }

  #fold() {
    const { live } = this.entry;
    const open = this.#chosen ?? live;
    this.#line.setAttribute('aria-expanded', String(open));
    this.#box.hidden = !open;
    this.#box.classList.toggle('whole', this.#chosen === true);
    this.#box.classList.toggle('fade', live && this.#chosen === null);
    this.#caret.hidden = !live;
  }
}
