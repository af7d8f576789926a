/** Which lines of a log are shown. Pure. */

const WARNINGS = new Set(['warning', 'warn', 'error', 'critical', 'fatal', 'exception']);
const ERRORS = new Set(['error', 'critical', 'fatal', 'exception']);

/**
 * How bad a level is.
 * @param {string} level
 * @returns {'debug'|'info'|'warning'|'error'}
 */
export function severity(level) {
  const name = level.toLowerCase();
  if (ERRORS.has(name)) return 'error';
  if (WARNINGS.has(name)) return 'warning';
  return name === 'debug' || name === 'trace' ? 'debug' : 'info';
}

/**
 * @param {Board.Line[]} lines
 * @param {{level: 'all'|'warning'|'error', runs: ReadonlySet<string|null>|null}} wanted - `runs`: null for those of all
 */
export function shownLines(lines, { level, runs }) {
  return lines.filter((line) => {
    if (runs !== null && !runs.has(line.run)) return false;
    const found = severity(line.level);
    return level === 'all' || found === 'error' || (level === 'warning' && found === 'warning');
  });
}

/**
 * What a line says, as it is searched.
 * @param {Board.Line} line
 */
export function textOf({ logger, message, fields }) {
  return fields === null ? `${logger} ${message}` : `${logger} ${message} ${JSON.stringify(fields)}`;
}

/**
 * @param {Board.Line[]} lines
 * @param {string} query
 * @returns {number[]} where it is found
 */
export function found(lines, query) {
  const wanted = query.trim().toLowerCase();
  if (wanted === '') return [];
  return lines.flatMap((line, index) => (textOf(line).toLowerCase().includes(wanted) ? [index] : []));
}
