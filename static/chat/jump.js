import { icon, setChildren } from './dom.js';

/** The way back to the newest, and the steps from message to message. */
export class Jump {
  #options;
  #shown = '';

  /**
   * @param {Chat.JumpOptions} options
   */
  constructor(options) {
    this.#options = options;
    const { button } = options;
    button.addEventListener('click', () => this.#go());
  }

  /** Shows what there is below, or nothing. Call when layout is clean. */
  show() {
    if (this.#options.scroller.following) this.#options.conversation.unseen = 0;
    const question = this.#questionBelow();
    const { unseen } = this.#options.conversation;
    let form = '';
    if (!this.#options.scroller.following && this.#options.scroller.below) form = question !== null ? (this.#options.may('decide') ? 'Needs you' : 'A question waits') : unseen > 0 ? `${unseen} new` : 'Latest';
    if (form === this.#shown) return;
    this.#shown = form;
    this.#options.root.hidden = form === '';
    this.#options.button.className = `btn round${question !== null ? ' attn-soft' : unseen > 0 ? ' primary' : ''}`;
    setChildren(this.#options.button, [icon('down'), document.createTextNode(form)]);
  }

  /**
   * To the next or previous message.
   * @param {1|-1} direction
   */
  step(direction) {
    const edge = this.#options.box.getBoundingClientRect().top;
    const { messages } = this.#options.conversation;
    const next = direction === 1 ? messages.find((element) => element.getBoundingClientRect().top > edge + 24) : messages.findLast((element) => element.getBoundingClientRect().top < edge + 8);
    if (next !== undefined) this.#options.scroller.toElement(next);
    else if (direction === 1) this.#options.scroller.toBottom();
  }

  /** Copies the message in view. */
  async copy() {
    const { top, bottom } = this.#options.box.getBoundingClientRect();
    const middle = (top + bottom) / 2;
    const seen = this.#options.conversation.messages.findLast((element) => element.getBoundingClientRect().top < middle);
    const text = seen === undefined ? null : this.#options.conversation.textOf(seen);
    if (text !== null) await navigator.clipboard.writeText(text).catch(() => {});
  }

  /**
   * What A, E and R do: for the question that has the focus, or the only one where nothing has it.
   * @param {string} letter
   */
  decide(letter) {
    const { questions } = this.#options.conversation;
    const at = document.activeElement;
    const free = at === document.body || at === this.#options.box;
    const found = questions.find(({ element }) => element.contains(at)) ?? (free && questions.length === 1 ? questions[0] : undefined);
    if (found === undefined) return;
    // What is not seen is not decided: the first press shows it.
    const [seen, { top, bottom }] = [this.#options.box.getBoundingClientRect(), found.element.getBoundingClientRect()];
    if (bottom > seen.bottom + 1 || bottom < seen.top || (top < seen.top && bottom - top < seen.height)) this.#options.scroller.toElement(found.element);
    else found.question.press(letter);
  }

  #questionBelow() {
    const [question] = this.#options.scroller.following ? [] : this.#options.conversation.questions;
    if (question === undefined) return null;
    const { element } = question;
    return element.getBoundingClientRect().top > this.#options.box.getBoundingClientRect().bottom ? element : null;
  }

  #go() {
    const question = this.#questionBelow();
    if (question !== null) this.#options.scroller.toElement(question);
    else this.#options.scroller.toBottom();
  }
}
