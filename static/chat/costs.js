/** What runs cost, where the operator says what their models do. Pure. */

import { costOf } from '../gateway/index.js';
import { money } from './time.js';

/**
 * @param {any} mirror
 * @param {{[model: string]: import('../gateway/index.js').Price}} prices
 * @returns {string} what the topic cost so far; empty where no price is known
 */
export function topicCost({ runs, context }, prices) {
  let [dollars, priced] = [0, 0];
  for (const { usage, model } of runs) {
    const cost = costOf(usage, model, prices);
    if (cost === null) continue;
    dollars += cost;
    priced += usage.input_tokens + usage.output_tokens;
  }
  if (priced === 0) return '';
  // Runs without a price, and those that lie too far back to be told apart, cost something, too.
  return `${priced < context.usage.input_tokens + context.usage.output_tokens ? 'at least ' : ''}${money(dollars)}`;
}

/**
 * @param {{usage: import('../gateway/index.js').Usage, model: string|null}} run
 * @param {{[model: string]: import('../gateway/index.js').Price}} prices
 * @returns {string} empty where it is not known
 */
export function runCost({ usage, model }, prices) {
  const cost = costOf(usage, model, prices);
  return cost === null || cost === 0 ? '' : money(cost);
}
