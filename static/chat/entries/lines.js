import { sentence } from '../content.js';
import { runCost } from '../costs.js';
import { el, glyph, icon, setChildren, setText } from '../dom.js';
import { clockTime, duration, number, shortNumber } from '../time.js';
import { EntryView } from './entry.js';

/** @type {Map<string, Chat.State>} */
export const STATES = new Map([
  ['running', 'writing'],
  ['cancelling', 'stopping'],
  ['completed', 'done'],
  ['failed', 'failed'],
  ['cancelled', 'stopped'],
  ['lost', 'lost'],
]);

/** What a live run does where no text and no tool shows it. */
export class StartView extends EntryView {
  #text = el('span', { class: 'soft cut' });
  #time = el('span', { class: 'end' });
  /** @type {(() => void)|null} */
  #untick = null;

  /** @param {Chat.Page} page */
  constructor(page) {
    super(page);
    this.body.append(el('div', { class: 'line still' }, this.#text, this.#time));
  }

  render() {
    const { phase, agent, run, mode, step } = this.entry;
    const by = this.page.own.who(run, this.entry.by);
    const stopping = phase === 'stopping';
    const silent = phase === 'silent';
    this.look(stopping || silent ? 'gone' : 'text', { tight: true });
    const state = stopping || silent ? phase : 'writing';
    this.setNode(state, () => glyph(state));
    const who = by === null ? '' : ` Asked by ${by}.`;
    if (!stopping && !silent) setText(this.#text, phase === 'starting' ? `${agent ?? 'The agent'} is starting` : 'Waiting for the model');
    else if (stopping && mode === 'after_step') setText(this.#text, `Stops after step ${step}.${who}`);
    else if (stopping) setText(this.#text, `Stopping…${who}`);
    if (phase === 'starting' || silent) this.#untick ??= this.page.ticker.add(() => this.#count());
    else this.leave();
    this.#count();
  }

  leave() {
    this.#untick?.();
    this.#untick = null;
  }

  #count() {
    const { phase, at, since } = this.entry;
    if (phase === 'silent') setText(this.#text, `No sign of life for ${duration(Math.max(1000, this.page.clock.now() - since))}`);
    setText(this.#time, phase === 'starting' && at !== null ? duration(Math.max(1000, this.page.clock.now() - at)) : '');
  }
}

/** The one end of a run. */
export class EndView extends EntryView {
  render() {
    const { status, error, run, at, ms, steps, tools, tokens, usage, model } = this.entry;
    const by = this.page.own.who(run, this.entry.by);
    const state = STATES.get(status) ?? 'done';
    this.setNode(state, () => glyph(state));
    const when = at === null ? '' : ` at ${clockTime(at)}`;
    const took = ms === null ? '' : duration(ms);
    if (status === 'completed') {
      this.look('text');
      const facts = [took, plural(steps, 'step'), plural(tools, 'tool call'), tokens > 0 ? `${shortNumber(tokens)} tokens` : '', runCost({ usage, model }, this.page.prices?.() ?? {})].filter(Boolean);
      setChildren(this.body, [el('div', { class: 'meta', title: tokens > 0 ? `${number(tokens)} tokens` : '' }, el('span', { class: 'soft' }, 'Done'), ...facts.map((fact) => el('span', {}, fact)))]);
    } else if (status === 'failed') {
      this.look('bad');
      setChildren(this.body, [notice('bad', 'alert', sentence(error ?? 'The run failed'), 'Text and results so far are kept.')]);
    } else if (status === 'cancelled') {
      this.look('gone');
      const reason = error === null ? '' : ` ${sentence(error)}`;
      setChildren(this.body, [notice('gone', 'stop', `Stopped${by === null ? '' : ` by ${by}`}${when}.`, `Text so far is kept.${reason}`)]);
    } else {
      this.look('gone');
      setChildren(this.body, [notice('gone', 'alert', 'Lost.', `Its process went silent. What it did is kept; it cannot come back.`)]);
    }
  }
}

/**
 * @param {number} count
 * @param {string} word
 */
function plural(count, word) {
  return count === 0 ? '' : `${count} ${word}${count === 1 ? '' : 's'}`;
}

/**
 * @param {string} tone
 * @param {string} symbol
 * @param {string} title
 * @param {string} text
 * @param {...Node} actions
 */
export function notice(tone, symbol, title, text, ...actions) {
  const element = el('div', { class: `notice ${tone}` }, icon(symbol), el('p', {}, el('b', {}, title), ` ${text}`));
  if (actions.length > 0) element.append(el('span', { class: 'push' }, ...actions));
  return element;
}
