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
  /** By index. @type {Map<number, {element: HTMLElement, line: Board.ShownLine, look: string}>} */
  #drawn = new Map();
  #following = true;
  /** Where it stood after the last scroll, px. */
  #top = 0;
  #query = '';
  /** @type {number|null} */
  #current = null;
  /** @type {[number, number]|null} */
  #within = null;
  /** @type {number|null} */
  #until = null;
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
        const { scrollTop, clientHeight, scrollHeight } = parts.box;
        // Lines that came since the last scroll take nobody away from the end; going up does.
        if (scrollTop + clientHeight >= scrollHeight - NEAR) this.#following = true;
        else if (scrollTop < this.#top) this.#following = false;
        this.#top = scrollTop;
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
   * @param {number|null} how.until - what is told after this offset had not happened yet; null where all has
   */
  set(lines, { query, within, until }) {
    const grown = lines.length > this.#lines.length;
    this.#lines = lines;
    this.#query = query.trim().toLowerCase();
    this.#within = within;
    const moved = until !== null && until !== this.#until;
    this.#until = until;
    this.#window.measure(lines.map(() => LINE));
    this.#parts.lines.style.blockSize = `${this.#window.height}px`;
    if (moved) this.#reveal(Math.max(0, lines.findLastIndex(({ offset }) => offset <= until)));
    else if (grown && this.#following && until === null) this.#parts.box.scrollTop = this.#parts.box.scrollHeight;
    this.paint();
  }

  /** Another list: its end is looked at. */
  follow() {
    this.#following = true;
    this.#current = null;
    this.set([], { query: '', within: null, until: null });
  }

  /** @param {number|null} index - to be looked at */
  show(index) {
    this.#current = index;
    if (index !== null) this.#reveal(index);
    this.#mark(this);
  }

  /** @param {number} index */
  #reveal(index) {
    const { box } = this.#parts;
    const top = index * LINE;
    if (top < box.scrollTop || top + LINE > box.scrollTop + box.clientHeight) box.scrollTop = Math.max(0, top - box.clientHeight / 2);
    this.#following = false;
  }

  paint() {
    const { box, lines } = this.#parts;
    const [from, to] = this.#window.range(box.scrollTop, box.clientHeight);
    for (const [index, { element, line }] of this.#drawn) {
      if (index >= from && index < to && line === this.#lines[index]) continue;
      element.remove();
      this.#drawn.delete(index);
    }
    for (let index = from; index < to; index += 1) {
      const line = this.#lines[index];
      const inside = this.#within !== null && line.offset >= this.#within[0] && line.offset <= this.#within[1];
      const later = this.#until !== null && line.offset > this.#until;
      const look = `${this.#query} ${index === this.#current} ${inside} ${later}`;
      const drawn = this.#drawn.get(index);
      if (drawn?.look === look) continue;
      drawn?.element.remove();
      const element = this.#make(line);
      element.classList.toggle('current', index === this.#current);
      element.classList.toggle('within', inside);
      element.classList.toggle('later', later);
      element.style.transform = `translateY(${index * LINE}px)`;
      this.#drawn.set(index, { element, line, look });
      lines.append(element);
    }
    return true;
  }

  /** @param {Board.ShownLine} line */
  #make({ time, level, tone, source, text, offset }) {
    const message = el('span', { class: 'msg', title: text });
    const at = this.#query === '' ? -1 : text.toLowerCase().indexOf(this.#query);
    if (at === -1) message.textContent = text.slice(0, 2000);
    else message.append(text.slice(Math.max(0, at - 400), at), el('mark', {}, text.slice(at, at + this.#query.length)), text.slice(at + this.#query.length, at + 2000));
    return el('div', { class: 'log', 'data-level': tone, 'data-offset': offset }, el('time', {}, time), el('span', { class: 'lv' }, level), el('span', {}, source), message, el('span', {}, String(offset)));
  }
}
