import { Ribbon } from './ribbon.js';
import { Series } from './series.js';

/** A sparkline has so many points, one a second. */
const POINTS = 60;
/** Writing, thinking and tools that change sooner are not shown one by one, in ms. */
const CALM_MS = 400;
const FLIPPING = new Set(['writing', 'thinking', 'tool']);
const ENDED = new Set(['done', 'failed', 'stopped', 'lost']);

/** A topic on the dashboard: its last summary, and what is kept of those before. Pure. */
export class Row {
  /** @type {Board.Summary} */
  summary;
  /** What is shown. @type {Board.State} */
  state;
  rates = new Series(POINTS);
  ribbon = new Ribbon();
  /** By the clock of this page, ms. */
  #since;
  /** When it was heard last, by the clock of this page, ms. */
  heard;

  /**
   * @param {Board.Summary} summary
   * @param {number} now - ms
   */
  constructor(summary, now) {
    this.summary = summary;
    this.state = summary.state;
    this.#since = now;
    this.heard = now;
    this.ribbon.push(this.state, now);
  }

  get topic() {
    return this.summary.topic;
  }

  get title() {
    return this.summary.title ?? this.summary.topic;
  }

  get ended() {
    return ENDED.has(this.state);
  }

  /** It runs, or waits for somebody. */
  get live() {
    return !this.ended && this.state !== 'idle';
  }

  /** @returns {'needs'|'running'|'ended'} */
  get group() {
    return this.state === 'waiting' ? 'needs' : this.ended ? 'ended' : 'running';
  }

  /** The question that has waited longest. */
  get question() {
    return this.state === 'waiting' ? (this.summary.approvals[0] ?? null) : null;
  }

  /**
   * How long the run has taken.
   * @param {number} now - on the publishers' clock, ms
   */
  elapsed(now) {
    const { started, ended } = this.summary;
    return started === null ? null : Math.max(0, (ended ?? now) - started);
  }

  /**
   * @param {Board.Summary} summary
   * @param {number} now - ms
   * @returns {boolean} whether its place among the others may be another
   */
  take(summary, now) {
    const before = this.summary;
    this.summary = summary;
    this.heard = now;
    const settled = this.settle(now);
    return settled || before.run !== summary.run || before.started !== summary.started || before.title !== summary.title || before.agent !== summary.agent;
  }

  /**
   * Shows the state that was held back.
   * @param {number} now - ms
   * @returns {boolean} whether another group is its own now
   */
  settle(now) {
    const { state } = this.summary;
    if (state === this.state) return false;
    if (FLIPPING.has(state) && FLIPPING.has(this.state) && now - this.#since < CALM_MS) return false;
    const before = this.group;
    this.state = state;
    this.#since = now;
    this.ribbon.push(state, now);
    return this.group !== before;
  }

  /** Notes the rate; call once a second. */
  sample() {
    this.rates.push(this.live ? this.summary.rate : 0);
  }

  /** What it does, in a few words. */
  get activity() {
    const { tools, approvals, error, phase, step } = this.summary;
    if (this.state === 'waiting') return more(approvals);
    if (this.state === 'failed') return error ?? 'failed';
    if (this.state === 'tool') return more(tools);
    if (this.state === 'writing' && phase === 'waiting') return step === 0 ? 'starting' : 'waiting for the model';
    if (this.state === 'lost') return 'its process went silent';
    return '';
  }
}

/** @param {{name: string}[]} named */
function more(named) {
  const [first, ...rest] = named;
  if (first === undefined) return '';
  return rest.length === 0 ? first.name : `${first.name} +${rest.length}`;
}
