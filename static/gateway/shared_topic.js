import { CommandError, ErrorCode } from './errors.js';
import { sameLens } from './lens.js';

/** @typedef {import('./guest.js').Guest} Guest */
/** @typedef {import('./index.js').Publication} Publication */
/** @typedef {{ mirror: boolean, joins: boolean, lens: import('./index.js').Lens | null }} Wants */
/** @typedef {(error: unknown, reply: Record<string, any>) => void} Done */

/** What came last is kept for tabs that come back: so many events. */
const KEPT = 1_000;
/** States in which the mirror is one of the topic, at the gateway's word. */
const STANDING = new Set(['live', 'catching-up', 'unsure']);
/** An unsubscribe push with this code is answered by asking again (PROTOCOL.md 3.5). */
const ASK_AGAIN = 2500;

/** One topic of a house: one subscription at the gateway, and the guests that share it, each at its own position. */
export class SharedTopic {
  #name;
  #subscription;
  #ended;
  /** Who is subscribed: the offset up to which it was told, and its rate. @type {Map<Guest, { offset: number, rate: number | null }>} */
  #guests = new Map();
  /** Who waits for the first state. @type {Map<Guest, { parameters: Record<string, any>, done: Done }>} */
  #waiting = new Map();
  /** The last publications, without a hole, and the position before the first. @type {Publication[]} */
  #kept = [];
  #keptFrom = 0;
  #epoch = '';
  #begun = false;
  /** @type {Record<string, any> | null} */
  #summary = null;
  #unlisten;

  /**
   * @param {import('./gateway.js').Gateway} gateway
   * @param {string} name
   * @param {Wants} wants
   * @param {() => void} ended nobody is left
   */
  constructor(gateway, name, wants, ended) {
    this.wants = wants;
    this.#name = name;
    this.#ended = ended;
    const topic = gateway.subscribe(name, wants);
    this.#subscription = topic;
    this.#unlisten = [
      topic.on('change', (change) => this.#changed(change)),
      topic.on('moved', () => this.#move()),
      topic.on('state', () => this.#settle()),
      topic.on('summary', (summary) => {
        this.#summary = summary;
        this.#push({ pub: { data: summary } });
        this.#settle();
      }),
      topic.on('join', (info) => this.#push({ join: { info } })),
      topic.on('leave', (info) => this.#push({ leave: { info } })),
    ];
  }

  /**
   * @param {Guest} guest
   * @param {Record<string, any>} parameters of its `subscribe`
   * @param {Done} done
   */
  enter(guest, parameters, done) {
    if (this.#guests.has(guest)) {
      done(new CommandError(ErrorCode.ALREADY_SUBSCRIBED, 'already subscribed'), {});
      return;
    }
    this.#waiting.set(guest, { parameters, done });
    this.#settle();
  }

  /** @param {Guest} guest */
  leave(guest) {
    const left = this.#guests.delete(guest) || this.#waiting.delete(guest);
    if (!left) return;
    if (this.#guests.size + this.#waiting.size > 0) {
      this.#pace();
      return;
    }
    for (const unlisten of this.#unlisten) unlisten();
    this.#subscription.unsubscribe();
    this.#ended();
  }

  /** Answer those who wait, if there is an answer. */
  #settle() {
    const { state, error } = this.#subscription;
    if (state === 'denied' || (state === 'ended' && error !== null)) {
      for (const [guest, { done }] of [...this.#waiting]) {
        done(error, {});
        this.leave(guest);
      }
      for (const guest of [...this.#guests.keys()]) {
        guest.line(push(this.#name, { unsubscribe: { code: error?.code ?? 0, reason: error?.message ?? '' } }));
        this.leave(guest);
      }
      return;
    }
    // A mirror's first state is told by a change, which comes after the state's word.
    if (!STANDING.has(state) || (this.wants.mirror && !this.#begun)) return;
    if (this.wants.lens === 'summary' && this.#summary === null) return;
    if (!this.#begun) this.#begin();
    for (const [guest, { parameters, done }] of [...this.#waiting]) {
      this.#waiting.delete(guest);
      const rate = parameters.data?.lens?.rate ?? null;
      this.#guests.set(guest, { offset: this.#subscription.mirror.offset, rate });
      done(null, this.#reply(parameters));
      this.#pace();
    }
  }

  /** @param {Record<string, any>} parameters */
  #reply({ recover = false, epoch = '', offset = 0 }) {
    const { mirror, grants } = this.#subscription;
    const data = grants === null ? {} : { grants };
    if (this.wants.lens === 'summary') return { data: { ...data, summary: this.#summary } };
    const place = { recoverable: true, positioned: true, epoch: mirror.epoch, offset: mirror.offset };
    if (recover && epoch === mirror.epoch && offset <= mirror.offset && (offset >= this.#keptFrom || offset === mirror.offset)) {
      const missed = this.#kept.filter((publication) => publication.offset > offset);
      const publications = [];
      let told = offset;
      for (const publication of missed) {
        publications.push(publicationAfter(publication, told));
        told = publication.offset;
      }
      return { ...place, was_recovering: true, recovered: true, publications, data };
    }
    const recovering = recover ? { was_recovering: true, recovered: false } : {};
    return { ...place, ...recovering, data: this.wants.mirror ? { ...data, snapshot: mirror.snapshot() } : data };
  }

  /** @param {import('./index.js').Change} change */
  #changed({ events, reset }) {
    const { mirror } = this.#subscription;
    if (reset || mirror.epoch !== this.#epoch) {
      this.#begin();
      this.#restart();
    } else {
      for (const publication of events) this.#publish(publication);
      this.#kept.push(...events);
      while (this.#kept.length > KEPT) this.#keptFrom = this.#kept.shift()?.offset ?? this.#keptFrom;
    }
    this.#settle();
  }

  /** What came before is no history of what comes. */
  #begin() {
    const { epoch, offset } = this.#subscription.mirror;
    this.#begun = true;
    this.#epoch = epoch;
    this.#kept = [];
    this.#keptFrom = offset;
  }

  /** Everyone begins anew, where the mirror is. */
  #restart() {
    if (this.#guests.size === 0) return;
    const { mirror } = this.#subscription;
    if (this.wants.mirror) {
      this.#push({ pub: { data: { type: 'snapshot', ...mirror.snapshot() } } });
      for (const at of this.#guests.values()) at.offset = mirror.offset;
      return;
    }
    for (const guest of [...this.#guests.keys()]) {
      guest.line(push(this.#name, { unsubscribe: { code: ASK_AGAIN, reason: 'insufficient state' } }));
      this.#guests.delete(guest);
    }
  }

  /** Tell those who were not told of what is hidden from all. */
  #move() {
    const { offset } = this.#subscription.mirror;
    if (offset > (this.#kept.at(-1)?.offset ?? this.#keptFrom)) {
      const hidden = { offset, data: { type: 'hidden' } };
      this.#publish(hidden);
      this.#kept.push(hidden);
    }
  }

  /** @param {Publication} publication */
  #publish(publication) {
    /** By where its readers are, mostly all at one place. @type {Map<number, string>} */
    const lines = new Map();
    for (const [guest, at] of this.#guests) {
      if (publication.offset <= at.offset) continue;
      let line = lines.get(at.offset);
      if (line === undefined) {
        line = push(this.#name, { pub: publicationAfter(publication, at.offset) });
        lines.set(at.offset, line);
      }
      guest.line(line);
      at.offset = publication.offset;
    }
  }

  /** @param {Record<string, any>} what */
  #push(what) {
    const line = push(this.#name, what);
    for (const guest of this.#guests.keys()) guest.line(line);
  }

  /** Ask the gateway for the highest rate that a guest wants. */
  #pace() {
    const { lens } = this.wants;
    if (lens === 'summary' || this.#guests.size === 0) return;
    const rates = [...this.#guests.values()].map(({ rate }) => rate);
    const { rate: _, ...events } = lens ?? {};
    const rate = rates.includes(null) ? null : Math.max(...rates.map((each) => each ?? 0));
    const wanted = rate === null ? (Object.keys(events).length === 0 ? null : events) : { ...events, rate };
    if (!sameLens(this.#subscription.lens, wanted)) this.#subscription.setLens(wanted);
  }
}

/**
 * A publication as the next thing that a reader gets: what it was not told of in between is hidden from it, or stood for
 * by what came.
 * @param {Publication} publication
 * @param {number} offset up to where it was told
 */
function publicationAfter({ offset: own, data }, offset) {
  return { offset: own, data, ...(own !== offset + 1 && { tags: { from: String(offset + 1) } }) };
}

/**
 * @param {string} channel
 * @param {Record<string, any>} what
 */
function push(channel, what) {
  return JSON.stringify({ push: { channel, ...what } });
}
