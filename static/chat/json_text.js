/**
 * JSON as text: coloured while it is unfinished, laid out by space alone. Numbers and strings are never rewritten, for what
 * is shown must be what was sent.
 */

/** Cuts JSON text into tokens as it arrives; what is no JSON becomes tokens too. */
export class JsonScanner {
  /** What the open brackets are, `{` or `[`. @type {string[]} */
  #inside = [];
  /** The next string in an object is a key. */
  #expectsKey = false;
  /** Of the token that may go on. @type {Chat.Kind|null} */
  #kind = null;
  #escaped = false;

  /**
   * @param {string} text - the next piece
   * @returns {Chat.Token[]} which together are the piece
   */
  feed(text) {
    /** @type {Chat.Token[]} */
    const tokens = [];
    let from = 0;
    let goesOn = this.#kind !== null;
    /**
     * @param {number} at
     * @param {Chat.Kind|null} next
     */
    const end = (at, next) => {
      if (this.#kind !== null && at > from) tokens.push({ kind: this.#kind, text: text.slice(from, at), goesOn });
      goesOn = false;
      from = at;
      this.#kind = next;
    };
    for (let at = 0; at < text.length; at += 1) {
      const character = text[at];
      if (this.#kind === 'string' || this.#kind === 'key') {
        if (this.#escaped) this.#escaped = false;
        else if (character === '\\') this.#escaped = true;
        else if (character === '"') end(at + 1, null);
        continue;
      }
      const kind = this.#kindOf(character);
      if (kind !== this.#kind || kind === 'mark') end(at, kind);
      if (kind === 'mark') this.#pass(character);
    }
    end(text.length, this.#kind);
    return tokens;
  }

  /**
   * @param {string} character - outside a string
   * @returns {Chat.Kind}
   */
  #kindOf(character) {
    if (character === '"') return this.#expectsKey ? 'key' : 'string';
    if (' \n\r\t'.includes(character)) return 'space';
    if ('{}[],:'.includes(character)) return 'mark';
    if (this.#kind === 'word') return 'word';
    if (/[-+.\d]/.test(character)) return 'number';
    return this.#kind === 'number' && (character === 'e' || character === 'E') ? 'number' : 'word';
  }

  /** @param {string} mark */
  #pass(mark) {
    if (mark === '{' || mark === '[') this.#inside.push(mark);
    else if (mark === '}' || mark === ']') this.#inside.pop();
    this.#expectsKey = (mark === '{' || mark === ',') && this.#inside.at(-1) === '{';
  }
}

/**
 * @param {string} text
 * @returns {Chat.Token[]}
 */
export function tokens(text) {
  return new JsonScanner().feed(text);
}

/** @param {string} text */
export function isJson(text) {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/** An array or object that is not longer than this stays on one line. In UTF-16 units. */
const SHORT = 60;

/**
 * Lays JSON text out for reading. Only space between tokens changes; what does not parse is given back as it is.
 * @param {string} text
 * @param {{open?: boolean}} [how] - what is outermost is never on one line
 * @returns {Chat.Token[]}
 */
export function layout(text, { open = false } = {}) {
  const all = tokens(text);
  if (!isJson(text)) return all;
  const solid = all.filter(({ kind }) => kind !== 'space');
  /** @type {Chat.Token[]} */
  const laid = [];
  /** For each open bracket, whether its content stays on the line. @type {boolean[]} */
  const flat = [];
  /** @param {string} space */
  const gap = (space) => laid.push({ kind: 'space', text: space, goesOn: false });
  const newline = () => gap(`\n${'  '.repeat(flat.length)}`);
  for (let index = 0; index < solid.length; index += 1) {
    const token = solid[index];
    const next = solid[index + 1];
    if (token.kind !== 'mark') {
      laid.push(token);
      continue;
    }
    const opens = token.text === '{' || token.text === '[';
    const closes = token.text === '}' || token.text === ']';
    if (closes && !flat.pop() && solid[index - 1].text !== '{' && solid[index - 1].text !== '[') newline();
    laid.push(token);
    if (opens) {
      flat.push(flat.at(-1) === true || (!(open && flat.length === 0) && isShort(solid, index)));
      if (!flat.at(-1) && next?.text !== '}' && next?.text !== ']') newline();
    } else if (token.text === ',') {
      if (flat.at(-1)) gap(' ');
      else newline();
    } else if (token.text === ':') {
      gap(' ');
    }
  }
  return laid;
}

/**
 * @param {Chat.Token[]} solid
 * @param {number} from - of an opening bracket
 */
function isShort(solid, from) {
  let [depth, length] = [0, 0];
  for (let index = from; index < solid.length && length <= SHORT; index += 1) {
    const { kind, text } = solid[index];
    length += text.length + 1;
    if (kind !== 'mark') continue;
    if (text === '{' || text === '[') depth += 1;
    else if (text === '}' || text === ']') depth -= 1;
    if (depth === 0) return length <= SHORT;
  }
  return false;
}

/**
 * The fields of an object as they are written, or null where the text is no object.
 * @param {string} text
 * @returns {{name: string, value: string}[]|null}
 */
export function fields(text) {
  const solid = tokens(text).filter(({ kind }) => kind !== 'space');
  if (solid[0]?.text !== '{' || !isJson(text)) return null;
  const found = [];
  let at = 1;
  while (solid[at]?.kind === 'key') {
    const name = JSON.parse(solid[at].text);
    let [value, depth] = ['', 0];
    for (at += 2; at < solid.length; at += 1) {
      const { kind, text: part } = solid[at];
      if (kind === 'mark' && depth === 0 && (part === ',' || part === '}')) break;
      if (kind === 'mark' && '{['.includes(part)) depth += 1;
      else if (kind === 'mark' && '}]'.includes(part)) depth -= 1;
      value += kind === 'mark' && (part === ',' || part === ':') ? `${part} ` : part;
    }
    found.push({ name, value });
    at += 1;
  }
  return found;
}

/** Arguments in a line are not longer than this, in UTF-16 units. */
const LINE = 160;

/**
 * The arguments of a call, for one line: `path="a.txt" limit=20`.
 * @param {string} text
 */
export function oneLine(text) {
  const found = text.length > 20_000 ? null : fields(text);
  const line = found === null ? text.slice(0, LINE) : found.map(({ name, value }) => `${name}=${plain(value)}`).join(' ');
  return line.replace(/\s+/g, ' ').slice(0, LINE);
}

/**
 * A string without its quotes where they tell nothing.
 * @param {string} value
 */
function plain(value) {
  return /^"[^"\\\s]{1,60}"$/.test(value) ? value.slice(1, -1) : value;
}
