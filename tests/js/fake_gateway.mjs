import assert from 'node:assert/strict';

import { Mirror } from '../../static/gateway/index.js';
import { Clock, settled } from './clock.mjs';

/** A page whose visibility and network a test sets. */
export class FakePage {
  visible = true;
  online = true;
  #watchers = new Set();

  watch(changed) {
    this.#watchers.add(changed);
    return () => this.#watchers.delete(changed);
  }

  get watchers() {
    return this.#watchers.size;
  }

  set(facts) {
    Object.assign(this, facts);
    for (const changed of this.#watchers) changed();
  }
}

/** The history of a topic. */
class FakeTopic {
  epoch = '';
  /** Publications as they stand on the wire. */
  history = [];
  /** Earlier epochs that this history continues, and up to where. */
  lineage = new Map();
  floor = 0;

  get top() {
    return this.history.at(-1)?.offset ?? 0;
  }

  append(data, from) {
    const offset = from === undefined ? this.top + 1 : from.offset;
    const publication = from === undefined ? { offset, data } : { offset, data, tags: { from: String(from.first) } };
    this.history.push(publication);
    return publication;
  }

  mayGoOn(epoch, offset) {
    if (offset < this.floor) return false;
    if (epoch === '' && offset === 0) return true;
    return epoch === this.epoch ? offset <= this.top : offset <= (this.lineage.get(epoch) ?? -1);
  }

  snapshot(name) {
    const mirror = new Mirror({ topic: name, epoch: this.epoch });
    for (const { data, offset } of this.history) {
      mirror.fold(data);
      mirror.offset = offset;
    }
    return mirror.snapshot();
  }
}

/**
 * A gateway in this process that speaks the protocol to the sockets of its `WebSocket` class, and keeps a record.
 *
 * Tests make faults by `answers` (a method's own answer; `null` is silence), `refuse`, `hang`, and by acting on `socket`.
 */
export class FakeGateway {
  clock = new Clock();
  page = new FakePage();
  /** Every command received, `{method, parameters}`. */
  commands = [];
  /** Every frame received. */
  frames = [];
  /** All sockets ever opened, the current one last. */
  sockets = [];
  /** Method → function of (parameters, times asked before): `{error}`, `{reply}`, or null for silence. */
  answers = new Map();
  /** Sockets are not opened: `refuse` closes them with 1006, `hang` leaves them. */
  refuse = false;
  hang = false;
  ping = 25;
  connectData = undefined;
  topics = new Map();
  #asked = new Map();

  constructor() {
    const gateway = this;
    this.WebSocket = class {
      constructor(url) {
        return new FakeSocket(gateway, url);
      }
    };
  }

  /** What a `Gateway` takes. `random` is 1: the longest waits. */
  get options() {
    const { WebSocket, page } = this;
    const { now, setTimeout, clearTimeout } = this.clock;
    return { url: 'ws://gateway.test/', WebSocket, page, now, setTimeout, clearTimeout, random: () => 1 };
  }

  get socket() {
    return this.sockets.at(-1);
  }

  topic(name) {
    if (!this.topics.has(name)) this.topics.set(name, new FakeTopic());
    return this.topics.get(name);
  }

  /** Append events; each reader gets a frame with all of them. */
  async publish(name, ...events) {
    const topic = this.topic(name);
    topic.epoch ||= 'epochAAA';
    const pushes = events.map((data) => this.push(name, { pub: topic.append(data) }));
    this.#toReaders(name, pushes);
    await settled();
  }

  /** Append one event that stands for several offsets. */
  async publishMerged(name, data, { first, offset }) {
    this.#toReaders(name, [this.push(name, { pub: this.topic(name).append(data, { first, offset }) })]);
    await settled();
  }

  push(name, what) {
    return { push: { channel: name, ...what } };
  }

  /** Commands of one method, or all but the looks at the top of a history. */
  asked(method) {
    return this.commands.filter((command) => command.method === method).map(({ parameters }) => parameters);
  }

  #toReaders(name, pushes) {
    for (const socket of this.sockets) if (socket.readers.has(name)) socket.deliver(...pushes);
  }

  accept(socket) {
    this.sockets.push(socket);
    queueMicrotask(() => {
      if (this.refuse) socket.drop(1006);
      else if (!this.hang) socket.open();
    });
  }

  receive(socket, frame) {
    this.frames.push(frame);
    assert.ok(Buffer.byteLength(frame) <= 128 * 1024, 'a frame above max_frame');
    const replies = frame.split('\n').flatMap((line) => this.#handle(socket, JSON.parse(line)));
    if (replies.length > 0) socket.deliver(...replies);
  }

  #handle(socket, { id, ...command }) {
    const [[method, parameters] = []] = Object.entries(command);
    if (method === undefined) {
      socket.pongs += 1;
      return [];
    }
    this.commands.push({ method, parameters });
    if (!socket.connected && method !== 'connect') {
      socket.drop(3501);
      return [];
    }
    const times = this.#asked.get(method) ?? 0;
    this.#asked.set(method, times + 1);
    const answer = this.answers.get(method)?.(parameters, times) ?? this.#answer(socket, method, parameters, times);
    if (answer.silence) return [];
    return [answer.error === undefined ? { id, [method]: answer.reply } : { id, error: answer.error }];
  }

  #answer(socket, method, parameters) {
    switch (method) {
      case 'connect':
        socket.connected = true;
        return { reply: { client: 'c', version: '0', ping: this.ping, pong: true, data: this.connectData } };
      case 'subscribe':
        if (socket.readers.has(parameters.channel)) return { error: { code: 105, message: 'already subscribed' } };
        socket.readers.add(parameters.channel);
        return { reply: this.#subscribe(parameters) };
      case 'unsubscribe':
        socket.readers.delete(parameters.channel);
        return { reply: {} };
      case 'history': {
        const { epoch, top } = this.topic(parameters.channel);
        return { reply: { epoch, offset: top, publications: [] } };
      }
      case 'ping':
        return { reply: {} };
      case 'publish':
        queueMicrotask(() => this.publish(parameters.channel, parameters.data));
        return { reply: {} };
      default:
        return { error: { code: 104, message: `no method ${method}` } };
    }
  }

  #subscribe({ channel, recover, epoch = '', offset = 0, data }) {
    const topic = this.topic(channel);
    const reply = { recoverable: true, positioned: true, epoch: topic.epoch, offset: topic.top };
    if (recover) {
      reply.was_recovering = true;
      reply.recovered = topic.mayGoOn(epoch, offset);
      if (reply.recovered) {
        reply.publications = topic.history.filter((publication) => publication.offset > offset);
        return reply;
      }
    }
    if (data?.mirror) reply.data = { snapshot: topic.snapshot(channel) };
    return reply;
  }
}

/** The client's end of a websocket to a `FakeGateway`. */
class FakeSocket {
  onopen = null;
  onmessage = null;
  onclose = null;
  onerror = null;
  connected = false;
  closed = false;
  /** Topics that it is subscribed to. */
  readers = new Set();
  pongs = 0;
  #gateway;

  constructor(gateway, url) {
    this.url = url;
    this.#gateway = gateway;
    gateway.accept(this);
  }

  send(frame) {
    assert.ok(!this.closed, 'sent on a closed socket');
    queueMicrotask(() => this.closed || this.#gateway.receive(this, frame));
  }

  close() {
    this.closed = true;
    this.readers.clear();
  }

  open() {
    if (!this.closed) this.onopen?.({});
  }

  /** One frame from the gateway. */
  deliver(...messages) {
    this.deliverText(messages.map((message) => JSON.stringify(message)).join('\n'));
  }

  deliverText(data) {
    if (!this.closed) this.onmessage?.({ data });
  }

  /** The gateway closes it, or the network does (1006). */
  drop(code, reason = '') {
    if (this.closed) return;
    this.close();
    this.onclose?.({ code, reason });
  }
}
