import { button, setChildren } from './dom.js';
import { notice } from './entries/lines.js';

/** A notice that only informs leaves by itself, in ms. */
const SHORT_MS = 6000;

/** What the page has to say about itself, above the composer; one notice by name. */
export class Notices {
  #root;
  /** @type {Map<string, {words: string, element: HTMLElement}>} */
  #shown = new Map();

  /** @param {HTMLElement} root */
  constructor(root) {
    this.#root = root;
  }

  /**
   * @param {string} name - a later notice of the same name takes its place
   * @param {{tone: string, symbol: string, title: string, text: string, action?: {label: string, press: () => void}, short?: boolean}} what
   */
  show(name, { tone, symbol, title, text, action, short = false }) {
    const words = `${title} ${text}`;
    if (this.#shown.get(name)?.words === words) return;
    const actions = action === undefined ? [] : [button({ label: action.label, text: action.label, style: 'small', press: action.press })];
    const element = notice(tone, symbol, title, text, ...actions);
    this.#shown.set(name, { words, element });
    this.#draw();
    if (!short) return;
    setTimeout(() => {
      if (this.#shown.get(name)?.element === element) this.hide(name);
    }, SHORT_MS);
  }

  /** @param {string} name */
  hide(name) {
    if (this.#shown.delete(name)) this.#draw();
  }

  #draw() {
    setChildren(this.#root, [...this.#shown.values()].map(({ element }) => element));
  }
}
