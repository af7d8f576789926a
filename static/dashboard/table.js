import { el, icon } from '../chat/dom.js';
import { RowView } from './row_view.js';
import { Window } from './window.js';

const COLUMNS = [
  ['state', 'State'],
  ['title', 'Run'],
  ['agent', 'Agent'],
  ['now', 'Last 2 minutes'],
  ['time', 'Elapsed'],
  ['rate', 'Tokens/s'],
  ['tokens', 'Tokens'],
  ['tools', 'Tools'],
  ['waiting', 'Waiting'],
  ['errors', 'Errors'],
  ['viewers', 'Viewers'],
  ['lag', 'Lag'],
];
/** In px, as the style sheet has them. */
const HEIGHTS = { row: 33, group: 28, small: 54 };

/** The table of runs: only what is in view exists. A part of the painter. */
export class Table {
  #parts;
  #page;
  #window = new Window();
  /** @type {Board.Item[]} */
  #items = [];
  /** What is drawn, by key. @type {Map<string, {element: HTMLElement, view: RowView|null, top: number}>} */
  #drawn = new Map();
  /** @type {Set<string>} */
  #dirty = new Set();
  #moved = false;
  #second = false;
  #narrow = matchMedia('(max-width: 559px)');
  /** @type {string|null} */
  #selected = null;
  /** @type {Map<string, HTMLElement>} */
  #heads = new Map();

  /**
   * @param {{root: HTMLElement, head: HTMLElement, body: HTMLElement}} parts
   * @param {Board.TablePage} page
   */
  constructor(parts, page) {
    this.#parts = parts;
    this.#page = page;
    for (const [name, word] of COLUMNS) {
      const sortable = name !== 'now';
      const button = sortable ? el('button', { type: 'button', click: () => page.sortBy(name) }, word) : el('span', {}, word);
      const head = el('div', { class: `c-${name}`, role: 'columnheader' }, button);
      this.#heads.set(name, head);
      parts.head.append(head);
    }
    parts.root.setAttribute('aria-colcount', String(COLUMNS.length));
    parts.root.addEventListener('scroll', () => this.#moves(), { passive: true });
    new ResizeObserver(() => this.#moves()).observe(parts.root);
    this.#narrow.addEventListener('change', () => this.set(this.#items));
    parts.body.addEventListener('click', (event) => {
      const at = /** @type {HTMLElement} */ (event.target);
      const topic = at.closest('.run-row')?.getAttribute('data-topic');
      if (topic == null || at.closest('a, button') !== null) return;
      this.select(topic);
    });
    parts.body.addEventListener('dblclick', (event) => {
      const topic = /** @type {HTMLElement} */ (event.target).closest('.run-row')?.getAttribute('data-topic');
      if (topic != null) page.open(topic);
    });
  }

  get selected() {
    return this.#selected;
  }

  /** Whether something would be lost from view by a change at the top. */
  get scrolled() {
    return this.#parts.root.scrollTop > 0;
  }

  /** @param {{column: string, descending: boolean}} sort */
  showSort({ column, descending }) {
    for (const [name, head] of this.#heads) {
      const sorted = name === column;
      if (sorted) head.setAttribute('aria-sort', descending ? 'descending' : 'ascending');
      else head.removeAttribute('aria-sort');
      head.querySelector('svg')?.remove();
      if (sorted) head.firstElementChild?.append(icon(descending ? 'down' : 'up', 'i-s'));
    }
  }

  /** @param {Board.Item[]} items */
  set(items) {
    this.#items = items;
    const { row, group, small } = HEIGHTS;
    this.#window.measure(items.map((item) => (item.row === null ? group : this.#narrow.matches ? small : row)));
    this.#moves();
  }

  /** @param {string} topic - another summary of it came */
  changed(topic) {
    // What is not drawn is drawn whole when it comes into view.
    if (!this.#drawn.has(topic)) return;
    this.#dirty.add(topic);
    this.#page.mark(this);
  }

  /** A second is over. */
  tick() {
    this.#second = true;
    this.#page.mark(this);
  }

  /** Everything that is drawn may be shown differently. */
  refresh() {
    for (const topic of this.#drawn.keys()) this.#dirty.add(topic);
    this.#page.mark(this);
  }

  toTop() {
    this.#parts.root.scrollTop = 0;
  }

  /**
   * @param {string|null} topic
   * @param {{focus?: boolean}} [how]
   */
  select(topic, { focus = false } = {}) {
    const before = this.#drawn.get(this.#selected ?? '')?.element;
    before?.removeAttribute('aria-selected');
    before?.setAttribute('tabindex', '-1');
    this.#selected = topic;
    this.#page.selected(topic);
    if (topic === null) return;
    const index = this.#items.findIndex((item) => item.row?.topic === topic);
    if (index !== -1 && focus) this.#reveal(index);
    this.#render();
    this.#markSelected();
    if (focus) this.#drawn.get(topic)?.element.focus({ preventScroll: true });
  }

  /** @param {1|-1} by */
  step(by) {
    const topics = this.#items.flatMap(({ row }) => (row === null ? [] : [row.topic]));
    if (topics.length === 0) return;
    const at = topics.indexOf(this.#selected ?? '');
    const next = at === -1 ? (by === 1 ? 0 : topics.length - 1) : Math.min(topics.length - 1, Math.max(0, at + by));
    this.select(topics[next], { focus: true });
  }

  paint() {
    if (this.#moved) this.#render();
    this.#moved = false;
    for (const topic of this.#dirty) this.#drawn.get(topic)?.view?.show();
    this.#dirty.clear();
    if (this.#second) {
      for (const { view } of this.#drawn.values()) {
        view?.count();
        view?.draw();
      }
    }
    this.#second = false;
    return true;
  }

  #moves() {
    this.#moved = true;
    this.#page.mark(this);
  }

  /** @param {number} index */
  #reveal(index) {
    const { root } = this.#parts;
    const top = this.#window.top(index);
    const bottom = this.#window.top(index + 1);
    const room = root.clientHeight - this.#parts.head.offsetHeight;
    if (top < root.scrollTop) root.scrollTop = index === 1 ? 0 : top;
    else if (bottom > root.scrollTop + room) root.scrollTop = bottom - room;
  }

  #render() {
    const { root, body } = this.#parts;
    const [from, to] = this.#window.range(root.scrollTop, root.clientHeight);
    const wanted = this.#items.slice(from, to);
    const keys = new Set(wanted.map(({ key }) => key));
    const focused = body.contains(document.activeElement);
    for (const [key, { element }] of this.#drawn) {
      if (keys.has(key)) continue;
      element.remove();
      this.#drawn.delete(key);
    }
    body.style.blockSize = `${this.#window.height}px`;
    root.setAttribute('aria-rowcount', String(this.#items.length + 1));
    wanted.forEach((item, index) => {
      const top = this.#window.top(from + index);
      let drawn = this.#drawn.get(item.key);
      if (drawn === undefined) {
        const view = item.row === null ? null : new RowView(item.row, this.#page);
        drawn = { element: view?.element ?? group(), view, top: -1 };
        this.#drawn.set(item.key, drawn);
        body.append(drawn.element);
      }
      if (item.row === null) groupText(drawn.element, item);
      if (drawn.top !== top) {
        drawn.top = top;
        drawn.element.style.transform = `translateY(${top}px)`;
      }
      drawn.element.setAttribute('aria-rowindex', String(from + index + 2));
    });
    this.#markSelected();
    // What had the focus may have left; the table keeps it.
    if (focused && !body.contains(document.activeElement)) this.#parts.root.focus({ preventScroll: true });
  }

  #markSelected() {
    const drawn = this.#drawn.get(this.#selected ?? '');
    drawn?.element.setAttribute('aria-selected', 'true');
    drawn?.element.setAttribute('tabindex', '0');
    // Without a selection the table itself is where Tab goes.
    this.#parts.root.tabIndex = drawn === undefined ? 0 : -1;
  }
}

function group() {
  return el('div', { class: 'run-group', role: 'row' }, el('span', { role: 'gridcell' }, el('b'), ' ', el('span', { class: 'quiet' })));
}

/**
 * @param {HTMLElement} element
 * @param {Board.Item} item
 */
function groupText(element, { title, note }) {
  const [name, rest] = element.querySelectorAll('b, .quiet');
  if (name.textContent !== title) name.textContent = title;
  if (rest.textContent !== note) rest.textContent = note;
}
