/** What this page asked to stop. Only an event says that something stopped; an answer can say that there was nothing to. */

/** @typedef {{run: string}|{message: string}} Target */

const LATE = new Map([
  ['completed', 'It was done before the stop reached it.'],
  ['failed', 'It had failed before the stop reached it.'],
  ['cancelled', 'It had stopped before.'],
  ['lost', 'Its process had gone silent before.'],
]);

export class Stops {
  /** Asked, and not shown by an event yet; by run or message. @type {Set<string>} */
  #asked = new Set();
  #cancel;
  #own;
  #tell;
  #changed;

  /**
   * @param {object} options
   * @param {(topic: string, what: any) => Promise<any>} options.cancel
   * @param {import('./own.js').Own} options.own
   * @param {(title: string, text: string, bad: boolean) => void} options.tell
   * @param {() => void} options.changed
   */
  constructor({ cancel, own, tell, changed }) {
    this.#cancel = cancel;
    this.#own = own;
    this.#tell = tell;
    this.#changed = changed;
  }

  /** @param {string} act - a run or a message */
  asked(act) {
    return this.#asked.has(act);
  }

  /**
   * @param {string} topic
   * @param {Target} target
   * @param {'now'|'after_step'} mode
   */
  async ask(topic, target, mode) {
    const [act] = Object.values(target);
    if (this.#asked.has(act)) return;
    this.#asked.add(act);
    this.#changed();
    try {
      const answer = await this.#cancel(topic, { ...target, mode });
      if (answer.run !== undefined) this.#own.add(answer.run);
      if (answer.status === 'ended') this.#tell('Not stopped.', LATE.get(answer.as) ?? 'It had ended before.', false);
      else if (answer.status === 'unknown') this.#tell('Not stopped.', 'The gateway knows no such run any more.', false);
      else if (answer.status === 'withdrawn') this.#tell('Taken back.', 'The agent had not begun with your message.', false);
    } catch (error) {
      this.#tell('Not stopped.', `${error instanceof Error ? error.message : error} It goes on.`, true);
      this.#asked.delete(act);
    }
    this.#changed();
  }

  /**
   * An event shows it now, or there is nothing of it any more: it can be asked for anew.
   * @param {string} act
   */
  settle(act) {
    this.#asked.delete(act);
  }
}
