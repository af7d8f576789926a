import { Series } from './series.js';

const POINTS = 60;

/** What all rows come to. Pure. */
export class Totals {
  running = 0;
  waiting = 0;
  /** Since when the oldest question waits, on the publishers' clock, ms. @type {number|null} */
  oldest = null;
  failed = 0;
  rate = 0;
  events = 0;
  tools = 0;
  viewers = 0;
  /** Readers that are behind. */
  behind = 0;
  /** By how many events the worst of them is. */
  worst = 0;
  history = { running: new Series(POINTS), rate: new Series(POINTS), tools: new Series(POINTS) };

  /** @param {Iterable<import('./row.js').Row>} rows */
  count(rows) {
    const sum = { running: 0, waiting: 0, failed: 0, rate: 0, events: 0, tools: 0, viewers: 0, behind: 0, worst: 0 };
    /** @type {number|null} */
    let oldest = null;
    for (const row of rows) {
      const { summary, state } = row;
      sum.viewers += summary.viewers;
      sum.behind += summary.behind.readers;
      sum.worst = Math.max(sum.worst, summary.behind.events);
      if (state === 'failed') sum.failed += 1;
      if (!row.live) continue;
      sum.running += 1;
      sum.rate += summary.rate;
      sum.events += summary.events;
      sum.tools += summary.tools.length;
      if (row.question === null) continue;
      sum.waiting += 1;
      const { requested } = row.question;
      if (requested !== null && (oldest === null || requested < oldest)) oldest = requested;
    }
    Object.assign(this, sum, { oldest });
  }

  /** Notes what was counted; call once a second. */
  sample() {
    this.history.running.push(this.running);
    this.history.rate.push(this.rate);
    this.history.tools.push(this.tools);
  }
}
