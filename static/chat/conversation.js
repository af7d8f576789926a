import { setChildren } from './dom.js';
import { EndView, StartView } from './entries/lines.js';
import { ItemView } from './entries/item.js';
import { NoteView } from './entries/note.js';
import { SubView } from './entries/sub.js';
import { TextView } from './entries/text.js';
import { ThinkView } from './entries/think.js';
import { ToolView } from './entries/tool.js';
import { UserView } from './entries/user.js';
import { same } from './thread.js';

/** @typedef {import('./entries/entry.js').EntryView} EntryView */

/** @type {Map<string, new (page: Chat.Page) => EntryView>} */
const VIEWS = new Map([
  ['user', UserView],
  ['think', ThinkView],
  ['text', TextView],
  ['item', ItemView],
  ['tool', ToolView],
  ['note', NoteView],
  ['sub', SubView],
  ['start', StartView],
  ['end', EndView],
].map(([kind, view]) => [/** @type {string} */ (kind), /** @type {any} */ (view)]));

/** The entries of the conversation on the page. A part of the painter. */
export class Conversation {
  /** Messages and calls that came while the reader was elsewhere. */
  unseen = 0;
  /** Earlier entries that are left out. */
  hidden = 0;
  #lane;
  #thread;
  #mirror;
  #page;
  #following;
  /** Own messages on their way, as entries. @type {() => any[]} */
  #pending;
  #most;
  /** @type {Map<string, EntryView>} */
  #views = new Map();
  /** In order. @type {EntryView[]} */
  #order = [];
  #outgoing = true;
  #filled = false;

  /**
   * @param {Chat.ConversationOptions} options
   */
  constructor({ lane, thread, mirror, page, following, pending, most = () => Number.POSITIVE_INFINITY }) {
    this.#lane = lane;
    this.#thread = thread;
    this.#mirror = mirror;
    this.#page = page;
    this.#following = following;
    this.#pending = pending;
    this.#most = most;
  }

  get empty() {
    return this.#order.length === 0;
  }

  /** Own messages on their way have changed. */
  outgoingChanged() {
    this.#outgoing = true;
  }

  /** @param {number} deadline */
  paint(deadline) {
    if (this.#thread.changed || this.#outgoing) this.#reconcile();
    const pieces = this.#thread.pieces();
    for (const view of this.#order) {
      // What is not drawn yet is drawn whole.
      if (view.entry.open && !view.dirty) view.grow(pieces.get(view.entry.key) ?? []);
    }
    for (let index = this.#order.length - 1; index >= 0; index -= 1) {
      const view = this.#order[index];
      if (!view.dirty) continue;
      view.draw();
      if (performance.now() > deadline) return !this.#order.some(({ dirty }) => dirty);
    }
    return true;
  }

  /**
   * @param {string} message
   * @returns {Element|null} its first entry, drawn
   */
  find(message) {
    const keys = [`u:${message}`, `x:${message}`, `t:${message}`];
    const view = keys.map((key) => this.#views.get(key)).find((found) => found !== undefined);
    if (view === undefined) return null;
    if (view.dirty) view.draw();
    return view.element;
  }

  /** The entries as they are drawn, in order. */
  get entries() {
    return this.#order.map(({ entry }) => entry);
  }

  /**
   * @param {string} key
   * @returns {Element|null}
   */
  byKey(key) {
    return this.#views.get(key)?.element ?? null;
  }

  /**
   * @param {Element} element - of a message
   * @returns {string|null} its text as it came
   */
  textOf(element) {
    const view = this.#order.find((found) => found.element === element);
    return view === undefined ? null : (view.entry.open?.text ?? view.entry.text);
  }

  /** The questions that wait, those of sub-agents in view included, in order. */
  get questions() {
    return this.#order.flatMap(({ questions }) => questions);
  }

  /**
   * What an entry shows beside the topic has changed.
   * @param {string} key
   */
  redraw(key) {
    const view = this.#views.get(key);
    if (view !== undefined) view.dirty = true;
  }

  redrawAll() {
    for (const view of this.#order) view.dirty = true;
  }

  /**
   * The messages of people and agents, in order.
   * @returns {Element[]}
   */
  get messages() {
    return this.#order.filter(({ entry }) => entry.kind === 'user' || entry.kind === 'text').map(({ element }) => element);
  }

  #reconcile() {
    this.#outgoing = false;
    const all = [...this.#thread.entries(this.#mirror()), ...this.#pending()];
    this.hidden = Math.max(0, all.length - this.#most());
    const entries = all.slice(this.hidden);
    const left = new Map(this.#views);
    const order = [];
    let fresh = 0;
    for (const entry of entries) {
      left.delete(entry.key);
      let view = this.#views.get(entry.key);
      if (view === undefined || view.entry.kind !== entry.kind) {
        view?.leave();
        view = new (VIEWS.get(entry.kind) ?? NoteView)(this.#page);
        this.#views.set(entry.key, view);
        view.take(entry);
        if (entry.kind === 'text' || entry.kind === 'tool' || entry.kind === 'user') fresh += 1;
      } else if (!same(view.entry, entry)) {
        view.take(entry);
      }
      order.push(view);
    }
    for (const [key, view] of left) {
      view.leave();
      this.#views.delete(key);
    }
    this.#order = order;
    setChildren(this.#lane, order.map(({ element }) => element));
    // What is there from the start is not new.
    if (this.#filled && !this.#following()) this.unseen += fresh;
    this.#filled ||= entries.length > 0;
  }
}
