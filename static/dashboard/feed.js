/** Which topics the dashboard follows: it asks for their names now and then, and lets go of those that do nothing. */

/** So often the names are asked for, in ms. */
const POLL_MS = 2000;
/** The gateway's bound of topics on one connection. */
const MOST = 1000;
/** So many are asked for at once, and so soon after each other, in ms. */
const BATCH = 50;
const BATCH_MS = 100;
/** What has not answered by then is not waited for, in ms. */
const SETTLE_MS = 5000;

export class Feed {
  /** Topics that would go beyond the bound. */
  left = 0;
  /** The names came at least once. */
  known = false;
  /** There are any. */
  any = false;
  /** Why they did not, last time. @type {unknown} */
  error = null;
  #options;
  /** @type {Map<string, any>} */
  #followed = new Map();
  /** Those that did nothing when they were looked at, with the time they were last heard of. @type {Map<string, number>} */
  #quiet = new Map();
  /** @type {{topic: string, at: number}[]} */
  #waiting = [];
  /** Those that have not told anything yet. @type {Set<string>} */
  #silent = new Set();
  #asking = false;
  #began = 0;

  /** @param {Board.FeedOptions} options */
  constructor(options) {
    this.#options = options;
  }

  /** The subscriptions, by topic. */
  get followed() {
    return this.#followed;
  }

  /** What was there from the start has told what it does. */
  get settled() {
    return this.known && this.#waiting.length === 0 && (this.#silent.size === 0 || this.#options.now() - this.#began > SETTLE_MS);
  }

  /** Begins; call once. */
  start() {
    void this.#poll();
  }

  async #poll() {
    try {
      if (this.#options.connected()) {
        this.#take(await this.#options.topics());
        this.error = null;
      }
    } catch (error) {
      this.error = error;
    }
    this.#options.changed();
    this.#options.later(() => void this.#poll(), POLL_MS);
  }

  /** @param {{topic: string, at: number}[]} topics - newest first */
  #take(topics) {
    if (!this.known) this.#began = this.#options.now();
    this.known = true;
    this.any = topics.length > 0;
    const names = new Set(topics.map(({ topic }) => topic));
    for (const topic of [...this.#quiet.keys()]) if (!names.has(topic)) this.#quiet.delete(topic);
    for (const topic of [...this.#followed.keys()]) if (!names.has(topic)) this.drop(topic, null);
    const wanted = topics.filter(({ topic, at }) => !this.#followed.has(topic) && (this.#quiet.get(topic) ?? Number.NEGATIVE_INFINITY) < at);
    const room = Math.max(0, MOST - this.#followed.size);
    this.left = Math.max(0, wanted.length - room);
    this.#waiting = wanted.slice(0, room);
    for (const { topic } of this.#waiting) this.#silent.add(topic);
    this.#follow();
  }

  #follow() {
    if (this.#asking) return;
    for (const { topic, at } of this.#waiting.splice(0, BATCH)) {
      if (this.#followed.has(topic)) continue;
      this.#quiet.delete(topic);
      this.#followed.set(topic, this.#options.follow(topic, (summary) => this.#heard(topic, at, summary)));
    }
    if (this.#waiting.length === 0) return;
    this.#asking = true;
    this.#options.later(() => {
      this.#asking = false;
      this.#follow();
    }, BATCH_MS);
  }

  /**
   * @param {string} topic
   * @param {number} at
   * @param {unknown} summary
   */
  #heard(topic, at, summary) {
    this.#silent.delete(topic);
    this.#options.heard(topic, at, summary);
  }

  /**
   * Lets go of a topic until it is heard of again.
   * @param {string} topic
   * @param {number|null} at - the time it was last heard of; null where it is no more
   */
  drop(topic, at) {
    const subscription = this.#followed.get(topic);
    if (subscription === undefined) return;
    this.#followed.delete(topic);
    this.#silent.delete(topic);
    if (at !== null) this.#quiet.set(topic, at);
    subscription.unsubscribe();
    this.#options.gone(topic);
  }
}
