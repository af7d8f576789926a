import { record, textOrNull } from '../chat/content.js';
import { setText } from '../chat/dom.js';
import { clockTime, number } from '../chat/time.js';
import { LinesView } from './lines_view.js';
import { found, severity, shownLines } from './log_lines.js';

/** So many events are listed, the last ones. */
const MOST_EVENTS = 20_000;
/** What is sorted and searched again while lines come in, at most so often, in ms. */
const LINES_MS = 250;
const TABS = /** @type {const} */ (['log', 'events', 'context']);

/** Below the timeline: the log, the events, or the context. A part of the painter. */
export class Panes {
  /** @type {'log'|'events'|'context'} */
  tab = 'log';
  #parts;
  #page;
  #lines;
  /** @type {'all'|'warning'|'error'} */
  #level = 'all';
  /** When lines were last listed, in the time of the page. */
  #listedAt = 0;
  /** What the lines were made of. */
  #listed = '';
  /** Where the searched text stands. @type {number[]} */
  #hits = [];
  /** Which of them is looked at; -1 for none. */
  #hit = -1;
  /** How a line or an event is shown; it stays the same. @type {WeakMap<object, Board.ShownLine>} */
  #shown = new WeakMap();

  /**
   * @param {Board.PanesParts} parts
   * @param {Board.PanesPage} page
   */
  constructor(parts, page) {
    this.#parts = parts;
    this.#page = page;
    this.#lines = new LinesView({ box: parts.log, lines: parts.lines }, page);
    for (const name of TABS) parts.tabs[name].addEventListener('click', () => this.choose(name));
    parts.list.addEventListener('keydown', ({ key }) => {
      const by = key === 'ArrowRight' ? 1 : key === 'ArrowLeft' ? -1 : 0;
      if (by === 0) return;
      const next = TABS[(TABS.indexOf(this.tab) + by + TABS.length) % TABS.length];
      this.choose(next);
      parts.tabs[next].focus();
    });
    parts.levels.addEventListener('click', (event) => {
      const name = /** @type {HTMLElement} */ (event.target).closest('button')?.dataset.level;
      if (name !== 'all' && name !== 'warning' && name !== 'error') return;
      this.#level = name;
      for (const button of /** @type {Iterable<HTMLElement>} */ (parts.levels.children)) button.setAttribute('aria-pressed', String(button.dataset.level === name));
      this.again();
    });
    parts.search.addEventListener('input', () => {
      this.#hit = -1;
      this.#lines.show(null);
      this.again();
    });
    parts.search.addEventListener('keydown', (event) => {
      if (event.key !== 'Enter' || this.#hits.length === 0) return;
      event.preventDefault();
      this.#hit = (this.#hit + (event.shiftKey ? this.#hits.length - 1 : 1)) % this.#hits.length;
      this.#lines.show(this.#hits[this.#hit]);
      this.again();
    });
  }

  /** @param {'log'|'events'|'context'} name */
  choose(name) {
    const { tabs, log, context, levels, find } = this.#parts;
    this.tab = name;
    for (const other of TABS) tabs[other].setAttribute('aria-selected', String(other === name));
    log.hidden = name === 'context';
    context.hidden = name !== 'context';
    log.setAttribute('aria-labelledby', tabs[name === 'events' ? 'events' : 'log'].id);
    levels.hidden = name !== 'log';
    find.hidden = name === 'context';
    this.#hit = -1;
    this.#lines.follow();
    this.#page.chosen();
    this.again();
  }

  /** Lists anew without waiting: a person changed what is wanted. */
  again() {
    this.#listedAt = 0;
    this.#page.mark(this);
  }

  paint() {
    const time = performance.now();
    // Many lines a second are listed a few times a second.
    if (time - this.#listedAt < LINES_MS) {
      setTimeout(() => this.#page.mark(this), LINES_MS);
      return true;
    }
    const { search, counts, none, found: told } = this.#parts;
    const { logs, recording, selected, moment, run, family } = this.#page;
    const [query, row, until] = [search.value, selected(), moment()?.offset ?? null];
    const all = logs();
    const state = JSON.stringify([all.length, all.at(-1)?.offset, recording.upto, recording.floor, query, row?.first, row?.last, this.tab, this.#level, run()?.run, this.#hit, until]);
    if (state === this.#listed) return true;
    this.#listed = state;
    this.#listedAt = time;
    const runs = family();
    const own = shownLines(all, { level: 'all', runs });
    const count = (/** @type {string} */ name) => own.filter((line) => severity(line.level) === name).length;
    const [warnings, errors] = [count('warning'), count('error')];
    setText(counts.log, own.length === 0 ? '' : number(own.length));
    setText(counts.warning, warnings + errors === 0 ? '' : number(warnings + errors));
    setText(counts.error, errors === 0 ? '' : number(errors));
    setText(counts.events, number(recording.events.length));
    if (this.tab === 'context') return true;
    const shown = this.tab === 'log' ? this.#logLines(own) : this.#eventLines(runs);
    none.hidden = shown.length > 0 || run() === null;
    setText(none, this.tab === 'log' && own.length === 0 ? 'This run has logged nothing. What it did is under Events.' : 'No line matches.');
    this.#lines.set(shown, { query, within: row === null ? null : [row.first, row.last], until });
    this.#hits = found(shown.map((line) => ({ at: 0, run: null, level: '', logger: line.source, message: line.text, fields: null, offset: line.offset })), query);
    const place = this.#hit < 0 ? '' : `${number((this.#hit % Math.max(1, this.#hits.length)) + 1)} of `;
    setText(told, query.trim() === '' ? '' : this.#hits.length === 0 ? 'none' : `${place}${number(this.#hits.length)}`);
    return true;
  }

  /** @param {Board.Line[]} own - of the run that is shown */
  #logLines(own) {
    return shownLines(own, { level: this.#level, runs: null }).map((line) =>
      this.#once(line, () => ({ time: stamp(line.at), level: line.level, tone: severity(line.level), source: line.logger, text: line.fields === null ? line.message : `${line.message} ${JSON.stringify(line.fields)}`, offset: line.offset })),
    );
  }

  /** @param {ReadonlySet<string>} runs */
  #eventLines(runs) {
    return this.#page.recording.events.slice(-MOST_EVENTS).flatMap((told) => {
      const event = record(told.data);
      const run = textOrNull(event.run);
      if (run !== null && !runs.has(run)) return [];
      return [
        this.#once(told, () => {
          const { type, at, run: _, text, ...rest } = event;
          const said = typeof text === 'string' ? text : JSON.stringify(rest);
          return { time: typeof at === 'number' ? stamp(at) : '', level: '', tone: type === 'agent_error' ? 'error' : 'info', source: String(type ?? ''), text: said.slice(0, 2000), offset: told.offset };
        }),
      ];
    });
  }

  /**
   * @param {object} told
   * @param {() => Board.ShownLine} make
   */
  #once(told, make) {
    const known = this.#shown.get(told);
    if (known !== undefined) return known;
    const made = make();
    this.#shown.set(told, made);
    return made;
  }
}

/** @param {number} at */
function stamp(at) {
  return `${clockTime(at, { seconds: true })}.${String(Math.floor(at % 1000)).padStart(3, '0')}`;
}
