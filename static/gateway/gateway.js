import { Backoff } from './backoff.js';
import { Commands } from './commands.js';
import { Connection } from './connection.js';
import { Emitter } from './emitter.js';
import { CommandError, ErrorCode, NotConnectedError, TokenError } from './errors.js';
import { list, object, text } from './fields.js';
import { sameLens } from './lens.js';
import { BrowserPage } from './page.js';
import { readPublication } from './publication.js';
import { Renewal } from './renewal.js';
import { sharedSockets } from './shared_socket.js';
import { Subscription } from './subscription.js';

/** @typedef {import('./connection.js').End} End */
/** @typedef {import('./index.js').GatewayOptions} GatewayOptions */
/** @typedef {import('./index.js').GatewayState} GatewayState */

/** A connection that lived so long was a good one: the next wait is short again, ms. */
const GOOD_CONNECTION_MS = 10_000;
/** How long a connection may stay silent after the browser said that the network is gone, ms. */
const OFFLINE_PROBE_MS = 2_000;

/** A client's end of a gateway: one connection that comes back by itself, and the topics on it. */
export class Gateway {
  #url;
  #fetch;
  #renewal;
  #token;
  /** @type {import('./host.js').Environment} */
  #environment;
  #page;
  #hiddenRate;
  #emitter = new Emitter();
  /** @type {GatewayState} */
  #state = 'idle';
  #backoff;
  /** The current attempt, connected or not. @type {Connection | null} */
  #connection = null;
  /** What runs under another number is of an attempt that was given up. */
  #attempts = 0;
  /** @type {unknown} */
  #retryTimer = null;
  #openedAt = 0;
  #brokerSure = true;
  #silent = false;
  #shownSure = true;
  /** @type {Map<string, Subscription>} */
  #topics = new Map();
  /** Topics that this frame was about. @type {Set<Subscription>} */
  #touched = new Set();
  #commands;
  #wasVisible = true;
  #wasOnline = true;
  #stopWatching = () => {};
  /** @type {import('./host.js').Host} */
  #host;

  /** @param {GatewayOptions} [options] */
  constructor({
    url = '/connection/websocket',
    token,
    WebSocket = globalThis.WebSocket,
    random = Math.random,
    now = Date.now,
    setTimeout = (run, ms) => globalThis.setTimeout(run, ms),
    clearTimeout = (timer) => globalThis.clearTimeout(timer),
    fetch = (address, options) => globalThis.fetch(address, options),
    page = new BrowserPage(),
    hiddenRate = null,
    shared = false,
    SharedWorker = globalThis.SharedWorker,
  } = {}) {
    const sharing = shared && typeof SharedWorker === 'function';
    if (typeof WebSocket !== 'function' && !sharing) throw new TypeError('this platform has no WebSocket; give one to the gateway');
    const resolved = new URL(url, globalThis.location?.href);
    resolved.protocol = resolved.protocol.replace(/^http/, 'ws');
    this.#url = resolved.href;
    this.#fetch = fetch;
    this.#token = token;
    const makeWorker = () => new SharedWorker(workerAddress(), { type: 'module', name: 'agent-gateway' });
    const renewable = typeof token === 'function';
    const socket = sharing
      ? sharedSockets({ makeWorker, WebSocket, token: () => this.#makeToken(), renewable, setTimeout, clearTimeout })
      : WebSocket;
    this.#environment = { WebSocket: socket, random, now, setTimeout, clearTimeout };
    this.#renewal = new Renewal(this.#environment, () => this.#makeToken());
    this.#page = page;
    this.#hiddenRate = hiddenRate;
    this.#backoff = new Backoff(random);
    /** When the next attempt comes, in the time of `now`; null while none is waited for. @type {number | null} */
    this.retryAt = null;
    /** Why coming back is forbidden. @type {{ code: number, reason: string } | null} */
    this.refusal = null;
    /** What this reader may do everywhere; null before the first connection. @type {any[] | null} */
    this.grants = null;
    /** Who this reader is to the gateway, the `by` of its actions; null for an anonymous one. @type {string | null} */
    this.user = null;
    /** The name of the connection, by which presence knows this reader; null before the first. @type {string | null} */
    this.client = null;
    this.#host = this.#makeHost();
    this.#commands = new Commands(this.#host);
  }

  get state() {
    return this.#state;
  }

  /** Whether what is shown is current: false while the gateway does not hear its broker, or is silent for too long. */
  get sure() {
    return this.#brokerSure && !this.#silent;
  }

  /**
   * @param {'state' | 'sure' | 'error'} name
   * @param {(value: any) => void} listener
   * @returns {() => void} takes the listener away again
   */
  on(name, listener) {
    return this.#emitter.on(name, listener);
  }

  /** Connect, and stay connected until `close` or a refusal. After these it begins anew; topics go on where they were. */
  connect() {
    if (!['idle', 'closed', 'refused'].includes(this.#state)) return;
    this.refusal = null;
    this.#backoff.reset();
    this.#wasVisible = this.#page.visible;
    this.#wasOnline = this.#page.online;
    this.#stopWatching = this.#page.watch(() => this.#pageChanged());
    this.#setState('connecting');
    this.#paceTopics();
    for (const topic of this.#topics.values()) topic.revive();
    this.#attempt();
  }

  close() {
    if (this.#state !== 'closed') this.#stop('closed', 'closed by the client');
  }

  /** Do not wait any longer for the next attempt. */
  retryNow() {
    if (this.#retryTimer !== null) this.#attempt();
  }

  /**
   * Follow a topic. The same name gives the same object until each who asked for it has unsubscribed.
   * @param {string} name
   * @param {{ mirror?: boolean, joins?: boolean, lens?: import('./index.js').Lens | null }} [wants] `mirror: false` gets
   *   events only, from now on; `joins: true` hears who comes and goes, if the first who asks for the topic wants it;
   *   `lens`: what is shown of it, `'summary'` for nothing but its summaries
   * @returns {Subscription}
   * @throws {TypeError} it is followed in the other way already
   */
  subscribe(name, { mirror: wanted = true, joins = false, lens = null } = {}) {
    const mirror = wanted && lens !== 'summary';
    let topic = this.#topics.get(name);
    if (topic !== undefined && topic.mirrored !== mirror) {
      throw new TypeError(
        `topic ${name} is subscribed to with mirror: ${topic.mirrored}, asked with mirror: ${mirror}`,
      );
    }
    if (topic !== undefined && !sameLens(topic.lens, lens)) {
      throw new TypeError(`topic ${name} is subscribed to with another lens: ${JSON.stringify(topic.lens)}`);
    }
    if (topic === undefined) {
      topic = new Subscription(name, { mirror, joins, lens }, this.#host);
      topic.slow(this.#page.visible ? null : this.#hiddenRate);
      this.#topics.set(name, topic);
    }
    topic.hold();
    topic.attach();
    return topic;
  }

  /**
   * Call a method of the gateway. Without a connection it waits for one for up to 30 s.
   *
   * Data with an `id` (PROTOCOL.md 7: the same id again gives the first answer) make a lost reply harmless, so such a
   * call is sent again, with growing waits, until 30 s have passed. Any other is sent once.
   * @param {string} method
   * @param {Record<string, any>} [data]
   * @returns {Promise<any>}
   * @throws {import('./errors.js').GatewayError}
   */
  async rpc(method, data = {}) {
    const repeatable = method === 'topics' || method === 'prices' || typeof data.id === 'string';
    const reply = await this.#commands.call('rpc', { method, data }, { repeatable });
    return reply.data ?? {};
  }

  /**
   * Send a command of the protocol as it is. Without a connection it waits for one for up to 30 s; it is sent once.
   * @param {string} method `publish`, `presence`, … (PROTOCOL.md 3)
   * @param {Record<string, any>} parameters
   * @returns {Promise<Record<string, any>>} the reply
   * @throws {import('./errors.js').GatewayError}
   */
  command(method, parameters) {
    return this.#commands.call(method, parameters, { repeatable: false });
  }

  /**
   * Give the agent of a topic a message.
   * @param {string} topic
   * @param {string | Record<string, any>[]} content
   * @param {{ id?: string }} [own] the client's id of the message; the same one cannot double it. Drawn by default
   * @returns {Promise<{ message: string, offset: number, epoch: string }>}
   * @throws {import('./errors.js').GatewayError}
   */
  send(topic, content, { id = newId() } = {}) {
    return this.rpc('send', { topic, content, id });
  }

  /**
   * Change a message that still waits.
   * @param {string} topic
   * @param {import('./index.js').Edit} what
   * @returns {Promise<any>} what the gateway answers (PROTOCOL.md 7), as of all actions below
   * @throws {import('./errors.js').GatewayError}
   */
  edit(topic, { message, content, id = newId() }) {
    return this.rpc('edit', { topic, message, content, id });
  }

  /**
   * Take back a message that still waits.
   * @param {string} topic
   * @param {import('./index.js').Withdrawal} what
   * @throws {import('./errors.js').GatewayError}
   */
  withdraw(topic, { message, id = newId() }) {
    return this.rpc('withdraw', { topic, message, id });
  }

  /**
   * Ask a run to stop. Only its own event says that it has.
   * @param {string} topic
   * @param {import('./index.js').Cancellation} what
   * @throws {import('./errors.js').GatewayError}
   */
  cancel(topic, { run, message, mode = 'now', id = newId() }) {
    return this.rpc('cancel', { topic, run, message, mode, id });
  }

  /**
   * Decide whether a tool call may go on. The first decision stands; the answer says whose it was.
   * @param {string} topic
   * @param {import('./index.js').Decision} what
   * @throws {import('./errors.js').GatewayError}
   */
  decide(topic, { id = newId(), ...decision }) {
    return this.rpc('decide', { topic, ...decision, id });
  }

  /**
   * Read stored events.
   * @param {string} topic
   * @param {{ since?: { epoch: string, offset: number }, limit?: number, reverse?: boolean }} [page] `since`: above it,
   *   or before it in reverse; the first, or the last, by default. `limit`: negative for as many as fit, the default
   * @returns {Promise<{ publications: import('./index.js').Publication[], epoch: string, offset: number }>}
   * @throws {import('./errors.js').GatewayError}
   */
  async history(topic, { since, limit = -1, reverse } = {}) {
    const reply = await this.#commands.call(
      'history',
      { channel: topic, since, limit, reverse },
      { repeatable: true },
    );
    const publications = (list(reply.publications) ?? []).map(readPublication);
    return { publications, epoch: reply.epoch, offset: reply.offset };
  }

  /**
   * Load a large text, of which a log entry has only the beginning (PROTOCOL.md 4.6).
   * @param {string} topic
   * @param {string} hash as the entry's `blobs` say
   * @returns {Promise<string>}
   * @throws {import('./errors.js').GatewayError}
   */
  blob(topic, hash) {
    return this.#load(topic, `blobs/${encodeURIComponent(hash)}`, (answer) => answer.text());
  }

  /**
   * Load a page of the session log, with what was replaced or cleared since (PROTOCOL.md 8).
   * @param {string} topic
   * @param {object} [options]
   * @param {number} [options.from] the first seq, 0 by default
   * @returns {Promise<{ events: object[], next: number | null }>} log entries, and where the following page begins; null after the last
   * @throws {import('./errors.js').GatewayError}
   */
  archive(topic, { from = 0 } = {}) {
    return this.#load(topic, `archive?from=${from}`, (answer) => answer.json());
  }

  /**
   * @template T
   * @param {string} topic
   * @param {string} path below it
   * @param {(answer: Response) => Promise<T>} read
   * @returns {Promise<T>}
   */
  async #load(topic, path, read) {
    const address = new URL(`../topics/${encodeURIComponent(topic)}/${path}`, this.#url.replace(/^ws/, 'http'));
    let answer;
    try {
      const token = await this.#makeToken();
      answer = await this.#fetch(address.href, token ? { headers: { authorization: `Bearer ${token}` } } : {});
      if (answer.ok) return await read(answer);
    } catch (cause) {
      if (cause instanceof TokenError) throw cause;
      throw new NotConnectedError('the gateway could not be reached', { temporary: true, cause });
    }
    const code = answer.status === 404 ? ErrorCode.NOT_AVAILABLE : ErrorCode.INTERNAL;
    throw new CommandError(code, `it could not be loaded: ${answer.status}`, { temporary: answer.status >= 500 });
  }

  /**
   * What models cost, as the operator says; see `costOf`.
   * @returns {Promise<{ [model: string]: import('./index.js').Price }>} empty where nothing was said
   * @throws {import('./errors.js').GatewayError}
   */
  async prices() {
    const { prices } = await this.rpc('prices');
    return object(prices) ?? {};
  }

  /** @returns {Promise<{ topic: string, at: number }[]>} newest first */
  async topics() {
    const { topics } = await this.rpc('topics');
    return topics ?? [];
  }

  /**
   * Publish an event of one's own (PROTOCOL.md 4.5). It is sent once: a lost reply is an error.
   * @param {string} topic
   * @param {Record<string, any>} data
   * @throws {import('./errors.js').GatewayError}
   */
  async publish(topic, data) {
    await this.#commands.call('publish', { channel: topic, data }, { repeatable: false });
  }

  /** @returns {import('./host.js').Host} */
  #makeHost() {
    const gateway = this;
    return {
      environment: this.#environment,
      get connection() {
        return gateway.#state === 'connected' ? gateway.#connection : null;
      },
      get state() {
        return gateway.#state;
      },
      get refusal() {
        return gateway.refusal;
      },
      get sure() {
        return gateway.sure;
      },
      touched: (topic) => void this.#touched.add(topic),
      released: (topic) => {
        if (this.#topics.get(topic.name) === topic) this.#topics.delete(topic.name);
      },
      report: (error) => this.#emitter.emit('error', error),
      ask: (method, parameters) => this.#commands.call(method, parameters, { repeatable: true }),
    };
  }

  async #attempt() {
    this.#stopRetrying();
    const attempt = (this.#attempts += 1);
    if (this.#state !== 'connecting') this.#showLost();
    try {
      const token = await this.#makeToken();
      if (attempt !== this.#attempts) return;
      this.#connection = new Connection(this.#url, token, this.#environment, {
        opened: (reply) => this.#opened(reply),
        pushed: (push, size) => this.#pushed(push, size),
        frameEnded: () => this.#frameEnded(),
        silenceChanged: (silent) => {
          this.#silent = silent;
          this.#showSure();
        },
        ended: (end) => {
          if (attempt === this.#attempts) this.#ended(end);
        },
      });
    } catch (cause) {
      if (attempt !== this.#attempts) return;
      const error =
        cause instanceof TokenError
          ? cause
          : new NotConnectedError('the browser did not open the websocket', { temporary: true, cause });
      this.#ended({ code: 0, reason: error.message, refused: false, error });
    }
  }

  /** @returns {Promise<string | null>} */
  async #makeToken() {
    if (typeof this.#token !== 'function') return this.#token ?? null;
    try {
      return await this.#token();
    } catch (error) {
      throw new TokenError(error);
    }
  }

  /** @param {Record<string, any>} reply */
  #opened(reply) {
    this.grants = list(object(reply.data)?.grants);
    this.user = text(object(reply.data)?.user);
    this.client = text(reply.client);
    this.#openedAt = this.#environment.now();
    this.#brokerSure = true;
    if (this.#connection !== null && typeof this.#token === 'function') this.#renewal.begin(this.#connection, reply);
    this.#setState('connected');
    for (const topic of [...this.#topics.values()]) topic.attach();
  }

  /**
   * @param {Record<string, any>} push
   * @param {number} size
   */
  #pushed(push, size) {
    const message = object(object(push.message)?.data);
    if (message !== null) {
      if (message.type === 'broker') {
        this.#brokerSure = message.sure !== false;
        this.#showSure();
      }
    } else {
      this.#topics.get(push.channel)?.receive(push, size);
    }
  }

  #frameEnded() {
    const touched = [...this.#touched];
    this.#touched.clear();
    for (const topic of touched) topic.flush();
  }

  /** @param {End} end */
  #ended({ code, reason, refused, error }) {
    const { now, setTimeout } = this.#environment;
    if (this.#state === 'connected' && now() - this.#openedAt >= GOOD_CONNECTION_MS) this.#backoff.reset();
    // Whoever makes tokens can make a new one.
    const renewable = code === ErrorCode.TOKEN_EXPIRED && typeof this.#token === 'function';
    if (refused && !renewable) {
      this.refusal = { code, reason };
      this.#stop('refused', reason);
      return;
    }
    this.#forgetConnection();
    const delay = this.#backoff.next();
    this.retryAt = this.#page.online ? now() + delay : null;
    this.#retryTimer = setTimeout(() => this.#attempt(), delay);
    this.#showLost();
    if (error !== undefined) this.#emitter.emit('error', error);
  }

  /**
   * @param {'closed' | 'refused'} state
   * @param {string} reason
   */
  #stop(state, reason) {
    this.#attempts += 1;
    this.#stopRetrying();
    this.#stopWatching();
    this.#stopWatching = () => {};
    const connection = this.#connection;
    this.#forgetConnection();
    connection?.abandon(reason);
    this.#setState(state);
  }

  #forgetConnection() {
    this.#connection = null;
    this.#renewal.end();
    this.#silent = false;
    this.#touched.clear();
    for (const topic of this.#topics.values()) topic.detach();
  }

  #stopRetrying() {
    this.#environment.clearTimeout(this.#retryTimer);
    this.#retryTimer = null;
    this.retryAt = null;
  }

  #showLost() {
    this.#setState(this.#page.online ? 'reconnecting' : 'offline');
  }

  /** @param {GatewayState} state */
  #setState(state) {
    this.#state = state;
    this.#commands.stateChanged();
    this.#emitter.emit('state', state);
    for (const topic of [...this.#topics.values()]) topic.refresh();
    this.#showSure();
  }

  #showSure() {
    if (this.sure === this.#shownSure) return;
    this.#shownSure = this.sure;
    this.#emitter.emit('sure', this.sure);
    for (const topic of [...this.#topics.values()]) {
      // What waits for another try was mostly refused because of what is over now.
      if (this.sure) topic.attach();
      topic.refresh();
    }
  }

  /** What nobody looks at may come in larger pieces. */
  #paceTopics() {
    for (const topic of [...this.#topics.values()]) topic.slow(this.#page.visible ? null : this.#hiddenRate);
  }

  #pageChanged() {
    const { visible, online } = this.#page;
    const [appeared, returned, vanished] = [
      visible && !this.#wasVisible,
      online && !this.#wasOnline,
      !online && this.#wasOnline,
    ];
    this.#wasVisible = visible;
    this.#wasOnline = online;
    this.#paceTopics();
    if (this.#state === 'connected') {
      // A machine that slept, or changed its network, may hold a socket that hears nothing any more.
      if (appeared || returned) this.#connection?.probe();
      else if (vanished) this.#connection?.probe(OFFLINE_PROBE_MS);
    } else if (this.#retryTimer !== null) {
      if (appeared || returned) {
        this.#attempt();
      } else if (vanished) {
        this.retryAt = null;
        this.#showLost();
      }
    } else if (returned) {
      // An attempt that began without a network would only end by its timeout.
      const connection = this.#connection;
      this.#connection = null;
      this.#attempt();
      connection?.abandon('the network has returned');
    }
  }
}

/** Of the worker that belongs to this version of the library. */
function workerAddress() {
  const address = new URL('./shared_worker.js', import.meta.url);
  address.search = new URL(import.meta.url).search;
  return address;
}

/** 32 hexadecimal digits. `crypto.randomUUID` is missing on pages that did not come over TLS. */
function newId() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, '0')).join('');
}
