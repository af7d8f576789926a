/** What a history says about time: runs, steps, model calls, tools and questions, each with its states in sequence. Pure. */

import { person, record, textOrNull } from '../chat/content.js';

/** @type {Map<string, Board.State>} */
const ENDS = new Map([
  ['agent_complete', 'done'],
  ['agent_error', 'failed'],
  ['agent_cancelled', 'stopped'],
  ['agent_lost', 'lost'],
]);
/** @type {Map<string, {tone: string, state: Board.State}>} */
const DELTAS = new Map([
  ['agent_thinking', { tone: 'think', state: 'thinking' }],
  ['agent_delta', { tone: 'live', state: 'writing' }],
  ['tool_call_delta', { tone: 'tool', state: 'tool' }],
]);
/** Of these a model call may follow; what it waits for counts from there. */
const BEFORE_CALL = new Set(['agent_start', 'step_start', 'request_header', 'tool_result', 'message_discarded', 'user_message']);
/** What may be told of a run that is over, or that starts here. */
const NO_SIGN_OF_LIFE = new Set([...ENDS.keys(), 'agent_start', 'log', 'usage', 'approval_decided', 'cancel_requested', 'message_taken']);
/** So much is kept. */
const MOST_LOGS = 20_000;
const MOST_POINTS = 5000;
const MOST_MARKS = 100_000;

export class Timeline {
  /** The runs that no other run here started. @type {Board.Span[]} */
  roots = [];
  /** @type {Board.Line[]} */
  logs = [];
  /** When something was told, where, and the tone of it. @type {Board.Mark[]} */
  marks = [];
  /** Changes whenever a span does. */
  version = 0;
  /** @type {Map<string, Board.RunSpan>} */
  #runs = new Map();
  /** Model calls and tools that are not over, by run and id. @type {Map<string, Board.Span>} */
  #open = new Map();
  #now = 0;
  #number = 0;
  #known;

  /**
   * @param {(run: string) => {agent?: string|null, model?: string|null, parent?: string|null, topic?: string|null}|undefined} [known]
   *   What else is known of a run: of one whose start is no longer in the history, that is all there is.
   */
  constructor(known = () => undefined) {
    this.#known = known;
  }

  /** The latest time that was told, ms. */
  get now() {
    return this.#now;
  }

  /** @param {string|null} run */
  run(run) {
    return this.#runs.get(run ?? '') ?? null;
  }

  get runs() {
    return [...this.#runs.values()];
  }

  /** @param {Board.Told} told */
  take({ offset, first = offset, data }) {
    const event = record(data);
    const at = timeOf(event) ?? this.#now;
    this.#now = Math.max(this.#now, at);
    const type = String(event.type);
    const id = textOrNull(event.run);
    if (id !== null && !this.#runs.has(id) && !NO_SIGN_OF_LIFE.has(type)) this.#start({ ...this.#known(id), run: id }, at, first);
    const run = this.#runs.get(id ?? '');
    if (type === 'log') this.#log(event, at, offset);
    else if (type === 'agent_start') this.#start(event, at, first);
    else if (run !== undefined) {
      this.#of(run, type, event, at, first, offset);
      this.#show(run);
    }
    const entry = this.#runs.get(id ?? '');
    if (entry !== undefined && type !== 'log') {
      entry.last = offset;
      if (entry.over === null && entry.span.to === null) entry.span.last = offset;
    }
    const tone = DELTAS.get(type)?.tone ?? (type.startsWith('tool_') ? 'tool' : type === 'approval_required' ? 'wait' : type === 'agent_error' ? 'bad' : 'gone');
    this.marks.push({ at, offset, tone, run: id, state: entry?.span.state ?? null });
    if (this.marks.length > MOST_MARKS) this.marks = this.marks.slice(MOST_MARKS / 2);
  }

  /**
   * @param {Record<string, any>} event
   * @param {number} at
   * @param {number} offset
   */
  #log(event, at, offset) {
    this.logs.push({ at, offset, run: textOrNull(event.run), level: textOrNull(event.level) ?? 'info', logger: textOrNull(event.logger) ?? '', message: textOrNull(event.message) ?? '', fields: event.fields ?? null });
    if (this.logs.length > MOST_LOGS) this.logs = this.logs.slice(MOST_LOGS / 4);
  }

  /**
   * @param {Record<string, any>} event
   * @param {number} at
   * @param {number} offset
   */
  #start(event, at, offset) {
    const id = textOrNull(event.run);
    if (id === null || this.#runs.has(id)) return;
    const parent = this.#runs.get(textOrNull(event.parent) ?? '');
    const span = this.#span(parent === undefined ? 'run' : 'sub', textOrNull(event.agent) ?? 'agent', id, at, offset);
    span.state = 'writing';
    span.topic = textOrNull(event.topic);
    this.#runs.set(id, { run: id, span, step: null, steps: 0, call: null, waiting: at, over: null, model: textOrNull(event.model), parent: parent?.run ?? null, first: offset, last: offset, usage: new Map(), points: [], cancel: null });
    if (parent === undefined) this.roots.push(span);
    else (parent.step ?? parent.span).children.push(span);
  }

  /**
   * @param {Board.RunSpan} run
   * @param {string} type
   * @param {Record<string, any>} event
   * @param {number} at
   * @param {number} first
   * @param {number} offset
   */
  #of(run, type, event, at, first, offset) {
    const delta = DELTAS.get(type);
    if (delta !== undefined) {
      const call = this.#call(run, event, at, first);
      if (call === null) return;
      call.last = offset;
      this.#turn(call, delta.tone, delta.state, at);
      return;
    }
    switch (type) {
      case 'step_start':
        if (run.step !== null) this.#close(run.step, 'done', at, first - 1);
        run.steps += 1;
        run.step = this.#span('step', `Step ${run.steps}`, run.run, at, first);
        run.step.state = 'writing';
        run.span.children.push(run.step);
        break;
      case 'step_end':
        if (run.step !== null) this.#close(run.step, 'done', at, offset);
        run.step = null;
        break;
      case 'assistant_message': {
        const call = this.#call(run, event, at, first);
        if (call === null) break;
        if (call.segments.at(-1)?.tone === 'gone') call.segments.pop();
        if (call.segments.length === 0 && at > call.from) call.segments.push({ tone: 'live', from: call.from, to: at });
        this.#forget(call, run.run, String(event.message));
        this.#close(call, record(event.metadata).interrupted === true ? 'stopped' : 'done', at, offset);
        run.call = call;
        break;
      }
      case 'message_discarded': {
        const key = `m ${run.run} ${event.message}`;
        const call = this.#open.get(key);
        if (call !== undefined) this.#close(call, 'stopped', at, offset);
        this.#open.delete(key);
        const counted = textOrNull(event.call);
        if (counted !== null && run.usage.delete(counted)) this.#sum(run, at, offset);
        break;
      }
      case 'approval_required': {
        const tool = this.#tool(run, textOrNull(event.tool_call_id), event, at, first);
        tool.last = offset;
        tool.args = textOrNull(event.arguments) ?? tool.args;
        tool.question = { requested: at, expires: typeof event.expires_at === 'number' ? event.expires_at : null, decision: null, by: null, reason: null };
        this.#turn(tool, 'wait', 'waiting', at);
        break;
      }
      case 'approval_decided': {
        const tool = this.#open.get(`t ${run.run} ${event.tool_call_id}`);
        if (tool?.question == null) break;
        Object.assign(tool.question, { decision: textOrNull(event.decision), by: person(event.by), reason: textOrNull(event.reason) });
        if (event.decision === 'edit') tool.args = textOrNull(event.arguments) ?? tool.args;
        tool.last = offset;
        tool.state = event.decision === 'approve' || event.decision === 'edit' ? 'tool' : 'stopped';
        const open = tool.segments.at(-1);
        if (open?.to === null) open.to = at;
        break;
      }
      case 'tool_call': {
        const tool = this.#tool(run, textOrNull(event.id), event, at, first);
        tool.args = textOrNull(event.arguments) ?? tool.args;
        tool.last = offset;
        this.#turn(tool, 'tool', 'tool', at);
        break;
      }
      case 'tool_result': {
        const key = `t ${run.run} ${event.tool_call_id}`;
        const tool = this.#open.get(key);
        if (tool === undefined) break;
        this.#open.delete(key);
        tool.result = typeof event.content === 'string' ? event.content : JSON.stringify(event.content ?? null);
        this.#close(tool, tool.state === 'stopped' ? 'stopped' : record(event.metadata).error === true ? 'failed' : 'done', at, offset);
        break;
      }
      case 'usage':
        this.#usage(run, event, at, offset);
        break;
      case 'cancel_requested':
        run.cancel = { by: person(event.by), mode: event.mode === 'after_step' ? 'after_step' : 'now' };
        break;
      default: {
        const state = ENDS.get(type);
        if (state !== undefined) this.#end(run, state, at, offset, textOrNull(type === 'agent_error' ? event.error : event.reason));
      }
    }
    if (BEFORE_CALL.has(type)) run.waiting = at;
  }

  /**
   * @param {Board.RunSpan} run
   * @param {Record<string, any>} event
   * @param {number} at
   * @param {number} offset
   * @returns {Board.Span|null}
   */
  #call(run, event, at, offset) {
    const message = textOrNull(event.message);
    if (message === null) return null;
    const key = `m ${run.run} ${message}`;
    const known = this.#open.get(key);
    if (known !== undefined) return known;
    const call = this.#span('call', 'model call', run.run, Math.min(run.waiting ?? at, at), offset);
    call.message = message;
    if (at > call.from) call.segments.push({ tone: 'gone', from: call.from, to: at });
    (run.step ?? run.span).children.push(call);
    this.#open.set(key, call);
    run.call = call;
    return call;
  }

  /**
   * @param {Board.RunSpan} run
   * @param {string|null} id
   * @param {Record<string, any>} event
   * @param {number} at
   * @param {number} offset
   */
  #tool(run, id, event, at, offset) {
    const key = `t ${run.run} ${id}`;
    const known = this.#open.get(key);
    if (known !== undefined) return known;
    const tool = this.#span('tool', textOrNull(event.name) ?? 'tool', run.run, at, offset);
    tool.id = id;
    (run.step ?? run.span).children.push(tool);
    this.#open.set(key, tool);
    return tool;
  }

  /**
   * @param {Board.RunSpan} run
   * @param {Record<string, any>} event
   * @param {number} at
   * @param {number} offset
   */
  #usage(run, event, at, offset) {
    const call = textOrNull(event.call);
    if (call === null) return;
    const counted = (/** @type {unknown} */ value) => (typeof value === 'number' && value > 0 ? value : 0);
    run.usage.set(call, { input: counted(event.input_tokens), cached: counted(event.cache_read_input_tokens), output: counted(event.output_tokens) });
    if (run.call !== null) run.call.usage = run.usage.get(call) ?? null;
    this.#sum(run, at, offset);
  }

  /**
   * Another point of the run's usage over time.
   * @param {Board.RunSpan} run
   * @param {number} at
   * @param {number} offset
   */
  #sum(run, at, offset) {
    const sum = { input: 0, cached: 0, output: 0 };
    for (const one of run.usage.values()) {
      sum.input += one.input;
      sum.cached += one.cached;
      sum.output += one.output;
    }
    const last = run.points.at(-1);
    if (last?.at === at) run.points.pop();
    run.points.push({ at, offset, ...sum });
    // The last of an odd number stays.
    if (run.points.length > MOST_POINTS) run.points = run.points.filter((_, index) => index % 2 === 0);
    this.version += 1;
  }

  /**
   * @param {Board.RunSpan} run
   * @param {Board.State} state
   * @param {number} at
   * @param {number} offset
   * @param {string|null} error
   */
  #end(run, state, at, offset, error) {
    if (run.over !== null) return;
    run.over = state;
    run.span.error = error;
    if (run.step !== null) this.#close(run.step, state, at, offset);
    run.step = null;
    for (const [key, span] of this.#open) {
      if (span.run !== run.run) continue;
      this.#close(span, state === 'done' ? 'stopped' : state, at, offset);
      this.#open.delete(key);
    }
    this.#close(run.span, state, at, offset);
    for (const other of this.#runs.values()) if (other.parent === run.run) this.#end(other, 'lost', at, offset, null);
  }

  /**
   * @param {'run'|'sub'|'step'|'call'|'tool'} kind
   * @param {string} name
   * @param {string} run
   * @param {number} at
   * @param {number} offset
   * @returns {Board.Span}
   */
  #span(kind, name, run, at, offset) {
    this.version += 1;
    this.#number += 1;
    return { key: `${kind} ${this.#number}`, kind, name, run, from: at, to: null, state: 'queued', segments: [], children: [], first: offset, last: offset, id: null, message: null, topic: null, args: null, result: null, error: null, question: null, usage: null };
  }

  /**
   * @param {Board.Span} span
   * @param {string} tone
   * @param {Board.State} state
   * @param {number} at
   */
  #turn(span, tone, state, at) {
    const open = span.segments.at(-1);
    if (open?.tone === tone && open.to === null) return;
    if (open?.to === null) open.to = at;
    span.segments.push({ tone, from: at, to: null });
    span.state = state;
    this.version += 1;
  }

  /**
   * @param {Board.Span} span
   * @param {Board.State} state
   * @param {number} at
   * @param {number} offset
   */
  #close(span, state, at, offset) {
    const open = span.segments.at(-1);
    if (open?.to === null) open.to = at;
    span.to = Math.max(span.from, at);
    span.state = state;
    span.last = Math.max(span.first, offset);
    this.version += 1;
  }

  /**
   * @param {Board.Span} call
   * @param {string} run
   * @param {string} message
   */
  #forget(call, run, message) {
    this.#open.delete(`m ${run} ${message}`);
  }

  /**
   * What a run and its step do now: the highest open state.
   * @param {Board.RunSpan} run
   */
  #show(run) {
    if (run.over !== null) return;
    /** @type {Board.State} */
    let shown = 'writing';
    for (const span of this.#open.values()) {
      if (span.run !== run.run) continue;
      if (span.question !== null && span.question.decision === null) shown = 'waiting';
      else if (shown !== 'waiting' && (span.kind === 'tool' || shown !== 'tool')) shown = span.kind === 'tool' ? 'tool' : span.state;
    }
    if (run.cancel !== null) shown = 'stopping';
    if (run.span.state === shown && (run.step?.state ?? shown) === shown) return;
    this.version += 1;
    run.span.state = shown;
    if (run.step !== null) run.step.state = shown;
  }
}

/**
 * The rows of the waterfall, the children of each below it.
 * @param {Board.Span} root
 * @returns {{span: Board.Span, level: number}[]}
 */
export function rowsOf(root) {
  /** @type {{span: Board.Span, level: number}[]} */
  const rows = [];
  const stack = [{ span: root, level: 0 }];
  for (let next = stack.pop(); next !== undefined; next = stack.pop()) {
    rows.push(next);
    const { level } = next;
    for (let index = next.span.children.length - 1; index >= 0; index -= 1) stack.push({ span: next.span.children[index], level: level + 1 });
  }
  return rows;
}

/**
 * How long anything below a span was in a tone by some time; what overlaps counts once.
 * @param {Board.Span} root
 * @param {string} tone
 * @param {number} now - that time, ms
 */
export function spent(root, tone, now) {
  const pieces = rowsOf(root)
    .flatMap(({ span }) => span.segments.filter((segment) => segment.tone === tone && segment.from <= now).map(({ from, to }) => [from, Math.min(to ?? now, now)]))
    .sort(([one], [other]) => one - other);
  let [sum, reached] = [0, Number.NEGATIVE_INFINITY];
  for (const [from, to] of pieces) {
    sum += Math.max(0, to - Math.max(from, reached));
    reached = Math.max(reached, to);
  }
  return sum;
}

/** @param {Record<string, any>} event @returns {number|null} */
function timeOf(event) {
  if (typeof event.at === 'number' && Number.isFinite(event.at)) return event.at;
  const parsed = typeof event.time === 'string' ? Date.parse(event.time) : Number.NaN;
  return Number.isNaN(parsed) ? null : parsed;
}
