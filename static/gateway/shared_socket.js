/**
 * What a tab and its worker say to each other over a port: frames of the protocol are texts, the rest are objects.
 * @typedef {{ hello: true } | { closed: { code: number, reason: string } } | { tokenWanted: number }} FromWorker
 * @typedef {{ open: string, renewable: boolean } | { close: true } | { token: number, value?: string | null, failed?: string }} FromTab
 */

/**
 * Who makes a socket through a worker.
 * @typedef {object} Door
 * @property {() => SharedWorker} makeWorker
 * @property {new (url: string) => WebSocket} WebSocket used where the worker does not answer
 * @property {() => Promise<string | null>} token for the worker's connection
 * @property {boolean} renewable `token` makes a fresh one each time
 * @property {(run: () => void, ms: number) => any} setTimeout
 * @property {(timer: any) => void} clearTimeout
 * @property {boolean} usable
 */

/** How long a worker may take to say that it is there, ms. */
const HELLO_MS = 3_000;

/**
 * A `WebSocket` for a `Gateway` whose frames go through the connection that all tabs share; a real one where the browser
 * has no shared worker, or it does not start.
 * @param {Omit<Door, 'usable'>} options
 * @returns {new (url: string) => WebSocket}
 */
export function sharedSockets(options) {
  const door = { ...options, usable: true };
  return /** @type {any} */ (
    class {
      /** @param {string} url */
      constructor(url) {
        return door.usable ? new SharedSocket(url, door) : new door.WebSocket(url);
      }
    }
  );
}

/** One way through the worker, as long as a connection of this tab lives. */
class SharedSocket {
  /** @type {((event: any) => void) | null} */
  onopen = null;
  /** @type {((event: any) => void) | null} */
  onmessage = null;
  /** @type {((event: any) => void) | null} */
  onclose = null;
  /** @type {((event: any) => void) | null} */
  onerror = null;
  #url;
  #door;
  /** @type {MessagePort | null} */
  #port = null;
  /** Where there is no worker after all. @type {WebSocket | null} */
  #real = null;
  #timer;
  #leave = () => this.#end({ code: 0, reason: 'the page was left' });

  /**
   * @param {string} url
   * @param {Door} door
   */
  constructor(url, door) {
    this.#url = url;
    this.#door = door;
    this.#timer = door.setTimeout(() => this.#fall(), HELLO_MS);
    try {
      const worker = door.makeWorker();
      worker.onerror = () => this.#fall();
      this.#port = worker.port;
      this.#port.onmessage = ({ data }) => this.#received(data);
      // A page that comes back from the browser's memory begins anew; one that is gone for good holds nothing any more.
      globalThis.addEventListener?.('pagehide', this.#leave);
    } catch {
      queueMicrotask(() => this.#fall());
    }
  }

  /** @param {string} text */
  send(text) {
    if (this.#real !== null) this.#real.send(text);
    else this.#port?.postMessage(text);
  }

  close() {
    this.#forget();
    this.#real?.close();
  }

  /** @param {string | FromWorker} message */
  #received(message) {
    if (typeof message === 'string') {
      this.onmessage?.({ data: message });
    } else if ('hello' in message) {
      this.#door.clearTimeout(this.#timer);
      this.#port?.postMessage({ open: this.#url, renewable: this.#door.renewable });
      this.onopen?.({});
    } else if ('closed' in message) {
      this.#end(message.closed);
    } else {
      void this.#showToken(message.tokenWanted);
    }
  }

  /** @param {number} number of the question */
  async #showToken(number) {
    try {
      const value = await this.#door.token();
      this.#port?.postMessage({ token: number, value });
    } catch (error) {
      this.#port?.postMessage({ token: number, failed: String(error) });
    }
  }

  /** @param {{ code: number, reason: string }} how */
  #end(how) {
    const { onclose } = this;
    this.close();
    onclose?.(how);
  }

  #forget() {
    this.#door.clearTimeout(this.#timer);
    globalThis.removeEventListener?.('pagehide', this.#leave);
    const port = this.#port;
    this.#port = null;
    if (port === null) return;
    port.onmessage = null;
    port.postMessage({ close: true });
    port.close();
  }

  /** Go on with a socket of this tab's own, and do not try the worker again. */
  #fall() {
    if (this.#real !== null || (this.onclose === null && this.onmessage === null)) return;
    this.#door.usable = false;
    this.#forget();
    const real = new this.#door.WebSocket(this.#url);
    this.#real = real;
    real.onopen = (event) => this.onopen?.(event);
    real.onmessage = (event) => this.onmessage?.(event);
    real.onclose = (event) => this.onclose?.(event);
    real.onerror = (event) => this.onerror?.(event);
  }
}
