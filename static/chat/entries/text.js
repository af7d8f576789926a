import { copyButton, el, glyph, setChildren } from '../dom.js';
import { MarkdownView } from '../markdown/view.js';
import { clockTime } from '../time.js';
import { EntryView } from './entry.js';

const GLYPHS = new Map([
  ['cancelled', 'stopped'],
  ['failed', 'failed'],
  ['lost', 'lost'],
]);

/**
 * @param {string|null} ended - a run's status, its end's time and who asked for it
 * @param {(by: string) => string|null} name - of them
 */
function interruption(ended, name) {
  const [status = '', at = '', ...by] = (ended ?? '').split(' ');
  const when = /^\d+$/.test(at) ? ` at ${clockTime(Number(at))}` : '';
  const who = name(by.join(' ')) ?? '';
  switch (status) {
    case 'cancelled':
      return `Stopped${who === '' ? '' : ` by ${who}`}${when}. The text so far is kept.`;
    case 'failed':
      return `Failed${when}. The text so far is kept.`;
    case 'lost':
      return `Lost${when}. The text so far is kept.`;
    default:
      return 'Interrupted. The text so far is kept.';
  }
}

/** What an agent wrote. */
export class TextView extends EntryView {
  #markdown = new MarkdownView();
  #foot = el('div', { class: 'meta' });
  #written = false;

  /** @param {Chat.Page} page */
  constructor(page) {
    super(page);
    this.body.append(this.#markdown.element);
  }

  render() {
    const { open, text, interrupted, live, message, ended } = this.entry;
    const broken = interrupted;
    this.look(broken ? 'gone' : 'text', { live, tight: !this.entry.last && !broken });
    const state = broken ? (GLYPHS.get((ended ?? '').split(' ')[0]) ?? 'stopped') : null;
    if (state !== null) this.setNode(state, () => glyph(state));
    else setChildren(this.node, []);
    this.element.id = `m-${message}`;
    this.element.toggleAttribute('aria-busy', open !== null && !interrupted);
    if (this.element.hasAttribute('aria-busy')) this.element.setAttribute('aria-busy', 'true');
    if (open !== null && !interrupted) {
      this.#sync();
    } else if (!this.#written || text !== this.#markdown.text) {
      this.#markdown.finish(open === null ? text : open.text, broken);
      this.#written = open === null;
    }
    this.#drawFoot();
  }

  /** @param {string[]} pieces */
  grow(pieces) {
    const { open, interrupted } = this.entry;
    if (open === null || interrupted) return;
    const text = pieces.join('');
    if (this.#markdown.length + text.length === open.text.length) this.#markdown.append(text);
    else this.#sync();
  }

  /** Draws what the mirror has, whatever is drawn so far. */
  #sync() {
    const { text } = this.entry.open;
    const shown = this.#markdown.text;
    if (text.length === shown.length && text === shown) return;
    if (text.startsWith(shown)) this.#markdown.append(text.slice(shown.length));
    else this.#markdown.reset(text);
  }

  #drawFoot() {
    const { live, interrupted, ended, last, at, message, verdict } = this.entry;
    const parts = [];
    const cut = interrupted && interruption(ended, (by) => this.page.own.who(this.entry.run, by));
    if (cut) parts.push(el('span', {}, cut));
    else if (verdict !== null) parts.push(el('span', { class: 't-wait' }, verdict));
    else if (last && at !== null) parts.push(el('span', {}, clockTime(at)));
    if (!live && (last || interrupted)) {
      parts.push(
        el('span', { class: 'grow' }),
        copyButton(() => this.#markdown.text, { label: 'Copy message', text: 'Copy' }),
        copyButton(() => this.page.linkTo(message), { label: 'Copy link to this message', text: 'Link', icon: 'link' }),
      );
    }
    const name = JSON.stringify([live, cut, last, at, verdict]);
    if (this.#foot.dataset.shows === name) return;
    this.#foot.dataset.shows = name;
    setChildren(this.#foot, parts);
    if (parts.length > 0) this.body.append(this.#foot);
    else this.#foot.remove();
  }

  /** The text as it came. */
  get source() {
    return this.#markdown.text;
  }
}
