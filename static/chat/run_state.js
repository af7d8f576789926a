/** What an agent is doing, from its mirror. Pure. */

/** @type {Map<string, Chat.State>} */
const ENDS = new Map([
  ['completed', 'done'],
  ['failed', 'failed'],
  ['cancelled', 'stopped'],
  ['lost', 'lost'],
]);

/** @type {Map<Chat.State, {word: string, tone: string}>} */
const WORDS = new Map([
  ['queued', { word: 'Queued', tone: '' }],
  ['writing', { word: 'Writing', tone: 'live' }],
  ['thinking', { word: 'Thinking', tone: 'think' }],
  ['tool', { word: 'Using a tool', tone: 'tool' }],
  ['waiting', { word: 'Waiting for a decision', tone: 'wait' }],
  ['silent', { word: 'Silent', tone: 'gone' }],
  ['stopping', { word: 'Stopping', tone: 'gone' }],
  ['done', { word: 'Done', tone: 'plain' }],
  ['failed', { word: 'Failed', tone: 'bad' }],
  ['stopped', { word: 'Stopped', tone: 'gone' }],
  ['lost', { word: 'Lost', tone: 'gone' }],
]);

/**
 * The word for a state and the class of its colour.
 * @param {Chat.State} state
 * @param {{decides?: boolean}} [reader] - who may decide is needed, others wait
 */
export function wordFor(state, { decides = false } = {}) {
  if (state === 'waiting' && decides) return { word: 'Needs you', tone: 'wait' };
  return WORDS.get(state) ?? { word: state, tone: '' };
}

/** @param {{status: string}} run */
export function isLive(run) {
  return run.status === 'running' || run.status === 'cancelling';
}

/**
 * The highest open state of a run: end, stopping, waiting, tool, writing, thinking.
 * @param {any} mirror
 * @param {any} run - one of the mirror's
 * @param {Map<string, string>} kinds - which kind of text came last, by open message
 * @returns {Chat.State}
 */
export function stateOf(mirror, run, kinds) {
  const ended = ENDS.get(run.status);
  if (ended !== undefined) return ended;
  if (run.status === 'cancelling') return 'stopping';
  if (mirror.approvals.some((/** @type {any} */ approval) => approval.run === run.run && approval.decision === null)) return 'waiting';
  const open = mirror.open.findLast((/** @type {any} */ entry) => entry.run === run.run && !entry.interrupted);
  if (open !== undefined) {
    const kind = kinds.get(open.message) ?? (open.tool_calls.length > 0 ? 'tool' : open.text !== '' ? 'text' : 'thinking');
    if (kind === 'tool') return 'tool';
    return kind === 'thinking' ? 'thinking' : 'writing';
  }
  return hasOpenCall(mirror, run.run) ? 'tool' : 'writing';
}

/**
 * Whether a tool of a run is at work.
 * @param {any} mirror
 * @param {string} run
 */
export function hasOpenCall(mirror, run) {
  const { events } = mirror.context;
  const results = new Set();
  for (let index = events.length - 1; index >= 0; index -= 1) {
    const event = events[index];
    if (event.run !== run) continue;
    if (event.type === 'tool_result') results.add(event.data.tool_call_id);
    if (event.type === 'tool_call' && !results.has(event.data.id)) return true;
    // Earlier steps have all their results.
    if (event.type === 'step_start' || event.type === 'assistant_message') break;
  }
  return false;
}

/**
 * The run that the page's head is about: the latest live one that no other live run started, else the latest.
 * @param {any} mirror
 */
export function headRun(mirror) {
  const live = mirror.runs.filter(isLive);
  const top = live.findLast((/** @type {any} */ run) => !live.some((/** @type {any} */ other) => other.run === run.parent));
  return top ?? mirror.runs.findLast((/** @type {any} */ run) => run.parent === null) ?? mirror.runs.at(-1) ?? null;
}
