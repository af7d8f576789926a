/** Which live runs have said nothing for so long that they may be gone. Only their end says that they are. Pure. */

import { record, textOrNull } from './content.js';
import { remember } from './remember.js';
import { hasOpenCall, isLive } from './run_state.js';

/** A run that works says something more often, in ms. */
const SILENT_MS = 15_000;

/** Of a run, and written by others. */
const NOT_ITS_OWN = new Set(['cancel_requested', 'approval_decided']);

export class Silence {
  /** When a run was heard last, by run; where nothing was heard, when it was first seen. @type {Map<string, number>} */
  #heard = new Map();
  /** @type {Set<string>} */
  #silent = new Set();

  /**
   * @param {{type?: unknown, run?: unknown}} event
   * @param {number} now
   * @returns {boolean} whether it breaks a silence
   */
  heard({ type, run: id }, now) {
    const run = textOrNull(id);
    if (run === null || NOT_ITS_OWN.has(String(type))) return false;
    remember(this.#heard, run, now);
    return this.#silent.delete(run);
  }

  /**
   * Looks at the live runs again. Call while what is shown is current.
   * @param {any} mirror
   * @param {number} now
   * @returns {boolean} whether other runs than before are silent
   */
  check(mirror, now) {
    const silent = new Set();
    for (const run of mirror.runs) {
      if (run.status !== 'running') continue;
      // A run with a reason to say nothing is not timed meanwhile.
      const heard = waits(mirror, run) ? undefined : this.#heard.get(run.run);
      if (heard === undefined) remember(this.#heard, run.run, now);
      else if (now - heard >= SILENT_MS) silent.add(run.run);
    }
    const same = silent.size === this.#silent.size && [...silent].every((run) => this.#silent.has(run));
    this.#silent = silent;
    return !same;
  }

  /**
   * @param {string|null} run
   * @returns {number|null} since when it is silent; null where it is not
   */
  since(run) {
    return run !== null && this.#silent.has(run) ? (this.#heard.get(run) ?? null) : null;
  }
}

/**
 * Whether a person, a tool or a run that it started is at it.
 * @param {any} mirror
 * @param {any} run
 */
function waits(mirror, run) {
  const asks = mirror.approvals.some((/** @type {unknown} */ approval) => record(approval).run === run.run && record(approval).decision === null);
  return asks || hasOpenCall(mirror, run.run) || mirror.runs.some((/** @type {any} */ other) => other.parent === run.run && isLive(other));
}
