import { Backoff } from './backoff.js';
import { CommandError, ErrorCode, GatewayError, NotConnectedError } from './errors.js';

/** @typedef {import('./connection.js').Connection} Connection */
/** @typedef {import('./host.js').Host} Host */

/** How long a command waits for a connection, and is tried again where that is safe, ms. */
const PATIENCE_MS = 30_000;

/** Commands of a page: they outlive a connection, and are sent again only where that does no harm. */
export class Commands {
  #host;
  /** Those that wait, for a connection or for another try; each is woken by any change. @type {Set<() => void>} */
  #waiting = new Set();

  /** @param {Host} host */
  constructor(host) {
    this.#host = host;
  }

  /**
   * @param {string} method
   * @param {Record<string, any>} parameters
   * @param {{ repeatable: boolean }} facts doing it twice does no harm
   * @returns {Promise<Record<string, any>>} the reply
   * @throws {GatewayError}
   */
  async call(method, parameters, { repeatable }) {
    const { now, random } = this.#host.environment;
    const backoff = new Backoff(random);
    const deadline = now() + PATIENCE_MS;
    for (;;) {
      const connection = await this.#connected(deadline);
      try {
        return await request(connection, method, parameters);
      } catch (error) {
        const again = error instanceof GatewayError && error.temporary && (repeatable || wasNotDone(error));
        const until = now() + backoff.next();
        if (!again || until >= deadline) throw error;
        while (now() < until && !this.#over) await this.#wake(until - now());
      }
    }
  }

  /** The state of the gateway is another: those who wait look again. */
  stateChanged() {
    for (const wake of [...this.#waiting]) wake();
  }

  /** There will be no connection. */
  get #over() {
    return this.#host.state === 'closed' || this.#host.state === 'refused';
  }

  /**
   * @param {number} deadline in the time of `now`
   * @returns {Promise<Connection>}
   */
  async #connected(deadline) {
    for (;;) {
      const { connection, refusal, environment } = this.#host;
      if (connection !== null) return connection;
      if (this.#over) {
        const why = refusal === null ? 'the gateway was closed' : `the gateway refuses us: ${refusal.reason}`;
        throw new NotConnectedError(why, { temporary: false });
      }
      const left = deadline - environment.now();
      if (left <= 0) throw new NotConnectedError('no connection in time', { temporary: true });
      await this.#wake(left);
    }
  }

  /**
   * @param {number} ms
   * @returns {Promise<void>} after that time, or when the state changed
   */
  #wake(ms) {
    const { setTimeout, clearTimeout } = this.#host.environment;
    return new Promise((resolve) => {
      const wake = () => {
        clearTimeout(timer);
        this.#waiting.delete(wake);
        resolve();
      };
      const timer = setTimeout(wake, ms);
      this.#waiting.add(wake);
    });
  }
}

/**
 * @param {Connection} connection
 * @param {string} method
 * @param {Record<string, any>} parameters
 * @returns {Promise<Record<string, any>>}
 */
function request(connection, method, parameters) {
  return new Promise((resolve, reject) => {
    connection.request(method, parameters, (error, reply) => (error === null ? resolve(reply) : reject(error)));
  });
}

/**
 * Say whether the gateway turned a command away before doing anything.
 * @param {GatewayError} error
 */
function wasNotDone(error) {
  return error instanceof CommandError && error.code === ErrorCode.TOO_MANY_REQUESTS;
}
