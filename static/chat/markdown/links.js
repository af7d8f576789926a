/** Addresses in Markdown, and which of them a page may follow. Pure. */

/** What a backslash takes the meaning from. */
export const ESCAPABLE = /[!-/:-@[-`{-~]/;
export const SPACE = /\s/;

/**
 * An address that a page may follow, or null: http, https and mailto only.
 * @param {string} address
 * @returns {string|null}
 */
export function safeHref(address) {
  const trimmed = address.trim();
  if (!/^(?:https?:\/\/|mailto:)/i.test(trimmed)) return null;
  try {
    const url = new URL(trimmed);
    return url.protocol === 'http:' || url.protocol === 'https:' || url.protocol === 'mailto:' ? url.href : null;
  } catch {
    return null;
  }
}

/**
 * A bracketed destination after `](`.
 * @param {string} text
 * @param {number} from - just after the opening parenthesis
 * @returns {{address: string, title: string|null, end: number}|'unfinished'|null} `end` is after the closing parenthesis
 */
export function destination(text, from) {
  let at = from;
  while (text[at] === ' ' || text[at] === '\n') at += 1;
  let address = '';
  if (text[at] === '<') {
    const end = text.indexOf('>', at);
    if (end === -1) return text.indexOf('\n', at) === -1 ? 'unfinished' : null;
    address = text.slice(at + 1, end);
    at = end + 1;
  } else {
    let depth = 0;
    for (; at < text.length && !SPACE.test(text[at]); at += 1) {
      if (text[at] === '\\' && at + 1 < text.length && ESCAPABLE.test(text[at + 1])) {
        at += 1;
      } else if (text[at] === '(') {
        depth += 1;
      } else if (text[at] === ')') {
        if (depth === 0) break;
        depth -= 1;
      }
      address += text[at];
    }
  }
  while (text[at] === ' ' || text[at] === '\n') at += 1;
  let title = null;
  if (text[at] === '"' || text[at] === "'") {
    const end = text.indexOf(text[at], at + 1);
    if (end === -1) return 'unfinished';
    title = text.slice(at + 1, end);
    at = end + 1;
    while (text[at] === ' ' || text[at] === '\n') at += 1;
  }
  if (at >= text.length) return 'unfinished';
  return text[at] === ')' ? { address, title, end: at + 1 } : null;
}
