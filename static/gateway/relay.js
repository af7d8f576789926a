import { Guest } from './guest.js';
import { House } from './house.js';

/** How often guests are asked whether they are still there, ms. */
export const PING_MS = 25_000;

/**
 * Speaks the protocol to tabs as a gateway does, and holds the connections to gateways that they share: one for each
 * address and identity.
 */
export class Relay {
  /** @type {Map<string, House>} */
  #houses = new Map();
  /** @type {Set<Guest>} */
  #guests = new Set();
  #options;
  #setTimeout;
  #pinging = false;

  /** @param {import('./index.js').GatewayOptions} [options] of the connections to gateways, and the timers of all */
  constructor(options = {}) {
    this.#options = options;
    this.#setTimeout = options.setTimeout ?? ((run, ms) => globalThis.setTimeout(run, ms));
  }

  /** How many connections to gateways there are. */
  get connections() {
    return [...this.#houses.values()].reduce((sum, { connections }) => sum + connections, 0);
  }

  /** @param {MessagePort} port of a tab */
  join(port) {
    const guest = new Guest(port, {
      enter: (url, who) => this.#house(url, who),
      left: () => void this.#guests.delete(guest),
      setTimeout: this.#setTimeout,
    });
    this.#guests.add(guest);
    this.#ping();
  }

  /**
   * @param {string} url
   * @param {{ token: string | null, renewable: boolean }} who
   * @returns {House}
   */
  #house(url, { token, renewable }) {
    const key = JSON.stringify([url, renewable ? identityOf(token) : token, renewable]);
    let house = this.#houses.get(key);
    if (house === undefined) {
      house = new House(url, {
        options: renewable ? this.#options : { ...this.#options, token },
        same: (other) => identityOf(other) === identityOf(token),
        empty: () => void this.#houses.delete(key),
      });
      this.#houses.set(key, house);
    }
    return house;
  }

  #ping() {
    if (this.#pinging || this.#guests.size === 0) return;
    this.#pinging = true;
    this.#setTimeout(() => {
      this.#pinging = false;
      for (const guest of [...this.#guests]) guest.ping();
      this.#ping();
    }, PING_MS);
  }
}

/**
 * Who a token speaks for, and what it allows: all that it claims but its own times and name. Tabs share a connection only
 * where this is the same.
 * @param {string | null} token
 * @returns {string}
 */
export function identityOf(token) {
  if (token === null) return '';
  try {
    const [, body] = token.split('.');
    const bytes = Uint8Array.from(atob(body.replaceAll('-', '+').replaceAll('_', '/')), (sign) => sign.charCodeAt(0));
    const { exp, iat, nbf, jti, ...claims } = JSON.parse(new TextDecoder().decode(bytes));
    return JSON.stringify(Object.entries(claims).sort(([one], [other]) => (one < other ? -1 : 1)));
  } catch {
    return token;
  }
}
