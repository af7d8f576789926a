/** Reading a `summary` push (PROTOCOL.md, lenses): a value of another kind counts as absent. Pure. */

import { record, textOrNull } from '../chat/content.js';

/** @param {unknown} value @returns {number|null} */
const finite = (value) => (typeof value === 'number' && Number.isFinite(value) ? value : null);
/** @param {unknown} value */
const count = (value) => Math.max(0, finite(value) ?? 0);
/** @param {unknown} value @returns {Record<string, any>[]} */
const records = (value) => (Array.isArray(value) ? value.map(record) : []);

/** @type {Map<string, Board.State>} */
const ENDS = new Map([
  ['completed', 'done'],
  ['failed', 'failed'],
  ['cancelled', 'stopped'],
  ['lost', 'lost'],
]);
/** @type {Map<string, Board.State>} */
const PHASES = new Map([
  ['thinking', 'thinking'],
  ['writing', 'writing'],
  ['tool', 'tool'],
  ['approval', 'waiting'],
]);

/**
 * @param {unknown} data - of the push, or the `summary` of a subscribe reply
 * @returns {Board.Summary|null} null where it is none
 */
export function readSummary(data) {
  const from = record(data);
  const topic = textOrNull(from.topic);
  if (topic === null) return null;
  const tokens = record(from.tokens);
  const lag = record(from.lag);
  const summary = {
    topic,
    at: finite(from.at),
    offset: count(from.offset),
    title: textOrNull(from.title),
    status: textOrNull(from.state) ?? 'idle',
    run: textOrNull(from.run),
    agent: textOrNull(from.agent),
    model: textOrNull(from.model),
    parent: textOrNull(from.parent),
    started: finite(from.started_at),
    ended: finite(from.ended_at),
    step: count(from.step),
    steps: finite(from.max_iterations),
    input: count(tokens.input),
    output: count(tokens.output),
    rate: count(from.tokens_per_second),
    events: count(from.events_per_second),
    phase: textOrNull(from.phase),
    tools: records(from.tools).map(({ id, name, started_at: at }) => ({ id: textOrNull(id) ?? '', name: textOrNull(name) ?? 'tool', at: finite(at) })),
    approvals: records(from.approvals).map((asked) => ({
      run: textOrNull(asked.run) ?? '',
      id: textOrNull(asked.tool_call_id) ?? '',
      name: textOrNull(asked.name) ?? 'tool',
      args: typeof asked.arguments === 'string' ? asked.arguments : '',
      requested: finite(asked.requested_at),
      expires: finite(asked.expires_at),
    })),
    queue: count(from.queue),
    errors: count(from.errors),
    error: textOrNull(from.error),
    viewers: count(from.viewers),
    behind: { readers: count(lag.readers), events: count(lag.events) },
  };
  return { ...summary, state: stateOf(summary) };
}

/**
 * The highest open state: end, stopping, waiting, tool, writing, thinking.
 * @param {{status: string, phase: string|null, approvals: unknown[], queue: number}} summary
 * @returns {Board.State}
 */
function stateOf({ status, phase, approvals, queue }) {
  const ended = ENDS.get(status);
  if (ended !== undefined) return ended;
  if (status === 'cancelling') return 'stopping';
  if (status !== 'running') return queue > 0 ? 'queued' : 'idle';
  if (approvals.length > 0) return 'waiting';
  return PHASES.get(phase ?? '') ?? 'writing';
}
