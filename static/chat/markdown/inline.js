/**
 * The inline content of one block of Markdown, as a tree of nodes. Pure: no DOM.
 *
 * In an unfinished text (`open`) marks that have begun and not ended are drawn as they will most likely end: `**` runs to
 * the end of the text, half a link shows its words. Parsing costs the length of the text; the caller keeps that bounded
 * by cutting long texts with `safeCut`.
 */

import { destination, ESCAPABLE, safeHref, SPACE } from './links.js';
import { Mark } from './marks.js';

const ENTITIES = new Map([
  ['amp', '&'],
  ['lt', '<'],
  ['gt', '>'],
  ['quot', '"'],
  ['apos', "'"],
  ['nbsp', '\u00a0'],
  ['hellip', '…'],
  ['mdash', '—'],
  ['ndash', '–'],
]);
const ENTITY = /&(?:#(\d{1,7})|#[xX]([0-9a-fA-F]{1,6})|([a-z]{2,6}));/y;
const AUTOLINK = /<((?:https?:\/\/|mailto:)[^\s<>]{1,2000})>/y;
const BARE_URL = /https?:\/\/[^\s<>"`|\\^{}\u0000-\u001f]{1,2000}/y;
const PUNCTUATION = /[\p{P}\p{S}]/u;
/** A mark this far from the end of a text that has not ended there most likely never does. In UTF-16 units. */
const FAR = 1000;
/** Nesting that no text means; deeper brackets and marks are text. */
const MAX_OPENERS = 200;

/**
 * @param {Chat.Inline['type']} type
 * @param {Partial<Chat.Inline>} [fields]
 * @returns {Chat.Inline}
 */
function inline(type, fields) {
  return { type, text: '', children: [], href: null, title: null, ...fields };
}

/** @param {string} character */
function isSpace(character) {
  return character === '' || SPACE.test(character);
}

class Parser {
  #text;
  #open;
  /** Nodes of the level being built, with marks in between. @type {(Chat.Inline | Mark)[]} */
  #items = [];
  #plain = '';
  /** Marks that may still open something. @type {Mark[]} */
  #openers = [];
  /** Brackets that may still become a link. @type {Chat.Bracket[]} */
  #brackets = [];
  /** @type {[number, number][]} */
  #spans = [];
  /** Where a run of n backticks is known not to be closed any more. @type {Set<number>} */
  #unclosedRuns = new Set();
  #unfinished;

  /**
   * @param {string} text
   * @param {boolean} open
   */
  constructor(text, open) {
    this.#text = text;
    this.#open = open;
    this.#unfinished = text.length;
  }

  /** @returns {Chat.Parsed} */
  parse() {
    const text = this.#text;
    let at = 0;
    while (at < text.length) at = this.#step(at);
    this.#flush();
    if (this.#open) this.#endBrackets();
    this.#match(0);
    if (this.#open) this.#endMarks();
    const spans = this.#spans.sort((a, b) => a[0] - b[0] || b[1] - a[1]);
    return { nodes: this.#settle(0), spans, unfinished: this.#unfinished };
  }

  /** @param {number} at */
  #step(at) {
    const text = this.#text;
    const character = text[at];
    switch (character) {
      case '\\': {
        const next = text[at + 1];
        if (next === '\n') {
          this.#push(inline('break'));
          return at + 2;
        }
        if (next !== undefined && ESCAPABLE.test(next)) {
          this.#plain += next;
          return at + 2;
        }
        if (next === undefined && this.#open) {
          this.#fromHere(at);
          return at + 1;
        }
        break;
      }
      case '\n': {
        const before = this.#plain;
        this.#plain = before.trimEnd();
        if (before.endsWith('  ')) this.#push(inline('break'));
        else this.#plain += '\n';
        return at + 1;
      }
      case '`':
        return this.#code(at);
      case '*':
      case '_':
      case '~':
        return this.#mark(at);
      case '!':
        if (text[at + 1] === '[') {
          this.#bracket(at, 2);
          return at + 2;
        }
        break;
      case '[':
        this.#bracket(at, 1);
        return at + 1;
      case ']':
        return this.#closeBracket(at);
      case '<': {
        AUTOLINK.lastIndex = at;
        const found = AUTOLINK.exec(text);
        const href = found === null ? null : safeHref(found[1]);
        if (found !== null && href !== null) {
          this.#span(at, at + found[0].length);
          this.#push(inline('link', { href, children: [inline('text', { text: found[1] })] }));
          return at + found[0].length;
        }
        break;
      }
      case '&': {
        ENTITY.lastIndex = at;
        const found = ENTITY.exec(text);
        const decoded = found === null ? null : this.#entity(found);
        if (found !== null && decoded !== null) {
          this.#plain += decoded;
          return at + found[0].length;
        }
        break;
      }
      case 'h': {
        const end = this.#bareUrl(at);
        if (end !== at) return end;
        break;
      }
      default:
    }
    this.#plain += character;
    return at + 1;
  }

  /** @param {RegExpExecArray} found */
  #entity(found) {
    if (found[3] !== undefined) return ENTITIES.get(found[3]) ?? null;
    const point = found[1] === undefined ? Number.parseInt(found[2], 16) : Number.parseInt(found[1], 10);
    const valid = point > 0 && point <= 0x10ffff && !(point >= 0xd800 && point <= 0xdfff);
    return valid ? String.fromCodePoint(point) : '\ufffd';
  }

  /** @param {number} at */
  #bareUrl(at) {
    const text = this.#text;
    if (!text.startsWith('http', at) || (at > 0 && /[\p{L}\p{N}_]/u.test(text[at - 1]))) return at;
    // A link inside the words of a link is no link.
    if (this.#brackets.some(({ active }) => active) && text.includes('](', at)) return at;
    BARE_URL.lastIndex = at;
    const found = BARE_URL.exec(text);
    if (found === null) return at;
    let shown = found[0];
    for (;;) {
      const last = shown[shown.length - 1];
      const unbalanced = last === ')' && shown.split('(').length < shown.split(')').length;
      if (!unbalanced && !/[.,:;!?'"*_~\]]/.test(last)) break;
      shown = shown.slice(0, -1);
    }
    const href = safeHref(shown);
    if (href === null) return at;
    // More of the address may come.
    if (this.#open && at + shown.length >= text.length) this.#fromHere(at);
    this.#span(at, at + shown.length);
    this.#push(inline('link', { href, children: [inline('text', { text: shown })] }));
    return at + shown.length;
  }

  /** @param {number} at */
  #code(at) {
    const text = this.#text;
    let length = 1;
    while (text[at + length] === '`') length += 1;
    const run = '`'.repeat(length);
    let end = this.#unclosedRuns.has(length) ? -1 : text.indexOf(run, at + length);
    while (end !== -1) {
      let past = end + length;
      while (text[past] === '`') past += 1;
      if (past === end + length) break;
      end = text.indexOf(run, past);
    }
    if (end === -1) {
      this.#unclosedRuns.add(length);
      if (!this.#open) {
        this.#plain += run;
        return at + length;
      }
      this.#fromHere(at);
      const rest = text.slice(at + length).replace(/`+$/, '');
      if (rest !== '') this.#push(inline('code', { text: rest.replaceAll('\n', ' ').replace(/^ (?=.)/, '') }));
      return text.length;
    }
    let code = text.slice(at + length, end).replaceAll('\n', ' ');
    if (code.startsWith(' ') && code.endsWith(' ') && code.trim() !== '') code = code.slice(1, -1);
    this.#span(at, end + length);
    this.#push(inline('code', { text: code }));
    return end + length;
  }

  /** @param {number} at */
  #mark(at) {
    const text = this.#text;
    const sign = text[at];
    let length = 1;
    while (text[at + length] === sign) length += 1;
    const end = at + length;
    if (this.#open && end === text.length && length <= 3) {
      this.#fromHere(at);
      const opened = this.#items.some((item) => item instanceof Mark && item.sign === sign && item.opens);
      // It is about to open something, or is (half of) what closes; not drawn either way.
      if (opened || isSpace(at === 0 ? '' : text[at - 1])) {
        this.#flush();
        return end;
      }
    }
    const before = at === 0 ? '' : text[at - 1];
    const after = end < text.length ? text[end] : '';
    const leftFlanking = !isSpace(after) && (!PUNCTUATION.test(after) || isSpace(before) || PUNCTUATION.test(before));
    const rightFlanking = !isSpace(before) && (!PUNCTUATION.test(before) || isSpace(after) || PUNCTUATION.test(after));
    let opens = leftFlanking;
    let closes = rightFlanking;
    if (sign === '_') {
      opens = leftFlanking && (!rightFlanking || PUNCTUATION.test(before));
      closes = rightFlanking && (!leftFlanking || PUNCTUATION.test(after));
    }
    if ((sign === '~' && length !== 2) || (!opens && !closes)) {
      this.#plain += text.slice(at, end);
      return end;
    }
    this.#pushMark(sign, length, at, opens, closes);
    return end;
  }

  /**
   * @param {string} sign
   * @param {number} length
   * @param {number} at
   * @param {boolean} opens
   * @param {boolean} closes
   */
  #pushMark(sign, length, at, opens, closes) {
    this.#flush();
    const mark = new Mark(sign, length, at, opens, closes);
    this.#items.push(mark);
  }

  /**
   * @param {number} at
   * @param {number} length - 2 for an image
   */
  #bracket(at, length) {
    this.#flush();
    this.#brackets.push({ at, length, index: this.#items.length, active: true });
    this.#items.push(inline('text', { text: this.#text.slice(at, at + length) }));
  }

  /** @param {number} at */
  #closeBracket(at) {
    const bracket = this.#brackets.pop();
    if (bracket === undefined || !bracket.active || this.#text[at + 1] !== '(') {
      this.#plain += ']';
      return at + 1;
    }
    const found = destination(this.#text, at + 2);
    if (found === null || (found === 'unfinished' && !this.#open)) {
      this.#plain += ']';
      return at + 1;
    }
    this.#flush();
    this.#match(bracket.index + 1);
    const children = this.#settle(bracket.index + 1);
    this.#items.length = bracket.index;
    if (found === 'unfinished') {
      this.#fromHere(bracket.at);
      this.#items.push(inline('link', { children }));
      return this.#text.length;
    }
    const href = safeHref(found.address);
    this.#span(bracket.at, found.end);
    const words = children.length > 0 ? children : [inline('text', { text: found.address })];
    this.#items.push(inline('link', { href, title: found.title, children: words }));
    // A link holds no link.
    if (bracket.length === 1) for (const outer of this.#brackets) outer.active = outer.length === 2;
    return found.end;
  }

  /** The last bracket of an unfinished text, where it looks like the words of a link. */
  #endBrackets() {
    const text = this.#text;
    for (const { at, active } of this.#brackets) if (active && text.length - at < FAR) this.#fromHere(at);
    const bracket = this.#brackets.findLast(({ active }) => active);
    if (bracket === undefined) return;
    const words = text.slice(bracket.at + bracket.length);
    const before = bracket.at === 0 ? '' : text[bracket.at - 1];
    const likely = (isSpace(before) || before === '(' || bracket.length === 2) && !/^(?:$|[\d\s\]^]|[xX](?:$|\]))/.test(words);
    if (text.endsWith(']') || !likely || words.includes(']') || words.includes('\n')) return;
    this.#fromHere(bracket.at);
    this.#match(bracket.index + 1);
    const children = this.#settle(bracket.index + 1);
    this.#items.length = bracket.index;
    this.#items.push(inline('link', { children }));
  }

  /**
   * Pairs the marks from an index on, innermost first.
   * @param {number} from
   */
  #match(from) {
    /** @type {Mark[]} */
    let openers = [];
    for (let index = from; index < this.#items.length; index += 1) {
      const closer = this.#items[index];
      if (!(closer instanceof Mark)) continue;
      while (closer.closes && closer.length > 0) {
        const found = openers.findLastIndex((opener) => opener.matches(closer));
        if (found === -1) break;
        const opener = openers[found];
        // What stands unpaired between the two is text.
        openers.length = found + 1;
        const size = opener.sign === '~' || (opener.length >= 2 && closer.length >= 2) ? 2 : 1;
        opener.length -= size;
        closer.length -= size;
        const type = opener.sign === '~' ? 'del' : size === 2 ? 'strong' : 'em';
        opener.begins.unshift(type);
        closer.ends.push(type);
        this.#span(opener.at, closer.at + closer.size);
        if (opener.length === 0) openers.pop();
      }
      if (closer.opens && closer.length > 0 && openers.length < MAX_OPENERS) openers.push(closer);
    }
    if (from === 0) this.#openers = openers;
    openers = [];
  }

  /** Marks of an unfinished text that have opened something run to its end. */
  #endMarks() {
    for (const opener of this.#openers) {
      this.#fromHere(opener.at);
      // A lone star between two letters or digits is mostly a product; it becomes emphasis when its end comes.
      if (opener.sign === '*' && opener.length === 1 && opener.closes) continue;
      while (opener.length > 0) {
        const size = opener.sign === '~' ? 2 : Math.min(opener.length, 2);
        opener.length -= size;
        opener.begins.unshift(opener.sign === '~' ? 'del' : size === 2 ? 'strong' : 'em');
      }
    }
  }

  /**
   * Takes the items from an index on and makes a tree of them; what marks have begun and not ended ends there.
   * @param {number} from
   * @returns {Chat.Inline[]}
   */
  #settle(from) {
    const root = inline('text');
    const stack = [root];
    for (const item of this.#items.slice(from)) {
      if (!(item instanceof Mark)) {
        addTo(stack[stack.length - 1].children, item);
        continue;
      }
      for (const type of item.ends) {
        // Each end has its begin on the stack, innermost first; an unpaired one in between ended the text early.
        if (stack.length > 1 && stack.some((node) => node.type === type)) {
          while (stack.length > 1 && stack.pop()?.type !== type);
        }
      }
      if (item.length > 0) addTo(stack[stack.length - 1].children, inline('text', { text: item.sign.repeat(item.length) }));
      for (const type of item.begins) {
        const node = inline(type);
        stack[stack.length - 1].children.push(node);
        stack.push(node);
      }
    }
    return root.children;
  }

  /** @param {Chat.Inline} node */
  #push(node) {
    this.#flush();
    this.#items.push(node);
  }

  #flush() {
    if (this.#plain === '') return;
    this.#items.push(inline('text', { text: this.#plain }));
    this.#plain = '';
  }

  /**
   * @param {number} start
   * @param {number} end
   */
  #span(start, end) {
    this.#spans.push([start, end]);
  }

  /** @param {number} at */
  #fromHere(at) {
    this.#unfinished = Math.min(this.#unfinished, at);
  }
}

/**
 * @param {Chat.Inline[]} nodes
 * @param {Chat.Inline} node
 */
function addTo(nodes, node) {
  const last = nodes[nodes.length - 1];
  if (node.type === 'text' && last?.type === 'text') last.text += node.text;
  else nodes.push(node);
}

/**
 * @param {string} text - the source of one block's inline content
 * @param {boolean} open - more of it may come
 * @returns {Chat.Parsed}
 */
export function parseInline(text, open) {
  return new Parser(text, open).parse();
}

/**
 * Where a long text can be cut in two that are parsed apart, without cutting through a construct.
 * @param {string} text - more than `limit` long
 * @param {number} limit - in UTF-16 units
 * @returns {number} between 1 and `limit`; depends on the first `limit` units alone
 */
export function safeCut(text, limit) {
  const window = text.slice(0, limit);
  const { spans, unfinished } = parseInline(window, true);
  // Near the window's end a mark may look unlike itself for want of what follows.
  const last = unfinished > limit - FAR ? Math.min(unfinished, limit - 64) : limit - 64;
  for (let at = last; at > limit / 4; at -= 1) {
    if (!SPACE.test(window[at - 1])) continue;
    const inside = spans.find(([start, end]) => start < at && at < end);
    if (inside === undefined) return at;
    at = Math.min(at, inside[0] + 1);
  }
  const space = window.lastIndexOf(' ');
  if (space > limit / 4) return space + 1;
  const half = window.charCodeAt(limit - 1);
  return half >= 0xd800 && half <= 0xdbff ? limit - 1 : limit;
}
