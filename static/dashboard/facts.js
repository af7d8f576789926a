/** What the run page says of a run in its line of facts. Pure. */

import { clockTime, duration, elapsed, number, shortNumber } from '../chat/time.js';
import { spent } from './timeline.js';

/**
 * @param {Board.RunSpan} run
 * @param {Board.Totals} totals - of the moment that is looked at
 * @param {number|null} watching
 * @returns {{name: string, value: string, note: string, class: string}[]}
 */
export function factsOf(run, totals, watching) {
  const { span } = run;
  const { over, until, steps, tools, errors, usage } = totals;
  const took = until - span.from;
  const part = (/** @type {string} */ tone) => {
    const ms = spent(span, tone, until);
    return ms === 0 ? null : { value: duration(ms), note: took > 0 ? `${Math.round((100 * ms) / took)}%` : '' };
  };
  const inTools = part('tool');
  const calls = tools === 0 ? '' : `${number(tools)} ${tools === 1 ? 'call' : 'calls'}`;
  const facts = [
    { name: 'Agent', value: span.name, note: run.model ?? '', class: '' },
    { name: 'Started', value: clockTime(span.from, { seconds: true }), note: '', class: 'not-small' },
    { name: over ? 'Took' : 'Elapsed', value: elapsed(took), note: '', class: '' },
    { name: 'Thinking', ...part('think'), class: 'not-small' },
    { name: 'Writing', ...part('live'), class: 'not-small' },
    { name: 'Tools', value: inTools?.value ?? calls, note: inTools === null ? '' : [inTools.note, calls].filter((words) => words !== '').join(', '), class: 'not-tiny' },
    { name: 'Waiting for people', ...part('wait'), class: '' },
    { name: 'Steps', value: steps === 0 ? '' : number(steps), note: '', class: 'not-small' },
    { name: 'Tokens', value: usage.input + usage.output === 0 ? '' : shortNumber(usage.input + usage.output), note: usage.cached === 0 ? '' : `${shortNumber(usage.cached)} cached`, class: '' },
    { name: 'Errors', value: errors === 0 ? '' : number(errors), note: '', class: 't-bad' },
    { name: 'Watching', value: watching === null || watching === 0 ? '' : number(watching), note: '', class: 'not-small' },
  ];
  // Zero is shown as nothing.
  return facts.flatMap(({ name, value = '', note = '', class: style }) => (value === '' ? [] : [{ name, value, note, class: style }]));
}
