import { glyph, setChildren, setText } from './dom.js';
import { HeaderRibbon } from './header_ribbon.js';
import { timeOf } from './panel.js';
import { headRun, isLive, wordFor } from './run_state.js';
import { clockTime, duration } from './time.js';

/** The head of the conversation: title, state, agent and connection. A part of the painter. */
export class Header {
  #options;
  #name = '';
  #ribbon;

  /**
   * @param {Chat.HeaderOptions} options
   */
  constructor(options) {
    this.#options = options;
    this.#ribbon = new HeaderRibbon(options.parts.ribbon);
  }

  paint() {
    const mirror = this.#options.mirror();
    const { title, chip, note, conn } = this.#options.parts;
    setText(title, this.#options.title());
    const { status, stale, current } = this.#options.facts();
    conn.dataset.state = status.state;
    conn.hidden = status.text === '';
    setText(conn, status.text);
    const run = headRun(mirror);
    chip.hidden = run === null;
    note.hidden = run === null;
    if (run === null) {
      this.#ribbon.hide();
      return true;
    }
    const state = this.#options.thread.state(mirror, run);
    const now = this.#options.clock.now();
    const silent = this.#options.thread.silentSince(run.run);
    const { word, tone } = wordFor(state, { decides: this.#options.may('decide') });
    if (isLive(run)) this.#ribbon.show(run.run, state, now);
    else this.#ribbon.hide();
    if (this.#name !== word) {
      this.#name = word;
      chip.className = `chip ${tone}`;
      setChildren(chip, [glyph(state), Object.assign(document.createElement('span'), { textContent: word })]);
      chip.title = word;
    }
    const facts = [run.agent, run.iteration > 0 ? `step ${run.iteration}` : '', stale && current !== null ? `as of ${clockTime(current, { seconds: true })}` : silent === null ? timeOf(run, now) : `silent for ${duration(now - silent)}`];
    setText(note, facts.filter(Boolean).join(' · '));
    return true;
  }
}
