import { el, setChildren, setText } from '../dom.js';
import { changesOf } from '../json_changes.js';
import { jsonFault } from '../json_fault.js';
import { layout, tokens } from '../json_text.js';
import { drawn } from './json_view.js';

/** Where the arguments of a call are changed: JSON as text, so that nothing is rewritten that nobody touched. */
export class ArgumentsEditor {
  /** @type {HTMLElement} */
  element;
  /** What the text changes; none while it is no JSON. @type {Chat.Changed[]} */
  changes = [];
  /** Why the text cannot be sent, or null. @type {string|null} */
  fault = null;
  #asked;
  #numbers = el('span', { class: 'ln', 'aria-hidden': 'true' });
  #shown = el('pre', { 'aria-hidden': 'true' });
  #box = /** @type {HTMLTextAreaElement} */ (el('textarea', { 'aria-label': 'Arguments, as JSON', spellcheck: 'false', autocapitalize: 'off', autocomplete: 'off' }));

  /**
   * @param {string} asked - the arguments as they came
   * @param {() => void} changed
   */
  constructor(asked, changed) {
    this.#asked = asked;
    this.element = el('div', { class: 'editor' }, this.#numbers, el('div', { class: 'paper' }, this.#shown, this.#box));
    this.#box.value = layout(asked, { open: true })
      .map(({ text }) => text)
      .join('');
    this.#box.addEventListener('input', () => {
      this.#read();
      changed();
    });
    this.#read();
  }

  focus() {
    this.#box.focus();
    this.#box.setSelectionRange(0, 0);
  }

  get text() {
    return this.#box.value;
  }

  #read() {
    const text = this.#box.value;
    const fault = jsonFault(text);
    const object = this.#asked.trim().startsWith('{');
    if (fault !== null) this.fault = `Line ${fault.line}: ${fault.words}.`;
    else this.fault = object && !text.trim().startsWith('{') ? 'Line 1: arguments stand in braces.' : null;
    const { changes, fresh } = changesOf(this.#asked, text);
    this.changes = this.fault === null ? changes : [];
    this.element.classList.toggle('invalid', this.fault !== null);
    this.#box.setAttribute('aria-invalid', String(this.fault !== null));
    const lines = text.split('\n').length;
    setText(this.#numbers, Array.from({ length: lines }, (_, index) => index + 1).join('\n'));
    let solid = -1;
    const nodes = tokens(text).map((token) => {
      if (token.kind === 'space') return drawn(token);
      solid += 1;
      return fresh.has(solid) ? el('span', { class: 'ins' }, token.text) : drawn(token);
    });
    // Without a character after it a last newline opens no line.
    setChildren(this.#shown, [...nodes, document.createTextNode('\n')]);
  }
}
