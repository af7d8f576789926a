import { button, copyButton, el, glyph, icon, setChildren, setText, svg } from '../dom.js';
import { fields } from '../json_text.js';
import { elapsed, spoken } from '../time.js';
import { ArgumentsEditor } from './arguments_editor.js';
import { jsonNodes } from './json_view.js';

/** So soon after the card appeared or moved a press that decides was meant for something else, in ms. */
const GUARD_MS = 400;
/** With less time left it is said and shown in red, in ms. */
const LOW_MS = 30_000;

const SENDING = new Map([
  ['approve', 'Sending your approval…'],
  ['edit', 'Sending your approval…'],
  ['reject', 'Sending your rejection…'],
]);

/** The card of a question to a person. It shows nothing as decided: the topic's event does, and takes its place. */
export class Question {
  #page;
  #entry;
  /** @type {'open'|'editing'|'rejecting'} */
  #mode = 'open';
  /** @type {ArgumentsEditor|null} */
  #editor = null;
  #reason = /** @type {HTMLInputElement} */ (el('input', { class: 'reason', 'aria-label': 'Reason', placeholder: 'Why? Optional; the agent is told', maxlength: 500, autocomplete: 'off' }));
  #title = el('span', { class: 'strong cut' });
  #time = el('span');
  #ring = svg('circle', { cx: 8, cy: 8, r: 5.5, pathLength: 100, transform: 'rotate(-90 8 8)' });
  #countdown = el('span', { class: 'countdown', role: 'timer' }, svg('svg', { class: 'i', 'aria-hidden': 'true' }, svg('circle', { cx: 8, cy: 8, r: 5.5, opacity: 0.3 }), this.#ring), this.#time);
  #foot = el('div', { class: 'card-foot' });
  #body = el('div');
  /** @type {HTMLElement} */
  element;
  #shown = '';
  #warned = false;
  /** When it appeared or was moved last, and where it stood, in the time of the page. */
  #still = { since: performance.now(), top: Number.NaN };
  #watch = new ResizeObserver(() => this.#look());
  #scrolled = () => this.#look();

  /**
   * @param {Chat.Page} page
   * @param {any} entry - of a tool
   */
  constructor(page, entry) {
    this.#page = page;
    this.#entry = entry;
    this.element = el(
      'div',
      { class: 'ask', role: 'group', tabindex: -1, 'aria-label': `Question: run ${entry.name}?`, keydown: (/** @type {KeyboardEvent} */ event) => this.#key(event) },
      el('div', { class: 'card-head' }, glyph('waiting'), this.#title, el('span', { class: 'end' }, this.#countdown)),
      this.#body,
      this.#foot,
    );
    // Under a pointer it stays where it is, whatever grows around it.
    this.element.addEventListener('pointerenter', () => page.pin(this.element));
    this.element.addEventListener('pointerleave', () => page.pin(null));
    document.addEventListener('scroll', this.#scrolled, { capture: true, passive: true });
  }

  leave() {
    this.#page.pin(null);
    this.#watch.disconnect();
    document.removeEventListener('scroll', this.#scrolled, { capture: true });
  }

  /** An edit that was typed and not sent; null where there is none. */
  get unsent() {
    const sent = this.#page.decisions.of(this.#act)?.state === 'sending';
    return this.#editor !== null && this.#editor.changes.length > 0 && !sent ? this.#editor.text : null;
  }

  get #act() {
    return `${this.#entry.run} ${this.#entry.id}`;
  }

  /** @param {any} entry */
  show(entry) {
    this.#entry = entry;
    const sent = this.#page.decisions.of(this.#act);
    const sending = sent?.state === 'sending' || sent?.state === 'lost';
    const decides = this.#page.may('decide');
    const fault = this.#editor?.fault ?? null;
    const changes = this.#editor?.changes ?? [];
    const shown = JSON.stringify([this.#mode, sent, decides, entry.foremost, entry.asked, fault, changes]);
    if (shown === this.#shown) return;
    this.#shown = shown;
    const focused = this.element.contains(document.activeElement);
    setText(this.#title, this.#mode === 'editing' ? 'Edit, then approve' : `Run ${entry.name}?`);
    this.#drawBody();
    if (sending) setChildren(this.#foot, [el('span', {}, SENDING.get(sent.decision) ?? ''), push(this.#approve('Approve', false))]);
    else if (!decides) setChildren(this.#foot, [el('span', {}, 'Waiting for a decision. You can read it, not decide it.')]);
    else this.#drawFoot(fault, changes);
    if (sent?.state === 'failed') this.#foot.prepend(el('span', { class: 't-bad whole' }, `Not decided: ${sent.reason}`));
    if (focused && !this.element.contains(document.activeElement)) this.element.focus();
    if (Number.isNaN(this.#still.top)) requestAnimationFrame(() => this.#look());
  }

  /**
   * @param {string|null} fault
   * @param {Chat.Changed[]} changes
   */
  #drawFoot(fault, changes) {
    if (this.#mode === 'editing') {
      const [{ from, to } = { from: '', to: '' }] = changes;
      const what = changes.length === 1 ? [el('span', { class: 'cut' }, '1 change: ', ...struck(from), to)] : changes.length > 1 ? [el('span', {}, `${changes.length} changes`)] : [];
      const words = fault === null ? what : [el('span', { class: 't-bad', role: 'status' }, fault)];
      setChildren(this.#foot, [this.#back(), ...words, push(this.#approve(changes.length > 0 || fault !== null ? 'Approve edit' : 'Approve', fault === null, 'Ctrl ↵'))]);
    } else if (this.#mode === 'rejecting') {
      setChildren(this.#foot, [this.#reason, this.#back(), push(this.#button('Reject', 'x', 'danger', '↵', this.#guarded(() => this.#reject())))]);
    } else {
      setChildren(this.#foot, [
        this.#button('Reject', 'x', 'danger', 'R', () => this.#turn('rejecting')),
        this.#button('Edit arguments', 'pen', '', 'E', () => this.#turn('editing')),
        push(this.#approve('Approve', true, 'A')),
      ]);
    }
  }

  #drawBody() {
    const { name, asked, args, agent, step } = this.#entry;
    if (this.#editor !== null && this.#mode === 'editing') {
      setChildren(this.#body, [this.#editor.element]);
      return;
    }
    const from = agent === null ? '' : `asked by ${agent}${step > 0 ? `, step ${step}` : ''}`;
    const text = asked ?? args ?? '';
    const found = fields(text);
    const what =
      found === null || found.length === 0
        ? el('pre', { class: 'asked' }, ...jsonNodes(text))
        : el('dl', { class: 'fields' }, ...found.flatMap(({ name: field, value }) => [el('dt', {}, field), el('dd', {}, ...jsonNodes(value))]));
    setChildren(this.#body, [el('p', { class: 'why why-top' }, el('span', { class: 'name mono' }, name), ' ', el('span', { class: 'quiet' }, from)), what]);
  }

  /** @param {number} now - on the publishers' clock */
  count(now) {
    const { expires, requested, name } = this.#entry;
    this.#countdown.hidden = expires === null;
    if (expires === null) return;
    const left = expires - now;
    setText(this.#time, left > 0 ? elapsed(left + 999) : 'Expiring…');
    const whole = expires - (requested ?? expires - 1);
    this.#ring.setAttribute('stroke-dasharray', `${Math.max(0, Math.min(100, (100 * left) / whole))} 100`);
    this.#countdown.classList.toggle('low', left < LOW_MS);
    if (left >= LOW_MS || left <= 0 || this.#warned) return;
    this.#warned = true;
    this.#page.alert(`${spoken(left)} left to decide: run ${name}?`);
  }

  /**
   * What a key does, as its button does it.
   * @param {string} letter - a, e or r
   */
  press(letter) {
    const sent = this.#page.decisions.of(this.#act)?.state;
    if (this.#mode !== 'open' || sent === 'sending' || sent === 'lost' || !this.#page.may('decide')) return;
    if (letter === 'e') this.#turn('editing');
    else if (letter === 'r') this.#turn('rejecting');
    else this.#guarded(() => this.#allow())();
  }

  /** Notes when it moved; layout is clean here. */
  #look() {
    if (this.element.parentElement === null) return;
    const { top } = this.element.getBoundingClientRect();
    if (Math.abs(top - this.#still.top) < 2) return;
    if (Number.isNaN(this.#still.top)) {
      const lane = this.element.closest('#lane');
      if (lane !== null) this.#watch.observe(lane);
    }
    this.#still = { since: performance.now(), top };
  }

  /** @param {'open'|'editing'|'rejecting'} mode */
  #turn(mode) {
    this.#page.hold(this.element);
    const before = this.#mode;
    this.#mode = mode;
    if (mode === 'editing') this.#editor = new ArgumentsEditor(this.#entry.asked ?? this.#entry.args ?? '', () => this.show(this.#entry));
    else this.#editor = null;
    this.show(this.#entry);
    if (mode === 'editing') this.#editor?.focus();
    else if (mode === 'rejecting') this.#reason.focus();
    else /** @type {HTMLElement} */ (this.#foot.children[before === 'editing' ? 1 : 0]).focus();
  }

  #allow() {
    const { changes = [], text = '' } = this.#editor ?? {};
    this.#send(changes.length > 0 ? { decision: 'edit', arguments: text } : { decision: 'approve' });
  }

  #reject() {
    const reason = this.#reason.value.trim();
    this.#send({ decision: 'reject', ...(reason !== '' && { reason }) });
  }

  /** @param {{decision: 'approve'|'reject'|'edit', arguments?: string, reason?: string}} what */
  #send(what) {
    const sent = this.#page.decisions.decide(this.#page.topic, this.#entry, what);
    this.show(this.#entry);
    void sent.then(() => this.#page.redraw(this.#entry.key));
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    if (event.isComposing || this.#mode === 'open') return;
    if (event.key === 'Escape') {
      event.preventDefault();
      this.#turn('open');
    } else if (event.key === 'Enter' && this.#mode === 'editing' && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      if (this.#editor?.fault === null) this.#allow();
    } else if (event.key === 'Enter' && event.target === this.#reason) {
      event.preventDefault();
      this.#reject();
    }
  }

  #back() {
    return button({ label: 'Back', text: 'Back', style: 'bare', press: () => this.#turn('open') });
  }

  /**
   * @param {string} text
   * @param {boolean} able
   * @param {string} [key]
   */
  #approve(text, able, key) {
    const made = this.#button(text, 'check', this.#entry.foremost ? 'attn' : 'attn-soft', key, this.#guarded(() => this.#allow()));
    made.toggleAttribute('disabled', !able);
    return made;
  }

  /**
   * @param {string} text
   * @param {string} symbol
   * @param {string} style
   * @param {string|undefined} key
   * @param {() => void} press
   */
  #button(text, symbol, style, key, press) {
    const made = button({ label: text, text, icon: symbol, style, press });
    if (key !== undefined) made.append(el('kbd', { 'aria-hidden': 'true' }, key));
    return made;
  }

  /** @param {() => void} decide */
  #guarded(decide) {
    return () => {
      if (performance.now() - this.#still.since >= GUARD_MS) decide();
    };
  }
}

/** @param {Node} child */
function push(child) {
  return el('span', { class: 'push' }, child);
}

/**
 * @param {string} from - what was there
 * @returns {(Node|string)[]}
 */
export function struck(from) {
  return from === '' ? [] : [el('del', {}, from), ' '];
}

/**
 * What is told of an edit that someone else's decision overtook.
 * @param {string} text
 */
export function overtaken(text) {
  return el('div', { class: 'notice' }, icon('pen'), el('p', {}, el('b', {}, 'Decided while you were editing.'), ' Your text was not used.'), el('span', { class: 'push' }, copyButton(() => text, { label: 'Copy your text', text: 'Copy your text' })));
}
