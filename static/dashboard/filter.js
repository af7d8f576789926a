/** The filter language: words, and terms like `state:failed`, `agent:re*`, `age>5m`. Pure. */

/** @type {Map<string, (row: import('./row.js').Row) => string[]>} */
const TEXTS = new Map([
  ['state', (/** @type {any} */ row) => [row.state, row.live ? 'running' : 'ended', ...(row.state === 'waiting' ? ['needs-you'] : [])]],
  ['agent', (/** @type {any} */ row) => [row.summary.agent ?? '']],
  ['model', (/** @type {any} */ row) => [row.summary.model ?? '']],
  ['tool', (/** @type {any} */ row) => [...row.summary.tools, ...row.summary.approvals].map(({ name }) => name)],
  ['error', (/** @type {any} */ row) => (row.summary.error === null ? [] : [row.summary.error])],
  ['topic', (/** @type {any} */ row) => [row.topic]],
]);
/** @type {Map<string, (row: import('./row.js').Row, now: number) => number|null>} */
const NUMBERS = new Map([
  ['age', (/** @type {any} */ row, /** @type {number} */ now) => row.elapsed(now)],
  ['tokens', (/** @type {any} */ row) => row.summary.input + row.summary.output],
  ['rate', (/** @type {any} */ row) => (row.live ? row.summary.rate : 0)],
  ['tools', (/** @type {any} */ row) => row.summary.tools.length],
  ['errors', (/** @type {any} */ row) => row.summary.errors],
  ['viewers', (/** @type {any} */ row) => row.summary.viewers],
  ['lag', (/** @type {any} */ row) => row.summary.behind.events],
]);
const UNITS = new Map([
  ['s', 1000],
  ['m', 60_000],
  ['h', 3_600_000],
]);
const TERM = /^([a-z]+)([:><])(.+)$/;
const AMOUNT = /^([0-9]+(?:\.[0-9]+)?)(s|m|h|k|M)?$/;

/**
 * Whether a word is a whole term, and no word to look for.
 * @param {string} word
 */
export function isTerm(word) {
  return readTerm(word) !== null;
}

/**
 * @param {string} word
 * @returns {((row: import('./row.js').Row, now: number) => boolean)|null}
 */
function readTerm(word) {
  const [, name, sign, value] = TERM.exec(word) ?? [];
  if (name === undefined) return null;
  const texts = TEXTS.get(name);
  if (texts !== undefined && sign === ':') {
    const wanted = value.toLowerCase();
    // An error is a sentence, so it is looked for inside.
    const matches = name === 'error' ? (/** @type {string} */ text) => wanted === '*' || text.includes(wanted) : pattern(wanted);
    return (row) => texts(row).some((text) => matches(text.toLowerCase()));
  }
  const numbers = NUMBERS.get(name);
  const amount = numbers === undefined || sign === ':' ? null : readAmount(value, name === 'age');
  if (numbers === undefined || amount === null) return null;
  return (row, now) => {
    const found = numbers(row, now);
    return found !== null && (sign === '>' ? found > amount : found < amount);
  };
}

/**
 * @param {string} text
 * @param {boolean} time - in ms then
 */
function readAmount(text, time) {
  const [, digits, unit = ''] = AMOUNT.exec(text) ?? [];
  if (digits === undefined) return null;
  const scale = time ? UNITS.get(unit === '' ? 's' : unit) : unit === '' ? 1 : unit === 'k' ? 1000 : unit === 'M' ? 1_000_000 : undefined;
  return scale === undefined ? null : Number(digits) * scale;
}

/** @param {string} wanted - with `*` for anything at its end */
function pattern(wanted) {
  if (!wanted.endsWith('*')) return (/** @type {string} */ text) => text === wanted;
  const start = wanted.slice(0, -1);
  return (/** @type {string} */ text) => text.startsWith(start);
}

/**
 * Splits what somebody typed into whole terms and the rest.
 * @param {string} text
 * @returns {{terms: string[], words: string}}
 */
export function splitTerms(text) {
  const parts = text.split(/\s+/).filter(Boolean);
  return { terms: parts.filter(isTerm), words: parts.filter((part) => !isTerm(part)).join(' ') };
}

/**
 * @param {string} text
 * @returns {(row: import('./row.js').Row, now: number) => boolean}
 */
export function readFilter(text) {
  const tests = text
    .split(/\s+/)
    .filter(Boolean)
    .map((part) => {
      const word = part.toLowerCase();
      return readTerm(part) ?? ((/** @type {import('./row.js').Row} */ row) => `${row.title} ${row.topic} ${row.summary.agent ?? ''}`.toLowerCase().includes(word));
    });
  return (row, now) => tests.every((test) => test(row, now));
}
