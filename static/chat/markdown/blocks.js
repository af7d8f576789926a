/**
 * Markdown, line by line, into a tree of blocks. Pure: no DOM.
 *
 * Text comes in pieces of any size. A complete line is taken once and for all; the unfinished last line is taken
 * provisionally and taken back when more of it arrives, so a piece costs its own length and the depth of the tree, and the
 * tree depends on the text alone, never on how it was cut. What no later text can change is marked `settled`.
 *
 * The dialect is what models write: CommonMark with tables, task lists and strike-through, without indented code, HTML and
 * underlined (setext) headings: the last would turn a paragraph that was already read into something else.
 */

/** Deeper nesting is drawn as text: a reader gains nothing from it, and a hostile text could ask for thousands of levels. */
const MAX_DEPTH = 12;

const QUOTE = /^ {0,3}> ?/;
const HEADING = /^ {0,3}(#{1,6})(?:[ \t]+(.*))?$/;
const FENCE = /^( {0,3})(`{3,}|~{3,})[ \t]*(.*)$/;
const RULE = /^ {0,3}([-*_])[ \t]*(?:\1[ \t]*){2,}$/;
const ITEM = /^( {0,3})([-*+]|\d{1,9}[.)])( +|$)(.*)$/;
const TAB_AFTER_MARK = /^( {0,3}(?:[-*+]|\d{1,9}[.)]))\t/;
const TASK = /^\[([ xX])\](?: +|$)/;
const UNFINISHED_TASK = /^\[(?:[ xX]\]?)?$/;
const ALIGNMENT_ROW = /^ {0,3}\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$/;
/** A line of marks only, that the next character may turn into anything: it is not drawn yet. */
const UNFINISHED_MARKS = /^ {0,3}(?:`{1,2}|~{1,2}|#{1,6}|[-*+]|\*\*|--|__?|>)[ \t]*$/;
const BLANK = /^[ \t]*$/;

/**
 * @param {Chat.Block['type']} type
 * @param {Partial<Chat.Block>} [fields]
 * @returns {Chat.Block}
 */
function block(type, fields) {
  return {
    type,
    closed: false,
    settled: false,
    children: [],
    text: '',
    lines: [],
    info: '',
    marker: '',
    indent: 0,
    level: 0,
    rank: 0,
    start: null,
    task: null,
    align: [],
    head: [],
    rows: [],
    ...fields,
  };
}

/**
 * The cells of a table row; an escaped bar does not separate.
 * @param {string} line
 * @returns {string[]}
 */
export function cells(line) {
  let row = line.trim();
  if (row.startsWith('|')) row = row.slice(1);
  const found = [];
  let cell = '';
  for (let at = 0; at < row.length; at += 1) {
    if (row[at] === '\\' && row[at + 1] === '|') {
      cell += '|';
      at += 1;
    } else if (row[at] === '|') {
      found.push(cell.trim());
      cell = '';
    } else {
      cell += row[at];
    }
  }
  if (cell.trim() !== '') found.push(cell.trim());
  return found;
}

/**
 * Whether a paragraph is most likely the first row of a table whose alignment row has not come yet.
 * @param {string} text
 */
export function looksLikeTable(text) {
  return text.startsWith('|') && text.indexOf('|', 1) > 0 && !text.includes('\n');
}

/** @param {string} line */
function alignment(line) {
  return cells(line).map((cell) => {
    const left = cell.startsWith(':');
    const right = cell.endsWith(':');
    if (left && right) return 'center';
    if (right) return 'end';
    return left ? 'start' : null;
  });
}

/** @param {string} line */
function indentation(line) {
  let columns = 0;
  while (line[columns] === ' ') columns += 1;
  return columns;
}

/**
 * Tabs before the text become spaces up to the next column of four; tabs in the text stay.
 * @param {string} line
 */
function withoutLeadingTabs(line) {
  if (!/^ *\t/.test(line)) return line;
  let columns = 0;
  let at = 0;
  for (; line[at] === ' ' || line[at] === '\t'; at += 1) columns += line[at] === '\t' ? 4 - (columns % 4) : 1;
  return ' '.repeat(columns) + line.slice(at);
}

export class Blocks {
  /** The tree. Treat as read only. @type {Chat.Block} */
  document = block('document');
  /** Containers that are open, the document first. @type {Chat.Block[]} */
  #open = [this.document];
  /** The unfinished last line. */
  #tail = '';
  /** Whether the line being taken may go on. */
  #provisional = false;
  /** What to put back when more of the last line arrives. @type {(() => void)|null} */
  #undo = null;

  /**
   * Takes the next piece of text.
   * @param {string} piece
   */
  append(piece) {
    this.#takeBack();
    let from = 0;
    for (let end = piece.indexOf('\n'); end !== -1; end = piece.indexOf('\n', from)) {
      this.#line(this.#tail + piece.slice(from, end), false);
      this.#tail = '';
      from = end + 1;
    }
    this.#tail += piece.slice(from);
    if (this.#tail !== '') {
      this.#remember();
      this.#line(this.#tail, true);
    }
  }

  /** The text has ended: its last line is complete, everything is closed. */
  finish() {
    this.#takeBack();
    if (this.#tail !== '') this.#line(this.#tail, false);
    this.#tail = '';
    this.#provisional = false;
    this.#closeDownTo(0);
    this.#closeLeaf();
    this.#close(this.document);
  }

  #takeBack() {
    this.#undo?.();
    this.#undo = null;
  }

  #remember() {
    const open = [...this.#open];
    // A list that an empty line left may still get another item, though it is no longer on the path.
    const below = open[open.length - 1].children.at(-1);
    const touched = below?.type === 'list' && !below.closed ? [...open, below] : open;
    const saved = touched.map((container) => {
      const last = container.children.at(-1) ?? null;
      return {
        container,
        closed: container.closed,
        task: container.task,
        count: container.children.length,
        last,
        lastClosed: last?.closed ?? false,
        text: last?.text ?? '',
        lines: last?.lines.length ?? 0,
        rows: last?.rows.length ?? 0,
      };
    });
    this.#undo = () => {
      this.#open = open;
      for (const was of saved) {
        was.container.closed = was.closed;
        was.container.task = was.task;
        was.container.children.length = was.count;
        if (was.last === null) continue;
        was.container.children[was.count - 1] = was.last;
        was.last.closed = was.lastClosed;
        was.last.text = was.text;
        was.last.lines.length = was.lines;
        was.last.rows.length = was.rows;
      }
    };
  }

  /**
   * @param {string} raw - a line without its end
   * @param {boolean} unfinished - more of it may come
   */
  #line(raw, unfinished) {
    this.#provisional = unfinished;
    let rest = withoutLeadingTabs(raw.endsWith('\r') ? raw.slice(0, -1) : raw);
    const leaf = this.#leaf();

    let matched = 1;
    for (; matched < this.#open.length; matched += 1) {
      const container = this.#open[matched];
      if (container.type === 'quote') {
        const mark = QUOTE.exec(rest);
        if (mark === null) break;
        rest = rest.slice(mark[0].length);
      } else if (container.type === 'item') {
        if (BLANK.test(rest)) {
          // An item that begins with an empty line has one chance only.
          if (container.children.length === 0) break;
          rest = '';
        } else if (indentation(rest) >= container.indent) {
          rest = rest.slice(container.indent);
        } else {
          break;
        }
      }
    }
    // A list goes on only where one of its items does.
    if (this.#open[matched - 1].type === 'list') matched -= 1;
    const all = matched === this.#open.length;

    if (all && leaf?.type === 'fence') {
      this.#codeLine(leaf, rest, unfinished);
      return;
    }
    if (BLANK.test(rest)) {
      if (unfinished) return;
      if (!all) this.#closeDownTo(matched - 1);
      if (this.#leaf() !== null) this.#closeLeaf();
      return;
    }
    if (unfinished && UNFINISHED_MARKS.test(rest)) return;

    const paragraph = leaf?.type === 'paragraph' ? leaf : null;
    const table = all && leaf?.type === 'table' ? leaf : null;
    let parents = matched;
    let started = false;
    for (;;) {
      const interrupts = started || !all ? null : paragraph;
      const next = this.#start(rest, parents, interrupts, unfinished);
      if (next === null) break;
      started = true;
      if (next.rest === null) return;
      rest = next.rest;
      parents = this.#open.length;
      if (BLANK.test(rest)) return;
      if (unfinished && UNFINISHED_MARKS.test(rest)) return;
    }

    const text = rest.trimStart();
    if (started) {
      this.#add(block('paragraph', { text }));
    } else if (paragraph !== null) {
      // Also where a container did not match: a lazy continuation.
      if (all && this.#becomesTable(paragraph, text.trimEnd())) return;
      if (unfinished && looksLikeTable(paragraph.text) && /^[-:|][-:| \t]*$/.test(text)) return;
      paragraph.text += `\n${text}`;
    } else if (table !== null) {
      if (!(unfinished && text === '|')) table.rows.push(cells(text));
    } else {
      this.#closeDownTo(matched - 1);
      this.#add(block('paragraph', { text }));
    }
  }

  /**
   * Starts the block that `rest` begins, if it begins one.
   * @param {string} rest
   * @param {number} depth - how many containers stay open
   * @param {Chat.Block|null} paragraph - the paragraph that it would interrupt
   * @param {boolean} unfinished
   * @returns {{rest: string|null}|null} what is left for the inside, null where nothing is; null where no block begins
   */
  #start(rest, depth, paragraph, unfinished) {
    const heading = HEADING.exec(rest);
    if (heading !== null) {
      this.#closeDownTo(depth - 1);
      const text = (heading[2] ?? '').trimEnd().replace(/(?:^|[ \t])#+$/, '').trim();
      const level = heading[1].length;
      this.#add(block('heading', { level, rank: this.#rank(level), text }));
      if (!unfinished) this.#closeLeaf();
      return { rest: null };
    }
    const fence = FENCE.exec(rest);
    if (fence !== null && !(fence[2][0] === '`' && fence[3].includes('`'))) {
      this.#closeDownTo(depth - 1);
      this.#add(block('fence', { indent: fence[1].length, marker: fence[2], info: fence[3].trim() }));
      return { rest: null };
    }
    if (RULE.test(rest)) {
      this.#closeDownTo(depth - 1);
      this.#add(block('rule'));
      if (!unfinished) this.#closeLeaf();
      return { rest: null };
    }
    if (depth > MAX_DEPTH) return null;
    const quote = QUOTE.exec(rest);
    if (quote !== null) {
      this.#closeDownTo(depth - 1);
      this.#enter(block('quote'));
      return { rest: rest.slice(quote[0].length) };
    }
    const item = ITEM.exec(rest.replace(TAB_AFTER_MARK, (_, mark) => mark + ' '.repeat(4 - (mark.length % 4))));
    if (item === null) return null;
    const [, before, mark, space, after] = item;
    const number = mark.length > 1 ? Number.parseInt(mark, 10) : null;
    // Otherwise a number at the start of a wrapped line would begin a list.
    if (paragraph !== null && (after === '' || (number !== null && number !== 1))) return null;
    this.#closeDownTo(depth - 1);
    const marker = mark.at(-1) ?? mark;
    const around = this.#open[this.#open.length - 1];
    const last = around.children.at(-1);
    if (last?.type === 'list' && !last.closed && last.marker === marker) {
      this.#open.push(last);
    } else {
      this.#closeLeaf();
      this.#enter(block('list', { start: number, marker }));
    }
    const padding = after === '' || space.length > 4 ? 1 : space.length;
    const inner = block('item', { indent: before.length + mark.length + padding });
    this.#enter(inner);
    let inside = space.slice(padding) + after;
    if (unfinished && UNFINISHED_TASK.test(inside)) return { rest: null };
    const task = TASK.exec(inside);
    if (task !== null) {
      inner.task = task[1] !== ' ';
      inside = inside.slice(task[0].length);
    }
    return { rest: inside };
  }

  /**
   * @param {Chat.Block} fence
   * @param {string} rest
   * @param {boolean} unfinished
   */
  #codeLine(fence, rest, unfinished) {
    const text = rest.trim();
    const marks = text !== '' && indentation(rest) < 4 && text === fence.marker[0].repeat(text.length);
    if (marks && text.length >= fence.marker.length) {
      this.#close(fence);
      return;
    }
    // These may become the closing marks.
    if (unfinished && marks) return;
    fence.lines.push(rest.slice(Math.min(fence.indent, indentation(rest))));
  }

  /**
   * @param {Chat.Block} paragraph
   * @param {string} text
   */
  #becomesTable(paragraph, text) {
    if (!text.includes('|') || paragraph.text.includes('\n') || !paragraph.text.includes('|')) return false;
    if (!ALIGNMENT_ROW.test(text)) return false;
    const head = cells(paragraph.text);
    const align = alignment(text);
    if (head.length !== align.length) return false;
    const around = this.#open[this.#open.length - 1];
    around.children[around.children.length - 1] = block('table', { head, align });
    return true;
  }

  /** @param {number} level */
  #rank(level) {
    /** @type {number[]} */
    const above = [];
    for (const { type, level: other } of this.document.children) {
      if (type !== 'heading') continue;
      while (above.length > 0 && above[above.length - 1] >= other) above.pop();
      above.push(other);
    }
    return above.filter((other) => other < level).length + 1;
  }

  #leaf() {
    const last = this.#open[this.#open.length - 1].children.at(-1);
    return last === undefined || last.closed || last.type === 'list' ? null : last;
  }

  #closeLeaf() {
    const last = this.#open[this.#open.length - 1].children.at(-1);
    if (last !== undefined) this.#close(last);
  }

  /** @param {Chat.Block} ended */
  #close(ended) {
    ended.closed = true;
    if (!this.#provisional) ended.settled = true;
  }

  /** @param {number} index - the innermost container that stays open */
  #closeDownTo(index) {
    while (this.#open.length - 1 > index) {
      const container = this.#open[this.#open.length - 1];
      this.#closeLeaf();
      // A list may still get another item; it ends with the next block beside it.
      if (container.type !== 'list') this.#close(container);
      this.#open.pop();
    }
  }

  /** @param {Chat.Block} child */
  #add(child) {
    this.#closeLeaf();
    this.#open[this.#open.length - 1].children.push(child);
  }

  /** @param {Chat.Block} container */
  #enter(container) {
    this.#add(container);
    this.#open.push(container);
  }
}
