import { id, text } from './fields.js';

/** @typedef {import('./index.js').OpenMessage} OpenMessage */

/** The messages that are still being written: the `open` of a state, in order of first appearance. */
export class OpenMessages {
  #list;

  /** @param {OpenMessage[]} list changed in place */
  constructor(list) {
    this.#list = list;
  }

  /**
   * Add to the end of a message; the first addition opens it.
   * @param {string} message
   * @param {'text' | 'thinking'} part
   * @param {string} added
   * @param {string | null} run
   */
  add(message, part, added, run) {
    this.#opened(message, run)[part] += added;
  }

  /**
   * Add to a tool call of a message.
   * @param {string} message
   * @param {number} place index of the call
   * @param {Record<string, any>} event
   * @param {string | null} run
   */
  addToCall(message, place, event, run) {
    const { tool_calls: calls } = this.#opened(message, run);
    let call = calls.find((other) => other.index === place);
    if (call === undefined) {
      call = { index: place, id: null, name: null, text: '' };
      calls.push(call);
    }
    call.id = id(event.id) ?? call.id;
    call.name = text(event.name) || call.name;
    call.text += text(event.text) ?? '';
  }

  /** @param {string} message */
  end(message) {
    const at = this.#list.findIndex((entry) => entry.message === message);
    if (at !== -1) this.#list.splice(at, 1);
  }

  /** @param {ReadonlySet<string | null>} runs nobody writes their messages any more */
  interrupt(runs) {
    for (const message of this.#list) if (runs.has(message.run)) message.interrupted = true;
  }

  /**
   * @param {string} message
   * @param {string | null} run
   * @returns {OpenMessage}
   */
  #opened(message, run) {
    let entry = this.#list.find((other) => other.message === message);
    if (entry === undefined) {
      entry = { message, run, text: '', thinking: '', interrupted: false, tool_calls: [] };
      this.#list.push(entry);
    }
    return entry;
  }
}
