import {
  CommandError,
  CommandTimeoutError,
  ConnectionLostError,
  ErrorCode,
  FrameError,
  GatewayError,
  TooLargeError,
} from './errors.js';

/** @typedef {import('./host.js').Environment} Environment */

/**
 * How a connection ended.
 * @typedef {object} End
 * @property {number} code a close code, or the code of the error reply to `connect`; 0 where there is none
 * @property {string} reason
 * @property {boolean} refused coming back by itself is forbidden
 * @property {GatewayError} [error] what went wrong on this side
 */

/**
 * Who hears of a connection. All calls come from outside of the connection's own methods, in the order of the wire.
 * @typedef {object} Listener
 * @property {(reply: Record<string, any>) => void} opened `connect` was answered; commands may be sent from now on
 * @property {(push: Record<string, any>, size: number) => void} pushed `size`: characters of its line
 * @property {() => void} frameEnded all lines of a received frame were handed over
 * @property {(silent: boolean) => void} silenceChanged longer without a word than the ping interval allows, or not any more
 * @property {(end: End) => void} ended once, the last call
 */

/**
 * @callback Done
 * @param {GatewayError | null} error
 * @param {Record<string, any>} reply empty where there is an error
 * @returns {void}
 */

/** From opening the socket to the reply to `connect`, ms. */
const CONNECT_TIMEOUT_MS = 10_000;
const COMMAND_TIMEOUT_MS = 10_000;
/** How much later than announced a ping may come before its absence means something, ms. */
const PING_GRACE_MS = 5_000;
/** How long a silent gateway has to answer a question, ms. */
const PROBE_MS = 5_000;
/** PROTOCOL.md 2.1: the gateway closes on a larger frame from a client. */
const MAX_FRAME_BYTES = 128 * 1024;

const encoder = new TextEncoder();

/** @param {number} code a close code */
function forbidsReconnect(code) {
  return (code >= 3500 && code < 4000) || (code >= 4500 && code < 5000);
}

/** One websocket from its opening to its end: frames, commands and their replies, signs of life. */
export class Connection {
  /** @type {Environment} */
  #environment;
  /** @type {Listener} */
  #listener;
  /** @type {WebSocket | null} */
  #socket;
  #lastId = 0;
  /** Commands without a reply, by id. @type {Map<number, { method: string, done: Done, timer: unknown }>} */
  #pending = new Map();
  /** Lines that go out together at the end of this task. @type {{ line: string, bytes: number }[]} */
  #outbox = [];
  #open = false;
  #pongs = false;
  /** The longest silence that is normal, ms; 0 where the gateway sends no pings. */
  #silenceLimit = 0;
  #heardAt = 0;
  /** Frames received so far. */
  #frames = 0;
  #silent = false;
  /** @type {unknown} */
  #watchTimer;

  /**
   * @param {string} url
   * @param {string | null} token
   * @param {Environment} environment
   * @param {Listener} listener
   */
  constructor(url, token, environment, listener) {
    this.#environment = environment;
    this.#listener = listener;
    this.#socket = new environment.WebSocket(url);
    this.#socket.onmessage = ({ data }) => this.#received(data);
    this.#socket.onclose = ({ code, reason }) => this.#end({ code, reason, refused: forbidsReconnect(code) });
    this.#socket.onopen = () => this.#connect(token);
    // A close follows each error. It stays: in Node's `ws` an error without a listener ends the process.
    this.#socket.onerror = () => {};
    this.#watchTimer = environment.setTimeout(() => this.abandon('no connection within 10 s'), CONNECT_TIMEOUT_MS);
  }

  /**
   * Send a command.
   * @param {string} method
   * @param {Record<string, any>} parameters
   * @param {Done} done called once; not before this method has returned
   * @param {number} [timeout] ms
   * @throws {TooLargeError} nothing was sent
   */
  request(method, parameters, done, timeout = COMMAND_TIMEOUT_MS) {
    const line = JSON.stringify({ id: this.#lastId + 1, [method]: parameters });
    const bytes = encoder.encode(line).length;
    if (bytes > MAX_FRAME_BYTES) throw new TooLargeError(bytes, MAX_FRAME_BYTES);
    const id = (this.#lastId += 1);
    const timer = this.#environment.setTimeout(() => {
      this.#pending.delete(id);
      done(new CommandTimeoutError(method, timeout), {});
    }, timeout);
    this.#pending.set(id, { method, done, timer });
    this.#send(line, bytes);
  }

  /**
   * Ask for a sign of life; without one in time the connection is given up.
   * @param {number} [ms] how long to wait
   */
  probe(ms = PROBE_MS) {
    const frames = this.#frames;
    this.request(
      'ping',
      {},
      (error) => {
        if (error instanceof CommandTimeoutError && this.#frames === frames) this.abandon('nothing heard any more');
      },
      ms,
    );
  }

  /**
   * End it without waiting for the other side, which may be out of reach.
   * @param {string} reason
   * @param {GatewayError} [error]
   */
  abandon(reason, error) {
    this.#end({ code: 0, reason, refused: false, error });
  }

  /** @param {string | null} token */
  #connect(token) {
    this.request('connect', token === null ? {} : { token }, (error, reply) => {
      if (error === null) {
        this.#opened(reply);
      } else if (error instanceof CommandError) {
        this.#end({ code: error.code, reason: error.message, refused: !error.temporary });
      }
    });
  }

  /** @param {Record<string, any>} reply */
  #opened(reply) {
    this.#open = true;
    this.#pongs = reply.pong === true;
    this.#silenceLimit = reply.ping > 0 ? reply.ping * 1000 + PING_GRACE_MS : 0;
    this.#environment.clearTimeout(this.#watchTimer);
    this.#watch();
    this.#listener.opened(reply);
  }

  /** @param {unknown} data */
  #received(data) {
    this.#frames += 1;
    this.#heardAt = this.#environment.now();
    if (this.#silent) this.#setSilent(false);
    if (typeof data !== 'string') {
      this.#broken(new FrameError('a binary frame'));
      return;
    }
    for (const line of data.split('\n')) {
      // A listener may have closed it.
      if (this.#socket === null) return;
      if (line === '') continue;
      let message;
      try {
        message = JSON.parse(line);
      } catch (error) {
        this.#broken(new FrameError(`${line.slice(0, 80)}`, error));
        return;
      }
      if (typeof message !== 'object' || message === null) {
        this.#broken(new FrameError(line.slice(0, 80)));
        return;
      }
      this.#take(message, line.length);
    }
    if (this.#open && this.#socket !== null) this.#listener.frameEnded();
  }

  /** @param {FrameError} error */
  #broken(error) {
    this.abandon(error.message, error);
  }

  /**
   * @param {Record<string, any>} message
   * @param {number} size
   */
  #take(message, size) {
    if (message.push !== undefined) {
      this.#pushed(message.push ?? {}, size);
    } else if (message.id !== undefined) {
      this.#replied(message);
    } else if (this.#pongs) {
      this.#send('{}', 2);
    }
  }

  /** @param {Record<string, any>} reply */
  #replied({ id, error, ...results }) {
    const command = this.#pending.get(id);
    if (command === undefined) return;
    this.#pending.delete(id);
    this.#environment.clearTimeout(command.timer);
    if (error === undefined) {
      command.done(null, results[command.method] ?? {});
    } else {
      const { code = ErrorCode.INTERNAL, message = 'no reason given', temporary = false } = error ?? {};
      command.done(new CommandError(code, message, { temporary: temporary === true }), {});
    }
  }

  /**
   * @param {Record<string, any>} push
   * @param {number} size
   */
  #pushed(push, size) {
    if (push.disconnect !== undefined) {
      const { code = 0, reason = '' } = push.disconnect ?? {};
      this.#end({ code, reason, refused: forbidsReconnect(code) });
    } else if (this.#open) {
      this.#listener.pushed(push, size);
    }
  }

  /**
   * @param {string} line
   * @param {number} bytes
   */
  #send(line, bytes) {
    if (this.#outbox.length === 0) queueMicrotask(() => this.#flush());
    this.#outbox.push({ line, bytes });
  }

  #flush() {
    const outbox = this.#outbox;
    this.#outbox = [];
    if (this.#socket === null) return;
    /** @type {string[]} */
    let lines = [];
    let size = 0;
    for (const { line, bytes } of outbox) {
      if (size + bytes > MAX_FRAME_BYTES) {
        this.#socket.send(lines.join('\n'));
        lines = [];
        size = 0;
      }
      lines.push(line);
      size += bytes + 1;
    }
    this.#socket.send(lines.join('\n'));
  }

  /** Look again when the silence would be too long. One timer, not one per frame; a late one (a frozen tab) only asks. */
  #watch() {
    if (this.#silenceLimit === 0) return;
    const { now, setTimeout } = this.#environment;
    const left = this.#heardAt + this.#silenceLimit - now();
    this.#watchTimer = setTimeout(
      () => {
        if (now() - this.#heardAt >= this.#silenceLimit && !this.#silent) {
          this.#setSilent(true);
          this.probe();
        }
        this.#watch();
      },
      left > 0 ? left : this.#silenceLimit,
    );
  }

  /** @param {boolean} silent */
  #setSilent(silent) {
    this.#silent = silent;
    this.#listener.silenceChanged(silent);
  }

  /** @param {End} end */
  #end(end) {
    const socket = this.#socket;
    if (socket === null) return;
    this.#socket = null;
    socket.onopen = socket.onmessage = socket.onclose = null;
    socket.close();
    this.#environment.clearTimeout(this.#watchTimer);
    const pending = [...this.#pending.values()];
    this.#pending.clear();
    for (const { timer } of pending) this.#environment.clearTimeout(timer);
    this.#listener.ended(end);
    for (const { method, done } of pending) done(new ConnectionLostError(method), {});
  }
}
