import { runCost, topicCost } from './costs.js';
import { el, glyph, setChildren, setText } from './dom.js';
import { headRun, isLive, wordFor } from './run_state.js';
import { duration, elapsed, number, shortNumber } from './time.js';

/** Rows of the tree; older calls are counted. */
const ROWS = 40;

/** @type {Map<string, Chat.State>} */
const PHASES = new Map([
  ['arriving', 'tool'],
  ['ready', 'queued'],
  ['running', 'tool'],
  ['waiting', 'waiting'],
  ['done', 'done'],
  ['failed', 'failed'],
  ['rejected', 'stopped'],
  ['expired', 'lost'],
  ['interrupted', 'stopped'],
]);

/** The run panel on the right: what runs now, what it used, where the mirror stands. A part of the painter. */
export class Panel {
  #options;
  #shown = '';

  /**
   * @param {Chat.PanelOptions} options
   */
  constructor(options) {
    this.#options = options;
  }

  paint() {
    const mirror = this.#options.mirror();
    setText(this.#options.parts.offset, number(mirror.offset));
    setText(this.#options.parts.epoch, mirror.epoch || '–');
    setText(this.#options.parts.behind, number(this.#options.behind()));
    setText(this.#options.parts.queued, number(mirror.queue.length));
    this.#drawUsage(mirror);
    this.#drawTree(mirror);
    return true;
  }

  /** @param {any} mirror */
  #drawUsage(mirror) {
    const { usage } = mirror.context;
    const cached = usage.cache_read_input_tokens + usage.cache_creation_input_tokens;
    const rows = [
      ['Input', usage.input_tokens],
      ['of which cached', cached],
      ['Output', usage.output_tokens],
      ['Model calls', usage.requests],
      ['Tool calls', usage.tool_calls],
    ]
      .filter(([, value]) => value > 0)
      .map(([word, value]) => [word, number(Number(value))]);
    const head = headRun(mirror);
    if (head !== null && mirror.runs.length > 1 && head.usage.total_tokens > 0) {
      rows.push(['This run', [`${shortNumber(head.usage.total_tokens)} tokens`, runCost(head, this.#options.prices())].filter(Boolean).join(', ')]);
    }
    const cost = topicCost(mirror, this.#options.prices());
    if (cost !== '') rows.push(['Cost', cost]);
    this.#options.parts.usageSection.hidden = rows.length === 0;
    const name = JSON.stringify(rows);
    if (this.#options.parts.usage.dataset.shows === name) return;
    this.#options.parts.usage.dataset.shows = name;
    setChildren(
      this.#options.parts.usage,
      rows.flatMap(([word, value]) => [el('dt', {}, String(word)), el('dd', {}, String(value))]),
    );
  }

  /** @param {any} mirror */
  #drawTree(mirror) {
    const head = headRun(mirror);
    const maximum = mirror.context.max_iterations;
    setText(this.#options.parts.step, head === null || head.iteration === 0 ? '' : `step ${head.iteration}${typeof maximum === 'number' ? ` of ${maximum}` : ''}`);
    const rows = head === null ? [] : this.#rows(mirror, head);
    const name = JSON.stringify(rows);
    if (name !== this.#shown) {
      this.#shown = name;
      setChildren(this.#options.parts.tree, rows.length === 0 ? [el('p', { class: 'quiet' }, 'Nothing has run here yet.')] : rows.map((row) => this.#row(row)));
    }
    this.#count(mirror);
  }

  /**
   * @param {any} mirror
   * @param {any} head
   */
  #rows(mirror, head) {
    /** @type {{key: string, state: string, name: string, depth: number, mono: boolean, time: string, run: string|null}[]} */
    const rows = [];
    const entries = this.#options.entries();
    /**
     * @param {any} run
     * @param {number} depth
     */
    const add = (run, depth) => {
      const key = depth === 1 ? (entries.find(({ run: of }) => of === run.run)?.key ?? '') : `s:${run.run}`;
      rows.push({ key, state: this.#options.thread.state(mirror, run), name: run.agent ?? 'agent', depth, mono: false, time: '', run: run.run });
      if (depth < 3) {
        for (const entry of entries) {
          if (entry.kind === 'tool' && entry.run === run.run) {
            const time = entry.phase === 'arriving' ? 'arguments' : entry.ms === null ? '' : duration(entry.ms);
            rows.push({ key: entry.key, state: PHASES.get(entry.phase) ?? 'tool', name: entry.name, depth: depth + 1, mono: true, time, run: null });
          }
        }
        for (const child of mirror.runs) if (child.parent === run.run) add(child, depth + 1);
      }
    };
    add(head, 1);
    // The run itself and the latest of what it did.
    return rows.length <= ROWS ? rows : [rows[0], ...rows.slice(1 - ROWS)];
  }

  /** @param {{key: string, state: string, name: string, depth: number, mono: boolean, time: string, run: string|null}} row */
  #row({ key, state, name, depth, mono, time, run }) {
    return el(
      'button',
      { type: 'button', class: depth === 1 ? '' : `d${depth}`, click: () => this.#options.jump(key) },
      glyph(state, { label: wordFor(/** @type {any} */ (state)).word }),
      el('span', { class: mono ? 'cut mono' : 'cut' }, name),
      el('span', { class: 'quiet num', ...(run !== null && { 'data-run': run }) }, time),
    );
  }

  /** @param {any} mirror */
  #count(mirror) {
    for (const time of this.#options.parts.tree.querySelectorAll('[data-run]')) {
      const run = mirror.runs.find((/** @type {any} */ { run: id }) => id === /** @type {HTMLElement} */ (time).dataset.run);
      if (run !== undefined) setText(time, timeOf(run, this.#options.clock.now()));
    }
  }
}

/**
 * How long a run has run.
 * @param {any} run
 * @param {number} now
 */
export function timeOf(run, now) {
  if (run.started_at === null) return '';
  if (isLive(run)) return elapsed(now - run.started_at);
  return run.ended_at === null ? '' : duration(run.ended_at - run.started_at);
}
