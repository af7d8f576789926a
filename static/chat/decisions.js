import { sentence } from './content.js';
import { remember } from './remember.js';

/** The decisions that this page sent. What came of them the topic says; a lost race only the answer tells. */
export class Decisions {
  /** By run and call. @type {Map<string, Chat.Sent>} */
  #sent = new Map();
  #send;
  #own;

  /**
   * @param {(topic: string, decision: any) => Promise<any>} send
   * @param {import('./own.js').Own} own
   */
  constructor(send, own) {
    this.#send = send;
    this.#own = own;
  }

  /**
   * @param {string} act - run and call
   * @returns {Chat.Sent|undefined}
   */
  of(act) {
    return this.#sent.get(act);
  }

  /**
   * @param {string} topic
   * @param {{run: string, id: string}} call
   * @param {{decision: 'approve'|'reject'|'edit', arguments?: string, reason?: string}} what
   * @returns {Promise<void>} when `of` tells another state
   */
  async decide(topic, { run, id }, what) {
    const act = `${run} ${id}`;
    const { decision } = what;
    /** @type {Chat.Sent} */
    const sent = { state: 'sending', decision, reason: '', winner: null };
    remember(this.#sent, act, sent);
    try {
      const answer = await this.#send(topic, { run, tool_call_id: id, ...what });
      if (answer.won === false) Object.assign(sent, { state: 'lost', winner: { decision: answer.decision, by: answer.by } });
      else this.#own.add(act);
    } catch (error) {
      Object.assign(sent, { state: 'failed', reason: sentence(error) });
    }
  }
}
