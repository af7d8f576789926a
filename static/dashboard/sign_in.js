/** What stands in place of runs that this visitor may not see: what is the matter, and a way to give a token. */

import { el, icon } from '../chat/dom.js';
import { signInWords } from '../chat/refusal.js';
import { fillTokenForm } from '../chat/sign_in.js';

/** A form for a token; with it the page begins anew, as it would with the token in its link. */
export function tokenForm() {
  const place = el('div', { class: 'sign-in' });
  fillTokenForm(place, () => location.reload());
  return place;
}

/**
 * @param {{code: number, reason: string}|null} refusal
 * @param {boolean} given - whether a token was shown at all
 */
export function notSignedIn(refusal, given) {
  const { title, text } = signInWords(refusal ?? { code: 0, reason: '' }, given);
  return el('div', { class: 'empty' }, icon('key', 'i-l quiet'), el('h2', {}, title), el('p', {}, text), tokenForm());
}
