/** Storage that forgets, for browsers that forbid it. */
export const storage = (() => {
  try {
    localStorage.getItem('');
    return localStorage;
  } catch {
    const kept = new Map();
    return {
      getItem: (/** @type {string} */ key) => kept.get(key) ?? null,
      setItem: (/** @type {string} */ key, /** @type {string} */ value) => void kept.set(key, value),
      removeItem: (/** @type {string} */ key) => void kept.delete(key),
    };
  }
})();
