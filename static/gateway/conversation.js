import { text } from './fields.js';

/** @typedef {import('./index.js').LogEntry} LogEntry */
/** @typedef {import('./index.js').Message} Message */

/** @type {ReadonlyMap<string, string>} */
const ROLES = new Map([
  ['system_message', 'system'],
  ['user_message', 'user'],
  ['assistant_message', 'assistant'],
  ['tool_result', 'tool'],
]);

/**
 * Fold the entries of a context into its conversation, in order (PROTOCOL.md 5.8).
 * @param {readonly LogEntry[]} entries
 * @returns {Message[]}
 */
export function conversation(entries) {
  const messages = [];
  for (const { type, data, time, message, run, seq, blobs } of entries) {
    const role = type === 'custom_message' ? (text(data.role) ?? 'custom') : ROLES.get(type);
    if (role === undefined) continue;
    messages.push({
      role,
      content: data.content ?? null,
      name: data.name ?? null,
      tool_calls: data.tool_calls ?? null,
      tool_call_id: data.tool_call_id ?? null,
      thinking: data.thinking ?? null,
      metadata: data.metadata ?? null,
      created_at: time,
      message,
      run,
      seq,
      ...(blobs === undefined ? {} : { blobs }),
    });
  }
  return messages;
}
