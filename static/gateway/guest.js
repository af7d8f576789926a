import { ErrorCode, GatewayError } from './errors.js';

/** @typedef {import('./house.js').House} House */
/** @typedef {import('./shared_socket.js').FromTab} FromTab */

/** So many pings without any word, and a tab is gone. */
const MISSED = 2;
/** How long a tab may take to get a token, ms. */
const TOKEN_MS = 10_000;

/** The worker's end of a tab's connection: it answers the commands of the protocol. */
export class Guest {
  /** Its `connect` was answered. */
  admitted = false;
  #port;
  #relay;
  #url = '';
  #renewable = false;
  /** @type {House | null} */
  #house = null;
  #gone = false;
  /** Pings since it was last heard. */
  #pings = 0;
  /** @type {Map<number, (answer: { value?: string | null, failed?: string }) => void>} */
  #questions = new Map();
  #lastQuestion = 0;
  /** The `connect` that waits for the house. @type {number | null} */
  #connecting = null;

  /**
   * @param {MessagePort} port
   * @param {{ enter: (url: string, who: { token: string | null, renewable: boolean }) => House, left: () => void, setTimeout: (run: () => void, ms: number) => any }} relay
   */
  constructor(port, relay) {
    this.#port = port;
    this.#relay = relay;
    port.onmessage = ({ data }) => this.#received(data);
    this.#post({ hello: true });
  }

  /** Ask for a sign of life; one that gave none for long is gone. */
  ping() {
    this.#pings += 1;
    if (this.#pings > MISSED) this.close({ code: 0, reason: 'the tab does not answer' });
    else this.line('{}');
  }

  /** @param {string} text a line of the protocol */
  line(text) {
    this.#post(text);
  }

  /** @param {{ code: number, reason: string }} how */
  close(how) {
    if (this.#gone) return;
    this.#post({ closed: how });
    this.#leave();
  }

  /**
   * The house is connected, so the `connect` is answered.
   * @param {Record<string, any>} reply
   */
  admit(reply) {
    if (this.#connecting === null) return;
    const id = this.#connecting;
    this.#connecting = null;
    this.admitted = true;
    this.#answer(id, 'connect', null, { ...reply, version: 'shared', ping: 25, pong: true });
  }

  /**
   * The house is not let in.
   * @param {{ code: number, reason: string }} why
   */
  refuse({ code, reason }) {
    const id = this.#connecting;
    this.#connecting = null;
    if (id !== null) this.#answer(id, 'connect', new GatewayError(code, reason), {});
    else this.close({ code: 0, reason });
  }

  /**
   * @returns {Promise<string | null>} from the tab
   * @throws {Error} it has none, or does not answer
   */
  token() {
    this.#lastQuestion += 1;
    const number = this.#lastQuestion;
    return new Promise((resolve, reject) => {
      const late = () => this.#questions.get(number)?.({ failed: 'the tab does not answer' });
      this.#questions.set(number, ({ value, failed }) => {
        this.#questions.delete(number);
        if (failed === undefined) resolve(value ?? null);
        else reject(new Error(failed));
      });
      this.#relay.setTimeout(late, TOKEN_MS);
      this.#post({ tokenWanted: number });
    });
  }

  /** @param {string | FromTab} message */
  #received(message) {
    this.#pings = 0;
    if (typeof message === 'string') {
      for (const line of message.split('\n')) if (!this.#gone) this.#command(JSON.parse(line));
    } else if ('open' in message) {
      this.#url = message.open;
      this.#renewable = message.renewable;
    } else if ('close' in message) {
      this.#leave();
    } else {
      this.#questions.get(message.token)?.(message);
    }
  }

  /** @param {Record<string, any>} command */
  #command({ id, ...command }) {
    const [[method, parameters] = []] = Object.entries(command);
    if (method === undefined) return; // a sign of life
    if (method === 'connect') {
      this.#connecting = id;
      const token = parameters.token || null;
      this.#house = this.#relay.enter(this.#url, { token, renewable: this.#renewable });
      this.#house.enter(this, token);
    } else if (method === 'subscribe') {
      this.#house?.subscribe(this, parameters, (error, reply) => this.#answer(id, method, error, reply));
    } else if (method === 'unsubscribe') {
      this.#house?.unsubscribe(this, parameters.channel);
      this.#answer(id, method, null, {});
    } else {
      this.#house?.ask(method, parameters).then(
        (reply) => this.#answer(id, method, null, reply),
        (error) => this.#answer(id, method, error, {}),
      );
    }
  }

  /**
   * @param {number} id
   * @param {string} method
   * @param {unknown} error
   * @param {Record<string, any>} reply
   */
  #answer(id, method, error, reply) {
    if (error === null) {
      this.line(JSON.stringify({ id, [method]: reply }));
      return;
    }
    const { code, message, temporary } =
      error instanceof GatewayError ? error : new GatewayError(ErrorCode.INTERNAL, String(error));
    this.line(JSON.stringify({ id, error: { code, message, ...(temporary && { temporary }) } }));
  }

  #leave() {
    if (this.#gone) return;
    this.#gone = true;
    for (const answered of [...this.#questions.values()]) answered({ failed: 'the tab is gone' });
    this.#house?.leave(this);
    this.#relay.left();
    this.#port.onmessage = null;
    this.#port.close();
  }

  /** @param {unknown} message */
  #post(message) {
    if (!this.#gone) this.#port.postMessage(message);
  }
}
