import { button, el, glyph, icon, setText } from '../dom.js';
import { isLive, wordFor } from '../run_state.js';
import { duration, elapsed, shortNumber } from '../time.js';
import { EntryView } from './entry.js';
import { STATES } from './lines.js';

/** While it runs, so many entries are shown. */
const LAST = 3;
/** Boxes inside boxes: deeper ones are a way to their own page. */
const DEEPEST = 2;

/** What the box says of its topic where that is not live. */
const TOPIC = new Map([
  ['subscribing', 'Loading…'],
  ['loading', 'Loading…'],
  ['catching-up', 'Catching up'],
  ['reconnecting', 'Reconnecting…'],
  ['unsure', 'Not sure this is current'],
  ['denied', 'No access'],
]);

/** A sub-agent: what its parent's topic tells of it, and its own topic in a box while that is open and on screen. */
export class SubView extends EntryView {
  #name = el('span', { class: 'name cut' });
  #state = el('span', { class: 'state' });
  #facts = el('span');
  #stop = button({ label: 'Stop', icon: 'stop', style: 'bare icon small', press: () => this.page.stop(this.entry.topic, this.entry.run) });
  #open = el('a', { class: 'btn bare small not-tiny' }, 'Open');
  #chevron = button({ label: 'Show what it does', icon: 'drop', style: 'bare icon small chev', press: () => this.#toggle() });
  #more = button({ label: '', text: '', style: 'bare small', press: () => this.#showAll() });
  #card = el('div', { class: 'nest' }, el('div', { class: 'card-head' }, icon('branch'), this.#name, this.#state, el('span', { class: 'end' }, this.#facts, this.#stop, this.#open, this.#chevron)));
  /** What the reader chose; null while they chose nothing. @type {boolean|null} */
  #chosen = null;
  #all = false;
  #onScreen = false;
  /** @type {import('../inset.js').Inset|null} */
  #inset = null;
  /** The last state that came; it stays while the topic is not followed. @type {any} */
  #mirror = null;
  /** @type {import('../../gateway/index.js').Subscription|null} */
  #subscription = null;
  /** @type {(() => void)|null} */
  #untick = null;
  #watch = new IntersectionObserver(([{ isIntersecting }]) => {
    this.#onScreen = isIntersecting;
    this.#follow();
  });

  /** @param {Chat.Page} page */
  constructor(page) {
    super(page);
    this.body.append(this.#card);
    this.#watch.observe(this.element);
  }

  get questions() {
    return this.#isOpen ? (this.#inset?.conversation.questions ?? []) : [];
  }

  render() {
    const { agent, topic, status, run } = this.entry;
    const state = STATES.get(status) ?? 'writing';
    const live = isLive({ status });
    this.look(live ? 'text' : status === 'completed' ? 'tool' : 'gone', { live });
    this.setNode(state, () => glyph(state));
    this.#card.classList.toggle('live', live);
    const name = agent ?? 'sub-agent';
    setText(this.#name, name);
    this.#stop.hidden = !live || topic === null || !this.page.may('cancel');
    this.#stop.toggleAttribute('disabled', status === 'cancelling' || this.page.stopping(run));
    this.#stop.setAttribute('aria-label', `Stop ${name}`);
    this.#open.hidden = topic === null;
    if (topic !== null) this.#open.setAttribute('href', this.page.topicLink(topic));
    this.#chevron.hidden = topic === null || this.page.depth >= DEEPEST;
    this.#chevron.setAttribute('aria-expanded', String(this.#isOpen));
    if (live) this.#untick ??= this.page.ticker.add(() => this.#count());
    else this.#rest();
    this.#follow();
    this.#count();
  }

  leave() {
    this.#watch.disconnect();
    this.#subscription?.unsubscribe();
    this.#subscription = null;
    this.#rest();
  }

  get #isOpen() {
    return (this.#chosen ?? isLive(this.entry)) && this.entry.topic !== null && this.page.depth < DEEPEST;
  }

  #rest() {
    this.#untick?.();
    this.#untick = null;
  }

  /** Follows its topic exactly while it is open and on screen. */
  #follow() {
    if (this.entry === null) return;
    const open = this.#isOpen;
    if (open && this.#onScreen && this.#subscription === null) this.#subscribe();
    else if (!(open && this.#onScreen) && this.#subscription !== null) {
      this.#subscription.unsubscribe();
      this.#subscription = null;
    }
    if (this.#inset !== null) this.#inset.element.hidden = !open;
    this.#drawMore();
  }

  #subscribe() {
    const { topic } = this.entry;
    const subscription = this.page.gateway.subscribe(topic);
    this.#subscription = subscription;
    this.#mirror ??= subscription.mirror;
    if (this.#inset === null) {
      const most = () => (this.#all || !isLive(this.entry) ? Number.POSITIVE_INFINITY : LAST);
      this.#inset = this.page.inset(this.page, { topic, mirror: () => this.#mirror, most, painted: () => this.#drawMore() });
      this.#card.append(this.#inset.element);
    }
    subscription.on('change', (change) => {
      if (this.#subscription !== subscription) return;
      this.#mirror = subscription.mirror;
      this.#inset?.take(change);
    });
    subscription.on('state', () => this.#count());
  }

  #toggle() {
    this.page.hold(this.element);
    this.#chosen = !this.#isOpen;
    this.render();
  }

  #showAll() {
    this.page.hold(this.element);
    this.#all = true;
    this.#inset?.again();
  }

  #drawMore() {
    const hidden = this.#inset?.conversation.hidden ?? 0;
    const text = `${hidden} more`;
    setText(this.#more, text);
    if (hidden > 0 && this.#isOpen) this.#inset?.element.before(this.#more);
    else this.#more.remove();
  }

  #count() {
    if (this.#subscription?.state === 'live') this.#inset?.listen();
    const { started, ended, tokens, status } = this.entry;
    const time = started === null ? '' : ended === null ? elapsed(this.page.clock.now() - started) : duration(ended - started);
    setText(this.#facts, [time, tokens > 0 ? `${shortNumber(tokens)} tokens` : ''].filter(Boolean).join(' · '));
    const topic = this.#subscription === null ? undefined : TOPIC.get(this.#subscription.state);
    const word = status === 'running' ? 'running' : wordFor(STATES.get(status) ?? 'writing').word.toLowerCase();
    setText(this.#state, topic ?? `sub-agent, ${word}`);
  }
}
