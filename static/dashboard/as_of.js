/** A run, and what belongs to it, as they were after an event. Pure. */

import { shownLines } from './log_lines.js';
import { rowsOf } from './timeline.js';

/** What a piece of a bar says of its span. @type {Map<string, Board.State>} */
const STATES = new Map([
  ['think', 'thinking'],
  ['live', 'writing'],
  ['tool', 'tool'],
  ['wait', 'waiting'],
]);

/**
 * The last mark at or before an offset.
 * @param {Board.Mark[]} marks - in order
 * @param {number} offset
 * @returns {number} its place; 0 where there is none
 */
export function markAt(marks, offset) {
  let [low, high] = [0, Math.max(0, marks.length - 1)];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (marks[middle].offset <= offset) low = middle;
    else high = middle - 1;
  }
  return low;
}

/**
 * What a span had come to.
 * @param {Board.Span} span
 * @param {Board.Moment|null} moment - null for the present
 * @returns {{state: Board.State, to: number|null, open: boolean}} `to`: up to when it is shown, null where it goes on
 */
export function spanAt(span, moment) {
  if (moment === null || span.last <= moment.offset) return { state: span.state, to: span.to ?? moment?.at ?? null, open: span.to === null };
  const piece = span.segments.findLast(({ from }) => from <= moment.at);
  return { state: STATES.get(piece?.tone ?? '') ?? 'writing', to: Math.max(span.from, moment.at), open: true };
}

/**
 * The totals of a run.
 * @param {Board.RunSpan} run
 * @param {object} around
 * @param {Board.Moment|null} around.moment - null for the present
 * @param {Board.Mark[]} around.marks - of all runs, in order
 * @param {Board.Line[]} around.lines - of all runs, in order
 * @param {any} around.entry - of the run, as the library's mirror has it at that moment; undefined where it has none
 * @param {number} around.now - on the publishers' clock, ms
 * @returns {Board.Totals}
 */
export function totalsAt(run, { moment, marks, lines, entry, now }) {
  const rows = rowsOf(run.span).filter(({ span }) => moment === null || span.first <= moment.offset);
  const over = run.over !== null && (moment === null || run.span.last <= moment.offset);
  const until = over ? (run.span.to ?? run.span.from) : Math.max(run.span.from, moment?.at ?? now);
  const runs = new Set(rows.map(({ span }) => span.run));
  const logged = shownLines(lines, { level: 'error', runs }).filter(({ offset }) => moment === null || offset <= moment.offset).length;
  const tools = rows.filter(({ span }) => span.kind === 'tool');
  const failed = tools.filter(({ span }) => span.state === 'failed' && (moment === null || span.last <= moment.offset)).length;
  const state = moment === null ? run.span.state : stateAt(run, marks, moment.offset);
  const last = run.points.findLast(({ offset }) => moment === null || offset <= moment.offset);
  return {
    state,
    over,
    until,
    steps: rows.filter(({ span }) => span.kind === 'step' && span.run === run.run).length,
    tools: tools.length,
    errors: logged + failed + (state === 'failed' ? 1 : 0),
    // The mirror counts exactly; of an old run in a long history it may know nothing.
    usage: entry === undefined ? { input: last?.input ?? 0, cached: last?.cached ?? 0, output: last?.output ?? 0 } : { input: entry.usage.input_tokens, cached: entry.usage.cache_read_input_tokens, output: entry.usage.output_tokens },
  };
}

/**
 * @param {Board.RunSpan} run
 * @param {Board.Mark[]} marks
 * @param {number} offset
 * @returns {Board.State}
 */
function stateAt(run, marks, offset) {
  for (let index = markAt(marks, offset); index >= 0; index -= 1) {
    const mark = marks[index];
    if (mark === undefined || mark.offset < run.first) break;
    if (mark.run === run.run && mark.state !== null && mark.offset <= offset) return mark.state;
  }
  return 'writing';
}
