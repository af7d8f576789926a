/** Words for times and numbers, and the clock that they are read from. Pure but for `Intl`. */

const NUMBER = new Intl.NumberFormat('en');

/** @param {number} value */
export function number(value) {
  return NUMBER.format(value);
}

/**
 * A count as short as a line needs it: 812, 8.1k, 190k, 2.4M.
 * @param {number} value
 */
export function shortNumber(value) {
  if (value < 1000) return String(value);
  const [scaled, unit] = value < 999_500 ? [value / 1000, 'k'] : [value / 1_000_000, 'M'];
  return `${scaled < 9.95 ? scaled.toFixed(1) : Math.round(scaled)}${unit}`;
}

/**
 * How long something took.
 * @param {number} ms
 */
export function duration(ms) {
  if (ms < 95) return `${Math.max(1, Math.round(ms))} ms`;
  if (ms < 950) return `${(ms / 1000).toFixed(1)} s`;
  if (ms < 9950) return `${Number((ms / 1000).toFixed(1))} s`;
  const seconds = Math.round(ms / 1000);
  if (seconds < 60) return `${seconds} s`;
  return elapsed(seconds * 1000);
}

/**
 * A running time, in the form that does not change its width by the second: 0:41, 12:05, 1:02:07.
 * @param {number} ms
 */
export function elapsed(ms) {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  const [hours, minutes, rest] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60, seconds % 60];
  const tail = String(rest).padStart(2, '0');
  return hours > 0 ? `${hours}:${String(minutes).padStart(2, '0')}:${tail}` : `${minutes}:${tail}`;
}

/**
 * A duration in words, for those who listen.
 * @param {number} ms
 */
export function spoken(ms) {
  const seconds = Math.max(0, Math.round(ms / 1000));
  const minutes = Math.floor(seconds / 60);
  const parts = [];
  if (minutes > 0) parts.push(`${minutes} minute${minutes === 1 ? '' : 's'}`);
  if (seconds % 60 > 0 || minutes === 0) parts.push(`${seconds % 60} second${seconds % 60 === 1 ? '' : 's'}`);
  return parts.join(' ');
}

/**
 * @param {number} at - Unix time in ms
 * @param {{seconds?: boolean}} [options]
 */
export function clockTime(at, { seconds = false } = {}) {
  const date = new Date(at);
  const parts = [date.getHours(), date.getMinutes(), ...(seconds ? [date.getSeconds()] : [])];
  return parts.map((part) => String(part).padStart(2, '0')).join(':');
}

/** @param {number} at */
function midnight(at) {
  const date = new Date(at);
  return new Date(date.getFullYear(), date.getMonth(), date.getDate()).getTime();
}

/**
 * How many midnights lie between two times.
 * @param {number} at
 * @param {number} now
 */
export function daysAgo(at, now) {
  return Math.round((midnight(now) - midnight(at)) / 86_400_000);
}

/**
 * When something was, as short as a list needs it.
 * @param {number} at - Unix time in ms
 * @param {number} now
 */
export function listTime(at, now) {
  const days = daysAgo(at, now);
  if (days <= 0) return clockTime(at);
  const date = new Date(at);
  if (days < 7) return date.toLocaleDateString('en', { weekday: 'short' });
  return date.toLocaleDateString('en', { day: 'numeric', month: 'short' });
}

/**
 * The publishers' clock as seen from here. Every live event says what time it was there, at the latest.
 */
export class ServerClock {
  #now;
  /** Lower bound of their clock minus ours, in ms; null before any live event. @type {number|null} */
  #ahead = null;
  /** @type {number|null} */
  #held = null;

  /** @param {() => number} now - this machine's Unix time in ms */
  constructor(now) {
    this.#now = now;
  }

  /** @param {unknown} at - the `at` of a live event */
  observe(at) {
    if (typeof at !== 'number') return;
    const ahead = at - this.#now();
    // Events travel for some time, so the largest difference is the truest.
    if (this.#ahead === null || ahead > this.#ahead) this.#ahead = ahead;
  }

  /**
   * Stands still while what is shown may not be current.
   * @param {boolean} still
   */
  hold(still) {
    if (!still) this.#held = null;
    else this.#held ??= this.now();
  }

  now() {
    if (this.#held !== null) return this.#held;
    const ahead = this.#ahead ?? 0;
    // Under a second it is the way here, not the clock.
    return this.#now() + (Math.abs(ahead) < 1000 ? 0 : ahead);
  }
}

/**
 * An amount of money, to two digits that say something.
 * @param {number} dollars
 */
export function money(dollars) {
  const rounded = dollars >= 0.1 ? dollars : Number(dollars.toPrecision(2));
  return `$${rounded.toFixed(rounded === 0 || rounded >= 0.1 ? 2 : Math.min(8, 1 - Math.floor(Math.log10(rounded))))}`;
}
