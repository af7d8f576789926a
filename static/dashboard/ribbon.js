/** What a run did in the last two minutes: one segment per state. Pure. */

export const RIBBON_MS = 120_000;
/** A state that flickers makes no more segments than can be told apart. */
const MOST = 120;

/** @type {Map<string, string>} */
const TONES = new Map([
  ['writing', 'live'],
  ['thinking', 'think'],
  ['tool', 'tool'],
  ['waiting', 'wait'],
  ['failed', 'bad'],
  ['stopping', 'gone'],
]);

/**
 * The class of a state's colour; empty where it has none.
 * @param {string} state
 */
export function toneOf(state) {
  return TONES.get(state) ?? '';
}

export class Ribbon {
  /** @type {{state: string, from: number}[]} */
  #segments = [];

  /**
   * @param {string} state
   * @param {number} at - ms
   */
  push(state, at) {
    const last = this.#segments.at(-1);
    if (last?.state === state) return;
    this.#segments.push({ state, from: last === undefined ? at : Math.max(at, last.from) });
    const begin = at - RIBBON_MS;
    while (this.#segments.length > MOST || (this.#segments.length > 1 && this.#segments[1].from <= begin)) this.#segments.shift();
  }

  /**
   * @param {number} now - ms
   * @param {number} width - of the whole two minutes
   * @returns {{tone: string, x: number, width: number}[]}
   */
  bars(now, width) {
    const begin = now - RIBBON_MS;
    const scale = width / RIBBON_MS;
    return this.#segments.flatMap(({ state, from }, index) => {
      const until = Math.min(now, this.#segments[index + 1]?.from ?? now);
      const start = Math.max(begin, from);
      const tone = toneOf(state);
      return tone === '' || until <= begin || until < start ? [] : [{ tone, x: (start - begin) * scale, width: Math.max(0.5, (until - start) * scale) }];
    });
  }
}
