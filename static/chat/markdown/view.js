/**
 * Draws a tree of Markdown blocks as nodes and keeps them up to date: what is closed is never touched again, text that grows
 * grows by `appendData`.
 */

import { copyButton, el, setText } from '../dom.js';
import { Blocks, looksLikeTable, cells } from './blocks.js';
import { InlineView } from './inline_view.js';

/** A piece of code that is longer ends with its line, in UTF-16 units. */
const CODE_PIECE = 8192;

/** @type {Map<string, string>} */
const COLOURS = new Map([
  ['comment', 'c'],
  ['string', 's'],
  ['number', 'n'],
  ['word', 'w'],
  ['key', 'k'],
  ['gone', 'minus'],
  ['new', 'plus'],
]);

/** Safari has no idle time to tell of. @param {() => void} act */
function whenIdle(act) {
  if (globalThis.requestIdleCallback === undefined) setTimeout(act);
  else requestIdleCallback(act, { timeout: 500 });
}

/**
 * @param {Iterable<Element>} pieces - of the text, in order
 * @param {string} text
 * @param {import('./code_colours.js').Part[]} parts - one may go on in the next piece
 */
function paint(pieces, text, parts) {
  let [start, next] = [0, 0];
  for (const piece of pieces) {
    const stop = start + (piece.textContent ?? '').length;
    /** @type {(Node|string)[]} */
    const nodes = [];
    let at = start;
    for (; next < parts.length && parts[next].start < stop; next += 1) {
      const { kind, start: from, end } = parts[next];
      const [begin, to] = [Math.max(at, from), Math.min(end, stop)];
      if (begin > at) nodes.push(text.slice(at, begin));
      nodes.push(el('span', { class: COLOURS.get(kind) ?? '' }, text.slice(begin, to)));
      at = to;
      if (end > stop) break;
    }
    if (nodes.length > 0) piece.replaceChildren(...nodes, ...(at < stop ? [text.slice(at, stop)] : []));
    start = stop;
  }
}

/** A block and, where it has some, the blocks in it. */
class BlockView {
  /** @type {BlockView[]} */
  children = [];
  /** How many children are drawn for good. */
  settled = 0;

  /** @param {Chat.Block} block */
  constructor(block) {
    this.type = kind(block);
    this.level = block.level;
    this.rank = block.rank;
    this.start = block.start;
    /** @type {HTMLElement} */
    this.element = this.make(block);
    /** Where child blocks are drawn. @type {HTMLElement} */
    this.inner = this.element;
  }

  /** @param {Chat.Block} block */
  make(block) {
    switch (block.type) {
      case 'quote':
        return el('blockquote');
      case 'list':
        if (block.start === null) return el('ul');
        return block.start === 1 ? el('ol') : el('ol', { start: block.start });
      case 'item':
        return el('li');
      case 'rule':
        return el('hr');
      default:
        return el('div');
    }
  }

  /** @param {Chat.Block} block */
  fits(block) {
    return this.type === kind(block) && this.level === block.level && this.rank === block.rank && this.start === block.start;
  }

  /** @param {Chat.Block} block */
  update(block) {
    drawBlocks(this.inner, this, block);
  }
}

class ItemView extends BlockView {
  /** @type {HTMLInputElement|null} */
  #box = null;

  /** @param {Chat.Block} block */
  update(block) {
    if (block.task !== null && this.#box === null) {
      this.#box = /** @type {HTMLInputElement} */ (el('input', { type: 'checkbox', disabled: true, 'aria-label': 'Task' }));
      this.inner = el('div');
      this.inner.append(...this.element.childNodes);
      this.element.classList.add('task');
      this.element.append(this.#box, this.inner);
    }
    if (this.#box !== null) this.#box.checked = block.task === true;
    super.update(block);
  }
}

class TextView extends BlockView {
  #inline = new InlineView(this.element);

  /** @param {Chat.Block} block */
  make(block) {
    // The page's own headings are h1 and h2; no level is left out below them.
    return block.type === 'heading' ? el(`h${Math.min(6, block.rank + 2)}`, { class: `h${block.level}` }) : el('p');
  }

  /** @param {Chat.Block} block */
  update(block) {
    this.#inline.update(block.text, !block.closed);
  }
}

class FenceView extends BlockView {
  /** Complete lines that are drawn. */
  #lines = 0;
  /** What is drawn of the line after them. */
  #tail = '';
  /** @type {Text} */
  #node = document.createTextNode('');
  /** The piece that grows. */
  #piece = el('span', { class: 'piece' }, this.#node);
  #code = el('code', {}, this.#piece);
  #language = el('span', { class: 'grow' });
  /** What is coloured, or shall be: the language and the text. */
  #coloured = '';
  #copy = copyButton(() => this.#code.textContent ?? '', { label: 'Copy', text: 'Copy' });

  /** @param {Chat.Block} block */
  constructor(block) {
    super(block);
    const scroller = el('pre', { tabindex: 0 }, this.#code);
    this.element.append(el('div', { class: 'code-head' }, this.#language, this.#copy), scroller);
  }

  make() {
    return el('div', { class: 'code' });
  }

  /** @param {Chat.Block} block */
  update(block) {
    const [language = ''] = block.info.split(/[\s{]/, 1);
    setText(this.#language, language || 'text');
    this.#copy.toggleAttribute('disabled', !block.closed);
    const { lines } = block;
    if (lines.length < this.#lines || !(lines[this.#lines] ?? '').startsWith(this.#tail)) this.#clear();
    if (this.#coloured !== '' && !block.closed) this.#clear();
    const last = lines.length - 1;
    let added = '';
    const draw = () => {
      if (added !== '') this.#node.appendData(added);
      added = '';
    };
    for (let index = this.#lines; index <= last; index += 1) {
      added += lines[index].slice(this.#tail.length);
      this.#tail = lines[index];
      if (index < last) {
        added += '\n';
        this.#tail = '';
        this.#lines = index + 1;
        if (this.#node.length + added.length > CODE_PIECE) {
          draw();
          this.#begin();
        }
      }
    }
    draw();
    if (block.closed && language !== '') this.#colour(language);
  }

  /**
   * Colours what will not grow any more, when there is time for it. Nothing moves: only the colours are others.
   * @param {string} language
   */
  #colour(language) {
    const text = this.#code.textContent ?? '';
    const name = `${language} ${text}`;
    if (name === this.#coloured) return;
    this.#coloured = name;
    whenIdle(async () => {
      const colours = await import('./code_colours.js').catch(() => null);
      // It may have been written anew meanwhile, or the gateway be away.
      if (colours && this.#coloured === name && this.#code.textContent === text) paint(this.#code.children, text, colours.codeParts(language, text));
    });
  }

  #begin() {
    this.#node = document.createTextNode('');
    this.#piece = el('span', { class: 'piece' }, this.#node);
    this.#code.append(this.#piece);
  }

  #clear() {
    this.#coloured = '';
    this.#code.replaceChildren();
    this.#begin();
    this.#lines = 0;
    this.#tail = '';
  }
}

class TableView extends BlockView {
  /** @type {HTMLElement[]} */
  #rows = [];
  #body = el('tbody');
  #head = el('tr');
  #columns = 0;
  /** How many rows are drawn for good. */
  #fixed = 0;
  /** @type {WeakMap<HTMLElement, InlineView>} */
  #inline = new WeakMap();
  /** @type {Chat.Block['align']} */
  #align = [];

  /** @param {Chat.Block} block */
  constructor(block) {
    super(block);
    this.element.append(el('table', {}, el('thead', {}, this.#head), this.#body));
  }

  make() {
    return el('div', { class: 'tbl', tabindex: 0 });
  }

  /** @param {Chat.Block} block */
  update(block) {
    const guess = block.type === 'paragraph';
    const head = guess ? cells(block.text) : block.head;
    this.#columns = head.length;
    this.#align = block.align;
    this.#draw(this.#head, head, 'th', guess);
    for (let index = this.#fixed; index < block.rows.length; index += 1) {
      if (this.#rows[index] === undefined) {
        this.#rows[index] = el('tr');
        this.#body.append(this.#rows[index]);
      }
      const last = index === block.rows.length - 1;
      this.#draw(this.#rows[index], block.rows[index], 'td', last && !block.closed);
      if (!last) this.#fixed = index + 1;
    }
    for (const extra of this.#rows.splice(block.rows.length)) extra.remove();
  }

  /**
   * @param {HTMLElement} row
   * @param {string[]} texts
   * @param {'td'|'th'} tag
   * @param {boolean} open
   */
  #draw(row, texts, tag, open) {
    while (row.children.length > this.#columns) row.lastElementChild?.remove();
    for (let column = 0; column < this.#columns; column += 1) {
      let cell = /** @type {HTMLElement|undefined} */ (row.children[column]);
      if (cell === undefined) {
        cell = el(tag);
        row.append(cell);
        this.#inline.set(cell, new InlineView(cell));
      }
      const align = this.#align[column];
      cell.className = align === 'end' ? 'r' : align === 'center' ? 'm' : '';
      this.#inline.get(cell)?.update(texts[column] ?? '', open && column === texts.length - 1);
    }
  }
}

/** @param {Chat.Block} block */
function kind(block) {
  return block.type === 'paragraph' && !block.closed && looksLikeTable(block.text) ? 'table' : block.type;
}

/** @param {Chat.Block} block */
function makeView(block) {
  switch (kind(block)) {
    case 'item':
      return new ItemView(block);
    case 'paragraph':
    case 'heading':
      return new TextView(block);
    case 'fence':
      return new FenceView(block);
    case 'table':
      return new TableView(block);
    default:
      return new BlockView(block);
  }
}

/**
 * @param {HTMLElement} parent
 * @param {{children: BlockView[], settled: number}} view
 * @param {Chat.Block} source
 */
function drawBlocks(parent, view, source) {
  const { children } = view;
  for (let index = view.settled; index < source.children.length; index += 1) {
    const block = source.children[index];
    let child = children[index];
    if (child === undefined || !child.fits(block)) {
      const made = makeView(block);
      if (child === undefined) parent.append(made.element);
      else child.element.replaceWith(made.element);
      child = made;
      children[index] = made;
    }
    child.update(block);
    if (block.settled && view.settled === index) view.settled = index + 1;
  }
  for (const extra of children.splice(source.children.length)) extra.element.remove();
}

/** The elements whose end is where writing goes on. */
const INTO = new Set(['P', 'UL', 'OL', 'LI', 'BLOCKQUOTE', 'H3', 'H4', 'H5', 'H6', 'STRONG', 'EM', 'DEL', 'A', 'CODE', 'PRE', 'SPAN', 'DIV', 'TR', 'TD', 'TH']);

/** From so many blocks on those out of view are not laid out; in each short text that would cost more than it saves. */
const LONG = 30;

/** A Markdown text that may grow. */
export class MarkdownView {
  /** @type {HTMLElement} */
  element = el('div', { class: 'prose' });
  #text = '';
  #blocks = new Blocks();
  /** @type {{children: BlockView[], settled: number}} */
  #view = { children: [], settled: 0 };
  #caret = el('span', { class: 'caret', 'aria-hidden': 'true' });

  /** In UTF-16 units. */
  get length() {
    return this.#text.length;
  }

  get text() {
    return this.#text;
  }

  /**
   * Adds to the end of the text.
   * @param {string} text
   */
  append(text) {
    this.#caret.remove();
    this.#text += text;
    this.#blocks.append(text);
    this.#draw();
    this.#place('caret');
  }

  /**
   * Another text, with more to come. Blocks that are alike stay as they are drawn.
   * @param {string} text
   */
  reset(text) {
    this.#replace(text);
    this.#draw();
    this.#place('caret');
  }

  /**
   * The text has ended, and this is it. Blocks that are alike stay as they are drawn.
   * @param {string} text
   * @param {boolean} brokenOff - leaves a stump where it ended
   */
  finish(text, brokenOff) {
    this.#caret.remove();
    if (text !== this.#text) this.#replace(text);
    this.#blocks.finish();
    this.#draw();
    if (brokenOff) this.#place('caret cut-off');
  }

  /** @param {string} text */
  #replace(text) {
    this.#caret.remove();
    const before = this.#blocks.document.children;
    this.#text = text;
    this.#blocks = new Blocks();
    this.#blocks.append(text);
    const now = this.#blocks.document.children;
    let alike = 0;
    while (alike < this.#view.settled && now[alike]?.settled && JSON.stringify(before[alike]) === JSON.stringify(now[alike])) alike += 1;
    for (const extra of this.#view.children.splice(alike)) extra.element.remove();
    this.#view.settled = alike;
  }

  #draw() {
    if (this.#blocks.document.children.length > LONG) this.element.classList.add('long');
    drawBlocks(this.element, this.#view, this.#blocks.document);
  }

  /** @param {string} look */
  #place(look) {
    let at = /** @type {Element} */ (this.element);
    for (;;) {
      const last = at.lastElementChild;
      if (last === null || at.lastChild !== last || !INTO.has(last.tagName)) break;
      at = last.classList.contains('tbl') ? [...last.querySelectorAll('tr')].at(-1) ?? last : last;
    }
    this.#caret.className = look;
    at.append(this.#caret);
  }
}
