/** Which rows stand where: groups, order, and what holds them still. Pure. */

/** @type {Map<string, {value: (row: import('./row.js').Row, now: number) => number|string, live: boolean}>} */
const COLUMNS = new Map(
  /** @type {[string, (row: any, now: number) => number|string, boolean][]} */ ([
    ['state', (row) => RANKS.indexOf(row.state), false],
    ['title', (row) => row.title.toLowerCase(), false],
    ['agent', (row) => (row.summary.agent ?? '').toLowerCase(), false],
    ['time', (row) => -(row.summary.started ?? 0), false],
    ['rate', (row) => (row.live ? row.summary.rate : 0), true],
    ['tokens', (row) => row.summary.input + row.summary.output, true],
    ['tools', (row) => row.summary.tools.length, true],
    ['waiting', (row) => -(row.question?.requested ?? Number.POSITIVE_INFINITY), false],
    ['errors', (row) => row.summary.errors, true],
    ['viewers', (row) => row.summary.viewers, true],
    ['lag', (row) => row.summary.behind.events, true],
  ]).map(([name, value, live]) => [name, { value, live }]),
);
const RANKS = ['waiting', 'stopping', 'tool', 'writing', 'thinking', 'queued', 'failed', 'lost', 'stopped', 'done', 'idle'];

/** Rows that would move with every number are put in order at most so often, in ms. */
export const LIVE_MS = 2000;
/** Ended runs stay for so long, and leave together so often, in ms. */
export const ENDED_MS = 15 * 60_000;
const LEAVE_MS = 10_000;

/** @param {string} column */
export function isColumn(column) {
  return COLUMNS.has(column);
}

export class Order {
  /** @type {'state'|'agent'|'flat'} */
  group = 'state';
  /** @type {{column: string, descending: boolean}} */
  sort = { column: 'time', descending: false };
  /** Everything stays where it is. */
  hold = false;
  /** @type {Board.Item[]} */
  items = [];
  /** New rows that are held back. */
  fresh = 0;
  /** @type {Set<string>} */
  #shown = new Set();
  #madeAt = Number.NEGATIVE_INFINITY;
  #leftAt = Number.NEGATIVE_INFINITY;
  #changed = true;

  /** The rows, the filter or the order asked for may be others. */
  change() {
    this.#changed = true;
  }

  /** Another filter, order or grouping is wanted, whatever is held. */
  reset() {
    this.#shown.clear();
    this.#madeAt = Number.NEGATIVE_INFINITY;
    this.#changed = true;
  }

  /**
   * @param {Map<string, import('./row.js').Row>} rows
   * @param {object} how
   * @param {number} how.now - ms
   * @param {number} how.clock - the publishers' clock, ms
   * @param {(row: import('./row.js').Row, now: number) => boolean} how.filter
   * @param {boolean} how.still - new rows are held back
   * @returns {boolean} whether `items` are others
   */
  update(rows, { now, clock, filter, still }) {
    const live = COLUMNS.get(this.sort.column)?.live ?? false;
    const due = now - this.#madeAt >= LIVE_MS && (live || this.fresh > 0);
    if (!due && !(this.#changed && (!live || this.#madeAt === Number.NEGATIVE_INFINITY))) return false;
    const wanted = [...rows.values()].filter((row) => row.state !== 'idle' && filter(row, clock));
    const begun = this.#madeAt !== Number.NEGATIVE_INFINITY;
    const held = begun && (still || this.hold);
    const list = held ? wanted.filter(({ topic }) => this.#shown.has(topic)) : wanted;
    this.fresh = wanted.length - list.length;
    this.#changed = false;
    this.#madeAt = now;
    if (this.hold && begun) {
      const left = new Set(list.map(({ topic }) => topic));
      const items = this.items.filter((item) => item.row === null || left.has(item.row.topic));
      const same = items.length === this.items.length;
      this.items = items;
      return !same;
    }
    this.#shown = new Set(list.map(({ topic }) => topic));
    this.items = this.#arrange(list, clock);
    return true;
  }

  /**
   * The rows that have ended long enough ago; they leave together.
   * @param {Map<string, import('./row.js').Row>} rows
   * @param {number} now - ms
   * @param {number} clock - the publishers' clock, ms
   * @returns {string[]} their topics
   */
  leaving(rows, now, clock) {
    if (now - this.#leftAt < LEAVE_MS) return [];
    this.#leftAt = now;
    return [...rows.values()].filter(({ state, ended, summary }) => state === 'idle' || (ended && clock - (summary.ended ?? summary.at ?? 0) > ENDED_MS)).map(({ topic }) => topic);
  }

  /**
   * @param {import('./row.js').Row[]} rows
   * @param {number} clock
   * @returns {Board.Item[]}
   */
  #arrange(rows, clock) {
    const { value } = COLUMNS.get(this.sort.column) ?? { value: () => 0 };
    const sign = this.sort.descending ? -1 : 1;
    const keyed = rows.map((row) => ({ row, key: value(row, clock), started: row.summary.started ?? 0 }));
    keyed.sort((one, other) => {
      const by = one.key < other.key ? -1 : one.key > other.key ? 1 : 0;
      return by * sign || other.started - one.started || (one.row.topic < other.row.topic ? -1 : 1);
    });
    const sorted = keyed.map(({ row }) => row);
    if (this.group === 'flat') return sorted.map((row) => ({ row, title: '', note: '', key: row.topic }));
    const by = this.group === 'agent' ? sections(sorted, (row) => row.summary.agent ?? 'no agent') : states(sorted, this.sort);
    return by.flatMap(({ title, note, rows: found }) => [{ row: null, title, note, key: `group ${title}` }, ...found.map((row) => ({ row, title: '', note: '', key: row.topic }))]);
  }
}

/**
 * @param {import('./row.js').Row[]} rows
 * @param {{column: string, descending: boolean}} sort
 */
function states(rows, sort) {
  const usual = sort.column === 'time' && !sort.descending;
  const needs = rows.filter(({ group }) => group === 'needs').sort((one, other) => (one.question?.requested ?? 0) - (other.question?.requested ?? 0));
  const note = usual ? 'newest first' : '';
  return [
    { title: 'Needs you', note: 'oldest first', rows: needs },
    { title: 'Running', note, rows: rows.filter(({ group }) => group === 'running') },
    { title: 'Ended', note: 'in the last 15 minutes', rows: rows.filter(({ group }) => group === 'ended') },
  ].filter(({ rows: found }) => found.length > 0);
}

/**
 * @param {import('./row.js').Row[]} rows
 * @param {(row: import('./row.js').Row) => string} titleOf
 */
function sections(rows, titleOf) {
  /** @type {Map<string, import('./row.js').Row[]>} */
  const found = new Map();
  for (const row of rows) {
    const title = titleOf(row);
    const list = found.get(title);
    if (list === undefined) found.set(title, [row]);
    else list.push(row);
  }
  return [...found].sort(([one], [other]) => (one < other ? -1 : 1)).map(([title, list]) => ({ title, note: String(list.length), rows: list }));
}
