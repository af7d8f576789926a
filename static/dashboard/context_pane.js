import { el, setText } from '../chat/dom.js';
import { Inset } from '../chat/inset.js';
import { clockTime, number } from '../chat/time.js';

/** So many entries of the conversation are drawn, the last ones. */
const MOST_ENTRIES = 60;

/** The conversation at the scrubber's place, drawn as the chat draws it. */
export class ContextPane {
  #lane;
  #page;
  /** Made when it is first looked at. @type {Inset|null} */
  #inset = null;
  #note = el('p', { class: 'quiet lead' });

  /**
   * @param {HTMLElement} lane
   * @param {Board.ContextPage} page
   */
  constructor(lane, page) {
    this.#lane = lane;
    this.#page = page;
  }

  /**
   * What the topic told.
   * @param {{events: any[], reset: boolean}} change
   */
  take(change) {
    if (this.#page.shown() && this.#page.moment() === null) this.#inset?.take(change);
  }

  /** Another place is looked at, or it is looked at again. */
  again() {
    if (!this.#page.shown() || this.#page.topic === null) return;
    this.#inset ??= this.#make(this.#page.topic);
    const moment = this.#page.moment();
    const floor = this.#page.recording.floor;
    const missing = floor > 0 ? ` Events up to ${number(floor)} are not kept, so what they told is missing.` : '';
    setText(this.#note, moment === null ? 'The context as it is now.' : `The context after event ${number(moment.offset)}, ${clockTime(moment.at, { seconds: true })}. It cannot be acted on.${missing}`);
    this.#inset.again();
  }

  /** @param {string} topic */
  #make(topic) {
    const { chat, moment, mirror } = this.#page;
    const acted = (/** @type {string} */ verb) => moment() === null && chat.may(verb);
    const inset = new Inset({ ...chat, topic, depth: 0, may: acted, inset: (/** @type {Chat.Page} */ page, /** @type {Chat.InsetOptions} */ options) => new Inset(page, options) }, { topic, mirror, most: () => MOST_ENTRIES });
    this.#lane.append(this.#note, inset.element);
    return inset;
  }
}
