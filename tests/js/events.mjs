/** A run of an agent as its events: thinking, text, a tool with an approval, usage, a sub-agent, the end. */
export function sensibleRun({ run }) {
  let seq = 0;
  const logged = (type, fields) => ({ type, run, seq: seq++, time: '2026-01-02T03:04:05.000006Z', ...fields });
  const words = ['Let ', 'me ', 'look ', '🔎', ' …'];
  return [
    { type: 'message_queued', id: 'q', content: 'hello', by: 'ann', at: 1 },
    { type: 'agent_start', run, agent: 'researcher', at: 2 },
    { type: 'context', run, title: 'A talk', iteration: 1, tool_calls: { from: 0, items: [{ id: 't' }] } },
    { type: 'message_taken', id: 'q', run },
    logged('user_message', { content: 'hello', metadata: {} }),
    logged('turn_start', {}),
    logged('step_start', {}),
    ...words.map((text) => ({ type: 'agent_thinking', run, message: 'm', text, at: 3 })),
    ...words.map((text) => ({ type: 'agent_delta', run, message: 'm', text, at: 4 })),
    { type: 'tool_call_delta', run, message: 'm', index: 0, id: 't', name: 'search', text: '' },
    ...['{"q"', ': 1', '}'].map((text) => ({ type: 'tool_call_delta', run, message: 'm', index: 0, text })),
    { type: 'usage', run, call: 'c1', requests: 1, input_tokens: 10, output_tokens: 5, total_tokens: 15 },
    logged('assistant_message', {
      message: 'm',
      content: words.join(''),
      thinking: words.join(''),
      tool_calls: [{ id: 't', name: 'search', arguments: '{"q": 1}' }],
      metadata: {},
    }),
    { type: 'approval_required', run, tool_call_id: 't', name: 'search', arguments: '{"q": 1}', expires_at: 99, at: 5 },
    { type: 'approval_decided', run, tool_call_id: 't', decision: 'edit', arguments: '{"q": 2}', by: 'ann', at: 6 },
    logged('tool_call', { id: 't', name: 'search', arguments: '{"q": 2}', message: 'm' }),
    { type: 'agent_start', run: `${run}-child`, parent: run, agent: 'reader', topic: `t/${run}-child`, at: 7 },
    { type: 'log', run, level: 'warning', message: 'slow', fields: { ms: 3 }, at: 8 },
    logged('tool_result', { tool_call_id: 't', name: 'search', content: 'found', metadata: { duration_ms: 3 } }),
    { type: 'agent_delta', run, message: 'n', text: 'Half an ', at: 9 },
    { type: 'cancel_requested', run, by: 'ann', mode: 'now', at: 10 },
    { type: 'agent_delta', run, message: 'n', text: 'answer', at: 11 },
    { type: 'agent_cancelled', run, reason: 'asked', at: 12 },
    { type: 'agent_delta', run, message: 'n', text: ' too late', at: 13 },
  ];
}

/** A generator of numbers from 0 up to 1 that gives the same ones every time (mulberry32). */
export function seededRandom(seed) {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
}

const TYPES = [
  ...[
    'agent_start',
    'context',
    'agent_delta',
    'agent_thinking',
    'tool_call_delta',
    'user_message',
    'assistant_message',
  ],
  ...['custom_message', 'cleared', 'tool_call', 'turn_start', 'turn_end', 'step_start', 'usage', 'log', 'progress'],
  ...['approval_required', 'approval_decided', 'message_queued', 'message_edited', 'message_withdrawn'],
  ...['message_discarded', 'cancel_requested', 'agent_complete', 'agent_error', 'agent_lost', 'snapshot', '', null],
];
const FIELDS = [
  ...['run', 'parent', 'seq', 'message', 'text', 'index', 'id', 'name', 'call', 'tool_call_id', 'decision', 'at'],
  ...['surface_op', 'tool_calls', 'usage', 'input_tokens', 'content', 'arguments', 'mode', 'fields', 'iteration'],
];
const VALUES = [
  ...['r', 's', 'r', 'm', 'edit', 'approve', '', '__proto__', 'constructor', 0, 1, 2, 5, 1.0, -1, 0.5, 2 ** 53, -0],
  ...[true, false, null, [], {}, ['replace', 0, 2], ['replace', 2, 1], { from: 0, items: [1] }, { from: 9, items: {} }],
];

/** An event of which nothing can be expected. */
export function junk(random) {
  const pick = (list) => list[Math.floor(random() * list.length)];
  if (random() < 0.03) return pick(VALUES);
  const event = { type: pick(TYPES) };
  for (let count = random() * 9; count > 0; count -= 1) event[pick(FIELDS)] = structuredClone(pick(VALUES));
  return event;
}
