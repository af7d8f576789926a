/** Where a visitor gives a token. Loaded when somebody needs it. */

import { keepToken, readToken } from '../token.js';
import { el, setText } from './dom.js';

/**
 * @param {HTMLElement} place
 * @param {() => void} enter - a token is kept: begin with it
 */
export function fillTokenForm(place, enter) {
  const field = /** @type {HTMLInputElement} */ (el('input', { type: 'password', id: 'token', autocomplete: 'off', spellcheck: 'false', 'aria-describedby': 'token-note' }));
  const note = el('p', { class: 'quiet', id: 'token-note' }, 'It stays in this tab until you close it, and never goes into an address.');
  const fault = (/** @type {string} */ words) => {
    setText(note, words);
    note.className = 't-bad';
    note.setAttribute('role', 'alert');
    field.setAttribute('aria-invalid', 'true');
    field.focus();
  };
  const form = el(
    'form',
    {
      submit: (/** @type {Event} */ event) => {
        event.preventDefault();
        const token = readToken(field.value);
        if (token === null) fault('That is no token: it consists of letters, digits and _ . - only.');
        else if (keepToken(token)) enter();
        else fault('The browser keeps nothing for this page. Allow it to, or open the link with the token again.');
      },
    },
    el('label', { for: 'token' }, 'Token'),
    el('div', { class: 'row' }, el('span', { class: 'field grow' }, field), el('button', { type: 'submit', class: 'btn primary' }, 'Sign in')),
    note,
  );
  place.append(form);
}
