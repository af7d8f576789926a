import { el, icon, setChildren, setText } from '../chat/dom.js';
import { Question } from '../chat/entries/question.js';
import { wordOf } from './row_view.js';

const DECIDED = new Map([
  ['approve', 'approved'],
  ['edit', 'edited and approved'],
  ['reject', 'rejected'],
  ['expired', 'let expire'],
]);

/** A summary has so many characters of the arguments at most (PROTOCOL.md 3.9). */
const SUMMED_UP = 2000;

/**
 * Whether these may be the beginning of longer arguments.
 * @param {string} args - JSON text
 */
function isCut(args) {
  return args.length >= SUMMED_UP && [...args].length >= SUMMED_UP;
}

/** The questions of a run, beside the table. A part of the painter. */
export class Review {
  #parts;
  #page;
  #row;
  /** @type {string|null} */
  #topic = null;
  /** By run and call. @type {Map<string, {question: Question, entry: any}>} */
  #questions = new Map();
  /** What became of those that were shown. @type {Map<string, HTMLElement>} */
  #settled = new Map();
  /** Questions whose arguments came in part. @type {Set<string>} */
  #cut = new Set();
  #part = el('div', { class: 'notice' }, icon('alert'), el('p', {}, el('b', {}, 'These arguments are longer than is shown.'), ' Open the run to read them whole and to decide.'));
  #links = el('div', { class: 'row' });
  #state = el('p', { class: 'soft' });
  #list = el('div', { class: 'asks' });
  /** @type {Element|null} */
  #back = null;

  /**
   * @param {{root: HTMLElement, title: HTMLElement, body: HTMLElement, close: HTMLElement}} parts
   * @param {Board.ReviewPage} page
   * @param {(topic: string) => import('./row.js').Row|undefined} row
   */
  constructor(parts, page, row) {
    this.#parts = parts;
    this.#page = page;
    this.#row = row;
    parts.body.append(el('section', {}, this.#state, this.#links), this.#list);
    parts.close.addEventListener('click', () => this.close());
  }

  get open() {
    return this.#topic !== null;
  }

  /** @param {string} topic */
  show(topic) {
    const row = this.#row(topic);
    if (row === undefined) return;
    if (this.#topic !== topic) this.#clear();
    if (this.#topic === null) this.#back = document.activeElement;
    this.#topic = topic;
    this.#parts.root.hidden = false;
    setChildren(this.#links, [
      el('a', { class: 'btn small', href: this.#page.chatLink(topic) }, icon('chat'), 'Open chat'),
      el('a', { class: 'btn small', href: this.#page.runLink(row) }, icon('grid'), 'Open run'),
    ]);
    this.paint();
    // The head, so that no key that is pressed now decides anything.
    this.#parts.title.focus();
  }

  /** @returns {boolean} whether it was open */
  close() {
    if (this.#topic === null) return false;
    this.#clear();
    this.#topic = null;
    this.#parts.root.hidden = true;
    if (this.#back instanceof HTMLElement && this.#back.isConnected) this.#back.focus();
    return true;
  }

  /** @param {string} topic */
  changed(topic) {
    if (topic === this.#topic) this.#page.mark(this);
  }

  /** A second is over. */
  tick() {
    const now = this.#page.clock.now();
    for (const { question } of this.#questions.values()) question.count(now);
  }

  /** @param {string} letter - a, e or r */
  press(letter) {
    const [first] = this.#questions.values();
    first?.question.press(letter);
    return first !== undefined;
  }

  paint() {
    const row = this.#topic === null ? undefined : this.#row(this.#topic);
    if (row === undefined) {
      this.close();
      return true;
    }
    const { summary } = row;
    setText(this.#parts.title, row.title);
    const word = wordOf(row.state, this.#page.may('decide', row.topic));
    setText(this.#state, [word, summary.agent, summary.step > 0 ? `step ${summary.step}` : '', row.topic].filter(Boolean).join(' · '));
    const open = new Map(summary.approvals.map((asked) => [`${asked.run} ${asked.id}`, asked]));
    for (const [act, { question, entry }] of this.#questions) {
      if (open.has(act) && row.live) continue;
      question.leave();
      this.#questions.delete(act);
      this.#settled.set(act, this.#outcome(act, entry));
    }
    for (const [act, asked] of row.live ? open : []) {
      let found = this.#questions.get(act);
      if (found === undefined) {
        const entry = { key: act, run: asked.run, id: asked.id, name: asked.name, asked: asked.args, args: asked.args, agent: summary.agent, step: summary.step, foremost: this.#questions.size === 0, expires: asked.expires, requested: asked.requested };
        const cut = isCut(asked.args);
        found = { question: new Question(this.#questionPage(row.topic, cut), entry), entry };
        if (cut) this.#cut.add(act);
        this.#questions.set(act, found);
        this.#settled.delete(act);
      }
      found.question.show(found.entry);
      found.question.count(this.#page.clock.now());
    }
    for (const act of this.#cut) if (!this.#questions.has(act)) this.#cut.delete(act);
    const note = this.#cut.size === 0 ? [] : [this.#part];
    const shown = [...note, ...this.#settled.values(), ...[...this.#questions.values()].map(({ question }) => question.element)];
    setChildren(this.#list, shown.length > 0 ? shown : [el('p', { class: 'quiet' }, 'No question is open.')]);
    return true;
  }

  /**
   * What came of a question that is open no more; the run's own page tells who.
   * @param {string} act
   * @param {any} entry
   */
  #outcome(act, entry) {
    const sent = this.#page.decisions.of(act);
    const words =
      sent?.state === 'lost'
        ? `${this.#page.who(sent.winner?.by)} had already ${DECIDED.get(sent.winner?.decision ?? '') ?? 'decided'} this. Your decision changed nothing.`
        : this.#page.own.has(act)
          ? `${sent?.decision === 'reject' ? 'Rejected' : sent?.decision === 'edit' ? 'Edited and approved' : 'Approved'} by you.`
          : 'Settled. The run says by whom.';
    return el('div', { class: 'notice', role: 'status' }, icon('check'), el('p', {}, el('b', {}, entry.name), ` ${words}`));
  }

  /**
   * @param {string} topic
   * @param {boolean} cut - it is shown in part only, so it is not decided here
   * @returns {any} what a question needs of its page
   */
  #questionPage(topic, cut) {
    return {
      topic,
      decisions: this.#page.decisions,
      may: (/** @type {string} */ verb) => !cut && this.#page.may(verb, topic),
      pin: () => {},
      hold: () => {},
      alert: this.#page.alert,
      redraw: () => this.#page.mark(this),
    };
  }

  #clear() {
    for (const { question } of this.#questions.values()) question.leave();
    this.#questions.clear();
    this.#settled.clear();
    this.#list.replaceChildren();
  }
}
