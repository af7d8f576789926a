import { excess } from './content.js';
import { button, el, setChildren, setText } from './dom.js';
import { notice } from './entries/lines.js';
import { number } from './time.js';

const QUEUE = { label: 'Queue', placeholder: (/** @type {string} */ agent) => `Queue a message for ${agent}` };
const REJECT = { label: 'Send', placeholder: (/** @type {string} */ agent) => `${agent} takes no messages while it runs` };

/**
 * What becomes of a message that comes while a run goes on, by the policy that the run's start names.
 * @type {Map<string, {label: string, placeholder: (agent: string) => string}>}
 */
const MEANWHILE = new Map([
  ['steer', { label: 'Steer', placeholder: (agent) => `Tell ${agent} something for its next step` }],
  ['interrupt', { label: 'Interrupt', placeholder: (agent) => `Interrupt ${agent} with a message` }],
  ['latest', { label: 'Queue', placeholder: () => 'Queue a message in place of those that wait' }],
  ['reject', REJECT],
]);

/** The box where a person writes, and what could not be sent. */
export class Composer {
  /** @type {HTMLTextAreaElement} */
  #box;
  #options;
  #draftKey;
  #label = '';
  #sendable = false;
  /** The waiting message that is being changed. @type {string|null} */
  #editing = null;
  /** What stood in the box before. */
  #draft = '';
  #tooLong = false;
  /** The agent runs and takes no messages meanwhile. */
  #busy = false;
  /** The words that stand over what cannot be sent, as they are drawn. */
  #unsent = '';
  #state = { agent: /** @type {string|null} */ (null), running: false, stopping: false, connection: 'connecting', allowed: true, signedIn: true, policy: /** @type {string|null} */ (null) };

  /**
   * @param {Chat.ComposerOptions} options
   */
  constructor(options) {
    this.#options = options;
    const { parts, topic } = options;
    this.#box = parts.box;
    this.#draftKey = `gateway.draft.${topic}`;
    this.#restoreDraft();
    this.#box.addEventListener('keydown', (event) => this.#key(event));
    this.#box.addEventListener('input', () => this.#typed());
    parts.send.addEventListener('click', () => this.#send());
    parts.keep.addEventListener('click', () => {
      this.#leave();
      this.#box.focus();
    });
    this.#typed();
  }

  /**
   * Sends a text, as if it had been typed.
   * @param {string} text
   */
  say(text) {
    if (this.#sendable) this.#options.submit(text);
  }

  /**
   * @param {object} state
   * @param {string|null} state.agent
   * @param {boolean} state.running
   * @param {boolean} state.stopping
   * @param {string|null} state.policy - what becomes of a message that comes while it runs
   * @param {string} state.connection - how the socket looks
   * @param {boolean} state.allowed - whether this reader may send
   * @param {boolean} state.signedIn - false for who was never let in
   */
  show(state) {
    this.#state = state;
    this.#show();
  }

  #show() {
    const { agent, running, stopping, connection, allowed, policy } = this.#state;
    const editing = this.#editing !== null;
    const meanwhile = running && !stopping ? (MEANWHILE.get(policy ?? '') ?? QUEUE) : null;
    this.#label = editing ? 'Save' : running ? (meanwhile ?? QUEUE).label : 'Send';
    const placeholder = stopping ? 'You can already write the next message' : meanwhile !== null ? meanwhile.placeholder(agent ?? 'The agent') : `Message ${agent ?? 'the agent'}`;
    if (this.#box.placeholder !== placeholder) this.#box.placeholder = placeholder;
    setText(this.#options.parts.hint, this.#label.toLowerCase());
    this.#busy = meanwhile?.label === REJECT.label && !editing;
    this.#sendable = allowed && connection !== 'denied' && !this.#busy;
    if (!allowed) this.#options.parts.frame.setAttribute('aria-disabled', 'true');
    else this.#options.parts.frame.removeAttribute('aria-disabled');
    this.#options.parts.keep.hidden = !editing;
    this.#typed();
  }

  #drawNote() {
    const { connection, allowed, signedIn } = this.#state;
    const over = excess(this.#box.value.trim());
    const long = over > 0 ? `Too long by ${number(over)} byte${over === 1 ? '' : 's'}: a message may have 64 KiB.` : '';
    const state = !allowed ? 'You can read this chat. Ask its owner to write.' : connection === 'denied' ? (signedIn ? 'Access ended, draft kept' : 'Sign in to write') : '';
    const note = state || long || (this.#busy && this.#box.value.trim() !== '' ? 'It takes no messages while it runs, draft kept' : '') || (this.#editing !== null ? 'Changing a waiting message' : connection === 'offline' ? 'Offline, messages wait' : '');
    setText(this.#options.parts.note, note);
    this.#options.parts.note.hidden = note === '';
    if (long !== '') this.#box.setAttribute('aria-invalid', 'true');
    else this.#box.removeAttribute('aria-invalid');
    // It is said when it begins, not for each letter.
    if (long !== '' && !this.#tooLong) this.#options.alert(long);
    this.#tooLong = long !== '';
  }

  /**
   * Lets a waiting message be changed; the draft comes back after it.
   * @param {string} message
   * @param {string} text
   */
  edit(message, text) {
    if (this.#editing === null) this.#draft = this.#box.value;
    this.#editing = message;
    this.#box.value = text;
    this.#show();
    this.#box.focus();
  }

  /** @param {(message: string) => boolean} waits - what is edited may have been taken in the meantime */
  check(waits) {
    if (this.#editing === null || waits(this.#editing)) return;
    // What was typed is not lost: it can be sent as a new message.
    this.#editing = null;
    this.#show();
  }

  /** @returns {boolean} whether a message was being changed */
  #leave() {
    if (this.#editing === null) return false;
    this.#editing = null;
    this.#box.value = this.#draft;
    this.#show();
    return true;
  }

  /**
   * Puts a text back into the box, before what stands there.
   * @param {string} text
   */
  restore(text) {
    this.#leave();
    this.#box.value = [text, this.#box.value].filter((part) => part.trim() !== '').join('\n\n');
    this.#typed();
    this.#box.focus();
  }

  /**
   * @param {Chat.Outgoing[]} failed
   * @param {{again: (id: string) => void, discard: (id: string) => void}} acts
   */
  showUnsent(failed, { again, discard }) {
    const words = JSON.stringify(failed.map(({ id, reason }) => [id, reason]));
    if (words === this.#unsent) return;
    this.#unsent = words;
    const notices = failed.map(({ id, text, reason, final }) => {
      const edit = () => {
        discard(id);
        this.restore(text);
      };
      const made = notice(
        'bad',
        'alert',
        'Not sent.',
        final ? reason : `${reason} Sending again cannot double it.`,
        // Another text would be another message: only of what was refused it is known that it cannot double.
        final ? button({ label: 'Edit', text: 'Edit', style: 'small', press: edit }) : button({ label: 'Send again', text: 'Send again', style: 'small', press: () => again(id) }),
        button({ label: 'Discard', text: 'Discard', style: 'small bare', press: () => discard(id) }),
      );
      made.querySelector('p')?.append(el('span', { class: 'unsent cut' }, text.slice(0, 200)));
      return made;
    });
    setChildren(this.#options.parts.notices, notices);
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    const { key, isComposing } = event;
    if (isComposing) return;
    if (key === 'Escape' && this.#leave()) {
      event.preventDefault();
      event.stopPropagation();
    }
    const last = key === 'ArrowUp' && this.#box.value === '' && !event.shiftKey ? this.#options.last() : null;
    if (last !== null) {
      event.preventDefault();
      this.edit(last.id, last.text);
    }
    // 229: some browsers end a composition with an Enter that no longer says so.
    if (key !== 'Enter' || event.keyCode === 229) return;
    if (event.shiftKey || event.altKey || matchMedia('(hover: none) and (pointer: coarse)').matches) return;
    event.preventDefault();
    this.#send();
  }

  #send() {
    const text = this.#box.value.trim();
    if (text === '' || !this.#sendable) return;
    if (this.#tooLong) {
      this.#options.alert(`Not sent. ${this.#options.parts.note.textContent}`);
      return;
    }
    const editing = this.#editing;
    if (editing === null) this.#box.value = '';
    else this.#leave();
    this.#typed();
    if (editing === null) this.#options.submit(text);
    else this.#options.save(editing, text);
    this.#box.focus();
  }

  #typed() {
    const { value } = this.#box;
    this.#drawNote();
    this.#options.parts.send.toggleAttribute('disabled', value.trim() === '' || !this.#sendable || this.#tooLong);
    const label = `${this.#label || 'Send'} message`;
    this.#options.parts.send.setAttribute('aria-label', label);
    this.#options.parts.send.title = this.#tooLong ? (this.#options.parts.note.textContent ?? '') : label;
    if (this.#editing !== null) return;
    try {
      if (value === '') this.#options.storage.removeItem(this.#draftKey);
      else this.#options.storage.setItem(this.#draftKey, value);
    } catch {
      // Without room to store it, the draft lives as long as the page.
    }
  }

  #restoreDraft() {
    try {
      this.#box.value ||= this.#options.storage.getItem(this.#draftKey) ?? '';
    } catch {
      // Storage is blocked.
    }
  }
}
