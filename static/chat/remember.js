/** Facts that only live events tell are kept for this many messages and calls. */
const REMEMBERED = 500;

/**
 * Keeps a fact, and lets the oldest go.
 * @param {Map<any, any>} map
 * @param {any} key
 * @param {any} value
 */
export function remember(map, key, value) {
  map.delete(key);
  map.set(key, value);
  if (map.size > REMEMBERED) map.delete(map.keys().next().value);
}
