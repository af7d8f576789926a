import { conversation } from './conversation.js';
import { BOOKKEEPING_TYPES, DECISIONS, END_STATUS, SURFACE_TYPES } from './event_types.js';
import { id, index, integer, list, object, text } from './fields.js';
import { SessionLog } from './session_log.js';
import { copyState, emptyState, readSnapshot } from './snapshot.js';
import { addUsage, noUsage, readUsage, sumUsage } from './usage.js';

/** @typedef {import('./index.js').MirrorState} MirrorState */
/** @typedef {import('./index.js').Message} Message */
/** @typedef {import('./index.js').OpenMessage} OpenMessage */
/** @typedef {import('./index.js').Publication} Publication */
/** @typedef {import('./index.js').Run} Run */
/** @typedef {import('./index.js').Snapshot} Snapshot */

const MAX_ENDED_RUNS = 100;
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

/** @param {Run} run */
const isLive = (run) => run.status === 'running' || run.status === 'cancelling';
/** @param {Run} run */
const isEnded = (run) => !isLive(run);
/** @param {MirrorState['approvals'][number]} approval */
const isDecided = (approval) => approval.decision !== null;

/**
 * Keep the last entries of a kind; the oldest in list order go first.
 * @template T
 * @param {T[]} entries
 * @param {(entry: T) => boolean} which
 * @param {number} limit
 * @returns {T[]}
 */
function keepLast(entries, which, limit) {
  let excess = entries.filter(which).length - limit;
  return entries.filter((entry) => {
    if (excess <= 0 || !which(entry)) return true;
    excess -= 1;
    return false;
  });
}

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
  /** The entries of `runs` by their id. @type {Map<string, Run>} */
  #runs = new Map();
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
    this.#indexRuns();
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
    const entry = run === null ? undefined : this.#runs.get(run);
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
      if (logged.message !== null) this.#endMessage(logged.message);
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
        return this.#start(event, run);
      case 'context':
        return this.#setContext(event);
      case 'usage':
        return this.#setUsage(event, entry);
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
        if (entry !== undefined) {
          entry.status = 'cancelling';
          entry.cancel = { by: event.by ?? null, mode: event.mode === 'after_step' ? 'after_step' : 'now' };
        }
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
    this.#opened(message, run)[part] += added;
  }

  /**
   * @param {Record<string, any>} event
   * @param {string | null} run
   */
  #growCall(event, run) {
    const [message, place] = [id(event.message), index(event.index)];
    if (message === null || place === null || this.#session.carries(message)) return;
    const { tool_calls: calls } = this.#opened(message, run);
    let call = calls.find((other) => other.index === place);
    if (call === undefined) {
      call = { index: place, id: null, name: null, text: '' };
      calls.push(call);
    }
    call.id = id(event.id) ?? call.id;
    call.name = text(event.name) || call.name;
    call.text += text(event.text) ?? '';
  }

  /**
   * @param {string} message
   * @param {string | null} run
   * @returns {OpenMessage}
   */
  #opened(message, run) {
    const { open } = this.#state;
    let entry = open.find((other) => other.message === message);
    if (entry === undefined) {
      entry = { message, run, text: '', thinking: '', interrupted: false, tool_calls: [] };
      open.push(entry);
    }
    return entry;
  }

  /** @param {string} message */
  #endMessage(message) {
    const { open } = this.#state;
    const at = open.findIndex((entry) => entry.message === message);
    if (at !== -1) open.splice(at, 1);
  }

  /**
   * @param {Record<string, any>} event
   * @param {string | null} run
   */
  #start(event, run) {
    if (run === null || this.#runs.has(run)) return;
    /** @type {Run} */
    const entry = {
      run,
      agent: text(event.agent),
      model: text(event.model),
      parent: text(event.parent),
      topic: text(event.topic),
      status: 'running',
      started_at: integer(event.at),
      ended_at: null,
      error: null,
      calls: {},
      usage: noUsage(),
      iteration: 0,
      cancel: null,
    };
    this.#state.runs.push(entry);
    this.#runs.set(run, entry);
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
  #setUsage(event, run) {
    const call = id(event.call);
    if (run === undefined || call === null) return;
    const before = run.usage;
    run.calls[call] = readUsage(event);
    run.usage = sumUsage(Object.values(run.calls));
    addUsage(this.#state.context.usage, before, -1);
    addUsage(this.#state.context.usage, run.usage, 1);
  }

  /**
   * @param {Record<string, any>} event
   * @param {Run | undefined} run
   */
  #discard(event, run) {
    const [message, call] = [id(event.message), id(event.call)];
    if (message === null) return;
    this.#endMessage(message);
    if (run !== undefined && call !== null && Object.hasOwn(run.calls, call)) {
      addUsage(run.usage, run.calls[call], -1);
      addUsage(this.#state.context.usage, run.calls[call], -1);
      delete run.calls[call];
    }
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
   * End a run, and as lost those that it started and that are still going on, and theirs.
   * @param {Record<string, any>} event
   * @param {string} type
   * @param {string | null} run
   */
  #end(event, type, run) {
    if (run === null) return;
    const reason = type === 'agent_error' ? text(event.error) : text(event.reason);
    const [at, error] = [integer(event.at), type === 'agent_complete' ? null : reason];
    /** @type {{ run: string, status: string, error: string | null }[]} */
    const ending = [{ run, status: /** @type {string} */ (END_STATUS.get(type)), error }];
    const ended = new Set();
    for (const end of ending) {
      ended.add(end.run);
      const entry = this.#runs.get(end.run);
      if (entry !== undefined && isLive(entry)) {
        entry.status = end.status;
        entry.ended_at = at;
        entry.error = end.error;
      }
      for (const other of this.#state.runs) {
        if (other.parent === end.run && isLive(other) && !ended.has(other.run)) {
          ended.add(other.run);
          ending.push({ run: other.run, status: 'lost', error: null });
        }
      }
    }
    for (const message of this.#state.open) if (ended.has(message.run)) message.interrupted = true;
    for (const approval of this.#state.approvals) {
      if (approval.decision === null && ended.has(approval.run)) approval.decision = 'expired';
    }
    this.#session.dropBookkeeping((entry) => ended.has(entry.run));
    this.#trimRuns();
    this.#trimApprovals();
  }

  #trimRuns() {
    const kept = keepLast(this.#state.runs, isEnded, MAX_ENDED_RUNS);
    if (kept.length === this.#state.runs.length) return;
    this.#state.runs = kept;
    this.#indexRuns();
  }

  #trimApprovals() {
    this.#state.approvals = keepLast(this.#state.approvals, isDecided, MAX_DECIDED_APPROVALS);
  }

  #indexRuns() {
    this.#runs = new Map(this.#state.runs.map((run) => [run.run, run]));
  }
}
