/** The event types of PROTOCOL.md 4.1 by what a mirror does with them. */

/** Logged events that are messages, or shadow some. @type {ReadonlySet<string>} */
export const SURFACE_TYPES = new Set([
  'system_message',
  'user_message',
  'assistant_message',
  'tool_result',
  'custom_message',
  'cleared',
]);

/** Logged events that tell how the work went; kept while their turn is open. @type {ReadonlySet<string>} */
export const BOOKKEEPING_TYPES = new Set([
  'tool_call',
  'turn_start',
  'turn_end',
  'step_start',
  'step_end',
  'request_header',
]);

/** Text added to the end of an open message. @type {ReadonlySet<string>} */
export const DELTA_TYPES = new Set(['agent_delta', 'agent_thinking', 'tool_call_delta']);

/** The one end of a run, and the status that it leaves. @type {ReadonlyMap<string, string>} */
export const END_STATUS = new Map([
  ['agent_complete', 'completed'],
  ['agent_error', 'failed'],
  ['agent_cancelled', 'cancelled'],
  ['agent_lost', 'lost'],
]);

/** @type {ReadonlySet<string>} */
export const STATUSES = new Set(['running', 'cancelling', ...END_STATUS.values()]);

/** What can become of an approval. @type {ReadonlySet<string>} */
export const DECISIONS = new Set(['approve', 'reject', 'edit', 'expired']);
