import { record } from '../content.js';
import { el, icon, setChildren, setText } from '../dom.js';
import { oneLine } from '../json_text.js';
import { EntryView } from './entry.js';
import { jsonNodes } from './json_view.js';

/** Something of a provider's answer that nobody here knows: one line that opens to its JSON. */
export class ItemView extends EntryView {
  #name = el('span', { class: 'name cut' });
  #brief = el('span', { class: 'args cut grow' });
  #line = el('button', { type: 'button', class: 'line', 'aria-expanded': 'false', click: () => this.#toggle() }, icon('right', 'i-s chev'), this.#name, this.#brief);
  #whole = el('div', { class: 'card', hidden: true });

  /** @param {Chat.Page} page */
  constructor(page) {
    super(page);
    this.body.append(this.#line, this.#whole);
  }

  render() {
    const { name, item } = this.entry;
    const json = JSON.stringify(item);
    this.look('fold', { tight: true });
    this.setNode('fold', () => icon('fold', 'i-s quiet'));
    setText(this.#name, name);
    const { type: _, ...rest } = record(item);
    setText(this.#brief, oneLine(JSON.stringify(rest)));
    setChildren(this.#whole, [el('div', { class: 'card-part' }, el('pre', {}, ...jsonNodes(json)))]);
  }

  #toggle() {
    this.page.hold(this.element);
    this.#whole.hidden = !this.#whole.hidden;
    this.#line.setAttribute('aria-expanded', String(!this.#whole.hidden));
  }
}
