/** @typedef {import('./host.js').Environment} Environment */
/** @typedef {import('./connection.js').Connection} Connection */

/** The part of a token's life after which a fresh one is shown. */
const PART = 0.8;
/** Until a renewal that came to nothing is tried again, ms: at first, and at most. */
const RETRY_MS = 1_000;
const MAX_RETRY_MS = 20_000;
/** The longest time that a timer can wait, ms. */
const MAX_TIMER_MS = 2 ** 31 - 1;

/** Shows a gateway fresh tokens before the old ones expire (PROTOCOL.md 12); without, it ends the connection. */
export class Renewal {
  /** @type {Environment} */
  #environment;
  #makeToken;
  /** @type {unknown} */
  #timer = null;
  /** Counts connections, so that an answer about an earlier one changes nothing. */
  #round = 0;

  /**
   * @param {Environment} environment
   * @param {() => Promise<string | null>} makeToken
   */
  constructor(environment, makeToken) {
    this.#environment = environment;
    this.#makeToken = makeToken;
  }

  /**
   * Begin with a connection whose `connect` was answered.
   * @param {Connection} connection
   * @param {Record<string, any>} reply
   */
  begin(connection, reply) {
    this.end();
    this.#plan(connection, reply);
  }

  /** The connection has ended. */
  end() {
    this.#round += 1;
    this.#environment.clearTimeout(this.#timer);
    this.#timer = null;
  }

  /**
   * @param {Connection} connection
   * @param {Record<string, any>} reply
   */
  #plan(connection, { expires, ttl }) {
    if (expires !== true || typeof ttl !== 'number') return;
    this.#later(connection, Math.min(ttl * 1_000 * PART, MAX_TIMER_MS), RETRY_MS);
  }

  /**
   * @param {Connection} connection
   * @param {number} ms
   * @param {number} retry ms until the next try, where this one comes to nothing
   */
  #later(connection, ms, retry) {
    this.#timer = this.#environment.setTimeout(() => this.#renew(connection, retry), ms);
  }

  /**
   * @param {Connection} connection
   * @param {number} retry ms
   */
  async #renew(connection, retry) {
    const round = this.#round;
    const again = () => {
      if (round === this.#round) this.#later(connection, retry, Math.min(2 * retry, MAX_RETRY_MS));
    };
    let token;
    try {
      token = await this.#makeToken();
    } catch {
      again(); // the gateway's grace, and then its close code, say how long that may go on
      return;
    }
    if (round !== this.#round) return;
    connection.request('refresh', { token }, (error, reply) => {
      if (round !== this.#round) return;
      if (error === null) this.#plan(connection, reply);
      else again();
    });
  }
}
