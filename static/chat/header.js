import { glyph, setChildren, setText } from './dom.js';
import { timeOf } from './panel.js';
import { headRun, stateOf, wordFor } from './run_state.js';
import { clockTime } from './time.js';

/** The head of the conversation: title, state, agent and connection. A part of the painter. */
export class Header {
  #parts;
  #mirror;
  #thread;
  #clock;
  #facts;
  #title;
  #may;
  #name = '';

  /**
   * @param {object} options
   * @param {{title: HTMLElement, chip: HTMLElement, note: HTMLElement, conn: HTMLElement}} options.parts
   * @param {() => any} options.mirror
   * @param {import('./thread.js').Thread} options.thread
   * @param {import('./time.js').ServerClock} options.clock
   * @param {() => {status: import('./status.js').Shown, stale: boolean, current: number|null}} options.facts
   * @param {() => string} options.title
   * @param {(verb: string) => boolean} options.may
   */
  constructor({ parts, mirror, thread, clock, facts, title, may }) {
    this.#parts = parts;
    this.#mirror = mirror;
    this.#thread = thread;
    this.#clock = clock;
    this.#facts = facts;
    this.#title = title;
    this.#may = may;
  }

  paint() {
    const mirror = this.#mirror();
    const { title, chip, note, conn } = this.#parts;
    setText(title, this.#title());
    const { status, stale, current } = this.#facts();
    conn.dataset.state = status.state;
    conn.hidden = status.text === '';
    setText(conn, status.text);
    const run = headRun(mirror);
    chip.hidden = run === null;
    note.hidden = run === null;
    if (run === null) return true;
    const state = stateOf(mirror, run, this.#thread.kinds);
    const { word, tone } = wordFor(state, { decides: this.#may('decide') });
    if (this.#name !== word) {
      this.#name = word;
      chip.className = `chip ${tone}`;
      setChildren(chip, [glyph(state), Object.assign(document.createElement('span'), { textContent: word })]);
      chip.title = word;
    }
    const facts = [run.agent, run.iteration > 0 ? `step ${run.iteration}` : '', stale && current !== null ? `as of ${clockTime(current, { seconds: true })}` : timeOf(run, this.#clock.now())];
    setText(note, facts.filter(Boolean).join(' · '));
    return true;
  }
}
