/** Which parts of a code are comments, strings, numbers and keywords. Pure, and right enough to be read by: no parser. */

/** Longer texts stay without colours, in UTF-16 units. */
export const COLOURED = 50_000;

/** @typedef {'comment'|'string'|'number'|'word'|'key'|'gone'|'new'} Kind */
/** @typedef {{kind: Kind, start: number, end: number}} Part */
/** @typedef {{pattern: RegExp, words: Set<string>}} Language */

const NUMBER = String.raw`(?<number>(?<![\w.])(?:0[xXbBoO][\da-fA-F_]+|\d[\d_]*(?:\.[\d_]+)?(?:[eE][+-]?\d+)?)\w*)`;
const WORD = String.raw`(?<name>[A-Za-z_$@][\w$]*)`;
const QUOTED = String.raw`"(?:[^"\\\n]|\\[\s\S])*"?|'(?:[^'\\\n]|\\[\s\S])*'?`;
const SLASHES = String.raw`\/\/[^\n]*|\/\*[\s\S]*?(?:\*\/|$)`;
const HASH = String.raw`(?<![^\s;({\[])#[^\n]*`;

/**
 * @param {string} comment
 * @param {string} string
 * @param {string} words
 * @param {string} [word] - what a name is
 * @returns {Language}
 */
function language(comment, string, words, word = WORD) {
  return { pattern: new RegExp([`(?<comment>${comment})`, `(?<string>${string})`, NUMBER, word].join('|'), 'g'), words: new Set(words.split(' ')) };
}

const SCRIPT = language(
  SLASHES,
  `${QUOTED}|\`(?:[^\`\\\\]|\\\\[\\s\\S])*\`?`,
  'abstract any as async await boolean break case catch class const continue default delete do else enum export extends false finally for from function get if implements import in instanceof interface keyof let namespace never new null number of private protected public readonly return set static string super switch this throw true try type typeof undefined unknown var void while with yield',
);
const PYTHON = language(
  String.raw`#[^\n]*`,
  String.raw`(?:\b[rbfuRBFU]{1,2})?(?:"{3}(?:[^\\]|\\[\s\S])*?(?:"{3}|$)|'{3}(?:[^\\]|\\[\s\S])*?(?:'{3}|$)|${QUOTED})`,
  'and as assert async await break case class continue def del elif else except False finally for from global if import in is lambda match None nonlocal not or pass raise return self True try type while with yield',
);
const CURLY = language(
  SLASHES,
  String.raw`"(?:[^"\\\n]|\\[\s\S])*"?|'(?:[^'\\\n]|\\.)'|` + '`[^`]*`?',
  'abstract as async auto await bool boolean break byte case catch chan char class const continue crate def default defer delete do double else enum export extends extern false final finally float fn for foreach func fun function go goto if impl implements import in include inline int interface internal is let long loop match mod move mut namespace new nil null nullptr object of operator override package private protected pub public range readonly ref return self Self short signed sizeof static str string struct super switch template this throw throws trait true try type typedef typename union unsafe unsigned use using val var virtual void volatile when where while yield',
);
const SHELL = language(HASH, String.raw`"(?:[^"\\]|\\[\s\S])*"?|'[^']*'?`, 'case do done elif else esac exit export fi for function if in local return set source then until while');
const RUBY = language(HASH, QUOTED, 'alias and begin break case class def do else elsif end ensure false for if in module next nil not or private raise require rescue return self super then true unless until when while yield');
const SQL = language(
  String.raw`--[^\n]*|\/\*[\s\S]*?(?:\*\/|$)`,
  String.raw`'(?:[^']|'')*'?|"[^"]*"?`,
  'add all alter and as asc begin between by case check column commit constraint create cross default delete desc distinct drop else end exists false foreign from full group having if in index inner insert into is join key left like limit not null offset on or order outer primary references returning right rollback select set table then true union unique update using values view when where with',
);
const CSS = language(String.raw`\/\*[\s\S]*?(?:\*\/|$)`, QUOTED, 'and important inherit initial none not supports unset');
const PLAIN = language(HASH, QUOTED, 'true false null yes no on off', String.raw`(?<name>[A-Za-z_][\w.-]*)`);

/** By the names that people write behind a fence. @type {Map<string, Language>} */
const LANGUAGES = new Map();
for (const [found, names] of /** @type {[Language, string][]} */ ([
  [SCRIPT, 'js javascript jsx mjs ts typescript tsx json json5 jsonc'],
  [PYTHON, 'py python python3'],
  [CURLY, 'c cpp c++ h cs csharp go golang java kotlin kt php rust rs scala swift dart zig proto'],
  [SHELL, 'bash sh shell zsh console dockerfile make makefile'],
  [RUBY, 'rb ruby elixir ex'],
  [SQL, 'sql postgres postgresql mysql sqlite'],
  [CSS, 'css scss less'],
  [PLAIN, 'yaml yml toml ini env properties conf'],
])) {
  for (const name of names.split(' ')) LANGUAGES.set(name, found);
}

const MARKUP = /(?<comment><!--[\s\S]*?(?:-->|$))|(?<word><\/?[A-Za-z][\w:.-]*|\/?>)|(?<string>"[^"<>]*"|'[^'<>]*')|(?<key>(?<=\s)[A-Za-z_:@][\w:.-]*(?==))/g;

/**
 * @param {string} name - what stands behind the fence
 * @param {string} text
 * @returns {Part[]} in order, without overlaps; none where the language is not known or the text too long
 */
export function codeParts(name, text) {
  const known = name.toLowerCase();
  if (text.length > COLOURED) return [];
  if (known === 'diff' || known === 'patch') return lines(text);
  if (['html', 'xml', 'svg', 'vue'].includes(known)) {
    return matches(MARKUP, text, ({ groups = {} }) => /** @type {Kind} */ (Object.keys(groups).find((kind) => groups[kind] !== undefined)));
  }
  const found = LANGUAGES.get(known);
  if (found === undefined) return [];
  const { pattern, words } = found;
  const keyed = found === PLAIN || known.startsWith('json');
  return matches(pattern, text, ({ 0: all, index, groups = {} }) => {
    if (groups.comment !== undefined) return 'comment';
    if (keyed && /^["'\w]/.test(all) && /^[\w.-]*\s*[:=]/.test(text.slice(index + all.length, index + all.length + 80))) return 'key';
    if (groups.string !== undefined) return 'string';
    if (groups.number !== undefined) return 'number';
    return words.has(found === SQL ? all.toLowerCase() : all) ? 'word' : null;
  });
}

/**
 * @param {RegExp} pattern
 * @param {string} text
 * @param {(match: RegExpExecArray) => Kind|null} kindOf
 */
function matches(pattern, text, kindOf) {
  /** @type {Part[]} */
  const parts = [];
  for (const match of text.matchAll(pattern)) {
    const kind = kindOf(match);
    if (kind !== null) parts.push({ kind, start: match.index, end: match.index + match[0].length });
  }
  return parts;
}

/** @param {string} text - a difference: whole lines are what they are */
function lines(text) {
  /** @type {Part[]} */
  const parts = [];
  let start = 0;
  for (const line of text.split('\n')) {
    const kind = /^(?:@@|diff |index |\+\+\+|---)/.test(line) ? 'comment' : line.startsWith('+') ? 'new' : line.startsWith('-') ? 'gone' : null;
    if (kind !== null) parts.push({ kind, start, end: start + line.length });
    start += line.length + 1;
  }
  return parts;
}
