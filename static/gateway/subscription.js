import { Backoff } from './backoff.js';
import {
  CommandError,
  CommandTimeoutError,
  ConnectionLostError,
  ErrorCode,
  GatewayError,
  SnapshotError,
} from './errors.js';
import { Emitter } from './emitter.js';
import { index, integer, list, object, text } from './fields.js';
import { Head } from './head.js';
import { sameEvents, sameLens, slowed } from './lens.js';
import { Mirror } from './mirror.js';
import { readPublication } from './publication.js';
import { SnapshotParts } from './snapshot_parts.js';

/** @typedef {import('./connection.js').Connection} Connection */
/** @typedef {import('./host.js').Host} Host */
/** @typedef {import('./index.js').Publication} Publication */
/** @typedef {import('./index.js').TopicState} TopicState */

/** From this unsubscribe code on a client asks again by itself (PROTOCOL.md 3.5). */
const RESUBSCRIBE_CODE = 2500;
/** Asking again at once is right when it is rare; twice within this time it waits, ms. */
const CALM_MS = 10_000;
/** A frame that skips more than this many offsets shows that the reader lags. */
const LAG_OFFSETS = 50;
/** How much is kept that came before the last part of a snapshot, characters. */
const MAX_KEPT_CHARACTERS = 8 * 1024 * 1024;

/** One topic of one gateway: it asks, recovers, and keeps the mirror. */
export class Subscription {
  #host;
  #emitter = new Emitter();
  #backoff;
  #holders = 0;
  #mirrored;
  #joins;
  #lens;
  /** What a hidden page is content with, flushes a second. @type {number | null} */
  #hiddenRate = null;
  /** @type {'waiting' | 'asking' | 'subscribed' | 'denied' | 'ended'} */
  #phase = 'waiting';
  /** The mirror holds a state of the topic, so there is a position to go on from. */
  #known = false;
  /** The gateway may hold a subscription of ours on this connection. */
  #remote = false;
  /** The `subscribe` whose reply counts. @type {object | null} */
  #asked = null;
  /** When it last asked again, or will, ms. */
  #askedAgainAt = -Infinity;
  /** @type {unknown} */
  #askTimer;
  /** @type {SnapshotParts | null} */
  #parts = null;
  /** What came before the last part. @type {Publication[]} */
  #kept = [];
  #keptSize = 0;
  #head;
  /** What this frame brought. @type {Publication[]} */
  #events = [];
  #reset = false;
  /** It brought something, be it only the word that what came is hidden. */
  #moved = false;
  /** The offset when this frame began. */
  #frameOffset = 0;
  #shown = '';

  /**
   * @param {string} name of the topic
   * @param {{ mirror: boolean, joins: boolean, lens: import('./index.js').Lens | null }} wants without `mirror` only
   *   events, the mirror keeps no more than the position; `joins`: to hear who comes and goes; `lens`: what is shown
   * @param {Host} host
   */
  constructor(name, { mirror, joins, lens }, host) {
    this.name = name;
    this.mirror = new Mirror({ topic: name });
    /** Why it was denied or ended. @type {GatewayError | null} */
    this.error = null;
    /** What this reader may do on the topic; null where nothing was said. @type {any[] | null} */
    this.grants = null;
    this.#mirrored = mirror;
    this.#joins = joins;
    this.#lens = lens;
    this.#host = host;
    this.#backoff = new Backoff(host.environment.random);
    this.#head = new Head(this.mirror, host.environment, {
      heard: () => this.#measured(),
      stalled: () => this.#phase === 'subscribed' && this.#parts === null && this.#askAgain(),
    });
    this.#shown = this.#show();
  }

  /** @returns {TopicState} */
  get state() {
    const { state, sure } = this.#host;
    if (this.#phase === 'ended' || state === 'closed' || state === 'refused') return 'ended';
    if (this.#phase === 'denied') return 'denied';
    if (state !== 'connected') return this.#known ? 'reconnecting' : 'subscribing';
    if (this.#parts !== null) return 'loading';
    if (this.#phase !== 'subscribed') return this.#known ? 'catching-up' : 'subscribing';
    if (!sure) return 'unsure';
    return this.#head.asked || this.behind > 0 ? 'catching-up' : 'live';
  }

  /** How many offsets the history is ahead, as far as known. */
  get behind() {
    return this.#head.behind;
  }

  /** How much of a large snapshot has come; null while none is on its way. */
  get loading() {
    return this.#parts === null ? null : { part: this.#parts.part, parts: this.#parts.parts };
  }

  get mirrored() {
    return this.#mirrored;
  }

  /** What it asks to be shown; null for everything at once. */
  get lens() {
    return this.#lens;
  }

  /**
   * See the topic otherwise from now on. Another `rate` goes on from where it is; where other events are shown, a mirror
   * begins anew with a snapshot.
   * @param {import('./index.js').Lens | null} lens
   * @throws {TypeError} it is, or shall become, a subscription of summaries
   */
  setLens(lens) {
    if (this.#lens === 'summary' || lens === 'summary') {
      throw new TypeError('a subscription of summaries stays one, and no other becomes one');
    }
    const before = this.#wanted;
    this.#lens = lens;
    this.#change(before);
  }

  /** @param {number | null} rate flushes a second at most, as long as the page is hidden; null once it is not */
  slow(rate) {
    const before = this.#wanted;
    this.#hiddenRate = rate;
    this.#change(before);
  }

  get #wanted() {
    return slowed(this.#lens, this.#hiddenRate);
  }

  /** @param {import('./index.js').Lens | null} before what was wanted */
  #change(before) {
    if (sameLens(before, this.#wanted)) return;
    if (this.#mirrored && !sameEvents(before, this.#wanted)) this.#known = false;
    if (this.#phase !== 'asking' && this.#phase !== 'subscribed') return;
    this.#pause('waiting');
    this.#ask();
  }

  /**
   * @param {'change' | 'moved' | 'state' | 'join' | 'leave' | 'summary'} name `change` comes once for a received frame, after the
   *   mirror changed; `moved` also where what came is hidden and only the position changed; `state` when `state` or `loading` changed; `join` and `leave` with the reader who comes or goes;
   *   `summary` with each summary
   * @param {(value: any) => void} listener
   * @returns {() => void} takes the listener away again
   */
  on(name, listener) {
    return this.#emitter.on(name, listener);
  }

  /**
   * Who reads the topic now, in any process of the gateway.
   * @returns {Promise<import('./index.js').Reader[]>}
   * @throws {GatewayError} 106 where they are too many for one reply: `presenceStats` counts them
   */
  async presence() {
    return Object.values(object((await this.#host.ask('presence', { channel: this.name })).presence) ?? {});
  }

  /**
   * @returns {Promise<{ num_clients: number, num_users: number }>}
   * @throws {GatewayError}
   */
  presenceStats() {
    return /** @type {any} */ (this.#host.ask('presence_stats', { channel: this.name }));
  }

  /** Give it back; the last one who does ends it. */
  unsubscribe() {
    if (this.#holders === 0) return;
    this.#holders -= 1;
    if (this.#holders > 0) return;
    this.#host.released(this);
    if (this.#remote) this.#host.connection?.request('unsubscribe', { channel: this.name }, () => {});
    this.#pause('ended');
    this.#events = [];
    this.#reset = false;
    this.refresh();
  }

  /** One more wants it. What was denied or ended is asked for again. */
  hold() {
    this.#holders += 1;
    if (this.#phase === 'denied' || this.#phase === 'ended') this.revive();
  }

  /** Forget that it was denied or ended. */
  revive() {
    if (this.#phase === 'denied' || this.#phase === 'ended') {
      this.#phase = 'waiting';
      this.error = null;
    }
    this.attach();
  }

  /** Do not wait any longer to ask; nothing happens without a connection, or where it was asked already. */
  attach() {
    if (this.#phase === 'waiting' && this.#host.connection !== null) this.#ask();
  }

  /** There is no connection any more. */
  detach() {
    this.#remote = false;
    if (this.#phase !== 'denied' && this.#phase !== 'ended') this.#pause('waiting');
  }

  /**
   * @param {Record<string, any>} push on this topic
   * @param {number} size characters of its line
   */
  receive({ pub, unsubscribe, join, leave }, size) {
    this.#host.touched(this);
    for (const [name, told] of Object.entries({ join, leave })) {
      const reader = object(object(told)?.info);
      if (reader !== null) this.#emitter.emit(name, reader);
    }
    if (unsubscribe !== undefined) {
      this.#unsubscribed(unsubscribe ?? {});
      return;
    }
    // What comes before the reply is of a subscription that was given up.
    if (this.#phase !== 'subscribed' || object(pub) === null) return;
    if (integer(pub.offset) === null) {
      const type = object(pub.data)?.type;
      if (type === 'summary' && this.#lens === 'summary') this.#emitter.emit('summary', pub.data);
      else if (this.#mirrored && type === 'snapshot') this.#takeSnapshotPush(pub.data);
    } else if (this.#parts !== null) {
      this.#keep(readPublication(pub), size);
    } else {
      this.#take(readPublication(pub));
    }
  }

  /** The frame has ended: tell what it changed. */
  flush() {
    const [events, reset, moved] = [this.#events, this.#reset, this.#moved];
    const skipped = this.mirror.offset - this.#frameOffset;
    this.#events = [];
    this.#reset = false;
    this.#moved = false;
    this.#frameOffset = this.mirror.offset;
    if (moved || reset) this.#head.progressed();
    if (events.length > 0 || reset) {
      // Under a lens offsets are skipped all the time.
      if (!reset && skipped > LAG_OFFSETS && this.#phase === 'subscribed' && this.#wanted === null)
        this.#head.askAgain(this.#host.connection, this.name);
      this.#emitter.emit('change', { events, reset });
    }
    if (moved) this.#emitter.emit('moved', undefined);
    if (this.#phase === 'subscribed' && this.#parts === null) this.#head.settle();
    this.refresh();
  }

  /** Tell of another state, if it is another one. */
  refresh() {
    const shown = this.#show();
    if (shown === this.#shown) return;
    this.#shown = shown;
    this.#emitter.emit('state', this.state);
  }

  #show() {
    return `${this.state} ${this.#parts?.part} ${this.#parts?.parts}`;
  }

  #ask() {
    const { connection } = this.#host;
    if (connection === null) return;
    this.#host.environment.clearTimeout(this.#askTimer);
    if (this.#remote) connection.request('unsubscribe', { channel: this.name }, () => {});
    this.#phase = 'asking';
    this.#remote = true;
    const asked = {};
    this.#asked = asked;
    const { epoch, offset } = this.mirror;
    const lens = this.#wanted;
    connection.request(
      'subscribe',
      {
        channel: this.name,
        ...(this.#known && { recover: true, epoch, offset }),
        ...((this.#mirrored || lens !== null) && {
          data: { ...(this.#mirrored && { mirror: true }), ...(lens !== null && { lens }) },
        }),
        ...(this.#joins && { join_leave: true }),
      },
      (error, reply) => {
        if (this.#asked !== asked) return;
        this.#asked = null;
        this.#host.touched(this);
        if (error === null) this.#subscribed(reply);
        else this.#refused(error, connection);
      },
    );
    if (this.#lens !== 'summary') this.#head.ask(connection, this.name);
    this.refresh();
  }

  /** @param {Record<string, any>} reply */
  #subscribed(reply) {
    this.#phase = 'subscribed';
    this.error = null;
    this.grants = list(object(reply.data)?.grants);
    if (this.#lens === 'summary') {
      const summary = object(object(reply.data)?.summary);
      if (summary !== null) this.#emitter.emit('summary', summary);
      return;
    }
    const publications = (list(reply.publications) ?? []).map(readPublication);
    const snapshot = object(object(reply.data)?.snapshot);
    if (this.#mirrored && snapshot !== null) {
      const parts = index(snapshot.parts);
      if (parts !== null && parts > 0) {
        this.#parts = new SnapshotParts({ epoch: reply.epoch, offset: reply.offset, parts });
        this.#kept = publications;
        return;
      }
      if (!this.#replace(snapshot)) return;
    } else if (this.#known && reply.recovered === true) {
      this.mirror.resume(text(reply.epoch) ?? '');
    } else if (!this.#startWithout(reply, publications)) {
      return;
    }
    if (this.#takeAll(publications) && this.mirror.offset < (integer(reply.offset) ?? 0)) this.#askAgain();
  }

  /**
   * Begin where the reply says that there is nothing to continue.
   * @param {Record<string, any>} reply
   * @param {Publication[]} publications
   * @returns {boolean} whether there is a beginning
   */
  #startWithout(reply, publications) {
    const [epoch, offset] = [text(reply.epoch) ?? '', index(reply.offset) ?? 0];
    if (!this.#mirrored) {
      const [next] = publications;
      this.#reset = this.#known;
      this.#known = true;
      this.mirror.resume(epoch);
      this.mirror.offset = next === undefined ? offset : (next.first ?? next.offset) - 1;
      return true;
    }
    if (offset === 0) return this.#replace({ topic: this.name, epoch, offset, mirror: {} });
    this.#unreadable(new SnapshotError(`none came with the reply at offset ${offset}`));
    return false;
  }

  /**
   * @param {GatewayError} error
   * @param {Connection} connection
   */
  #refused(error, connection) {
    if (error instanceof ConnectionLostError) return;
    if (error instanceof CommandTimeoutError) {
      // Whether we are subscribed is not known, so nothing that comes could be judged.
      connection.abandon(error.message, error);
      return;
    }
    this.#remote = error.code === ErrorCode.ALREADY_SUBSCRIBED;
    if (error.code === ErrorCode.UNRECOVERABLE_POSITION) this.#known = false;
    if (error.temporary || this.#remote || error.code === ErrorCode.UNRECOVERABLE_POSITION) {
      this.#askAgain({ atOnce: false });
    } else {
      this.#pause('denied');
      this.error = error;
      this.#host.report(error);
    }
  }

  /** @param {Record<string, any>} push */
  #unsubscribed({ code, reason }) {
    this.#remote = false;
    if (this.#phase === 'denied' || this.#phase === 'ended') return;
    if (code >= RESUBSCRIBE_CODE) {
      this.#askAgain();
    } else {
      this.#pause('ended');
      this.error = new CommandError(integer(code) ?? 0, text(reason) ?? 'ended by the gateway');
    }
  }

  /**
   * Ask from the mirror's position, at a bounded rate.
   * @param {{ atOnce?: boolean }} [how] false: also the first time only after a while
   */
  #askAgain({ atOnce = true } = {}) {
    const { now, setTimeout } = this.#host.environment;
    const calm = now() - this.#askedAgainAt >= CALM_MS;
    if (calm) this.#backoff.reset();
    const delay = calm && atOnce ? 0 : this.#backoff.next();
    this.#askedAgainAt = now() + delay;
    this.#pause('waiting');
    if (delay === 0) this.#ask();
    else this.#askTimer = setTimeout(() => this.#ask(), delay);
  }

  /**
   * Stop everything that is on its way.
   * @param {'waiting' | 'denied' | 'ended'} phase
   */
  #pause(phase) {
    this.#phase = phase;
    this.#asked = null;
    this.#host.environment.clearTimeout(this.#askTimer);
    this.#dropParts();
    this.#head.forget();
  }

  /** @param {Publication} publication */
  #take(publication) {
    const { offset, first, data } = publication;
    const result = this.mirror.apply({ offset, first, data: this.#mirrored ? data : null });
    if (result === 'applied') {
      this.#moved = true;
      if (object(data)?.type !== 'hidden') this.#events.push(publication);
    } else if (result === 'hole') this.#askAgain();
    return result !== 'hole';
  }

  /**
   * @param {Publication[]} publications
   * @returns {boolean} whether there was no hole
   */
  #takeAll(publications) {
    return publications.every((publication) => this.#take(publication));
  }

  /**
   * @param {Publication} publication
   * @param {number} size
   */
  #keep(publication, size) {
    this.#kept.push(publication);
    this.#keptSize += size;
    if (this.#keptSize > MAX_KEPT_CHARACTERS) this.#askAgain();
  }

  /** @param {Record<string, any>} push */
  #takeSnapshotPush(push) {
    if (push.parts === undefined) {
      const kept = this.#dropParts();
      if (this.#replace(push)) this.#takeAll(kept);
      return;
    }
    try {
      if (this.#parts === null || !this.#parts.includes(push)) {
        this.#parts = new SnapshotParts({ epoch: push.epoch, offset: push.offset, parts: push.parts });
      }
      this.#parts.add(push);
      if (!this.#parts.complete) return;
      const snapshot = this.#parts.join();
      const kept = this.#dropParts();
      if (this.#replace(snapshot)) this.#takeAll(kept);
    } catch (error) {
      if (!(error instanceof SnapshotError)) throw error;
      this.#unreadable(error);
    }
  }

  /**
   * @param {unknown} snapshot
   * @returns {boolean} whether it was one
   */
  #replace(snapshot) {
    try {
      this.mirror.replace(snapshot);
    } catch (error) {
      if (!(error instanceof SnapshotError)) throw error;
      this.#unreadable(error);
      return false;
    }
    this.#known = true;
    this.#reset = true;
    this.#events = [];
    return true;
  }

  /** @param {GatewayError} error */
  #unreadable(error) {
    this.#known = false;
    this.#host.report(error);
    this.#askAgain({ atOnce: false });
  }

  /** @returns {Publication[]} what was kept */
  #dropParts() {
    const kept = this.#kept;
    this.#parts = null;
    this.#kept = [];
    this.#keptSize = 0;
    return kept;
  }

  /** The head of the history was heard of, in a frame or, where nothing came in time, outside of one. */
  #measured() {
    this.#host.touched(this);
    this.refresh();
  }
}
