/** Why a text is no JSON, in words and with its line, which `JSON.parse` says in no browser alike. Pure. */

const SPACE = /[ \t\n\r]*/y;
const NUMBER = /-?(?:0|[1-9]\d*)(\.\d*)?([eE][+-]?\d*)?/y;
const STRING = /"(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[\da-fA-F]{4}))*/y;
const WORD = /[\p{L}\d_$]+/uy;
/** No tool takes deeper arguments; the gateway takes none that are. */
const DEEPEST = 64;

class Fault extends Error {}

class Reader {
  at = 0;
  #text;

  /** @param {string} text */
  constructor(text) {
    this.#text = text;
  }

  read() {
    this.#value(0);
    if (this.#next() !== '') throw new Fault('nothing may follow the end');
  }

  /** @param {RegExp} pattern - sticky */
  #match(pattern) {
    pattern.lastIndex = this.at;
    return pattern.exec(this.#text);
  }

  /** The next character that is no space; none at the end. */
  #next() {
    this.at += this.#match(SPACE)?.[0].length ?? 0;
    return this.#text.charAt(this.at);
  }

  /** @param {number} depth */
  #value(depth) {
    const next = this.#next();
    if (depth > DEEPEST) throw new Fault('it is nested too deep');
    if (next === '{' || next === '[') this.#inside(next, depth);
    else if (next === '"') this.#string();
    else if (/[-\d]/.test(next)) this.#number();
    else this.#word();
  }

  /**
   * @param {string} opening
   * @param {number} depth
   */
  #inside(opening, depth) {
    const closing = opening === '{' ? '}' : ']';
    this.at += 1;
    if (this.#next() === closing) {
      this.at += 1;
      return;
    }
    for (;;) {
      if (opening === '{') {
        if (this.#next() !== '"') throw new Fault('a name in double quotes is missing');
        this.#string();
        if (this.#next() !== ':') throw new Fault('a colon is missing after the name');
        this.at += 1;
      }
      this.#value(depth + 1);
      const end = this.at;
      const next = this.#next();
      if (next !== ',' && next !== closing) {
        this.at = end;
        throw new Fault(`a comma or ${closing} is missing`);
      }
      this.at += 1;
      if (next === closing) return;
      if (this.#next() === closing) throw new Fault(`there is a comma before ${closing}`);
    }
  }

  #string() {
    this.at += this.#match(STRING)?.[0].length ?? 0;
    const next = this.#text.charAt(this.at);
    if (next === '\\') throw new Fault('a backslash stands before what needs none');
    if (next !== '"') throw new Fault('a closing quote is missing');
    this.at += 1;
  }

  #number() {
    const found = this.#match(NUMBER);
    if (found === null) throw new Fault('a digit is missing after the minus');
    this.at += found[0].length;
    if (found[1] === '.') throw new Fault('a digit is missing after the point');
    if (found[2] !== undefined && !/\d/.test(found[2])) throw new Fault('a digit is missing after the e');
    if (/\d/.test(this.#text.charAt(this.at))) throw new Fault('a number may not begin with 0');
  }

  #word() {
    const word = this.#match(WORD)?.[0] ?? '';
    if (word === '') throw new Fault('a value is missing');
    if (!['true', 'false', 'null'].includes(word)) throw new Fault(`${word.slice(0, 20)} stands without quotes`);
    this.at += word.length;
  }
}

/**
 * @param {string} text
 * @returns {{line: number, words: string}|null} null where it is JSON
 */
export function jsonFault(text) {
  const reader = new Reader(text);
  try {
    reader.read();
    return null;
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    return { line: text.slice(0, reader.at).split('\n').length, words: error.message };
  }
}
