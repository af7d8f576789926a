import { el, glyph, setChildren, svg } from '../chat/dom.js';
import { duration, elapsed } from '../chat/time.js';
import { spanAt } from './as_of.js';
import { rowsOf } from './timeline.js';
import { wordOf } from './row_view.js';
import { Window } from './window.js';

const ROW = 28;
const WIDTH = 1000;
/** Shown levels are indented up to this one. */
const DEEPEST = 4;
/** Runs that ended otherwise than well. @type {Map<string, string>} */
const ENDS = new Map([
  ['failed', 'bad'],
  ['stopped', 'gone'],
  ['lost', 'gone'],
]);

/** The timeline of a run: spans on one time axis. Only what is in view exists. A part of the painter. */
export class Waterfall {
  #parts;
  #page;
  #window = new Window();
  /** @type {{span: Board.Span, level: number}[]} */
  #rows = [];
  /** @type {Map<string, {element: HTMLElement, bars: SVGElement, dur: HTMLElement, name: HTMLElement, state: string, words: string, top: number}>} */
  #drawn = new Map();
  #lines = svg('svg', { class: 'grid-lines', 'aria-hidden': 'true' });
  #version = -1;
  /** @type {Board.Span|null} */
  #root = null;
  /** @type {string|null} */
  #selected = null;

  /**
   * @param {{box: HTMLElement, rows: HTMLElement, axis: SVGElement}} parts
   * @param {Board.WaterfallPage} page
   */
  constructor(parts, page) {
    this.#parts = parts;
    this.#page = page;
    parts.rows.append(this.#lines);
    parts.box.addEventListener('scroll', () => page.mark(this), { passive: true });
    new ResizeObserver(() => page.mark(this)).observe(parts.box);
    parts.rows.addEventListener('click', (event) => {
      const key = /** @type {HTMLElement} */ (event.target).closest('[data-key]')?.getAttribute('data-key');
      if (key != null) this.select(key, { focus: true });
    });
    parts.box.addEventListener(
      'wheel',
      (event) => {
        if (!event.ctrlKey && !event.shiftKey) return;
        event.preventDefault();
        const { left, width } = this.#lines.getBoundingClientRect();
        const by = event.deltaY || event.deltaX;
        if (event.ctrlKey) page.axis.zoom(by < 0 ? 1.25 : 0.8, Math.min(1, Math.max(0, (event.clientX - left) / Math.max(1, width))));
        else page.axis.pan(by / Math.max(1, width));
        page.moved();
      },
      { passive: false },
    );
    parts.box.addEventListener('keydown', (event) => {
      const by = event.key === 'ArrowDown' ? 1 : event.key === 'ArrowUp' ? -1 : 0;
      if (by === 0) return;
      event.preventDefault();
      this.step(by);
    });
  }

  get selected() {
    return this.#rows.find(({ span }) => span.key === this.#selected)?.span ?? null;
  }

  get empty() {
    return this.#rows.length === 0;
  }

  /** @param {number} offset @returns {Board.Span|null} the smallest span that it lies in */
  spanAt(offset) {
    return this.#rows.findLast(({ span }) => span.first <= offset && offset <= span.last)?.span ?? null;
  }

  /** @returns {Board.Span|null} the question that has waited longest */
  get question() {
    return this.#rows.find(({ span }) => span.question !== null && span.question.decision === null && span.to === null)?.span ?? null;
  }

  /**
   * @param {string|null} key
   * @param {{focus?: boolean}} [how]
   */
  select(key, { focus = false } = {}) {
    this.#selected = key;
    const index = this.#rows.findIndex(({ span }) => span.key === key);
    const { box } = this.#parts;
    if (index !== -1 && focus) {
      const top = index * ROW;
      const room = box.clientHeight - ROW - 12;
      if (top < box.scrollTop) box.scrollTop = top;
      else if (top + ROW > box.scrollTop + room) box.scrollTop = top + ROW - room;
    }
    this.#render(this.#page.now());
    if (focus) this.#drawn.get(key ?? '')?.element.focus({ preventScroll: true });
    this.#page.selected(this.selected);
  }

  /** @param {number} by */
  step(by) {
    if (this.#rows.length === 0) return;
    const at = this.#rows.findIndex(({ span }) => span.key === this.#selected);
    const next = at === -1 ? 0 : Math.min(this.#rows.length - 1, Math.max(0, at + by));
    this.select(this.#rows[next].span.key, { focus: true });
  }

  paint() {
    const { root, version } = this.#page;
    if (root() !== this.#root || version() !== this.#version) {
      const [bottom, grown] = [this.#parts.box.scrollTop + this.#parts.box.clientHeight >= this.#parts.box.scrollHeight - 48, this.#rows.length];
      this.#root = root();
      this.#version = version();
      this.#rows = this.#root === null ? [] : rowsOf(this.#root);
      // A tree has branches; without any it is none.
      this.#parts.box.setAttribute('role', this.empty ? 'group' : 'tree');
      this.#window.measure(this.#rows.map(() => ROW));
      this.#parts.rows.style.blockSize = `${this.#window.height}px`;
      // New rows stay in view for those who look at the end.
      if (bottom && this.#rows.length > grown && this.#page.axis.following) this.#parts.box.scrollTop = this.#parts.box.scrollHeight;
    }
    this.#render(this.#page.now());
    return true;
  }

  /** @param {number} now */
  #render(now) {
    const { start } = this.#page;
    const moment = this.#page.moment();
    const { box, rows } = this.#parts;
    const width = this.#parts.axis.clientWidth;
    const seen = [box.scrollTop, box.clientHeight];
    const [from, to] = this.#window.range(seen[0], seen[1]);
    const wanted = this.#rows.slice(from, to);
    const keys = new Set(wanted.map(({ span }) => span.key));
    for (const [key, { element }] of this.#drawn) {
      if (keys.has(key)) continue;
      element.remove();
      this.#drawn.delete(key);
    }
    const least = width > 0 ? (2 * WIDTH) / width : 2;
    wanted.forEach(({ span, level }, index) => {
      const drawn = this.#drawn.get(span.key) ?? this.#make(span, level, rows);
      this.#show(drawn, span, now, least, moment);
      const top = (from + index) * ROW;
      if (drawn.top !== top) {
        drawn.top = top;
        drawn.element.style.transform = `translateY(${top}px)`;
      }
      drawn.element.classList.toggle('later', moment !== null && span.first > moment.offset);
      const selected = span.key === this.#selected;
      drawn.element.setAttribute('aria-selected', String(selected));
      drawn.element.tabIndex = selected ? 0 : -1;
    });
    box.tabIndex = this.#drawn.has(this.#selected ?? '') ? -1 : 0;
    this.#grid(start(), now, width, moment);
  }

  /**
   * @param {Board.Span} span
   * @param {number} level
   * @param {HTMLElement} rows
   */
  #make(span, level, rows) {
    const bars = svg('svg', { viewBox: `0 0 ${WIDTH} ${ROW}`, preserveAspectRatio: 'none', 'aria-hidden': 'true' });
    const dur = el('span', { class: 'dur' });
    const name = el('span', { class: span.kind === 'tool' ? 'cut mono' : level === 0 ? 'cut strong' : 'cut' }, span.name);
    const mark = el('span', { class: 'row' });
    const element = el('div', { class: 'fall-row', role: 'treeitem', 'aria-level': level + 1, 'data-key': span.key }, el('div', { class: `n d${Math.min(DEEPEST, level)}` }, mark, name, dur), el('div', { class: 'b' }, bars));
    const drawn = { element, bars, dur, name: mark, state: '', words: '', top: -1 };
    this.#drawn.set(span.key, drawn);
    rows.append(element);
    return drawn;
  }

  /**
   * @param {{element: HTMLElement, bars: SVGElement, dur: HTMLElement, name: HTMLElement, state: string, words: string}} drawn
   * @param {Board.Span} span
   * @param {number} now
   * @param {number} least
   * @param {Board.Moment|null} moment
   */
  #show(drawn, span, now, least, moment) {
    // What begins later is shown as it came to be, faded.
    const then = spanAt(span, moment !== null && span.first <= moment.offset ? moment : null);
    const state = span.kind === 'run' && then.open && moment !== null ? (this.#page.state() ?? then.state) : then.state;
    if (drawn.state !== state) {
      drawn.state = state;
      drawn.name.replaceChildren(glyph(state, { label: wordOf(state, true) }));
    }
    const took = (then.to ?? Math.max(now, span.from)) - span.from;
    const words = then.open ? elapsed(took) : duration(took);
    if (drawn.words !== words) {
      drawn.words = words;
      drawn.dur.textContent = words;
    }
    const thin = span.kind === 'run' || span.kind === 'sub' || span.kind === 'step';
    const whole = [{ tone: span.kind === 'step' ? 'gone' : (ENDS.get(span.state) ?? 'live'), from: span.from, to: span.to }];
    const segments = thin ? whole : span.state === 'failed' && span.kind === 'tool' ? span.segments.map((segment) => ({ ...segment, tone: segment.tone === 'tool' ? 'bad' : segment.tone })) : span.segments;
    const shown = this.#page.axis.bars(segments, now, WIDTH, least);
    const children = [...drawn.bars.children];
    shown.forEach((bar, index) => {
      const rect = children[index] ?? drawn.bars.appendChild(svg('rect', {}));
      const height = thin ? 4 : 12;
      rect.setAttribute('class', `f-${bar.tone}`);
      rect.setAttribute('x', bar.x.toFixed(1));
      rect.setAttribute('width', bar.width.toFixed(1));
      rect.setAttribute('y', String((ROW - height) / 2));
      rect.setAttribute('height', String(height));
    });
    for (const rect of children.slice(shown.length)) rect.remove();
  }

  /**
   * @param {number} start
   * @param {number} now
   * @param {number} width
   * @param {Board.Moment|null} moment
   */
  #grid(start, now, width, moment) {
    const { axis, live } = this.#page;
    const ticks = this.#root === null ? [] : axis.ticks(start, Math.max(2, Math.floor(width / 90)));
    const x = (/** @type {number} */ at) => axis.x(at, width).toFixed(1);
    // Half a time at the edge would read as another one.
    const whole = ticks.filter(({ at }) => axis.x(at, width) < width - 34);
    setChildren(this.#parts.axis, whole.map(({ at, text }) => {
      const mark = svg('text', { x: Number(x(at)) + 4, y: 18 });
      mark.textContent = text;
      return mark;
    }));
    const path = (/** @type {string} */ name, /** @type {string} */ d) => svg('path', { class: name, d });
    const height = Math.max(this.#window.height, 4000);
    const lines = [path('tick-line', ticks.map(({ at }) => `M${x(at)} 0V${height}`).join(''))];
    if (live()) lines.push(path('now-line', `M${x(now)} 0V${height}`));
    if (moment !== null) lines.push(path('ahead', `M${x(moment.at)} 0H${width}V${height}H${x(moment.at)}Z`), path('past-line', `M${x(moment.at)} 0V${height}`));
    this.#lines.classList.toggle('past', moment !== null);
    setChildren(this.#lines, lines);
  }
}
