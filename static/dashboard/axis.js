/** One time axis: what part of a run is in view, where its marks stand, and what is drawn of a span. Pure. */

const STEPS = [100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 30_000, 60_000, 120_000, 300_000, 600_000, 1_800_000, 3_600_000, 7_200_000, 21_600_000, 86_400_000];
/** A shorter run is shown as if it were so long, in ms. */
const SHORTEST = 2000;
/** Room at the right of what is still going on. */
const ROOM = 1.06;

export class Axis {
  /** In the time of the run, ms. */
  from = 0;
  to = SHORTEST;
  /** The right edge goes along with the run. */
  following = true;

  /**
   * Takes in the whole run.
   * @param {number} from - ms
   * @param {number} to - ms
   * @param {boolean} live
   */
  follow(from, to, live) {
    if (!this.following) return;
    this.from = from;
    this.to = from + Math.max(SHORTEST, (to - from) * (live ? ROOM : 1.01));
  }

  /**
   * @param {number} factor - above 1 shows less
   * @param {number} [at] - stays where it is, as part of the width
   */
  zoom(factor, at = 0.5) {
    this.following = false;
    const middle = this.from + (this.to - this.from) * at;
    const span = Math.max(50, (this.to - this.from) / factor);
    this.from = middle - span * at;
    this.to = this.from + span;
  }

  /** @param {number} part - of the width */
  pan(part) {
    this.following = false;
    const by = (this.to - this.from) * part;
    this.from += by;
    this.to += by;
  }

  /**
   * @param {number} at - ms
   * @param {number} width
   */
  x(at, width) {
    return ((at - this.from) / (this.to - this.from)) * width;
  }

  /**
   * @param {number} start - of the run, ms
   * @param {number} most - so many marks at most
   * @returns {{at: number, text: string}[]}
   */
  ticks(start, most) {
    const span = this.to - this.from;
    const step = STEPS.find((candidate) => span / candidate <= most) ?? STEPS[STEPS.length - 1];
    const first = Math.max(0, Math.ceil((this.from - start) / step));
    const ticks = [];
    for (let index = first; start + index * step <= this.to && ticks.length <= most; index += 1) ticks.push({ at: start + index * step, text: tickText(index * step, step) });
    return ticks;
  }

  /**
   * @param {Board.Segment[]} segments
   * @param {number} now - ms
   * @param {number} width
   * @param {number} least - no bar is drawn narrower
   * @returns {{tone: string, x: number, width: number}[]} what is in view
   */
  bars(segments, now, width, least) {
    return segments.flatMap(({ tone, from, to }) => {
      const [left, right] = [this.x(from, width), this.x(to ?? Math.max(now, from), width)];
      if (right < 0 || left > width) return [];
      const start = Math.max(0, left);
      return [{ tone, x: start, width: Math.max(least, Math.min(width, right) - start) }];
    });
  }
}

/**
 * @param {number} ms
 * @param {number} step
 */
function tickText(ms, step) {
  const minutes = Math.floor(ms / 60_000);
  const seconds = (ms % 60_000) / 1000;
  if (step < 1000) return `${minutes > 0 ? `${minutes}:` : ''}${seconds.toFixed(1)}`;
  const hours = Math.floor(minutes / 60);
  const tail = String(Math.floor(seconds)).padStart(2, '0');
  return hours > 0 ? `${hours}:${String(minutes % 60).padStart(2, '0')}:${tail}` : `${minutes}:${tail}`;
}

/**
 * How dense the events of a run lie.
 * @param {Board.Mark[]} marks - in order
 * @param {number} from - ms
 * @param {number} to - ms
 * @param {number} count - of bars
 * @returns {{tone: string, height: number}[]} heights from 0 to 1
 */
export function density(marks, from, to, count) {
  const bars = Array.from({ length: count }, () => ({ total: 0, tones: new Map() }));
  const scale = count / Math.max(1, to - from);
  for (const { at, tone } of marks) {
    const bar = bars[Math.min(count - 1, Math.max(0, Math.floor((at - from) * scale)))];
    bar.total += 1;
    bar.tones.set(tone, (bar.tones.get(tone) ?? 0) + 1);
  }
  const most = Math.log1p(Math.max(1, ...bars.map(({ total }) => total)));
  return bars.map(({ total, tones }) => {
    // What a run does says more than its bookkeeping.
    const spoken = [...tones].filter(([tone]) => tone !== 'gone').sort(([, one], [, other]) => other - one)[0];
    return { tone: spoken?.[0] ?? 'gone', height: Math.log1p(total) / most };
  });
}
