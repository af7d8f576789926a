import { Question } from '../chat/entries/question.js';
import { jsonNodes } from '../chat/entries/json_view.js';
import { button, copyButton, el, icon, setChildren, svg } from '../chat/dom.js';
import { clockTime, duration, elapsed, number, shortNumber } from '../chat/time.js';
import { spanAt } from './as_of.js';
import { wordOf } from './row_view.js';
import { usageAreas } from './usage_chart.js';

const CHART = { width: 600, height: 96 };
/** A longer result is shown by its beginning, in UTF-16 units. */
const BEGINNING = 4096;
const DECIDED = new Map([
  ['approve', 'Approved'],
  ['edit', 'Edited and approved'],
  ['reject', 'Rejected'],
  ['expired', 'Expired'],
]);

/** What is known of the selected row, and the tokens of the run over time. A part of the painter. */
export class Inspector {
  #root;
  #page;
  /** @type {Board.Span|null} */
  #span = null;
  #selected = el('div', { class: 'selected' });
  #ask = el('section', { hidden: true });
  /** @type {{key: string, question: Question, entry: any}|null} */
  #question = null;
  #areas = { cached: svg('path', { class: 'f-ink' }), input: svg('path', { class: 'f-tool' }), output: svg('path', { class: 'f-live' }) };
  #chart = svg('svg', { class: 'chart', viewBox: `0 0 ${CHART.width} ${CHART.height}`, preserveAspectRatio: 'none', role: 'img' }, ...Object.values(this.#areas));
  #total = el('span', { class: 'num' });
  #legend = el('div', { class: 'legend' });
  #usage = el('section', { hidden: true }, el('h2', {}, el('span', {}, 'Tokens over time'), this.#total), this.#chart, this.#legend);
  #shown = '';

  /**
   * @param {HTMLElement} root
   * @param {Board.InspectorPage} page
   */
  constructor(root, page) {
    this.#root = root;
    this.#page = page;
    root.append(this.#selected, this.#ask, this.#usage);
  }

  /** @param {Board.Span|null} span */
  show(span) {
    this.#span = span;
    this.#page.mark(this);
  }

  /** @param {string} letter - a, e or r */
  press(letter) {
    if (this.#question === null || this.#page.moment() !== null) return false;
    this.#question.question.press(letter);
    return true;
  }

  /** A second is over. */
  tick() {
    this.#question?.question.count(this.#page.clock.now());
    if (this.#span?.to === null) this.#page.mark(this);
  }

  paint() {
    const span = this.#span;
    const now = this.#page.clock.now();
    const run = this.#page.run();
    const moment = this.#page.moment();
    const shown = JSON.stringify([span, moment, span?.to === null ? Math.floor(now / 1000) : 0, run?.run, run?.points.length], (key, value) => (key === 'children' || key === 'segments' ? undefined : value));
    if (shown !== this.#shown) {
      this.#shown = shown;
      setChildren(this.#selected, span === null ? [this.#nothing()] : this.#facts(span, now, moment));
      this.#drawUsage(run, now, moment);
    }
    this.#drawQuestion(span);
    return true;
  }

  #nothing() {
    return el('section', {}, this.#head('Nothing selected', ''), el('p', { class: 'soft' }, 'Select a row of the timeline or a line of the log to see its arguments, result and numbers.'));
  }

  /**
   * @param {string} title
   * @param {string} note
   */
  #head(title, note) {
    return el('h2', {}, el('span', {}, title), el('span', { class: 'row' }, el('span', { class: 'mono' }, note), button({ label: 'Close', icon: 'x', style: 'bare icon small sheet-close', press: () => this.#page.close() })));
  }

  /**
   * @param {Board.Span} span
   * @param {number} now
   * @param {Board.Moment|null} moment
   */
  #facts(span, now, moment) {
    if (moment !== null && span.first > moment.offset) return [el('section', {}, this.#head('Selected', number(span.first)), el('div', { class: 'mono strong' }, span.name), el('p', { class: 'soft' }, 'It had not begun at this place of the run.'))];
    const then = spanAt(span, moment);
    const took = (then.to ?? now) - span.from;
    const range = span.first === span.last ? number(span.first) : `${number(span.first)}–${number(span.last)}`;
    const rows = [
      ['State', wordOf(then.state, this.#page.may('decide'))],
      ['Began', clockTime(span.from, { seconds: true })],
      [then.open ? 'Running for' : 'Took', then.open ? elapsed(took) : duration(took)],
    ];
    // What it came to in the end is not shown before it did.
    const ended = moment === null || !then.open;
    if (span.usage !== null && ended) rows.push(['Input tokens', `${number(span.usage.input)}${span.usage.cached > 0 ? `, ${shortNumber(span.usage.cached)} cached` : ''}`], ['Output tokens', number(span.usage.output)]);
    const { question } = span;
    if (question !== null && question.decision !== null && then.state !== 'waiting') {
      rows.push(['Decision', `${DECIDED.get(question.decision) ?? question.decision}${question.by === null ? '' : ` by ${question.by}`}`]);
      if (question.reason !== null) rows.push(['Reason', question.reason]);
    }
    const nodes = [el('section', {}, this.#head('Selected', range), el('div', { class: 'mono strong' }, span.name), el('dl', { class: 'kv' }, ...rows.flatMap(([name, value]) => [el('dt', {}, name), el('dd', {}, value)])))];
    const asks = question !== null && question.decision === null && span.to === null;
    if (span.error !== null && ended) nodes.push(el('section', {}, el('h2', {}, el('span', {}, 'Error')), el('p', { class: 't-bad' }, span.error)));
    if (span.args !== null && !asks) nodes.push(this.#text('Arguments', span.args, jsonNodes(span.args)));
    if (span.result !== null && ended) nodes.push(this.#text(span.result.length > BEGINNING ? `Result, the first ${shortNumber(BEGINNING)} of ${shortNumber(span.result.length)}` : 'Result', span.result, [document.createTextNode(span.result.slice(0, BEGINNING))]));
    if (span.topic !== null) nodes.push(el('section', {}, el('h2', {}, el('span', {}, 'Its own topic')), el('a', { class: 'btn small', href: this.#page.runLink(span.topic, span.run) }, icon('branch'), 'Open its run')));
    return nodes;
  }

  /**
   * @param {string} title
   * @param {string} text
   * @param {Node[]} nodes
   */
  #text(title, text, nodes) {
    return el('section', {}, el('h2', {}, el('span', {}, title), copyButton(() => text, { label: `Copy ${title.toLowerCase()}`, style: 'bare icon small' })), el('pre', { tabindex: 0, 'aria-label': title }, ...nodes));
  }

  /** @param {Board.Span|null} span */
  #drawQuestion(span) {
    const asks = span !== null && span.question !== null && span.question.decision === null && span.to === null && span.id !== null;
    this.#ask.hidden = !asks;
    if (!asks) {
      this.#question?.question.leave();
      this.#question = null;
      this.#ask.replaceChildren();
      return;
    }
    const run = this.#page.run();
    if (this.#question?.key !== span.key) {
      this.#question?.question.leave();
      const entry = { key: span.key, run: span.run, id: span.id, name: span.name, asked: span.args ?? '', args: span.args, agent: run?.span.name ?? null, step: run?.steps ?? 0, foremost: true, expires: span.question?.expires ?? null, requested: span.question?.requested ?? null };
      this.#question = { key: span.key, entry, question: new Question(this.#questionPage(), entry) };
      setChildren(this.#ask, [this.#question.question.element]);
    }
    this.#question.question.show(this.#question.entry);
    this.#question.question.count(this.#page.clock.now());
  }

  /** @returns {any} what a question needs of its page */
  #questionPage() {
    return {
      topic: this.#page.topic,
      decisions: this.#page.decisions,
      // The past cannot be acted on.
      may: (/** @type {string} */ verb) => this.#page.moment() === null && this.#page.may(verb),
      pin: () => {},
      hold: () => {},
      alert: this.#page.alert,
      redraw: () => this.#page.mark(this),
    };
  }

  /**
   * @param {Board.RunSpan|null} run
   * @param {number} now
   * @param {Board.Moment|null} moment
   */
  #drawUsage(run, now, moment) {
    const totals = this.#page.totals();
    const points = run === null || moment === null ? (run?.points ?? []) : run.points.filter(({ offset }) => offset <= moment.offset);
    this.#usage.hidden = points.length === 0 || totals === null;
    if (run === null || totals === null || points.length === 0) return;
    // The past fills its part of the whole run's width.
    const areas = usageAreas(points, { from: run.span.from, to: run.span.to ?? now, until: totals.until, ...CHART });
    for (const part of /** @type {const} */ (['cached', 'input', 'output'])) this.#areas[part].setAttribute('d', areas[part]);
    const { input, output, cached } = totals.usage;
    this.#total.textContent = shortNumber(input + output);
    const parts = /** @type {const} */ ([
      ['t-live', 'output', output],
      ['t-tool', 'input', input - cached],
      ['t-gone', 'cached', cached],
    ]);
    setChildren(this.#legend, parts.map(([tone, name, value]) => el('span', { class: tone }, el('i'), el('b', {}, `${name} ${shortNumber(Math.max(0, value))}`))));
    this.#chart.setAttribute('aria-label', `Tokens over time: ${number(output)} output, ${number(input)} input, ${number(cached)} of them cached`);
  }
}
