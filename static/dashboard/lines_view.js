import { el } from '../chat/dom.js';
import { Window } from './window.js';

const LINE = 22;
/** Within so many px of the end, new lines are followed. */
const NEAR = 48;

/** A long list of lines, of which only those in view exist. A part of the painter. */
export class LinesView {
  #parts;
  #window = new Window();
  /** @type {Board.ShownLine[]} */
  #lines = [];
  /** By index. @type {Map<number, {element: HTMLElement, line: Board.ShownLine}>} */
  #drawn = new Map();
  #following = true;
  #query = '';
  /** @type {number|null} */
  #current = null;
  /** @type {[number, number]|null} */
  #within = null;
  #mark;

  /**
   * @param {{box: HTMLElement, lines: HTMLElement}} parts
   * @param {{mark: (part: Chat.Part) => void, picked: (offset: number) => void}} page
   */
  constructor(parts, { mark, picked }) {
    this.#parts = parts;
    this.#mark = mark;
    parts.box.addEventListener(
      'scroll',
      () => {
        this.#following = parts.box.scrollTop + parts.box.clientHeight >= parts.box.scrollHeight - NEAR;
        mark(this);
      },
      { passive: true },
    );
    new ResizeObserver(() => mark(this)).observe(parts.box);
    parts.lines.addEventListener('click', (event) => {
      const offset = /** @type {HTMLElement} */ (event.target).closest('.log')?.getAttribute('data-offset');
      if (offset != null) picked(Number(offset));
    });
  }

  /**
   * @param {Board.ShownLine[]} lines
   * @param {object} how
   * @param {string} how.query - marked where it stands
   * @param {[number, number]|null} how.within - offsets that are marked
   */
  set(lines, { query, within }) {
    const grown = lines.length > this.#lines.length;
    this.#lines = lines;
    this.#query = query.trim().toLowerCase();
    this.#within = within;
    for (const { element } of this.#drawn.values()) element.remove();
    this.#drawn.clear();
    this.#window.measure(lines.map(() => LINE));
    this.#parts.lines.style.blockSize = `${this.#window.height}px`;
    if (grown && this.#following) this.#parts.box.scrollTop = this.#parts.box.scrollHeight;
    this.#mark(this);
  }

  /** @param {number|null} index - to be looked at */
  show(index) {
    this.#current = index;
    if (index !== null) {
      const { box } = this.#parts;
      const top = index * LINE;
      if (top < box.scrollTop || top + LINE > box.scrollTop + box.clientHeight) box.scrollTop = Math.max(0, top - box.clientHeight / 2);
      this.#following = false;
    }
    for (const { element } of this.#drawn.values()) element.remove();
    this.#drawn.clear();
    this.#mark(this);
  }

  paint() {
    const { box, lines } = this.#parts;
    const [from, to] = this.#window.range(box.scrollTop, box.clientHeight);
    for (const [index, { element }] of this.#drawn) {
      if (index >= from && index < to) continue;
      element.remove();
      this.#drawn.delete(index);
    }
    for (let index = from; index < to; index += 1) {
      if (this.#drawn.has(index)) continue;
      const line = this.#lines[index];
      const element = this.#make(line, index);
      element.style.transform = `translateY(${index * LINE}px)`;
      this.#drawn.set(index, { element, line });
      lines.append(element);
    }
    return true;
  }

  /**
   * @param {Board.ShownLine} line
   * @param {number} index
   */
  #make({ time, level, tone, source, text, offset }, index) {
    const message = el('span', { class: 'msg', title: text });
    const at = this.#query === '' ? -1 : text.toLowerCase().indexOf(this.#query);
    if (at === -1) message.textContent = text.slice(0, 2000);
    else message.append(text.slice(Math.max(0, at - 400), at), el('mark', {}, text.slice(at, at + this.#query.length)), text.slice(at + this.#query.length, at + 2000));
    const element = el('div', { class: 'log', 'data-level': tone, 'data-offset': offset }, el('time', {}, time), el('span', { class: 'lv' }, level), el('span', {}, source), message, el('span', {}, String(offset)));
    element.classList.toggle('current', index === this.#current);
    element.classList.toggle('within', this.#within !== null && offset >= this.#within[0] && offset <= this.#within[1]);
    return element;
  }
}
