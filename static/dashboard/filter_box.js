import { el, icon } from '../chat/dom.js';
import { splitTerms } from './filter.js';

/** Where the filter is typed: whole terms become tokens, which Backspace takes away. */
export class FilterBox {
  /** @type {string[]} */
  #terms = [];
  #parts;
  #changed;

  /**
   * @param {{terms: HTMLElement, box: HTMLInputElement}} parts
   * @param {() => void} changed
   */
  constructor(parts, changed) {
    this.#parts = parts;
    this.#changed = changed;
    parts.box.addEventListener('input', () => {
      // A term is whole once something stands after it.
      if (/\s$/.test(parts.box.value)) this.#settle();
      changed();
    });
    parts.box.addEventListener('keydown', (event) => {
      if (event.isComposing) return;
      if (event.key === 'Enter') {
        this.#settle();
        changed();
      } else if (event.key === 'Backspace' && parts.box.value === '' && this.#terms.length > 0) {
        event.preventDefault();
        this.toggle(this.#terms[this.#terms.length - 1]);
      }
    });
  }

  get text() {
    return [...this.#terms, this.#parts.box.value.trim()].filter(Boolean).join(' ');
  }

  get terms() {
    return new Set(this.#terms);
  }

  /** @param {string} text */
  set(text) {
    const { terms, words } = splitTerms(text);
    this.#terms = [...new Set(terms)];
    this.#parts.box.value = words;
    this.#draw();
    this.#changed();
  }

  /** @param {string} term */
  toggle(term) {
    const had = this.#terms.includes(term);
    this.#terms = had ? this.#terms.filter((other) => other !== term) : [...this.#terms, term];
    this.#draw();
    this.#changed();
  }

  #settle() {
    const { terms, words } = splitTerms(this.#parts.box.value);
    if (terms.length === 0) return;
    this.#terms = [...new Set([...this.#terms, ...terms])];
    this.#parts.box.value = words === '' ? '' : `${words} `;
    this.#draw();
  }

  #draw() {
    this.#parts.terms.replaceChildren(
      ...this.#terms.map((term) => {
        const [, name = '', rest = term] = /^([a-z]+)[:]?(.*)$/.exec(term) ?? [];
        const remove = () => {
          this.toggle(term);
          this.#parts.box.focus();
        };
        return el('button', { type: 'button', class: 'tok', click: remove, 'aria-label': `Remove filter ${term}`, title: `Remove ${term}` }, el('b', {}, name), rest, icon('x', 'i-s'));
      }),
    );
  }
}
