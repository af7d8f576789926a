import { el, glyph, setText, svg } from '../chat/dom.js';
import { elapsed, number } from '../chat/time.js';

/** What each total filters by. @type {{name: string, label: string, term: string, glyph?: string, spark?: 'running'|'rate'|'tools', tone?: string, opt?: boolean}[]} */
const STATS = [
  { name: 'running', label: 'Running', term: 'state:running', spark: 'running', tone: 'live' },
  { name: 'waiting', label: 'Needs you', term: 'state:waiting', glyph: 'waiting' },
  { name: 'failed', label: 'Failed, 15 min', term: 'state:failed', glyph: 'failed' },
  { name: 'rate', label: 'Tokens/s', term: 'rate>0', spark: 'rate', tone: 'live' },
  { name: 'tools', label: 'Tools running', term: 'tools>0', spark: 'tools', tone: 'tool', opt: true },
  { name: 'behind', label: 'Readers behind', term: 'lag>0', opt: true },
];
const SPARK = { width: 96, height: 24 };

/** The totals; each one filters. */
export class Stats {
  #totals;
  #clock;
  /** @type {Map<string, {button: HTMLElement, value: HTMLElement, note: HTMLElement|null, line: Element|null, area: Element|null}>} */
  #views = new Map();

  /**
   * @param {HTMLElement} root
   * @param {{totals: import('./totals.js').Totals, clock: import('../chat/time.js').ServerClock, toggle: (term: string) => void}} options
   */
  constructor(root, { totals, clock, toggle }) {
    this.#totals = totals;
    this.#clock = clock;
    for (const { name, label, term, glyph: shape, spark, tone, opt } of STATS) {
      const value = el('span', { class: 'val' }, '0');
      const note = spark === undefined ? el('span', { class: 'note' }) : null;
      const area = spark === undefined ? null : svg('path', { class: `area f-${tone}-soft` });
      const line = spark === undefined ? null : svg('path', { class: `s-${tone}`, fill: 'none' });
      const title = el('span', { class: 'lab' }, ...(shape === undefined ? [] : [glyph(shape, { still: true })]), label);
      const button = el('button', { type: 'button', class: opt ? 'stat opt' : 'stat', 'aria-pressed': 'false', 'data-term': term, click: () => toggle(term) }, title, value);
      if (note !== null) button.append(note);
      if (area !== null && line !== null) button.append(svg('svg', { class: 'spark', viewBox: `0 0 ${SPARK.width} ${SPARK.height}`, preserveAspectRatio: 'none', 'aria-hidden': 'true' }, area, line));
      this.#views.set(name, { button, value, note, line, area });
      root.append(button);
    }
  }

  /** @param {ReadonlySet<string>} terms - that filter now */
  pressed(terms) {
    for (const { button } of this.#views.values()) button.setAttribute('aria-pressed', String(terms.has(button.dataset.term ?? '')));
  }

  paint() {
    const { running, waiting, oldest, failed, rate, tools, viewers, behind, worst } = this.#totals;
    this.#text('running', number(running));
    this.#text('waiting', number(waiting), oldest === null ? '' : `oldest ${elapsed(this.#clock.now() - oldest)}`);
    this.#text('failed', number(failed));
    this.#text('rate', number(Math.round(rate)));
    this.#text('tools', number(tools));
    this.#text('behind', number(behind), behind > 0 ? `worst ${number(worst)}` : viewers > 0 ? `of ${number(viewers)}` : '');
    return true;
  }

  /** The lines: once a second. */
  draw() {
    for (const name of /** @type {const} */ (['running', 'rate', 'tools'])) {
      const view = this.#views.get(name);
      const { line, area } = this.#totals.history[name].paths(SPARK.width, SPARK.height);
      view?.line?.setAttribute('d', line);
      view?.area?.setAttribute('d', area);
    }
  }

  /**
   * @param {string} name
   * @param {string} value
   * @param {string} [note]
   */
  #text(name, value, note = '') {
    const view = this.#views.get(name);
    if (view === undefined) return;
    setText(view.value, value);
    if (view.note !== null) setText(view.note, note);
  }
}
