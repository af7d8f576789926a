import { icon, setChildren } from './dom.js';

/** The way back to the newest, and the steps from message to message. */
export class Jump {
  #box;
  #root;
  #button;
  #scroller;
  #conversation;
  #may;
  #shown = '';

  /**
   * @param {object} options
   * @param {HTMLElement} options.box - that scrolls
   * @param {HTMLElement} options.root
   * @param {HTMLElement} options.button
   * @param {import('./scroll.js').Scroller} options.scroller
   * @param {import('./conversation.js').Conversation} options.conversation
   * @param {(verb: string) => boolean} options.may
   */
  constructor({ box, root, button, scroller, conversation, may }) {
    this.#box = box;
    this.#root = root;
    this.#button = button;
    this.#scroller = scroller;
    this.#conversation = conversation;
    this.#may = may;
    button.addEventListener('click', () => this.#go());
  }

  /** Shows what there is below, or nothing. Call when layout is clean. */
  show() {
    if (this.#scroller.following) this.#conversation.unseen = 0;
    const question = this.#questionBelow();
    const { unseen } = this.#conversation;
    let form = '';
    if (!this.#scroller.following && this.#scroller.below) form = question !== null ? (this.#may('decide') ? 'Needs you' : 'A question waits') : unseen > 0 ? `${unseen} new` : 'Latest';
    if (form === this.#shown) return;
    this.#shown = form;
    this.#root.hidden = form === '';
    this.#button.className = `btn round${question !== null ? ' attn-soft' : unseen > 0 ? ' primary' : ''}`;
    setChildren(this.#button, [icon('down'), document.createTextNode(form)]);
  }

  /**
   * To the next or previous message.
   * @param {1|-1} direction
   */
  step(direction) {
    const edge = this.#box.getBoundingClientRect().top;
    const { messages } = this.#conversation;
    const next = direction === 1 ? messages.find((element) => element.getBoundingClientRect().top > edge + 24) : messages.findLast((element) => element.getBoundingClientRect().top < edge + 8);
    if (next !== undefined) this.#scroller.toElement(next);
    else if (direction === 1) this.#scroller.toBottom();
  }

  /** Copies the message in view. */
  async copy() {
    const { top, bottom } = this.#box.getBoundingClientRect();
    const middle = (top + bottom) / 2;
    const seen = this.#conversation.messages.findLast((element) => element.getBoundingClientRect().top < middle);
    const text = seen === undefined ? null : this.#conversation.textOf(seen);
    if (text !== null) await navigator.clipboard.writeText(text).catch(() => {});
  }

  /**
   * What A, E and R do: for the question that has the focus, or the only one where nothing has it.
   * @param {string} letter
   */
  decide(letter) {
    const { questions } = this.#conversation;
    const at = document.activeElement;
    const free = at === document.body || at === this.#box;
    const found = questions.find(({ element }) => element.contains(at)) ?? (free && questions.length === 1 ? questions[0] : undefined);
    if (found === undefined) return;
    // What is not seen is not decided: the first press shows it.
    const [seen, { top, bottom }] = [this.#box.getBoundingClientRect(), found.element.getBoundingClientRect()];
    if (bottom > seen.bottom + 1 || bottom < seen.top || (top < seen.top && bottom - top < seen.height)) this.#scroller.toElement(found.element);
    else found.question.press(letter);
  }

  #questionBelow() {
    const [question] = this.#scroller.following ? [] : this.#conversation.questions;
    if (question === undefined) return null;
    const { element } = question;
    return element.getBoundingClientRect().top > this.#box.getBoundingClientRect().bottom ? element : null;
  }

  #go() {
    const question = this.#questionBelow();
    if (question !== null) this.#scroller.toElement(question);
    else this.#scroller.toBottom();
  }
}
