/** What this page asked to stop. Only an event says that something stopped; an answer can say that there was nothing to. */

import { sentence } from './content.js';

const LATE = new Map([
  ['completed', 'It was done before the stop reached it.'],
  ['failed', 'It had failed before the stop reached it.'],
  ['cancelled', 'It had stopped before.'],
  ['lost', 'Its process had gone silent before.'],
]);

export class Stops {
  /** Asked, and not shown by an event yet; by run or message. @type {Set<string>} */
  #asked = new Set();
  #options;

  /**
   * @param {Chat.StopsOptions} options
   */
  constructor(options) {
    this.#options = options;
  }

  /** @param {string} act - a run or a message */
  asked(act) {
    return this.#asked.has(act);
  }

  /**
   * @param {string} topic
   * @param {Chat.Target} target
   * @param {'now'|'after_step'} mode
   */
  async ask(topic, target, mode) {
    const [act] = Object.values(target);
    if (this.#asked.has(act)) return;
    this.#asked.add(act);
    this.#options.changed();
    try {
      const answer = await this.#options.cancel(topic, { ...target, mode });
      const { status, run } = answer;
      if (run !== undefined) this.#options.own.add(run);
      // A message stands for the run that took it; what is not known is not being stopped.
      if (status !== 'requested' || 'message' in target) this.#asked.delete(act);
      if (status === 'requested' && run !== undefined) this.#asked.add(run);
      if (status === 'ended') this.#options.tell('Not stopped.', LATE.get(answer.as) ?? 'It had ended before.', false);
      else if (status === 'unknown') this.#options.tell('Not stopped.', 'The gateway knows no such run any more.', false);
      else if (status === 'withdrawn') this.#options.tell('Taken back.', 'The agent had not begun with your message.', false);
    } catch (error) {
      this.#options.tell('Not stopped.', `${sentence(error)} As far as is known it goes on.`, true);
      this.#asked.delete(act);
    }
    this.#options.changed();
  }

  /**
   * An event shows it now, or there is nothing of it any more: it can be asked for anew.
   * @param {string} act
   */
  settle(act) {
    this.#asked.delete(act);
  }
}
