/**
 * Keep the last entries of a kind; the oldest in list order go first.
 * @template T
 * @param {T[]} entries
 * @param {(entry: T) => boolean} which
 * @param {number} limit
 * @returns {T[]}
 */
export function keepLast(entries, which, limit) {
  let excess = entries.filter(which).length - limit;
  return entries.filter((entry) => {
    if (excess <= 0 || !which(entry)) return true;
    excess -= 1;
    return false;
  });
}
