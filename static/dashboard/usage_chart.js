/** Tokens of a run over time, as areas on top of each other. Pure. */

const PARTS = /** @type {const} */ (['cached', 'input', 'output']);

/**
 * @param {Board.Point[]} points - in order, each the sum so far
 * @param {object} frame
 * @param {number} frame.from - ms
 * @param {number} frame.to - ms
 * @param {number} [frame.until] - nothing is drawn after it, ms; `to` by default
 * @param {number} frame.width
 * @param {number} frame.height
 * @returns {{cached: string, input: string, output: string}} as path data; empty without points
 */
export function usageAreas(points, { from, to, until = to, width, height }) {
  const last = points.at(-1);
  if (last === undefined) return { cached: '', input: '', output: '' };
  const most = Math.max(1, ...points.map(({ input, output }) => input + output)) * 1.05;
  const x = (/** @type {number} */ at) => (((Math.min(Math.max(at, from), to) - from) / Math.max(1, to - from)) * width).toFixed(1);
  const y = (/** @type {number} */ value) => (height - (height * value) / most).toFixed(1);
  const told = [{ at: from, cached: 0, input: 0, output: 0 }, ...points, { ...last, at: until }];
  // All input counts the cached, so what is drawn of it is the rest.
  const tops = { cached: told.map(({ cached }) => cached), input: told.map(({ input, cached }) => Math.max(input, cached)), output: told.map(({ input, output, cached }) => Math.max(input, cached) + output) };
  // A count stays until the next one: the line goes level, then up.
  const edges = PARTS.map((part) => told.flatMap(({ at }, index) => [`${x(at)} ${y(tops[part][Math.max(0, index - 1)])}`, `${x(at)} ${y(tops[part][index])}`]));
  const floor = [`${x(from)} ${height}`, `${x(until)} ${height}`];
  const areas = PARTS.map((part, index) => [part, `M${edges[index].join('L')}L${(index === 0 ? floor : edges[index - 1]).toReversed().join('L')}Z`]);
  return Object.fromEntries(areas);
}
