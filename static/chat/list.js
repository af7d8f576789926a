import { el, glyph, setChildren } from './dom.js';
import { wordFor } from './run_state.js';
import { elapsed, listTime } from './time.js';
import { ENDED, groups } from './topics.js';
import { addressOf } from './address.js';

/** The gateway is asked for its topics this often, in ms. */
const REFRESH_MS = 10_000;
/** A longer list is cut; the search finds the rest. */
const ROWS = 300;

/** The conversations on the left. A part of the painter. */
export class List {
  #options;
  /** @type {{topic: string, at: number}[]} */
  #topics = [];
  #loaded = false;
  /** State of the topic on the page; only of this one it is known. @type {string|null} */
  #state = null;
  #facts = { decides: false, left: '', words: '', started: /** @type {number|null} */ (null) };
  #shown = '';

  /**
   * @param {Chat.ListOptions} options
   */
  constructor(options) {
    this.#options = options;
    const { search, mark } = options;
    search.addEventListener('input', mark);
    window.addEventListener('focus', () => this.refresh());
    document.addEventListener('visibilitychange', () => this.refresh());
    setInterval(() => this.refresh(), REFRESH_MS);
  }

  async refresh() {
    if (document.hidden) return;
    try {
      this.#topics = await this.#options.load();
      this.#loaded = true;
      const { current, briefs } = this.#options;
      // What is opened inside of the conversation is followed there.
      briefs.follow(this.#topics.map(({ topic }) => topic).filter((topic) => topic !== current && !topic.startsWith(`${current}/`)));
      this.#options.mark();
    } catch {
      // Without an answer the list stays as it was; the foot says what the connection is like.
    }
  }

  /**
   * @param {string|null} state
   * @param {{decides: boolean, left: string, words: string, started: number|null}} facts - whether this reader may decide; how long
   *   there is for that; what it does; since when, in the gateway's Unix time in ms
   */
  showState(state, facts) {
    this.#state = state;
    this.#facts = facts;
  }

  paint() {
    const now = Date.now();
    const filter = this.#options.search.value;
    const all = this.#topics.some(({ topic }) => topic === this.#options.current) || this.#state === null ? this.#topics : [{ topic: this.#options.current, at: now }, ...this.#topics];
    const found = groups(all.slice(0, ROWS), { current: this.#options.current, title: this.#options.title(), state: this.#state, memory: this.#options.memory, brief: (topic) => this.#options.briefs.of(topic), filter, now });
    const times = found.flatMap(({ rows }) => rows.map((row) => this.#time(row, now)));
    const name = JSON.stringify([found, times, this.#state, this.#facts, this.#loaded, filter === '']);
    if (name === this.#shown) return true;
    this.#shown = name;
    const focused = document.activeElement instanceof HTMLElement && this.#options.root.contains(document.activeElement) ? document.activeElement.dataset.topic : undefined;
    const nodes = found.flatMap(({ title, rows }) => [el('h2', {}, el('span', {}, title === 'Needs you' && !this.#facts.decides ? 'Waiting' : title), title === 'Needs you' || title === 'Running' ? el('span', { class: 'num' }, String(rows.length)) : ''), el('ul', {}, ...rows.map((row) => this.#row(row, now)))]);
    if (nodes.length === 0 && this.#loaded) nodes.push(el('p', { class: 'list-none quiet' }, filter === '' ? 'No conversations yet.' : 'No conversation matches.'));
    setChildren(this.#options.root, nodes);
    if (focused !== undefined) /** @type {HTMLElement|null} */ (this.#options.root.querySelector(`[data-topic="${CSS.escape(focused)}"]`))?.focus();
    return true;
  }

  /**
   * @param {Chat.Row} row
   * @param {number} now
   */
  #row(row, now) {
    const { topic, title, state, unread } = row;
    const current = topic === this.#options.current;
    const link = el(
      'a',
      { class: 'conv', href: addressOf(topic), 'data-topic': topic, 'data-unread': unread, ...(current && { 'aria-current': 'page' }) },
      state === null ? el('span') : glyph(state, { label: wordFor(/** @type {any} */ (state), this.#facts).word }),
      el('span', { class: 'title cut' }, title),
      el('time', { class: state === 'waiting' ? 'when t-wait' : 'when' }, this.#time(row, now)),
      el('span', { class: 'sub cut' }, (current ? this.#facts.words : row.words) || (title === topic ? '' : topic)),
    );
    if (unread) link.append(el('span', { class: 'sr' }, 'New since you looked'));
    return el('li', {}, link);
  }

  /**
   * How long there is to decide, how long it runs, or when it was last heard of.
   * @param {Chat.Row} row
   * @param {number} now
   */
  #time({ topic, at, state, started, expires }, now) {
    const current = topic === this.#options.current;
    if (current && state === 'waiting' && this.#facts.left !== '') return this.#facts.left;
    const since = current ? this.#facts.started : started;
    const server = this.#options.clock.now();
    if (state === 'waiting' && expires !== null) return elapsed(Math.max(0, expires - server + 999));
    if (state !== null && !ENDED.has(state) && since !== null) return elapsed(server - since);
    return listTime(at, now);
  }
}
