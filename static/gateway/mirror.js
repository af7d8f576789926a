import { conversation } from './conversation.js';
import { BOOKKEEPING_TYPES, DECISIONS, END_STATUS, SURFACE_TYPES } from './event_types.js';
import { id, index, integer, list, object, text } from './fields.js';
import { keepLast } from './keep_last.js';
import { OpenMessages } from './open_messages.js';
import { Runs, isLive } from './runs.js';
import { SessionLog } from './session_log.js';
import { copyState, emptyState, readSnapshot } from './snapshot.js';

/** @typedef {import('./index.js').MirrorState} MirrorState */
/** @typedef {import('./index.js').Message} Message */
/** @typedef {import('./index.js').Publication} Publication */
/** @typedef {import('./index.js').Run} Run */
/** @typedef {import('./index.js').Snapshot} Snapshot */

const MAX_DECIDED_APPROVALS = 100;
const MAX_LOG_LINES = 200;

const CONTEXT_KEYS = /** @type {const} */ ([
  'id',
  'agent_name',
  'system_prompt',
  'needs_response',
  'iteration',
  'max_iterations',
  'started_at',
  'title',
]);

/** @param {MirrorState['approvals'][number]} approval */
const isDecided = (approval) => approval.decision !== null;

/**
 * A reader's copy of an agent's state, exact at its position (PROTOCOL.md 5).
 *
 * Its state is made of plain values to be read; only the mirror changes them, some of them in place. A delta costs its
 * own length.
 */
export class Mirror {
  /** @type {MirrorState} */
  #state = emptyState();
  #session = new SessionLog(this.#state.context);
  #open = new OpenMessages(this.#state.open);
  #runs = new Runs(this.#state);
  /** @type {Message[] | null} */
  #messages = null;

  /** @param {{ topic?: string, epoch?: string, offset?: number }} [position] an empty mirror before everything by default */
  constructor({ topic = '', epoch = '', offset = 0 } = {}) {
    this.topic = topic;
    this.epoch = epoch;
    /** The offset of the last event in it; 0 is before all. */
    this.offset = offset;
  }

  /**
   * @param {unknown} snapshot
   * @throws {import('./errors.js').SnapshotError}
   */
  static restore(snapshot) {
    const mirror = new Mirror();
    mirror.replace(snapshot);
    return mirror;
  }

  get context() {
    return this.#state.context;
  }

  /** The unfinished messages, in order of first appearance. */
  get open() {
    return this.#state.open;
  }

  get runs() {
    return this.#state.runs;
  }

  get approvals() {
    return this.#state.approvals;
  }

  /** People's messages that wait for the agent. */
  get queue() {
    return this.#state.queue;
  }

  get log() {
    return this.#state.log;
  }

  /**
   * Become what a snapshot says; nothing changes where it is refused.
   * @param {unknown} snapshot
   * @throws {import('./errors.js').SnapshotError}
   */
  replace(snapshot) {
    const { topic, epoch, offset, mirror } = readSnapshot(snapshot);
    this.topic = topic;
    this.epoch = epoch;
    this.offset = offset;
    this.#state = mirror;
    this.#session = new SessionLog(mirror.context);
    this.#open = new OpenMessages(mirror.open);
    this.#runs = new Runs(mirror);
    this.#messages = null;
  }

  /** @returns {Snapshot} later events do not change it */
  snapshot() {
    return { topic: this.topic, epoch: this.epoch, offset: this.offset, mirror: copyState(this.#state) };
  }

  /**
   * The conversation so far, without what is still being written; the same array until it changes.
   * @returns {readonly Message[]}
   */
  messages() {
    this.#messages ??= conversation(this.#state.context.events);
    return this.#messages;
  }

  /**
   * Go on under another epoch, which the gateway said continues this history.
   * @param {string} epoch
   */
  resume(epoch) {
    this.epoch = epoch;
  }

  /**
   * Take the next publication.
   * @param {Publication} publication
   * @returns {'applied' | 'repeated' | 'hole'} only `applied` changed something; after `hole` ask again from this position
   */
  apply({ offset, data, first = offset }) {
    if (offset <= this.offset) return 'repeated';
    if (first > this.offset + 1 || first <= this.offset) return 'hole';
    this.fold(data);
    this.offset = offset;
    return 'applied';
  }

  /**
   * Take an event, without a position. Never fails, whatever it is.
   * @param {unknown} event
   */
  fold(event) {
    const fields = object(event);
    const type = fields === null ? null : text(fields.type);
    if (fields === null || type === null) return;
    const run = id(fields.run);
    const entry = this.#runs.get(run);
    if (SURFACE_TYPES.has(type) || BOOKKEEPING_TYPES.has(type)) {
      this.#foldLogged(fields, type, run, entry);
    } else if (entry === undefined || isLive(entry)) {
      if (END_STATUS.has(type)) this.#end(fields, type, run);
      else this.#foldUnlogged(fields, type, run, entry);
    }
  }

  /**
   * @param {Record<string, any>} event
   * @param {string} type
   * @param {string | null} run
   * @param {Run | undefined} entry of that run
   */
  #foldLogged(event, type, run, entry) {
    const logged = this.#session.put(event, run);
    if (logged === null) return;
    if (SURFACE_TYPES.has(type)) {
      this.#messages = null;
      if (logged.message !== null) this.#open.end(logged.message);
    } else if (type === 'step_start' && entry !== undefined && isLive(entry)) {
      entry.iteration += 1;
    }
  }

  /**
   * @param {Record<string, any>} event
   * @param {string} type
   * @param {string | null} run
   * @param {Run | undefined} entry of that run, live
   */
  #foldUnlogged(event, type, run, entry) {
    switch (type) {
      case 'agent_delta':
      case 'agent_thinking':
        return this.#grow(event, type === 'agent_delta' ? 'text' : 'thinking', run);
      case 'tool_call_delta':
        return this.#growCall(event, run);
      case 'agent_start':
        return this.#runs.start(event, run);
      case 'context':
        return this.#setContext(event);
      case 'usage':
        return this.#runs.setUsage(event, entry);
      case 'message_discarded':
        return this.#discard(event, entry);
      case 'log':
        return this.#logLine(event, run);
      case 'approval_required':
        return this.#ask(event, run);
      case 'approval_decided':
        return this.#decide(event, run);
      case 'message_queued':
      case 'message_edited':
      case 'message_withdrawn':
      case 'message_taken':
        return this.#changeQueue(event, type);
      case 'cancel_requested':
        this.#runs.askToCancel(event, entry);
    }
  }

  /**
   * @param {Record<string, any>} event
   * @param {'text' | 'thinking'} part
   * @param {string | null} run
   */
  #grow(event, part, run) {
    const [message, added] = [id(event.message), text(event.text)];
    if (message === null || !added || this.#session.carries(message)) return;
    this.#open.add(message, part, added, run);
  }

  /**
   * @param {Record<string, any>} event
   * @param {string | null} run
   */
  #growCall(event, run) {
    const [message, place] = [id(event.message), index(event.index)];
    if (message === null || place === null || this.#session.carries(message)) return;
    this.#open.addToCall(message, place, event, run);
  }

  /** @param {Record<string, any>} event */
  #setContext(event) {
    const { context } = this.#state;
    for (const key of CONTEXT_KEYS) {
      if (Object.hasOwn(event, key)) context[key] = event[key];
    }
    const calls = object(event.tool_calls);
    const [from, items] = [index(calls?.from), list(calls?.items)];
    if (from !== null && items !== null && from <= context.tool_calls.length) {
      const old = context.tool_calls;
      context.tool_calls = old.slice(0, from).concat(items, old.slice(from + items.length));
    }
  }

  /**
   * @param {Record<string, any>} event
   * @param {Run | undefined} run
   */
  #discard(event, run) {
    const message = id(event.message);
    if (message === null) return;
    this.#open.end(message);
    this.#runs.discardCall(id(event.call), run);
  }

  /**
   * @param {Record<string, any>} event
   * @param {string | null} run
   */
  #logLine(event, run) {
    const { log } = this.#state;
    log.push({
      at: integer(event.at),
      run,
      level: text(event.level) ?? 'info',
      message: text(event.message) ?? '',
      logger: text(event.logger),
      fields: object(event.fields),
    });
    if (log.length > MAX_LOG_LINES) log.splice(0, log.length - MAX_LOG_LINES);
  }

  /**
   * @param {string | null} run
   * @param {string} call
   */
  #approval(run, call) {
    return this.#state.approvals.find((entry) => entry.tool_call_id === call && entry.run === run);
  }

  /**
   * @param {Record<string, any>} event
   * @param {string | null} run
   */
  #ask(event, run) {
    const call = id(event.tool_call_id);
    if (call === null || this.#approval(run, call) !== undefined) return;
    this.#state.approvals.push({
      tool_call_id: call,
      run,
      name: text(event.name),
      arguments: text(event.arguments),
      requested_at: integer(event.at),
      expires_at: integer(event.expires_at),
      decision: null,
      by: null,
      edited: null,
      reason: null,
    });
  }

  /**
   * @param {Record<string, any>} event
   * @param {string | null} run
   */
  #decide(event, run) {
    const [call, decision] = [id(event.tool_call_id), text(event.decision)];
    if (call === null || decision === null || !DECISIONS.has(decision)) return;
    const approval = this.#approval(run, call);
    if (approval === undefined) return;
    approval.decision = decision;
    approval.by = event.by ?? null;
    approval.edited = decision === 'edit' ? text(event.arguments) : null;
    approval.reason = text(event.reason);
    this.#trimApprovals();
  }

  /**
   * @param {Record<string, any>} event
   * @param {string} type
   */
  #changeQueue(event, type) {
    const { queue } = this.#state;
    const message = id(event.id);
    if (message === null) return;
    const at = queue.findIndex((item) => item.id === message);
    if (type === 'message_queued') {
      if (at === -1) {
        queue.push({ id: message, content: event.content ?? null, by: event.by ?? null, at: integer(event.at) });
      }
    } else if (at !== -1) {
      if (type === 'message_edited') queue[at].content = event.content ?? null;
      else queue.splice(at, 1);
    }
  }

  /**
   * @param {Record<string, any>} event
   * @param {string} type
   * @param {string | null} run
   */
  #end(event, type, run) {
    if (run === null) return;
    const ended = this.#runs.end(event, type, run);
    this.#open.interrupt(ended);
    for (const approval of this.#state.approvals) {
      if (approval.decision === null && ended.has(approval.run)) approval.decision = 'expired';
    }
    this.#session.dropBookkeeping((entry) => ended.has(entry.run));
    this.#trimApprovals();
  }

  #trimApprovals() {
    this.#state.approvals = keepLast(this.#state.approvals, isDecided, MAX_DECIDED_APPROVALS);
  }
}
