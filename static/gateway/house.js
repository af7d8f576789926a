import { Gateway } from './gateway.js';
import { sameEvents } from './lens.js';
import { SharedTopic } from './shared_topic.js';

/** @typedef {import('./guest.js').Guest} Guest */

/** How long connections are kept for the next page after the last one is gone, ms. */
const LINGER_MS = 3_000;

/** Codes below it are of error replies (PROTOCOL.md 6). */
const FIRST_CLOSE_CODE = 3000;

/** The connections of one identity to one gateway, and the guests that share them. Mostly it is one connection. */
export class House {
  #url;
  /** Tabs make tokens; else there is one for good, or none. */
  #renewable;
  #options;
  #same;
  #empty;
  #setTimeout;
  /** More than one only where tabs follow one topic in different ways. @type {Gateway[]} */
  #gateways = [];
  /** @type {Set<Guest>} */
  #guests = new Set();
  /** Of each gateway, by topic. @type {Map<Gateway, Map<string, SharedTopic>>} */
  #topics = new Map();
  /** Shown by a guest that has just come, and not yet used. @type {{ token: string | null } | null} */
  #fresh = null;

  /**
   * @param {string} url
   * @param {{ options: import('./index.js').GatewayOptions, same: (token: string | null) => boolean, empty: () => void }} rest
   *   `same`: whether a token is of this identity; `empty`: nobody is left
   */
  constructor(url, { options, same, empty }) {
    this.#url = url;
    this.#renewable = options.token === undefined;
    this.#options = options;
    this.#same = same;
    this.#empty = empty;
    this.#setTimeout = options.setTimeout ?? ((run, ms) => globalThis.setTimeout(run, ms));
    this.#add();
  }

  get connections() {
    return this.#gateways.length;
  }

  get #first() {
    return this.#gateways[0];
  }

  /**
   * @param {Guest} guest it is admitted once the gateway is connected
   * @param {string | null} token
   */
  enter(guest, token) {
    this.#guests.add(guest);
    const gateway = this.#first;
    if (gateway.state !== 'connected') this.#fresh = { token };
    if (gateway.state === 'connected') this.#admit(guest);
    else if (['idle', 'closed', 'refused'].includes(gateway.state)) for (const each of this.#gateways) each.connect();
    else gateway.retryNow();
  }

  /** @param {Guest} guest */
  leave(guest) {
    this.#guests.delete(guest);
    for (const topics of this.#topics.values()) for (const topic of [...topics.values()]) topic.leave(guest);
    if (this.#guests.size === 0) this.#setTimeout(() => this.#end(), LINGER_MS);
  }

  /**
   * @param {Guest} guest
   * @param {Record<string, any>} parameters of `subscribe`
   * @param {(error: unknown, reply: Record<string, any>) => void} done
   */
  subscribe(guest, parameters, done) {
    const { channel: name, data, join_leave: joins = false } = parameters;
    const lens = data?.lens ?? null;
    const wants = { mirror: data?.mirror === true, joins, lens };
    for (const topics of this.#topics.values()) {
      const topic = topics.get(name);
      if (topic !== undefined && sameWay(topic.wants, wants)) {
        topic.enter(guest, parameters, done);
        return;
      }
    }
    const gateway = this.#gateways.find((each) => !this.#topics.get(each)?.has(name)) ?? this.#add();
    const topics = this.#topics.get(gateway);
    const topic = new SharedTopic(gateway, name, wants, () => topics?.delete(name));
    topics?.set(name, topic);
    topic.enter(guest, parameters, done);
  }

  /**
   * @param {Guest} guest
   * @param {string} name
   */
  unsubscribe(guest, name) {
    for (const topics of this.#topics.values()) topics.get(name)?.leave(guest);
  }

  /**
   * @param {string} method
   * @param {Record<string, any>} parameters
   * @returns {Promise<Record<string, any>>}
   * @throws {import('./errors.js').GatewayError}
   */
  ask(method, parameters) {
    return this.#first.command(method, parameters);
  }

  #add() {
    const gateway = new Gateway({ ...this.#options, url: this.#url, ...(this.#renewable && { token: () => this.#token() }) });
    this.#gateways.push(gateway);
    this.#topics.set(gateway, new Map());
    gateway.on('state', (state) => this.#changed(gateway, state));
    gateway.on('sure', (sure) => {
      if (gateway === this.#first) for (const guest of this.#guests) guest.line(broker(sure));
    });
    if (this.#gateways.length > 1) gateway.connect();
    return gateway;
  }

  /**
   * @param {Gateway} gateway
   * @param {string} state
   */
  #changed(gateway, state) {
    if (state === 'connected') {
      if (gateway === this.#first) for (const guest of [...this.#guests]) this.#admit(guest);
    } else if (state !== 'connecting') {
      // To come back is each tab's own business, as if it had a connection of its own.
      const { code, reason } = gateway.refusal ?? { code: 0, reason: 'the shared connection was lost' };
      for (const guest of [...this.#guests]) {
        // A code of an error reply is no close code: who waits for an answer gets it as one, who has been let in asks anew.
        if (state === 'refused' && code < FIRST_CLOSE_CODE) guest.refuse({ code, reason });
        else if (state === 'refused' || guest.admitted) guest.close({ code, reason });
      }
    }
  }

  /** @param {Guest} guest */
  #admit(guest) {
    const { client, grants, user, sure } = this.#first;
    guest.admit({ client, ...(grants !== null && { data: { grants, ...(user !== null && { user }) } }) });
    if (!sure) guest.line(broker(false));
  }

  /** @returns {Promise<string | null>} for a connection: the one just shown, else a fresh one from any tab */
  async #token() {
    if (this.#fresh !== null) {
      const { token } = this.#fresh;
      this.#fresh = null;
      return token;
    }
    let reason = new Error('no tab is there');
    for (const guest of [...this.#guests]) {
      try {
        const token = await guest.token();
        if (this.#same(token)) return token;
        reason = new Error('the tab has become somebody else');
      } catch (error) {
        reason = /** @type {Error} */ (error);
      }
    }
    throw reason;
  }

  #end() {
    if (this.#guests.size > 0) return;
    for (const gateway of this.#gateways) gateway.close();
    this.#empty();
  }
}

/** @param {boolean} sure */
function broker(sure) {
  return JSON.stringify({ push: { message: { data: { type: 'broker', sure } } } });
}

/**
 * Whether two subscriptions can be one, be it at different rates.
 * @param {import('./shared_topic.js').Wants} one
 * @param {import('./shared_topic.js').Wants} other
 */
function sameWay(one, other) {
  return one.mirror === other.mirror && one.joins === other.joins && sameEvents(one.lens, other.lens);
}
