import { author } from '../content.js';
import { el, setText } from '../dom.js';
import { clockTime } from '../time.js';
import { EntryView } from './entry.js';

/**
 * The two letters that stand for a person.
 * @param {string} name
 */
export function initials(name) {
  const words = name.split(/[\s._@-]+/).filter(Boolean);
  return (words.length > 1 ? `${[...words[0]][0]}${[...words[1]][0]}` : ([...name][0] ?? '?')).toUpperCase();
}

/** A person's message. */
export class UserView extends EntryView {
  #name = el('b');
  #time = el('time');
  #text = el('p');
  #attachments = el('p', { class: 'attachments' });

  /** @param {Chat.Page} page */
  constructor(page) {
    super(page);
    this.node.classList.add('face');
    this.body.append(el('div', { class: 'user' }, el('div', { class: 'who' }, this.#name, this.#time), this.#text, this.#attachments));
  }

  render() {
    const { name, message, text, at, attachments, pending } = this.entry;
    const own = pending !== undefined || this.page.own.wrote(message, name);
    const shown = own ? 'You' : author(name, 'User');
    this.look('user');
    this.element.classList.toggle('pending', pending !== undefined);
    setText(this.node, initials(shown));
    this.node.classList.toggle('a', own);
    this.node.classList.toggle('b', !own);
    setText(this.#name, shown);
    setText(this.#time, pending ?? (at === null ? '' : clockTime(at)));
    setText(this.#text, text);
    this.#text.hidden = text === '';
    setText(this.#attachments, attachments);
    this.#attachments.hidden = attachments === '';
  }
}
