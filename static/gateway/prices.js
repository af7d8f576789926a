/** @typedef {import('./index.js').Price} Price */
/** @typedef {import('./index.js').Usage} Usage */

/**
 * What model calls cost, as the gateway's operator says (PROTOCOL.md 7.7).
 * @param {Usage} usage
 * @param {string | null} model
 * @param {{ [model: string]: Price }} prices
 * @returns {number | null} US dollars; null where the model has no price
 */
export function costOf(usage, model, prices) {
  const price = Object.entries(prices).find(([pattern]) => matches(pattern, model ?? ''))?.[1];
  if (price === undefined) return null;
  const { input_tokens: all, cache_read_input_tokens: read, cache_creation_input_tokens: written, output_tokens: output } = usage;
  const fresh = Math.max(0, all - read - written);
  const { input } = price;
  return (fresh * input + read * (price.cached ?? input) + written * (price.written ?? input) + output * price.output) / 1_000_000;
}

/**
 * @param {string} pattern `*` stands for any characters
 * @param {string} text
 */
function matches(pattern, text) {
  const [first, ...rest] = pattern.split('*');
  if (rest.length === 0) return text === first;
  const last = /** @type {string} */ (rest.pop());
  if (!text.startsWith(first) || !text.endsWith(last) || text.length < first.length + last.length) return false;
  let at = first.length;
  for (const part of rest) {
    const found = text.indexOf(part, at);
    if (found < 0 || found + part.length > text.length - last.length) return false;
    at = found + part.length;
  }
  return true;
}
