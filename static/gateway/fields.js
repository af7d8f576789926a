/** Reading a field of an event: a value of another kind counts as absent, which is null (PROTOCOL.md 5.2). */

/**
 * @param {unknown} value
 * @returns {string | null}
 */
export function text(value) {
  return typeof value === 'string' ? value : null;
}

/**
 * @param {unknown} value
 * @returns {string | null}
 */
export function id(value) {
  // `__proto__` as the key of an object would set its prototype in one language and be a key in the other.
  return typeof value === 'string' && value !== '' && value !== '__proto__' ? value : null;
}

/**
 * @param {unknown} value
 * @returns {number | null}
 */
export function integer(value) {
  return Number.isSafeInteger(value) ? /** @type {number} */ (value) : null;
}

/**
 * @param {unknown} value
 * @returns {number | null} an integer of at least 0
 */
export function index(value) {
  const number = integer(value);
  return number !== null && number >= 0 ? number : null;
}

/**
 * @param {unknown} value
 * @returns {Record<string, any> | null}
 */
export function object(value) {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
    ? /** @type {Record<string, any>} */ (value)
    : null;
}

/**
 * @param {unknown} value
 * @returns {any[] | null}
 */
export function list(value) {
  return Array.isArray(value) ? value : null;
}
