/** What the run page says of a run in its line of facts. Pure. */

import { clockTime, duration, elapsed, number, shortNumber } from '../chat/time.js';
import { spent } from './timeline.js';

/**
 * @param {Board.RunSpan} run
 * @param {object} around
 * @param {number} around.now - on the publishers' clock, ms
 * @param {number} around.errors - lines of the log that tell one
 * @param {number|null} around.watching
 * @returns {{name: string, value: string, note: string, class: string}[]}
 */
export function factsOf(run, { now, errors, watching }) {
  const { span } = run;
  const until = span.to ?? Math.max(now, span.from);
  const took = until - span.from;
  const last = run.points.at(-1);
  const part = (/** @type {string} */ tone) => {
    const ms = spent(span, tone, until);
    return ms === 0 ? null : { value: duration(ms), note: took > 0 ? `${Math.round((100 * ms) / took)}%` : '' };
  };
  const facts = [
    { name: 'Agent', value: span.name, note: run.model ?? '', class: '' },
    { name: 'Started', value: clockTime(span.from, { seconds: true }), note: '', class: 'not-tiny' },
    { name: span.to === null ? 'Elapsed' : 'Took', value: elapsed(took), note: '', class: '' },
    { name: 'Thinking', ...part('think'), class: 'not-small' },
    { name: 'Writing', ...part('live'), class: 'not-small' },
    { name: 'Tools', ...part('tool'), class: 'not-small' },
    { name: 'Waiting for people', ...part('wait'), class: '' },
    { name: 'Steps', value: run.steps === 0 ? '' : number(run.steps), note: '', class: 'not-tiny' },
    { name: 'Tokens', value: last === undefined ? '' : shortNumber(last.input + last.output), note: last === undefined || last.cached === 0 ? '' : `${shortNumber(last.cached)} cached`, class: '' },
    { name: 'Errors', value: errors === 0 ? '' : number(errors), note: '', class: 't-bad' },
    { name: 'Watching', value: watching === null || watching === 0 ? '' : number(watching), note: '', class: 'not-small' },
  ];
  // Zero is shown as nothing.
  return facts.flatMap(({ name, value = '', note = '', class: style }) => (value === '' ? [] : [{ name, value, note, class: style }]));
}
