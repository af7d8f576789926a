import { SOMEONE, author, readContent, sentence } from './content.js';
import { button, el, icon, setChildren } from './dom.js';
import { initials } from './entries/user.js';

/** Rows beyond this are counted, not shown. */
const ROWS = 5;

/** The messages that wait for the agent. Own ones can be changed and taken back: shown at once, as provisional. */
export class Queue {
  #options;
  /** By message. @type {Map<string, Chat.Change>} */
  #changes = new Map();
  #open = false;
  #shown = '';
  #list = /** @type {any[]} */ ([]);

  /**
   * @param {Chat.QueueOptions} options
   */
  constructor(options) {
    this.#options = options;
  }

  /** The own message that was written last and can be changed, or null. @returns {{id: string, text: string}|null} */
  get last() {
    const row = this.#list.findLast(({ id, content, by }) => this.#options.own.wrote(id, by) && typeof content === 'string' && this.#changes.get(id)?.kind !== 'withdraw');
    return row === undefined ? null : { id: row.id, text: this.#textOf(row) };
  }

  /** @param {string} message */
  has(message) {
    return this.#list.some(({ id }) => id === message);
  }

  /**
   * @param {string} message
   * @param {string} text
   */
  change(message, text) {
    void this.#do(message, { kind: 'edit', text, until: null }, this.#options.acts.edit(message, text));
  }

  /** @param {string} message */
  #withdraw(message) {
    void this.#do(message, { kind: 'withdraw', text: '', until: null }, this.#options.acts.withdraw(message));
  }

  /**
   * @param {string} message
   * @param {Chat.Change} change
   * @param {Promise<any>} answered
   */
  async #do(message, change, answered) {
    this.#changes.set(message, change);
    this.#options.changed();
    try {
      const { status, epoch, offset, run } = await answered;
      const wanted = change.kind === 'edit' ? 'edited' : 'withdrawn';
      if (status === wanted) change.until = offset === undefined ? null : { epoch, offset };
      else this.#refused(message, change, status === 'taken' || run !== undefined ? 'The agent had taken it already.' : 'It was withdrawn already.');
    } catch (error) {
      this.#refused(message, change, sentence(error));
    }
    this.#options.changed();
  }

  /**
   * @param {string} message
   * @param {Chat.Change} change
   * @param {string} reason
   */
  #refused(message, change, reason) {
    if (this.#changes.get(message) === change) this.#changes.delete(message);
    this.#options.tell(change.kind === 'edit' ? 'Not changed.' : 'Not withdrawn.', reason);
  }

  /** @param {{content: unknown, id: string}} row */
  #textOf({ content, id }) {
    const change = this.#changes.get(id);
    const { text, attachments } = readContent(content);
    return change?.kind === 'edit' ? change.text : text || attachments.join(' · ');
  }

  /**
   * @param {any} mirror
   * @param {(verb: string) => boolean} may
   */
  show(mirror, may) {
    const { queue, epoch, offset } = mirror;
    this.#list = queue;
    for (const [id, { until }] of this.#changes) {
      const told = until !== null && (until.epoch !== epoch || until.offset <= offset);
      if (told || !this.has(id)) this.#changes.delete(id);
    }
    // The event of an own message may come before the reply that says that it is one.
    const own = queue.slice(0, ROWS).map((/** @type {any} */ { id, by }) => this.#options.own.wrote(id, by));
    const shown = JSON.stringify([queue.slice(0, ROWS), own, queue.length, [...this.#changes], this.#open, may('edit'), may('withdraw')]);
    if (shown === this.#shown) return;
    this.#shown = shown;
    const focused = this.#options.root.contains(document.activeElement);
    const rows = queue.slice(0, ROWS).map((/** @type {any} */ row) => this.#row(row, may));
    if (queue.length > ROWS) rows.push(el('li', {}, icon('clock', 'i-s quiet'), el('span', { class: 'quiet' }, `${queue.length - ROWS} more`)));
    const words = `${queue.length} message${queue.length === 1 ? '' : 's'} waiting`;
    const fold = el('button', { type: 'button', class: 'line', 'aria-expanded': this.#open ? 'true' : 'false', click: () => this.#fold() }, icon('right', 'i-s chev'), words);
    setChildren(this.#options.root, queue.length === 0 ? [] : [el('li', { class: 'only-tiny' }, fold), ...rows]);
    this.#options.root.hidden = queue.length === 0;
    this.#options.root.classList.toggle('open', this.#open);
    if (focused && !this.#options.root.contains(document.activeElement)) /** @type {HTMLElement|null} */ (this.#options.root.querySelector('li:not(.only-tiny) button') ?? document.getElementById('box'))?.focus();
  }

  #fold() {
    this.#open = !this.#open;
    this.#options.changed();
  }

  /**
   * @param {any} row
   * @param {(verb: string) => boolean} may
   */
  #row(row, may) {
    const { id, content, by } = row;
    const own = this.#options.own.wrote(id, by);
    const name = own ? 'You' : author(by, SOMEONE);
    const change = this.#changes.get(id);
    const text = el('span', { class: 'cut grow' }, el('span', { class: 'soft' }, `${name}: `), el(change?.kind === 'withdraw' ? 'del' : 'span', {}, this.#textOf(row)));
    const face = el('span', { class: `face ${own ? 'a' : 'b'}`, 'aria-hidden': 'true' }, initials(name));
    const made = el('li', { ...(change !== undefined && { class: 'pending' }) }, icon('clock', 'i-s quiet'), face, text);
    if (change !== undefined) made.append(el('span', { class: 'quiet' }, change.kind === 'edit' ? 'changing…' : 'withdrawing…'));
    else if (!own) made.append(el('span', { class: 'quiet not-tiny' }, 'waiting'));
    if (own && change?.kind !== 'withdraw') {
      if (may('edit') && typeof content === 'string') made.append(button({ label: 'Edit this message', icon: 'pen', style: 'bare icon small', press: () => this.#options.edit(id, this.#textOf(row)) }));
      if (may('withdraw')) made.append(button({ label: 'Withdraw this message', icon: 'x', style: 'bare icon small', press: () => this.#withdraw(id) }));
    }
    return made;
  }
}
