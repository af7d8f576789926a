import { glyph, icon, setChildren, setText } from './dom.js';
import { elapsed } from './time.js';

/** Without the end in this time after it was asked for it is said that there is no answer, in ms. */
const PATIENCE_MS = 5000;

/** Stop, in the foot of the composer. It never says stopped: the run's own end does. */
export class StopButton {
  #options;
  /** What is shown as being stopped, since when. */
  #since = { act: '', at: 0 };
  #shown = '';

  /**
   * @param {Chat.StopButtonOptions} options
   */
  constructor(options) {
    this.#options = options;
    const { parts, ask } = options;
    const { stop, more, menu, root } = parts;
    stop.addEventListener('click', () => ask('now'));
    more.addEventListener('click', () => this.#open(menu.hidden));
    menu.addEventListener('click', (event) => {
      const { mode } = /** @type {HTMLElement} */ (/** @type {Element} */ (event.target).closest('button')).dataset;
      this.close();
      ask(mode === 'now' ? 'now' : 'after_step');
    });
    menu.addEventListener('keydown', (event) => {
      if (event.key !== 'ArrowDown' && event.key !== 'ArrowUp') return;
      event.preventDefault();
      /** @type {HTMLElement} */ ([...menu.children].find((item) => item !== document.activeElement)).focus();
    });
    root.addEventListener('focusout', (event) => {
      if (!root.contains(/** @type {Node|null} */ (event.relatedTarget))) this.#open(false);
    });
  }

  /** @returns {boolean} whether the menu was open */
  close() {
    if (this.#options.parts.menu.hidden) return false;
    this.#open(false);
    this.#options.parts.more.focus();
    return true;
  }

  /** @param {boolean} open */
  #open(open) {
    const { menu, more } = this.#options.parts;
    menu.hidden = !open;
    more.setAttribute('aria-expanded', String(open));
    if (open) /** @type {HTMLElement} */ (menu.firstElementChild).focus();
  }

  /**
   * @param {object} state
   * @param {string|null} state.act - the run, or the message, that can be stopped; null where nothing can
   * @param {boolean} state.asked - this page asked, and no event says so yet
   * @param {{by: string|null, mode: string, step: number}|null} state.stopping - as the topic tells it
   */
  show({ act, asked, stopping }) {
    const { root, stop, more, note, hints, hint } = this.#options.parts;
    const after = stopping?.mode === 'after_step';
    if (stopping === null || act === null) this.#since.act = '';
    else if (this.#since.act !== `${act} ${stopping.mode}`) this.#since = { act: `${act} ${stopping.mode}`, at: this.#options.clock.now() };
    root.hidden = act === null;
    if (act === null) this.#open(false);
    const words = stopping === null ? '' : this.#words(stopping);
    setText(note, words);
    note.hidden = words === '';
    hints.hidden = words !== '';
    hint.hidden = act === null;
    const off = asked || (stopping !== null && !after);
    const shown = off ? 'Stopping' : after ? 'Stop now' : 'Stop';
    if (shown === this.#shown) return;
    this.#shown = shown;
    const focused = document.activeElement === stop;
    more.hidden = shown !== 'Stop';
    stop.disabled = off;
    stop.className = after && !off ? 'btn danger' : 'btn';
    setChildren(stop, [off ? glyph('stopping') : icon('stop'), document.createTextNode(shown)]);
    // A button that is off keeps no focus; the next thing to do is to write.
    if (focused && off) document.getElementById('box')?.focus();
  }

  /** @param {{by: string|null, mode: string, step: number}} stopping */
  #words({ by, mode, step }) {
    const who = by === null ? '' : `, asked by ${by}`;
    if (mode === 'after_step') return `Stops after ${step > 0 ? `step ${step}` : 'this step'}${who}`;
    const waited = this.#options.clock.now() - this.#since.at;
    if (waited < PATIENCE_MS) return `Stopping…${by === null ? '' : ` asked by ${by}`}`;
    return `Still stopping. The agent has not answered yet. ${elapsed(waited)}`;
  }
}
