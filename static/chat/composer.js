import { button, el, icon, setChildren, setText } from './dom.js';
import { initials } from './entries/user.js';
import { notice } from './entries/lines.js';
import { readContent, person } from './content.js';

/** The gateway takes no longer message, in bytes of UTF-8. */
const MAX_BYTES = 64 * 1024;
/** Queue rows beyond this are counted, not shown. */
const ROWS = 5;

/** The box where a person writes, and the rows of what waits for the agent. */
export class Composer {
  /** @type {HTMLTextAreaElement} */
  #box;
  #parts;
  #storage;
  #draftKey;
  #submit;
  #label = '';
  #sendable = false;

  /**
   * @param {object} options
   * @param {{box: HTMLTextAreaElement, send: HTMLElement, hint: HTMLElement, note: HTMLElement, queue: HTMLElement, notices: HTMLElement, frame: HTMLElement}} options.parts - of the page
   * @param {string} options.topic
   * @param {Pick<Storage, 'getItem'|'setItem'|'removeItem'>} options.storage
   * @param {(text: string) => void} options.submit
   */
  constructor({ parts, topic, storage, submit }) {
    this.#parts = parts;
    this.#box = parts.box;
    this.#storage = storage;
    this.#draftKey = `gateway.draft.${topic}`;
    this.#submit = submit;
    this.#restoreDraft();
    this.#box.addEventListener('keydown', (event) => this.#key(event));
    this.#box.addEventListener('input', () => this.#typed());
    parts.send.addEventListener('click', () => this.#send());
    this.#typed();
  }

  focus() {
    this.#box.focus();
  }

  /**
   * @param {object} state
   * @param {string|null} state.agent
   * @param {boolean} state.running
   * @param {string} state.connection - how the socket looks
   * @param {boolean} state.allowed - whether this reader may send
   */
  show({ agent, running, connection, allowed }) {
    this.#label = running ? 'Queue' : 'Send';
    const placeholder = running ? 'Queue a message for the next step' : `Message ${agent ?? 'the agent'}`;
    if (this.#box.placeholder !== placeholder) this.#box.placeholder = placeholder;
    setText(this.#parts.hint, this.#label.toLowerCase());
    this.#sendable = allowed && connection !== 'offline' && connection !== 'denied';
    if (!allowed) this.#parts.frame.setAttribute('aria-disabled', 'true');
    else this.#parts.frame.removeAttribute('aria-disabled');
    const note = !allowed ? 'You can read this chat. Ask its owner to write.' : connection === 'offline' ? 'Offline, draft kept' : connection === 'denied' ? 'Access ended, draft kept' : '';
    setText(this.#parts.note, note);
    this.#parts.note.hidden = note === '';
    this.#typed();
  }

  /**
   * @param {any[]} queue - the mirror's
   * @param {(id: string) => boolean} own
   */
  showQueue(queue, own) {
    const rows = queue.slice(0, ROWS).map(({ id, content, by }) => {
      const name = own(id) ? 'You' : (person(by) ?? 'Someone');
      const { text, attachments } = readContent(content);
      return el(
        'li',
        {},
        icon('clock', 'i-s quiet'),
        el('span', { class: `face ${own(id) ? 'a' : 'b'}`, 'aria-hidden': 'true' }, initials(name)),
        el('span', { class: 'cut grow' }, el('span', { class: 'soft' }, `${name}: `), text || attachments.join(' · ')),
        el('span', { class: 'quiet not-tiny' }, 'waiting'),
      );
    });
    if (queue.length > ROWS) rows.push(el('li', {}, icon('clock', 'i-s quiet'), el('span', { class: 'quiet' }, `${queue.length - ROWS} more`)));
    const folded = el('li', { class: 'only-tiny' }, icon('clock', 'i-s quiet'), el('span', { class: 'grow' }, `${queue.length} message${queue.length === 1 ? '' : 's'} waiting`));
    setChildren(this.#parts.queue, queue.length === 0 ? [] : [folded, ...rows]);
    this.#parts.queue.hidden = queue.length === 0;
  }

  /**
   * @param {import('./outbox.js').Outgoing[]} failed
   * @param {{again: (id: string) => void, discard: (id: string) => void}} acts
   */
  showUnsent(failed, { again, discard }) {
    const notices = failed.map(({ id, text, reason }) => {
      const made = notice(
        'bad',
        'alert',
        'Not sent.',
        `${reason} Sending again cannot double it.`,
        button({ label: 'Send again', text: 'Send again', style: 'small', press: () => again(id) }),
        button({ label: 'Discard', text: 'Discard', style: 'small bare', press: () => discard(id) }),
      );
      made.querySelector('p')?.append(el('span', { class: 'unsent cut' }, text));
      return made;
    });
    setChildren(this.#parts.notices, notices);
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    // 229: some browsers end a composition with an Enter that no longer says so.
    if (event.key !== 'Enter' || event.isComposing || event.keyCode === 229) return;
    if (event.shiftKey || event.altKey || matchMedia('(hover: none) and (pointer: coarse)').matches) return;
    event.preventDefault();
    this.#send();
  }

  #send() {
    const text = this.#box.value.trim();
    if (text === '' || !this.#sendable || this.#tooLong()) return;
    this.#box.value = '';
    this.#typed();
    this.#submit(text);
    this.#box.focus();
  }

  #tooLong() {
    return this.#box.value.length > MAX_BYTES / 4 && new TextEncoder().encode(this.#box.value).length > MAX_BYTES;
  }

  #typed() {
    const { value } = this.#box;
    const long = this.#tooLong();
    this.#parts.send.toggleAttribute('disabled', value.trim() === '' || !this.#sendable || long);
    this.#parts.send.setAttribute('aria-label', `${this.#label || 'Send'} message`);
    this.#parts.send.title = long ? 'Longer than 64 kB' : `${this.#label || 'Send'} message`;
    try {
      if (value === '') this.#storage.removeItem(this.#draftKey);
      else this.#storage.setItem(this.#draftKey, value);
    } catch {
      // Without room to store it, the draft lives as long as the page.
    }
  }

  #restoreDraft() {
    try {
      this.#box.value ||= this.#storage.getItem(this.#draftKey) ?? '';
    } catch {
      // Storage is blocked.
    }
  }
}
