/** Other conversations in short: what the gateway's summaries say of the newest ones. */

import { readSummary } from '../dashboard/summary.js';

/** So many are followed; the rest of the list is known by its name. */
const MOST = 40;

export class Briefs {
  #subscribe;
  #changed;
  /** @type {Map<string, {unsubscribe: () => void}>} */
  #followed = new Map();
  /** @type {Map<string, Chat.Brief>} */
  #briefs = new Map();

  /**
   * @param {(topic: string) => import('../gateway/index.js').Subscription} subscribe - to its summaries
   * @param {() => void} changed
   */
  constructor(subscribe, changed) {
    this.#subscribe = subscribe;
    this.#changed = changed;
  }

  /**
   * Follow these, newest first, as far as they are not too many; let go of all others.
   * @param {string[]} topics
   */
  follow(topics) {
    const wanted = new Set(topics.slice(0, MOST));
    for (const [topic, subscription] of this.#followed) {
      if (wanted.has(topic)) continue;
      subscription.unsubscribe();
      this.#followed.delete(topic);
      this.#briefs.delete(topic);
    }
    for (const topic of wanted) {
      if (this.#followed.has(topic)) continue;
      const subscription = this.#subscribe(topic);
      this.#followed.set(topic, subscription);
      subscription.on('summary', (data) => this.#take(topic, data));
    }
  }

  /**
   * @param {string} topic
   * @returns {Chat.Brief|null} null where nothing was told yet
   */
  of(topic) {
    return this.#briefs.get(topic) ?? null;
  }

  /**
   * @param {string} topic
   * @param {unknown} data
   */
  #take(topic, data) {
    const summary = readSummary(data);
    if (summary === null) return;
    const expires = summary.approvals.map((asked) => asked.expires ?? Number.POSITIVE_INFINITY);
    const brief = {
      title: summary.title,
      state: summary.state === 'idle' ? null : summary.state,
      agent: summary.agent,
      error: summary.error,
      started: summary.started,
      expires: expires.length === 0 ? null : Math.min(...expires),
    };
    const before = this.#briefs.get(topic);
    this.#briefs.set(topic, brief);
    if (JSON.stringify(before) !== JSON.stringify(brief)) this.#changed();
  }
}
