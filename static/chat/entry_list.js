/** One making of the list of entries from a mirror. Pure. */

import { asText, person, readContent, record, sentence, textOrNull } from './content.js';
import { remember } from './remember.js';
import { isLive } from './run_state.js';

const SUMMARY = 'earlier messages, summarised';

/** Phases of a call that show that the run is at work. */
const UNDER_WAY = new Set(['arriving', 'ready', 'waiting', 'running']);

/**
 * @param {unknown} time - ISO 8601
 * @returns {number|null}
 */
function moment(time) {
  const at = typeof time === 'string' ? Date.parse(time) : Number.NaN;
  return Number.isNaN(at) ? null : at;
}

/**
 * How a message ended that is not simply whole.
 * @param {Record<string, any>} metadata
 * @param {string} text - of the message, which may be the refusal itself
 * @returns {string|null} a sentence
 */
function verdictOf({ refusal, finish_reason: reason }, text) {
  const why = textOrNull(refusal);
  if (why !== null || reason === 'refusal') return why === null || why === 'refused' || why === text ? 'The model refused.' : `The model refused: ${sentence(why)}`;
  if (reason === 'content_filter' || reason === 'safety') return 'The provider’s content filter stopped it.';
  return typeof reason === 'string' && /length|max_(output_)?tokens|context_window/.test(reason) ? 'Cut off at the length limit.' : null;
}

/**
 * Whether a result says that there is none: the model has to be told something of a call that was cut off.
 * @param {unknown} content
 */
function isInterruption(content) {
  return typeof content === 'string' && /^The (tool )?call was interrupted\b/.test(content);
}

export class EntryList {
  #mirror;
  #live;
  /** @type {Chat.Entry[]} */
  #entries = [];
  /** @type {Map<string, any>} */
  #runs = new Map();
  /** Results that no call has taken yet, by run and id. @type {Map<string, any[]>} */
  #results = new Map();
  /** How many calls there are, by run and id. @type {Map<string, number>} */
  #calls = new Map();
  /** Who called an id last, as run and id. @type {Map<string, string>} */
  #callers = new Map();
  /** Results that belong to a call of another run, by run and id. @type {Set<string>} */
  #adopted = new Set();
  /** Calls whose execution started, by run and id. @type {Map<string, any>} */
  #executing = new Map();
  /** @type {Map<string, any>} */
  #approvals = new Map();
  /** The oldest question that waits. @type {any} */
  #foremost;
  /** @type {Set<string>} */
  #keys = new Set();
  /** What there is of each run. @type {Map<string|null, {tools: number, busy: boolean, begun: boolean}>} */
  #seen = new Map();

  /**
   * @param {any} mirror
   * @param {Chat.Live} live
   */
  constructor(mirror, live) {
    this.#mirror = mirror;
    this.#live = live;
  }

  make() {
    const { context, open, runs, approvals } = this.#mirror;
    for (const run of runs) this.#runs.set(run.run, run);
    for (const approval of approvals) this.#approvals.set(`${approval.run} ${approval.tool_call_id}`, approval);
    this.#foremost = approvals.find((/** @type {any} */ { decision }) => decision === null);
    this.#index(context.events, open);
    for (const event of context.events) this.#event(event);
    for (const message of open) this.#open(message);
    this.#orphanApprovals();
    return this.#withRuns();
  }

  /**
   * @param {any[]} events
   * @param {any[]} open
   */
  #index(events, open) {
    /**
     * @param {string|null} run
     * @param {unknown} id
     */
    const count = (run, id) => {
      this.#calls.set(`${run} ${id}`, (this.#calls.get(`${run} ${id}`) ?? 0) + 1);
      this.#callers.set(String(id), `${run} ${id}`);
    };
    for (const { type, run, data, time, blobs } of events) {
      if (type === 'tool_result') {
        const key = `${run} ${data.tool_call_id}`;
        const results = this.#results.get(key);
        if (results === undefined) this.#results.set(key, [{ data, time, blobs }]);
        else results.push({ data, time, blobs });
      } else if (type === 'tool_call') {
        const key = `${run} ${data.id}`;
        this.#executing.set(key, data);
        const at = moment(time);
        if (at !== null) remember(this.#live.started, key, at);
      } else if (type === 'assistant_message' && Array.isArray(data.tool_calls)) {
        for (const call of data.tool_calls) count(run, record(call).id);
      }
    }
    for (const { run, tool_calls: calls } of open) for (const { id } of calls) if (id !== null) count(run, id);
    this.#adopt();
  }

  /** A later run tells what became of a call that an earlier one left without a result. */
  #adopt() {
    for (const [key, results] of [...this.#results]) {
      const caller = this.#callers.get(String(results[0].data.tool_call_id));
      if (caller === undefined || this.#calls.has(key) || this.#executing.has(key) || this.#results.has(caller)) continue;
      this.#results.set(caller, results);
      this.#adopted.add(key);
    }
  }

  /** @param {any} event */
  #event(event) {
    const { type, data, run, seq } = event;
    const at = moment(event.time);
    switch (type) {
      case 'user_message': {
        const { text, attachments } = readContent(data.content);
        const name = person(data.name) ?? person(record(data.metadata).by);
        this.#add({ key: `u:${event.message ?? seq}`, kind: 'user', run, at, message: event.message, name, text, attachments: attachments.join(' · ') });
        break;
      }
      case 'system_message':
        this.#note(event, Array.isArray(data.surface_op) ? SUMMARY : 'Instructions');
        break;
      case 'custom_message':
        this.#note(event, Array.isArray(data.surface_op) ? SUMMARY : (textOrNull(data.role) ?? 'Note'));
        break;
      case 'cleared':
        this.#add({ key: `n:${seq}`, kind: 'note', run, at, title: 'earlier messages, cleared', text: '', seq, from: 0, to: seq });
        break;
      case 'assistant_message':
        this.#written(event, at);
        break;
      case 'tool_call':
        // The provider runs it itself and has not told it in a message yet.
        if (!this.#calls.has(`${run} ${data.id}`)) this.#call({ run, at, message: textOrNull(event.message), index: `e${data.id}`, call: data, open: null, sealed: true });
        break;
      case 'tool_result': {
        const key = `${run} ${data.tool_call_id}`;
        const [executing, called] = [this.#executing.has(key), this.#calls.has(key)];
        if (executing || called || this.#adopted.has(key)) break;
        this.#call({ run, at, message: null, index: `r${seq}`, call: { id: data.tool_call_id, name: data.name, arguments: '' }, open: null, sealed: true });
        break;
      }
      default:
    }
  }

  /**
   * @param {any} event
   * @param {string} title
   */
  #note(event, title) {
    const [, from, to] = title === SUMMARY ? event.data.surface_op : [];
    this.#add({ key: `n:${event.seq}`, kind: 'note', run: event.run, at: moment(event.time), title, text: readContent(event.data.content).text, seq: event.seq, from, to });
  }

  /**
   * @param {any} event
   * @param {number|null} at
   */
  #written(event, at) {
    const { data, run, seq } = event;
    const message = event.message ?? `seq-${seq}`;
    const metadata = record(data.metadata);
    const content = readContent(data.content);
    const thinking = textOrNull(data.thinking) ?? content.thinking;
    const interrupted = metadata.interrupted === true;
    const calls = Array.isArray(data.tool_calls) ? data.tool_calls.map(record) : [];
    if (thinking !== '') {
      const thought = this.#live.thought.get(message);
      const measured = thought !== undefined && thought.to !== null ? thought.to - thought.from : null;
      const ms = typeof metadata.thinking_ms === 'number' ? metadata.thinking_ms : measured;
      this.#add({ key: `t:${message}`, kind: 'think', run, at, message, open: null, text: thinking, interrupted: interrupted && content.text === '', live: false, ms, since: null, silent: false });
    }
    const verdict = verdictOf(metadata, content.text);
    if (content.text !== '' || content.attachments.length > 0 || verdict !== null) {
      this.#add({
        key: `x:${message}`,
        kind: 'text',
        run,
        at,
        message,
        open: null,
        text: content.text,
        interrupted: interrupted && calls.length === 0,
        live: false,
        last: calls.length === 0,
        ended: interrupted ? this.#interruption(run) : null,
        verdict,
        silent: false,
      });
    }
    const items = Array.isArray(metadata.items) ? metadata.items : [];
    items.forEach((/** @type {unknown} */ item, /** @type {number} */ index) => {
      this.#add({ key: `i:${message} ${index}`, kind: 'item', run, at, name: textOrNull(record(item).type) ?? 'item', item });
    });
    calls.forEach((/** @type {any} */ call, /** @type {number} */ index) => this.#call({ run, at, message, index, call, open: null, sealed: true }));
  }

  /** @param {any} message */
  #open(message) {
    const run = this.#runs.get(message.run);
    const writing = !message.interrupted && (run === undefined || isLive(run));
    const kind = this.#live.kinds.get(message.message) ?? (message.tool_calls.length > 0 ? 'tool' : message.text !== '' ? 'text' : 'thinking');
    const silent = this.#live.silentSince(message.run) !== null;
    const common = { run: message.run, at: null, message: message.message, open: message, text: '', interrupted: message.interrupted };
    if (message.thinking !== '') {
      const thought = this.#live.thought.get(message.message);
      const live = writing && kind === 'thinking';
      const ms = !live && thought !== undefined && thought.to !== null ? thought.to - thought.from : null;
      this.#add({ ...common, key: `t:${message.message}`, kind: 'think', live, ms, since: live ? (thought?.from ?? null) : null, silent });
    }
    if (message.text !== '') {
      const ended = message.interrupted ? this.#interruption(message.run) : null;
      this.#add({ ...common, key: `x:${message.message}`, kind: 'text', live: writing && kind === 'text', last: false, ended, verdict: null, silent });
    }
    for (const call of message.tool_calls) {
      this.#call({ run: message.run, at: null, message: message.message, index: call.index, call: { id: call.id, name: call.name, arguments: null }, open: call, sealed: false });
    }
  }

  /** @param {string|null} run */
  #interruption(run) {
    const entry = this.#runs.get(run ?? '');
    return entry === undefined || isLive(entry) ? null : `${entry.status} ${entry.ended_at} ${entry.cancel === null ? '' : (person(entry.cancel.by) ?? '')}`;
  }

  /**
   * @param {{run: string|null, at: number|null, message: string|null, index: unknown, call: any, open: any, sealed: boolean}} facts
   */
  #call({ run, at, message, index, call, open, sealed }) {
    const id = textOrNull(call.id);
    const known = `${run} ${id}`;
    const result = id === null ? undefined : this.#results.get(known)?.shift();
    const executing = id === null ? undefined : this.#executing.get(known);
    const approval = id === null ? undefined : this.#approvals.get(known);
    if (approval !== undefined) this.#approvals.delete(known);
    const entry = this.#runs.get(run ?? '');
    const ended = entry === undefined ? run !== null : !isLive(entry);
    const metadata = record(result?.data.metadata);
    const broken = result !== undefined && isInterruption(result.data.content);
    const started = this.#live.started.get(known) ?? null;
    const finished = result === undefined ? null : moment(result.time);
    const measured = started !== null && finished !== null ? finished - started : null;
    const decision = approval?.decision ?? null;
    const waiting = approval !== undefined && decision === null && !ended;
    const progress = id === null ? undefined : this.#live.progress.get(id);
    let phase = sealed ? 'ready' : 'arriving';
    if (decision === 'reject') phase = 'rejected';
    else if (decision === 'expired' && !broken) phase = ended && result === undefined ? 'interrupted' : 'expired';
    else if (broken) phase = 'interrupted';
    else if (result !== undefined) phase = metadata.error === true ? 'failed' : 'done';
    else if (open?.interrupted === true || ended) phase = 'interrupted';
    else if (waiting) phase = 'waiting';
    else if (executing !== undefined) phase = 'running';
    this.#add({
      key: this.#live.callKey(run, message ?? '', index, id),
      kind: 'tool',
      run,
      at,
      id,
      name: textOrNull(call.name) ?? textOrNull(result?.data.name) ?? 'tool',
      phase,
      open,
      silent: phase === 'arriving' && this.#live.silentSince(run) !== null,
      args: open === null ? asText(executing?.arguments ?? call.arguments) : null,
      result: broken ? null : (result?.data ?? null),
      large: result?.blobs?.['/content'] ?? null,
      ms: typeof metadata.duration_ms === 'number' ? metadata.duration_ms : measured,
      started,
      server: call.server === true || executing?.server === true,
      progressText: phase === 'running' ? (progress?.text ?? null) : null,
      fraction: phase === 'running' ? (progress?.fraction ?? null) : null,
      decision,
      by: approval?.by ?? null,
      reason: approval?.reason ?? null,
      edited: approval?.edited ?? null,
      asked: approval?.arguments ?? null,
      requested: approval?.requested_at ?? null,
      expires: approval?.expires_at ?? null,
      foremost: waiting && approval === this.#foremost,
      agent: entry?.agent ?? null,
      step: entry?.iteration ?? 0,
    });
  }

  /** Questions about calls that no message tells of. */
  #orphanApprovals() {
    for (const approval of this.#approvals.values()) {
      if (approval.decision !== null) continue;
      const call = { id: approval.tool_call_id, name: approval.name, arguments: approval.arguments };
      this.#call({ run: approval.run, at: approval.requested_at, message: null, index: `a${approval.run} ${approval.tool_call_id}`, call, open: null, sealed: true });
    }
  }

  /** @param {any} entry */
  #add(entry) {
    // Whatever the events say, two entries never share a key.
    let { key } = entry;
    for (let again = 2; this.#keys.has(key); again += 1) key = `${entry.key}#${again}`;
    this.#keys.add(key);
    this.#entries.push({ ...entry, key });
    if (entry.kind === 'user' || entry.kind === 'note') return;
    const seen = this.#seen.get(entry.run) ?? { tools: 0, busy: false, begun: true };
    this.#seen.set(entry.run, seen);
    if (entry.kind === 'tool') seen.tools += 1;
    seen.busy ||= entry.live === true || UNDER_WAY.has(entry.phase);
  }

  /** Adds what the runs themselves say, each after the run's last entry. */
  #withRuns() {
    const before = this.#entries;
    this.#entries = [];
    /** @type {Map<string|null, number>} */
    const last = new Map();
    before.forEach(({ run }, index) => last.set(run, index));
    /** @type {Map<number, Chat.Entry[]>} */
    const after = new Map();
    let place = -1;
    for (const run of this.#mirror.runs) {
      const own = last.get(run.run);
      if (run.parent !== null && this.#runs.has(run.parent)) {
        this.#put(after, this.#placeOfChild(before, run, last), this.#sub(run));
        if (own === undefined) continue;
      }
      place = Math.max(own ?? place, -1);
      if (own === undefined) place = Math.max(place, this.#placeByTime(before, run));
      // The text that it broke off says the same.
      if (run.status === 'cancelled' && own !== undefined && before[own].kind === 'text' && /** @type {any} */ (before[own]).interrupted) continue;
      const made = isLive(run) ? this.#progressOf(run) : this.#end(run);
      if (made !== null) this.#put(after, isLive(run) ? before.length - 1 : place, made);
    }
    const all = [...(after.get(-1) ?? [])];
    before.forEach((entry, index) => all.push(entry, ...(after.get(index) ?? [])));
    return all;
  }

  /**
   * @param {Map<number, Chat.Entry[]>} after
   * @param {number} index
   * @param {any} entry
   */
  #put(after, index, entry) {
    const there = after.get(index);
    if (there === undefined) after.set(index, [entry]);
    else there.push(entry);
  }

  /**
   * @param {Chat.Entry[]} entries
   * @param {any} run
   */
  #placeByTime(entries, run) {
    if (run.started_at === null) return -1;
    return entries.findLastIndex(({ at }) => at !== null && at <= run.started_at);
  }

  /**
   * @param {Chat.Entry[]} entries
   * @param {any} run
   * @param {Map<string|null, number>} last
   */
  #placeOfChild(entries, run, last) {
    const started = run.started_at ?? Number.POSITIVE_INFINITY;
    const found = entries.findLastIndex((entry) => entry.run === run.parent && entry.at !== null && entry.at <= started);
    return found === -1 ? (last.get(run.parent) ?? entries.length - 1) : found;
  }

  /** @param {any} run */
  #sub(run) {
    const { agent, topic, status, started_at: started, ended_at: ended } = run;
    return { key: `s:${run.run}`, kind: 'sub', run: run.run, at: started, agent, topic, status, started, ended, tokens: run.usage.total_tokens };
  }

  /**
   * @param {any} run
   * @returns {any}
   */
  #progressOf(run) {
    const since = this.#live.silentSince(run.run);
    const common = { key: `w:${run.run}`, kind: 'start', run: run.run, at: run.started_at, agent: run.agent, since };
    if (run.status === 'cancelling') {
      return { ...common, phase: 'stopping', by: person(run.cancel?.by), mode: run.cancel?.mode ?? 'now', step: run.iteration };
    }
    if (since !== null) return { ...common, phase: 'silent', by: null, mode: null, step: run.iteration };
    const seen = this.#seen.get(run.run);
    if (seen?.busy) return null;
    const begun = seen?.begun === true;
    // A sub-agent at work shows that it has started.
    if (!begun && this.#mirror.runs.some((child) => child.parent === run.run && isLive(child))) return null;
    return { ...common, phase: begun ? 'between' : 'starting', by: null, mode: null, step: run.iteration };
  }

  /** @param {any} run */
  #end(run) {
    const by = run.cancel === null ? null : textOrNull(run.cancel.by);
    return {
      key: `e:${run.run}`,
      kind: 'end',
      run: run.run,
      at: run.ended_at,
      agent: run.agent,
      status: run.status,
      // Who stopped it is told by `by`.
      error: run.status === 'cancelled' && run.error === `stopped by ${by}` ? null : run.error,
      by: run.cancel === null ? null : person(run.cancel.by),
      ms: run.started_at === null || run.ended_at === null ? null : run.ended_at - run.started_at,
      steps: run.iteration,
      tools: this.#seen.get(run.run)?.tools ?? 0,
      tokens: run.usage.total_tokens,
      usage: { ...run.usage },
      model: run.model,
    };
  }
}
