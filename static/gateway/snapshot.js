/** Reading and copying the state of a mirror (PROTOCOL.md 5.1, 5.5). */

import { SnapshotError } from './errors.js';
import { DECISIONS, STATUSES } from './event_types.js';
import { index, integer, list, object, text } from './fields.js';
import { noUsage, readTotals } from './usage.js';

/** @typedef {import('./index.js').MirrorState} MirrorState */
/** @typedef {import('./index.js').Snapshot} Snapshot */

/** @returns {MirrorState} */
export function emptyState() {
  return {
    context: {
      version: 2,
      events: [],
      archived_to: null,
      next_seq: 0,
      id: null,
      agent_name: null,
      system_prompt: null,
      needs_response: null,
      iteration: null,
      max_iterations: null,
      started_at: null,
      title: null,
      tool_calls: [],
      usage: noUsage(),
    },
    open: [],
    runs: [],
    approvals: [],
    queue: [],
    log: [],
  };
}

/**
 * Copy what a mirror changes in place; events, contents and other values from outside are shared, nobody changes them.
 * @param {MirrorState} state
 * @returns {MirrorState}
 */
export function copyState({ context, open, runs, approvals, queue, log }) {
  return {
    context: {
      ...context,
      events: [...context.events],
      tool_calls: [...context.tool_calls],
      usage: { ...context.usage },
    },
    open: open.map((message) => ({
      ...message,
      tool_calls: message.tool_calls.map((call) => ({ ...call })),
    })),
    runs: runs.map((run) => ({ ...run, calls: { ...run.calls }, usage: { ...run.usage } })),
    approvals: approvals.map((approval) => ({ ...approval })),
    queue: queue.map((item) => ({ ...item })),
    log: [...log],
  };
}

/**
 * Check a snapshot and take its state as one of its own.
 *
 * Keys that PROTOCOL.md 5.1 does not name are left out. An absent field has its value of the empty state, but for what
 * names an entry; one of another kind refuses the whole, since folding on would not be defined.
 * @param {unknown} snapshot
 * @returns {Snapshot}
 * @throws {SnapshotError}
 */
export function readSnapshot(snapshot) {
  const { topic, epoch, offset, mirror } = read(snapshot, 'snapshot', object, 'an object');
  const { context, open, runs, approvals, queue, log } = read(mirror, 'mirror', object, 'an object');
  return {
    topic: optional(topic, 'topic', text, 'a text', ''),
    epoch: optional(epoch, 'epoch', text, 'a text', ''),
    offset: read(offset, 'offset', index, 'an integer of 0 or more'),
    mirror: {
      context: readContext(context),
      open: readList(open, 'open', readOpen),
      runs: readList(runs, 'runs', readRun),
      approvals: readList(approvals, 'approvals', readApproval),
      queue: readList(queue, 'queue', readQueued),
      log: readList(log, 'log', readLine),
    },
  };
}

/**
 * @template T
 * @param {unknown} value
 * @param {string} name
 * @param {(value: unknown) => T | null} kind
 * @param {string} expected
 * @returns {T}
 */
function read(value, name, kind, expected) {
  const found = kind(value);
  if (found === null) {
    const got = value === undefined ? 'none' : JSON.stringify(value).slice(0, 80);
    throw new SnapshotError(`expected ${expected} as ${name}, got ${got}`);
  }
  return found;
}

/**
 * @template T
 * @param {unknown} value
 * @param {string} name
 * @param {(value: unknown) => T | null} kind
 * @param {string} expected
 * @param {T} absent
 * @returns {T}
 */
function optional(value, name, kind, expected, absent) {
  return value === undefined ? absent : read(value, name, kind, expected);
}

/**
 * @template T
 * @param {unknown} value
 * @param {string} name
 * @param {(value: unknown) => T | null} kind
 * @param {string} expected
 * @returns {T | null}
 */
function nullable(value, name, kind, expected) {
  return value === undefined || value === null ? null : read(value, name, kind, expected);
}

/**
 * @param {unknown} value
 * @param {string} name
 */
const textOrNull = (value, name) => nullable(value, name, text, 'a text or null');

/**
 * @param {unknown} value
 * @param {string} name
 */
const integerOrNull = (value, name) => nullable(value, name, integer, 'an integer or null');

/** @param {ReadonlySet<string>} words */
const oneOf = (words) => (/** @type {unknown} */ value) =>
  typeof value === 'string' && words.has(value) ? value : null;

const bool = (/** @type {unknown} */ value) => (typeof value === 'boolean' ? value : null);

/** The seq after the largest integer is itself none. @param {unknown} value */
const nextSeq = (value) => (value === 2 ** 53 ? 2 ** 53 : index(value));

/**
 * @template T
 * @param {unknown} value
 * @param {string} name
 * @param {(entry: Record<string, any>) => T} entry
 * @returns {T[]}
 */
function readList(value, name, entry) {
  return optional(value, name, list, 'a list', []).map((item) =>
    entry(read(item, `an entry of ${name}`, object, 'an object')),
  );
}

/**
 * @param {unknown} value
 * @param {string} name
 */
function readTotal(value, name) {
  return readTotals(optional(value, name, object, 'an object', {}));
}

/**
 * @param {unknown} value
 * @returns {MirrorState['context']}
 */
function readContext(value) {
  const source = optional(value, 'context', object, 'an object', {});
  return {
    version: optional(source.version, 'context.version', (number) => (number === 2 ? 2 : null), 'version 2', 2),
    events: readList(source.events, 'context.events', readEntry),
    archived_to: integerOrNull(source.archived_to, 'context.archived_to'),
    next_seq: optional(source.next_seq, 'context.next_seq', nextSeq, 'an integer of 0 or more', 0),
    id: source.id ?? null,
    agent_name: source.agent_name ?? null,
    system_prompt: source.system_prompt ?? null,
    needs_response: source.needs_response ?? null,
    iteration: source.iteration ?? null,
    max_iterations: source.max_iterations ?? null,
    started_at: source.started_at ?? null,
    title: source.title ?? null,
    tool_calls: [...optional(source.tool_calls, 'context.tool_calls', list, 'a list', [])],
    usage: readTotal(source.usage, 'context.usage'),
  };
}

/**
 * @param {Record<string, any>} source
 * @returns {MirrorState['context']['events'][number]}
 */
function readEntry(source) {
  return {
    seq: read(source.seq, 'seq', index, 'an integer of 0 or more'),
    type: read(source.type, 'type', text, 'a text'),
    time: textOrNull(source.time, 'time'),
    data: optional(source.data, 'data', object, 'an object', {}),
    run: textOrNull(source.run, 'run'),
    message: textOrNull(source.message, 'message'),
    ...(source.blobs === undefined ? {} : { blobs: read(source.blobs, 'blobs', object, 'an object') }),
  };
}

/**
 * @param {Record<string, any>} source
 * @returns {MirrorState['open'][number]}
 */
function readOpen(source) {
  return {
    message: read(source.message, 'message', text, 'a text'),
    run: textOrNull(source.run, 'run'),
    text: optional(source.text, 'text', text, 'a text', ''),
    thinking: optional(source.thinking, 'thinking', text, 'a text', ''),
    interrupted: optional(source.interrupted, 'interrupted', bool, 'a boolean', false),
    tool_calls: readList(source.tool_calls, 'tool_calls', (call) => ({
      index: read(call.index, 'index', index, 'an integer of 0 or more'),
      id: textOrNull(call.id, 'id'),
      name: textOrNull(call.name, 'name'),
      text: optional(call.text, 'text', text, 'a text', ''),
    })),
  };
}

/**
 * @param {Record<string, any>} source
 * @returns {MirrorState['runs'][number]}
 */
function readRun(source) {
  const calls = optional(source.calls, 'calls', object, 'an object', {});
  return {
    run: read(source.run, 'run', text, 'a text'),
    agent: textOrNull(source.agent, 'agent'),
    model: textOrNull(source.model, 'model'),
    parent: textOrNull(source.parent, 'parent'),
    topic: textOrNull(source.topic, 'topic'),
    status: optional(source.status, 'status', oneOf(STATUSES), 'the status of a run', 'running'),
    started_at: integerOrNull(source.started_at, 'started_at'),
    ended_at: integerOrNull(source.ended_at, 'ended_at'),
    error: textOrNull(source.error, 'error'),
    calls: Object.fromEntries(Object.entries(calls).map(([call, counters]) => [call, readTotal(counters, call)])),
    usage: readTotal(source.usage, 'usage'),
    iteration: optional(source.iteration, 'iteration', integer, 'an integer', 0),
    cancel: nullable(source.cancel, 'cancel', object, 'an object or null'),
    policy: textOrNull(source.policy, 'policy'),
  };
}

/**
 * @param {Record<string, any>} source
 * @returns {MirrorState['approvals'][number]}
 */
function readApproval(source) {
  return {
    tool_call_id: read(source.tool_call_id, 'tool_call_id', text, 'a text'),
    run: textOrNull(source.run, 'run'),
    name: textOrNull(source.name, 'name'),
    arguments: textOrNull(source.arguments, 'arguments'),
    requested_at: integerOrNull(source.requested_at, 'requested_at'),
    expires_at: integerOrNull(source.expires_at, 'expires_at'),
    decision: nullable(source.decision, 'decision', oneOf(DECISIONS), 'a decision or null'),
    by: source.by ?? null,
    edited: textOrNull(source.edited, 'edited'),
    reason: textOrNull(source.reason, 'reason'),
  };
}

/**
 * @param {Record<string, any>} source
 * @returns {MirrorState['queue'][number]}
 */
function readQueued(source) {
  return {
    id: read(source.id, 'id', text, 'a text'),
    content: source.content ?? null,
    by: source.by ?? null,
    at: integerOrNull(source.at, 'at'),
  };
}

/**
 * @param {Record<string, any>} source
 * @returns {MirrorState['log'][number]}
 */
function readLine(source) {
  return {
    at: integerOrNull(source.at, 'at'),
    run: textOrNull(source.run, 'run'),
    level: optional(source.level, 'level', text, 'a text', 'info'),
    message: optional(source.message, 'message', text, 'a text', ''),
    logger: textOrNull(source.logger, 'logger'),
    fields: nullable(source.fields, 'fields', object, 'an object or null'),
  };
}
