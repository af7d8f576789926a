import { el, glyph, icon, setChildren, setText } from '../dom.js';
import { isLive, wordFor } from '../run_state.js';
import { clockTime, duration, elapsed, number, shortNumber } from '../time.js';
import { EntryView } from './entry.js';

/** Instructions, summaries and notes: one line that opens. */
export class NoteView extends EntryView {
  #title = el('span', { class: 'cut' });
  #text = el('div', { class: 'thinking whole' });
  #line = el('button', { type: 'button', class: 'line', 'aria-expanded': 'false', click: () => this.#toggle() }, icon('right', 'i-s chev'), this.#title);

  /** @param {import('./entry.js').Page} page */
  constructor(page) {
    super(page);
    this.#text.hidden = true;
    this.body.append(this.#line, this.#text);
  }

  render() {
    const { title, text } = this.entry;
    this.look('fold', { tight: true });
    this.setNode('fold', () => icon('fold', 'i-s quiet'));
    setText(this.#title, title);
    setText(this.#text, text);
    this.#line.toggleAttribute('disabled', text === '');
  }

  #toggle() {
    this.page.hold(this.element);
    const open = this.#line.getAttribute('aria-expanded') !== 'true';
    this.#line.setAttribute('aria-expanded', String(open));
    this.#text.hidden = !open;
  }
}

/** @type {Map<string, import('../run_state.js').State>} */
const STATES = new Map([
  ['running', 'writing'],
  ['cancelling', 'stopping'],
  ['completed', 'done'],
  ['failed', 'failed'],
  ['cancelled', 'stopped'],
  ['lost', 'lost'],
]);

/** A sub-agent: what its parent's topic tells of it, and the way to its own. */
export class SubView extends EntryView {
  #name = el('span', { class: 'name cut' });
  #state = el('span', { class: 'state' });
  #facts = el('span');
  #open = el('a', { class: 'btn bare small' }, 'Open');
  #card = el('div', { class: 'nest' }, el('div', { class: 'card-head' }, icon('branch'), this.#name, this.#state, el('span', { class: 'end' }, this.#facts, this.#open)));
  /** @type {(() => void)|null} */
  #untick = null;

  /** @param {import('./entry.js').Page} page */
  constructor(page) {
    super(page);
    this.body.append(this.#card);
  }

  render() {
    const { agent, topic, status } = this.entry;
    const state = STATES.get(status) ?? 'writing';
    const live = isLive({ status });
    this.look(live ? 'text' : status === 'completed' ? 'tool' : 'gone', { live });
    this.setNode(state, () => glyph(state));
    this.#card.classList.toggle('live', live);
    setText(this.#name, agent ?? 'sub-agent');
    setText(this.#state, `sub-agent, ${status === 'running' ? 'running' : wordFor(state).word.toLowerCase()}`);
    this.#open.hidden = topic === null;
    if (topic !== null) this.#open.setAttribute('href', this.page.topicLink(topic));
    if (live) this.#untick ??= this.page.ticker.add(() => this.#count());
    else this.leave();
    this.#count();
  }

  leave() {
    this.#untick?.();
    this.#untick = null;
  }

  #count() {
    const { started, ended, tokens } = this.entry;
    const time = started === null ? '' : ended === null ? elapsed(this.page.clock.now() - started) : duration(ended - started);
    setText(this.#facts, [time, tokens > 0 ? `${shortNumber(tokens)} tokens` : ''].filter(Boolean).join(' · '));
  }
}

/** What a live run does where no text and no tool shows it. */
export class StartView extends EntryView {
  #text = el('span', { class: 'soft cut' });
  #time = el('span', { class: 'end' });
  /** @type {(() => void)|null} */
  #untick = null;

  /** @param {import('./entry.js').Page} page */
  constructor(page) {
    super(page);
    this.body.append(el('div', { class: 'line still' }, this.#text, this.#time));
  }

  render() {
    const { phase, agent, by, mode, step } = this.entry;
    const stopping = phase === 'stopping';
    this.look(stopping ? 'gone' : 'text', { tight: true });
    this.setNode(stopping ? 'stopping' : 'writing', () => glyph(stopping ? 'stopping' : 'writing'));
    const who = by === null ? '' : ` Asked by ${by}.`;
    if (!stopping) setText(this.#text, phase === 'starting' ? `${agent ?? 'The agent'} is starting` : 'Waiting for the model');
    else if (mode === 'after_step') setText(this.#text, `Stops after step ${step}.${who}`);
    else setText(this.#text, `Stopping…${who}`);
    if (phase === 'starting') this.#untick ??= this.page.ticker.add(() => this.#count());
    else this.leave();
    this.#count();
  }

  leave() {
    this.#untick?.();
    this.#untick = null;
  }

  #count() {
    const { phase, at } = this.entry;
    setText(this.#time, phase === 'starting' && at !== null ? duration(Math.max(1000, this.page.clock.now() - at)) : '');
  }
}

/** The one end of a run. */
export class EndView extends EntryView {
  render() {
    const { status, error, by, at, ms, steps, tools, tokens } = this.entry;
    const state = STATES.get(status) ?? 'done';
    this.setNode(state, () => glyph(state));
    const when = at === null ? '' : ` at ${clockTime(at)}`;
    const took = ms === null ? '' : duration(ms);
    if (status === 'completed') {
      this.look('text');
      const facts = [took, plural(steps, 'step'), plural(tools, 'tool call'), tokens > 0 ? `${shortNumber(tokens)} tokens` : ''].filter(Boolean);
      setChildren(this.body, [el('div', { class: 'meta', title: tokens > 0 ? `${number(tokens)} tokens` : '' }, el('span', { class: 'soft' }, 'Done'), ...facts.map((fact) => el('span', {}, fact)))]);
    } else if (status === 'failed') {
      this.look('bad');
      setChildren(this.body, [notice('bad', 'alert', `${sentence(error ?? 'The run failed')}`, 'Text and results so far are kept.')]);
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

/** @param {string} text */
function sentence(text) {
  const trimmed = text.trim();
  return /[.!?…]$/.test(trimmed) ? trimmed : `${trimmed}.`;
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
