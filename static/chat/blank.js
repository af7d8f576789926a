import { button, copyButton, el, icon } from './dom.js';
import { number } from './time.js';

/** What stands in place of the conversation where there is none. */

/**
 * @param {string} language
 * @param {string} text
 */
export function example(language, text) {
  return el('div', { class: 'code' }, el('div', { class: 'code-head' }, el('span', { class: 'grow' }, language), copyButton(() => text, { label: `Copy ${language}`, text: 'Copy' })), el('pre', { tabindex: 0 }, text));
}

/** Messages wait, and no agent has ever taken one. */
export function unheard() {
  return el('div', { class: 'empty late', role: 'status' }, el('h2', {}, 'Waiting for an agent'), el('p', {}, 'No agent has taken a message of this chat yet. What waits is kept, and answered as soon as one listens.'), example('shell', 'gateway agent'));
}

/** Subscribed, nothing has come. */
export function loading() {
  return el('div', { class: 'empty wide', 'aria-busy': 'true', 'aria-label': 'Loading the conversation' }, ...['w1', 'w2', 'w3', 'w1', 'w4'].map((width) => el('div', { class: `skeleton ${width}` })));
}

/**
 * @param {{title: string, text: string}} words - what is the matter, and what helps
 * @param {HTMLElement} form
 */
export function notSignedIn({ title, text }, form) {
  return el('div', { class: 'empty' }, icon('key', 'i-l quiet'), el('h2', {}, title), el('p', {}, text), form);
}

/**
 * @param {string} topic
 * @param {{code: number, message: string}|null} error
 * @param {HTMLElement|null} form - where another token could help
 */
export function denied(topic, error, form) {
  if (error?.code === 102) {
    return el('div', { class: 'empty' }, el('h2', {}, 'No such chat'), el('p', {}, 'The link may be cut short.'), el('a', { class: 'btn small', href: './' }, 'New chat'));
  }
  return el(
    'div',
    { class: 'empty' },
    icon('key', 'i-l quiet'),
    el('h2', {}, 'You cannot read this chat'),
    el('p', {}, 'Your access does not include ', el('code', { class: 'mono' }, topic), error === null ? '.' : `: ${error.message}.`, form === null ? '' : ' With another token you may.'),
    form ?? button({ label: 'Try again', text: 'Try again', style: 'small', press: () => location.reload() }),
  );
}

/**
 * The address names no topic.
 * @param {string} name - what it has instead
 */
export function wrongTopic(name) {
  const shown = name.length > 60 ? `${name.slice(0, 60)}…` : name;
  const says = name === '' ? 'The address has an empty topic.' : ['The address asks for ', el('code', { class: 'mono' }, shown), name.length > 200 ? `, which has ${number(name.length)} characters.` : '.'];
  return el(
    'div',
    { class: 'empty' },
    icon('alert', 'i-l quiet'),
    el('h2', {}, 'That is not a chat’s name'),
    el('p', {}, ...says),
    el('p', {}, 'A name has 1 to 200 of the characters ', el('code', { class: 'mono' }, 'A–Z a–z 0–9 _ . : @ / -'), ' and no spaces.'),
    el('a', { class: 'btn small', href: './' }, 'New chat'),
  );
}
