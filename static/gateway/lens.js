/** @typedef {import('./index.js').Lens} Lens */

/**
 * Whether two lenses are the same wish.
 * @param {Lens | null} one
 * @param {Lens | null} other
 */
export function sameLens(one, other) {
  return sameEvents(one, other) && rateOf(one) === rateOf(other);
}

/**
 * Whether two lenses show the same events, be it at another rate: then a state made under one goes on under the other.
 * @param {Lens | null} one
 * @param {Lens | null} other
 */
export function sameEvents(one, other) {
  return shown(one) === shown(other);
}

/**
 * The same events, at a lower rate.
 * @param {Lens | null} lens
 * @param {number | null} rate flushes a second at most; null leaves it as it is
 * @returns {Lens | null}
 */
export function slowed(lens, rate) {
  if (rate === null || lens === 'summary') return lens;
  return { ...lens, rate: Math.min(rate, lens?.rate ?? rate) };
}

/** @param {Lens | null} lens */
function shown(lens) {
  if (lens === null || lens === 'summary') return String(lens);
  const types = lens.types === undefined ? null : [...lens.types].sort();
  return types === null && lens.finished !== true ? 'null' : JSON.stringify([types, lens.finished === true]);
}

/** @param {Lens | null} lens */
function rateOf(lens) {
  return lens === null || lens === 'summary' ? undefined : lens.rate;
}
