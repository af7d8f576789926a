import { sentence } from '../chat/content.js';
import { el, setChildren } from '../chat/dom.js';
import { wantsToken } from '../chat/refusal.js';
import { ErrorCode } from '../gateway/index.js';
import { notSignedIn, tokenForm } from './sign_in.js';

/** Nothing is said about waiting before, in ms. */
const PATIENCE_MS = 400;

/** What stands in place of a run, and what is said where another one is shown than was asked for. */
export class RunBlank {
  #box;
  #page;
  #shown = '';

  /**
   * @param {HTMLElement} box
   * @param {Board.RunBlankPage} page
   */
  constructor(box, page) {
    this.#box = box;
    this.#page = page;
  }

  /** @param {Board.RunSpan|null} run */
  show(run) {
    const name = this.#name(run);
    if (name === this.#shown) return;
    this.#shown = name;
    if (name === 'gone') this.#page.notices.show('gone', { tone: 'wait', symbol: 'alert', title: 'That run is no longer kept.', text: 'The latest run of its topic is shown.' });
    else this.#page.notices.hide('gone');
    const made = this.#make(name);
    setChildren(this.#box, made === null ? [] : [made]);
  }

  /** @param {Board.RunSpan|null} run */
  #name(run) {
    const { topic, subscription, history, chosen, waited } = this.#page;
    if (topic === null) return 'wrong';
    if (run === null && wantsToken(this.#page.gateway.refusal)) return 'sign-in';
    if (subscription.state === 'denied') return 'denied';
    if (run !== null) return chosen() !== null && run.run !== chosen() && history.complete ? 'gone' : '';
    if ((subscription.state === 'live' || history.error !== null) && history.complete) return subscription.mirror.offset === 0 ? 'first' : 'none';
    return waited() > PATIENCE_MS ? 'loading' : '';
  }

  /** @param {string} name */
  #make(name) {
    const { topic, wrong, subscription, gateway, given } = this.#page;
    switch (name) {
      case 'sign-in':
        return notSignedIn(gateway.refusal, given);
      case 'wrong':
        return text('That is not a run’s address', wrong === null ? 'The address names no topic. ' : 'A topic has 1 to 200 of the characters A–Z a–z 0–9 _ . : @ / -. ', all());
      case 'denied': {
        const shown = text('You cannot read this run', `Your access does not include ${topic}${subscription.error === null ? '.' : `: ${sentence(subscription.error)}`} `, all());
        if (subscription.error?.code === ErrorCode.PERMISSION_DENIED) shown.append(tokenForm());
        return shown;
      }
      case 'first':
        return text('Nothing has happened on this topic', 'Its first run appears here as soon as it writes an event.');
      case 'none':
        return text('No run on this topic', 'It has events, and none of them belongs to a run that is still kept. ', all());
      case 'loading':
        return el('div', { class: 'waiting', role: 'status', 'aria-label': 'Loading the run' }, ...['w1', 'w2', 'w3', 'w1'].map((width) => el('div', { class: `skeleton ${width}` })));
      default:
        return null;
    }
  }
}

function all() {
  return el('a', { class: 'link', href: '../dashboard' }, 'All runs');
}

/**
 * @param {string} heading
 * @param {(Node|string)[]} words
 */
function text(heading, ...words) {
  return el('div', { class: 'empty' }, el('h2', {}, heading), el('p', {}, ...words));
}
