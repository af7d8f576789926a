/** What stands in place of a conversation that this visitor may not read: what is the matter, and a way to show a token. */

import { ErrorCode } from '../gateway/index.js';
import { keepToken, readToken } from '../token.js';
import { sentence } from './content.js';
import { el, icon, setText } from './dom.js';

/** Close code of a connection whose token does not count (PROTOCOL.md 6). */
const INVALID_TOKEN = 3500;

/**
 * Whether a refusal is about who this visitor is, so that another token can help.
 * @param {{code: number, reason: string}|null} refusal
 */
export function wantsToken(refusal) {
  return refusal !== null && [ErrorCode.UNAUTHORIZED, ErrorCode.TOKEN_EXPIRED, INVALID_TOKEN].includes(refusal.code);
}

/**
 * What is the matter, and what helps. Pure.
 * @param {{code: number, reason: string}} refusal
 * @param {boolean} given - whether a token was shown at all
 * @returns {{title: string, text: string}}
 */
export function signInWords({ code, reason }, given) {
  if (!given) return { title: 'This gateway asks for a token', text: 'Open the link that you were given, or paste your token here.' };
  if (code === ErrorCode.TOKEN_EXPIRED) return { title: 'Your token has expired', text: 'Get a fresh one from where you got it, and paste it here.' };
  return { title: 'This gateway does not take your token', text: `${sentence(`It says: ${reason}`)} Paste another one here.` };
}

/**
 * @param {{title: string, text: string}} words
 * @param {() => void} enter - a token is kept: begin with it
 * @returns {HTMLElement}
 */
export function signIn({ title, text }, enter) {
  return el('div', { class: 'empty' }, icon('key', 'i-l quiet'), el('h2', {}, title), el('p', {}, text), tokenForm(enter));
}

/**
 * @param {() => void} enter
 * @returns {HTMLElement}
 */
export function tokenForm(enter) {
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
      class: 'sign-in',
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
  return form;
}
