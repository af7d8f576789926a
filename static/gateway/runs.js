import { END_STATUS } from './event_types.js';
import { id, integer, text } from './fields.js';
import { keepLast } from './keep_last.js';
import { addUsage, noUsage, readUsage, sumUsage } from './usage.js';

/** @typedef {import('./index.js').MirrorState} MirrorState */
/** @typedef {import('./index.js').Run} Run */

const MAX_ENDED_RUNS = 100;

/**
 * Say whether a run has no end yet.
 * @param {Run} run
 */
export function isLive(run) {
  return run.status === 'running' || run.status === 'cancelling';
}

/** @param {Run} run */
const isEnded = (run) => !isLive(run);

/** The runs of a state, and the usage that they add up to. */
export class Runs {
  /** Its `runs` and the usage of its context are kept here. @type {MirrorState} */
  #state;
  /** @type {Map<string, Run>} */
  #byId = new Map();

  /** @param {MirrorState} state */
  constructor(state) {
    this.#state = state;
    this.#index();
  }

  /** @param {string | null} run */
  get(run) {
    return run === null ? undefined : this.#byId.get(run);
  }

  /**
   * @param {Record<string, any>} event
   * @param {string | null} run
   */
  start(event, run) {
    if (run === null || this.#byId.has(run)) return;
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
      policy: text(event.policy),
    };
    this.#state.runs.push(entry);
    this.#byId.set(run, entry);
  }

  /**
   * @param {Record<string, any>} event
   * @param {Run | undefined} run
   */
  setUsage(event, run) {
    const call = id(event.call);
    if (run === undefined || call === null) return;
    const before = run.usage;
    run.calls[call] = readUsage(event);
    run.usage = sumUsage(Object.values(run.calls));
    addUsage(this.#state.context.usage, before, -1);
    addUsage(this.#state.context.usage, run.usage, 1);
  }

  /**
   * Take a model call out of the usage.
   * @param {string | null} call
   * @param {Run | undefined} run
   */
  discardCall(call, run) {
    if (run === undefined || call === null || !Object.hasOwn(run.calls, call)) return;
    addUsage(run.usage, run.calls[call], -1);
    addUsage(this.#state.context.usage, run.calls[call], -1);
    delete run.calls[call];
  }

  /**
   * @param {Record<string, any>} event
   * @param {Run | undefined} run
   */
  askToCancel(event, run) {
    if (run === undefined) return;
    run.status = 'cancelling';
    run.cancel = { by: event.by ?? null, mode: event.mode === 'after_step' ? 'after_step' : 'now' };
  }

  /**
   * End a run, and as lost those that it started and that are still going on, and theirs.
   * @param {Record<string, any>} event
   * @param {string} type
   * @param {string} run
   * @returns {ReadonlySet<string | null>} the ids of all that are ended now, of `run` also where it is not known
   */
  end(event, type, run) {
    const reason = text(type === 'agent_error' ? event.error : event.reason);
    const [at, error] = [integer(event.at), type === 'agent_complete' ? null : reason];
    const ending = [{ run, status: /** @type {string} */ (END_STATUS.get(type)), error }];
    /** @type {Set<string | null>} */
    const ended = new Set([run]);
    for (const end of ending) {
      const entry = this.#byId.get(end.run);
      if (entry !== undefined) {
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
    this.#trim();
    return ended;
  }

  #trim() {
    const kept = keepLast(this.#state.runs, isEnded, MAX_ENDED_RUNS);
    if (kept.length === this.#state.runs.length) return;
    this.#state.runs = kept;
    this.#index();
  }

  #index() {
    this.#byId = new Map(this.#state.runs.map((run) => [run.run, run]));
  }
}
