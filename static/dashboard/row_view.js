import { el, glyph, icon, svg } from '../chat/dom.js';
import { elapsed, number, shortNumber } from '../chat/time.js';
import { toneOf } from './ribbon.js';

const WORDS = new Map([
  ['queued', 'Queued'],
  ['writing', 'Writing'],
  ['thinking', 'Thinking'],
  ['tool', 'Tool'],
  ['waiting', 'Needs you'],
  ['stopping', 'Stopping'],
  ['done', 'Done'],
  ['failed', 'Failed'],
  ['stopped', 'Stopped'],
  ['lost', 'Lost'],
  ['idle', 'Idle'],
]);
const TONES = ['live', 'think', 'tool', 'wait', 'bad', 'gone'];
/** Of the drawings, in their own units. */
const RIBBON = { width: 100, height: 8 };
const SPARK = { width: 80, height: 18 };

/**
 * The word for a state, in the table.
 * @param {string} state
 * @param {boolean} decides - this reader may
 */
export function wordOf(state, decides) {
  return state === 'waiting' && !decides ? 'Waiting' : (WORDS.get(state) ?? state);
}

/** A row of the table. It touches only what is shown differently. */
export class RowView {
  #row;
  #page;
  /** What is shown, by cell. @type {Map<string, string>} */
  #shown = new Map();
  #glyph = el('span', { class: 'glyph' });
  #word = el('span', { class: 'word' });
  #title = el('a', { class: 'title cut', tabindex: -1 });
  #topic = el('span', { class: 'topic cut' });
  #agent = el('span');
  #model = el('span', { class: 'quiet' });
  #ribbon = svg('svg', { class: 'ribbon', viewBox: `0 0 ${RIBBON.width} ${RIBBON.height}`, preserveAspectRatio: 'none', 'aria-hidden': 'true' });
  #bars = new Map(TONES.map((tone) => [tone, svg('path', { class: `f-${tone}` })]));
  #present = svg('path', { class: 'present' });
  #activity = el('span', { class: 'cut activity' });
  #time = el('span');
  #area = svg('path', { class: 'area' });
  #line = svg('path', { fill: 'none' });
  #spark = svg('svg', { class: 'spark', viewBox: `0 0 ${SPARK.width} ${SPARK.height}`, preserveAspectRatio: 'none', 'aria-hidden': 'true' }, this.#area, this.#line);
  #rate = el('b');
  #tokens = el('span');
  #tools = el('span', { class: 't-tool' });
  #age = el('b');
  #review = el('button', { type: 'button', class: 'btn small attn-soft', tabindex: -1 }, 'Review ', this.#age);
  #stop = el('button', { type: 'button', class: 'btn small bare stop', tabindex: -1 }, icon('stop', 'i-s'), el('span', {}, 'Stop'));
  #errors = el('span', { class: 't-bad' });
  #viewers = el('span');
  #lag = el('span', { class: 't-tool' });
  /** @type {HTMLElement} */
  element;

  /**
   * @param {import('./row.js').Row} row
   * @param {Board.TablePage} page
   */
  constructor(row, page) {
    this.#row = row;
    this.#page = page;
    this.#ribbon.append(...this.#bars.values(), this.#present);
    const cell = (/** @type {string} */ name, /** @type {(Node|string)[]} */ ...children) => el('div', { class: `c-${name}`, role: 'gridcell' }, ...children);
    this.element = el(
      'div',
      { class: 'run-row', role: 'row', tabindex: -1, 'data-topic': row.topic },
      cell('state', this.#glyph, this.#word),
      cell('title', this.#title, this.#topic),
      cell('agent', this.#agent, ' ', this.#model),
      cell('now', this.#ribbon, this.#activity),
      cell('time', this.#time),
      cell('rate', this.#spark, this.#rate),
      cell('tokens', this.#tokens),
      cell('tools', this.#tools),
      cell('waiting', this.#review, this.#stop),
      cell('errors', this.#errors),
      cell('viewers', this.#viewers),
      cell('lag', this.#lag),
    );
    this.#title.setAttribute('href', page.runLink(row));
    this.#review.addEventListener('click', () => page.review(row.topic));
    this.#stop.addEventListener('click', () => page.stop(row.topic));
    this.show();
    this.draw();
    this.count();
  }

  /** What a summary says. */
  show() {
    const row = this.#row;
    const { summary, state } = row;
    const may = (/** @type {string} */ verb) => this.#page.may(verb, row.topic);
    if (this.#differs('state', `${state} ${may('decide')}`)) {
      const word = wordOf(state, may('decide'));
      this.#glyph.replaceChildren(glyph(state, { label: word }));
      this.#word.textContent = word;
      this.#activity.dataset.word = word;
      this.element.classList.toggle('attn', state === 'waiting');
      this.element.classList.toggle('over', row.ended);
    }
    this.#text('title', this.#title, row.title);
    if (this.#differs('run', summary.run ?? '')) this.#title.setAttribute('href', this.#page.runLink(row));
    this.#text('topic', this.#topic, row.title === row.topic ? '' : row.topic);
    this.#text('agent', this.#agent, summary.agent ?? '');
    this.#text('model', this.#model, summary.model ?? '');
    const { activity } = row;
    if (this.#text('activity', this.#activity, activity)) this.#activity.title = activity;
    this.#text('rate', this.#rate, row.live && summary.rate >= 0.5 ? number(Math.round(summary.rate)) : '');
    this.#text('tokens', this.#tokens, zero(summary.input + summary.output, shortNumber));
    this.#text('tools', this.#tools, row.live ? zero(summary.tools.length) : '');
    this.#text('errors', this.#errors, zero(summary.errors));
    this.#text('viewers', this.#viewers, zero(summary.viewers));
    this.#text('lag', this.#lag, zero(summary.behind.events));
    const asked = this.#page.stopping(summary.run ?? '');
    if (this.#differs('acts', `${row.question !== null} ${may('decide')} ${may('cancel')} ${row.live} ${state} ${asked}`)) {
      this.#review.hidden = row.question === null;
      this.#review.classList.toggle('attn-soft', may('decide'));
      this.#stop.hidden = row.question !== null || !row.live || summary.run === null || !may('cancel');
      this.#stop.toggleAttribute('disabled', asked || state === 'stopping');
      /** @type {Element} */ (this.#stop.lastChild).textContent = asked || state === 'stopping' ? 'Stopping' : 'Stop';
    }
    const spoken = `${row.title}, ${wordOf(state, may('decide'))}${activity === '' ? '' : `, ${activity}`}`;
    if (this.#differs('label', spoken)) this.element.setAttribute('aria-label', spoken);
  }

  /** What changes with the second: times. */
  count() {
    const row = this.#row;
    const now = this.#page.clock.now();
    const took = row.elapsed(now);
    this.#text('time', this.#time, took === null ? '' : elapsed(took));
    if (row.question !== null) this.#text('age', this.#age, row.question.requested === null ? '' : elapsed(now - row.question.requested));
  }

  /** The drawings: once a second. */
  draw() {
    const row = this.#row;
    /** @type {Map<string, string>} */
    const paths = new Map();
    const bars = row.ribbon.bars(this.#page.now(), RIBBON.width);
    const last = row.live ? bars.pop() : undefined;
    for (const bar of bars) paths.set(bar.tone, (paths.get(bar.tone) ?? '') + box(bar));
    for (const [tone, path] of this.#bars) this.#path(`bar ${tone}`, path, paths.get(tone) ?? '');
    this.#path('present', this.#present, last === undefined ? '' : box(last));
    if (this.#differs('present tone', last?.tone ?? '')) this.#present.setAttribute('class', `present f-${last?.tone ?? 'gone'}`);
    const flat = row.ended || row.rates.peak === 0;
    const { line, area } = flat ? { line: '', area: '' } : row.rates.paths(SPARK.width, SPARK.height);
    this.#path('line', this.#line, line);
    this.#path('area', this.#area, area);
    if (this.#differs('tone', toneOf(row.state))) {
      this.#line.setAttribute('class', `s-${toneOf(row.state) || 'gone'}`);
      this.#area.setAttribute('class', `area f-${toneOf(row.state) || 'gone'}-soft`);
    }
  }

  /**
   * @param {string} name
   * @param {Element} path
   * @param {string} d
   */
  #path(name, path, d) {
    if (this.#differs(name, d)) path.setAttribute('d', d);
  }

  /**
   * @param {string} name
   * @param {HTMLElement} element
   * @param {string} text
   */
  #text(name, element, text) {
    if (!this.#differs(name, text)) return false;
    element.textContent = text;
    return true;
  }

  /**
   * @param {string} name
   * @param {string} value
   */
  #differs(name, value) {
    if (this.#shown.get(name) === value) return false;
    this.#shown.set(name, value);
    return true;
  }
}

/**
 * Zero is shown as nothing.
 * @param {number} value
 * @param {(value: number) => string} [words]
 */
function zero(value, words = number) {
  return value === 0 ? '' : words(value);
}

/** @param {{x: number, width: number}} bar */
function box({ x, width }) {
  return `M${x.toFixed(1)} 0h${Math.max(0.4, width - 0.3).toFixed(1)}v${RIBBON.height}h-${Math.max(0.4, width - 0.3).toFixed(1)}z`;
}
