import { sentence } from '../content.js';
import { button, el, icon, setChildren, setText } from '../dom.js';
import { originals } from '../originals.js';
import { EntryView } from './entry.js';

/** Instructions, summaries and notes: one line that opens; of a summary to the messages that it stands for, too. */
export class NoteView extends EntryView {
  #title = el('span', { class: 'cut' });
  #text = el('div', { class: 'thinking whole' });
  #more = el('div', { class: 'meta' });
  #all = el('div');
  #line = el('button', { type: 'button', class: 'line', 'aria-expanded': 'false', click: () => this.#toggle() }, icon('right', 'i-s chev'), this.#title);
  /** Of the messages, once they were read. @type {number|null} */
  #count = null;

  /** @param {Chat.Page} page */
  constructor(page) {
    super(page);
    this.body.append(this.#line, this.#text, this.#more, this.#all);
    this.#set(false);
  }

  render() {
    const { title, text, from } = this.entry;
    this.look('fold', { tight: true });
    this.setNode('fold', () => icon('fold', 'i-s quiet'));
    const words = this.#count === null ? title : `${this.#count} ${title}`;
    setText(this.#title, words.charAt(0).toUpperCase() + words.slice(1));
    setText(this.#text, text);
    this.#line.toggleAttribute('disabled', text === '' && from === undefined);
    if (from !== undefined && this.#count === null && this.#more.firstChild === null) this.#offer('Show the messages');
  }

  #toggle() {
    this.page.hold(this.element);
    this.#set(this.#line.getAttribute('aria-expanded') !== 'true');
  }

  /** @param {boolean} open */
  #set(open) {
    this.#line.setAttribute('aria-expanded', String(open));
    for (const part of [this.#text, this.#more, this.#all]) part.hidden = !open;
  }

  /** @param {string} text */
  #offer(text) {
    setChildren(this.#more, [button({ label: text, text, style: 'small', press: () => void this.#load() })]);
  }

  async #load() {
    this.#say('Reading the log…');
    const { topic, gateway, inset, hold } = this.page;
    try {
      const { mirror, complete } = await originals((page) => gateway.archive(topic, page), this.entry);
      const shown = inset(this.page, { topic, mirror: () => mirror });
      this.#count = mirror.messages().filter(({ role }) => role === 'user' || role === 'assistant').length;
      hold(this.element);
      if (complete) setChildren(this.#more, []);
      else this.#say(this.#count === 0 ? 'The messages are not stored any more.' : 'The first of them are not stored any more.');
      setChildren(this.#all, this.#count === 0 ? [] : [shown.element]);
      shown.again();
      this.render();
    } catch (error) {
      this.#offer('Try again');
      this.#more.prepend(el('span', { class: 't-bad' }, `Not read: ${sentence(error)}`));
    }
  }

  /** @param {string} words */
  #say(words) {
    setChildren(this.#more, [el('span', { role: 'status' }, words)]);
  }
}
