import { el, glyph } from '../dom.js';
import { fields } from '../json_text.js';
import { jsonNodes } from './json_view.js';

/**
 * A question to a person, as the topic tells it. It is read only: the gateway takes no decisions from pages yet.
 * @param {any} entry - of a tool
 * @param {HTMLElement} time - where the countdown stands
 */
export function ask(entry, time) {
  const { name, asked, args, agent, step } = entry;
  const text = asked ?? args ?? '';
  const from = agent === null ? '' : `asked by ${agent}${step > 0 ? `, step ${step}` : ''}`;
  const shown = fields(text);
  const what =
    shown === null
      ? el('pre', { class: 'asked' }, ...jsonNodes(text))
      : el('dl', { class: 'fields' }, ...shown.flatMap(({ name: field, value }) => [el('dt', {}, field), el('dd', {}, ...jsonNodes(value))]));
  return el(
    'div',
    { class: 'ask', role: 'group', 'aria-label': `Question: run ${name}?` },
    el('div', { class: 'card-head' }, glyph('waiting'), el('span', { class: 'strong cut' }, `Run ${name}?`), el('span', { class: 'end' }, el('span', { class: 'countdown', role: 'timer' }, time))),
    el('p', { class: 'why why-top' }, el('span', { class: 'name mono' }, name), ' ', el('span', { class: 'quiet' }, from)),
    what,
    el('div', { class: 'card-foot' }, 'Waiting for a decision.'),
  );
}
