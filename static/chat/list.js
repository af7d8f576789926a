import { el, glyph, setChildren } from './dom.js';
import { wordFor } from './run_state.js';
import { listTime } from './time.js';
import { groups } from './topics.js';
import { addressOf } from './address.js';

/** The gateway is asked for its topics this often, in ms. */
const REFRESH_MS = 10_000;
/** A longer list is cut; the search finds the rest. */
const ROWS = 300;

/** The conversations on the left. A part of the painter. */
export class List {
  #root;
  #search;
  #current;
  #title;
  #memory;
  #load;
  #mark;
  /** @type {{topic: string, at: number}[]} */
  #topics = [];
  #loaded = false;
  /** State of the topic on the page; only of this one it is known. @type {string|null} */
  #state = null;
  #facts = { decides: false, left: '' };
  #shown = '';

  /**
   * @param {object} options
   * @param {HTMLElement} options.root
   * @param {HTMLInputElement} options.search
   * @param {string} options.current - the topic on the page
   * @param {() => string} options.title - of that topic
   * @param {import('./topics.js').TopicMemory} options.memory
   * @param {() => Promise<{topic: string, at: number}[]>} options.load
   * @param {() => void} options.mark - something is to be painted
   */
  constructor({ root, search, current, title, memory, load, mark }) {
    this.#root = root;
    this.#search = search;
    this.#current = current;
    this.#title = title;
    this.#memory = memory;
    this.#load = load;
    this.#mark = mark;
    search.addEventListener('input', mark);
    window.addEventListener('focus', () => this.refresh());
    document.addEventListener('visibilitychange', () => this.refresh());
    setInterval(() => this.refresh(), REFRESH_MS);
  }

  async refresh() {
    if (document.hidden) return;
    try {
      this.#topics = await this.#load();
      this.#loaded = true;
      this.#mark();
    } catch {
      // Without an answer the list stays as it was; the foot says what the connection is like.
    }
  }

  /**
   * @param {string|null} state
   * @param {{decides: boolean, left: string}} facts - whether this reader may decide; how long there is for that
   */
  showState(state, facts) {
    this.#state = state;
    this.#facts = facts;
  }

  paint() {
    const now = Date.now();
    const filter = this.#search.value;
    const all = this.#topics.some(({ topic }) => topic === this.#current) || this.#state === null ? this.#topics : [{ topic: this.#current, at: now }, ...this.#topics];
    const found = groups(all.slice(0, ROWS), { current: this.#current, title: this.#title(), state: this.#state, memory: this.#memory, filter, now });
    const name = JSON.stringify([found, this.#state, this.#facts, this.#loaded, filter === '']);
    if (name === this.#shown) return true;
    this.#shown = name;
    const focused = document.activeElement instanceof HTMLElement && this.#root.contains(document.activeElement) ? document.activeElement.dataset.topic : undefined;
    const nodes = found.flatMap(({ title, rows }) => [el('h2', {}, el('span', {}, title === 'Needs you' && !this.#facts.decides ? 'Waiting' : title)), el('ul', {}, ...rows.map((row) => this.#row(row, now)))]);
    if (nodes.length === 0 && this.#loaded) nodes.push(el('p', { class: 'list-none quiet' }, filter === '' ? 'No conversations yet.' : 'No conversation matches.'));
    setChildren(this.#root, nodes);
    if (focused !== undefined) /** @type {HTMLElement|null} */ (this.#root.querySelector(`[data-topic="${CSS.escape(focused)}"]`))?.focus();
    return true;
  }

  /**
   * @param {import('./topics.js').Row} row
   * @param {number} now
   */
  #row({ topic, at, title, unread }, now) {
    const current = topic === this.#current;
    const state = current ? this.#state : null;
    const link = el(
      'a',
      { class: 'conv', href: addressOf(topic), 'data-topic': topic, 'data-unread': unread, ...(current && { 'aria-current': 'page' }) },
      state === null ? el('span') : glyph(state, { label: wordFor(/** @type {any} */ (state), this.#facts).word }),
      el('span', { class: 'title cut' }, title),
      el('time', { class: state === 'waiting' ? 'when t-wait' : 'when' }, (state === 'waiting' && this.#facts.left) || listTime(at, now)),
      el('span', { class: 'sub cut' }, title === topic ? '' : topic),
    );
    if (unread) link.append(el('span', { class: 'sr' }, 'New since you looked'));
    return el('li', {}, link);
  }
}
