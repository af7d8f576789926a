import { el } from '../dom.js';
import { JsonScanner, layout } from '../json_text.js';

const COLOURS = new Map([
  ['key', 'k'],
  ['string', 's'],
  ['number', 'n'],
  ['word', 'n'],
]);
/** Longer texts are shown without colours, in UTF-16 units. */
const COLOURED = 50_000;

/**
 * @param {Chat.Token} token
 * @returns {Node}
 */
export function drawn({ kind, text }) {
  const colour = COLOURS.get(kind);
  return colour === undefined ? document.createTextNode(text) : el('span', { class: colour }, text);
}

/**
 * JSON text that is complete, laid out for reading; any other text as it is.
 * @param {string} text
 * @returns {Node[]}
 */
export function jsonNodes(text) {
  return text.length > COLOURED || !isJson(text) ? [document.createTextNode(text)] : layout(text).map(drawn);
}

/** @param {string} text */
function isJson(text) {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/** JSON text that is still arriving. */
export class JsonView {
  /** @type {HTMLElement} */
  element = el('pre');
  /** In UTF-16 units. */
  length = 0;
  #scanner = new JsonScanner();
  #caret = el('span', { class: 'caret tool', 'aria-hidden': 'true' });
  /** The text node that may go on. @type {Text|null} */
  #last = null;

  constructor() {
    this.element.append(this.#caret);
  }

  /** @param {string} text */
  append(text) {
    const coloured = this.length + text.length <= COLOURED;
    this.length += text.length;
    for (const token of coloured ? this.#scanner.feed(text) : [{ kind: /** @type {const} */ ('space'), text, goesOn: false }]) {
      if (token.goesOn && this.#last !== null) {
        this.#last.appendData(token.text);
        continue;
      }
      const node = drawn(token);
      this.#caret.before(node);
      this.#last = /** @type {Text} */ (node instanceof Text ? node : node.firstChild);
    }
  }

  /** @param {string} text */
  reset(text) {
    this.#scanner = new JsonScanner();
    this.#last = null;
    this.length = 0;
    this.element.replaceChildren(this.#caret);
    this.append(text);
  }
}
