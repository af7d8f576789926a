/** The content of a message as text. Pure. */

/** The gateway takes no longer message, in bytes of its JSON without the quotes. */
const MAX_BYTES = 64 * 1024;

const encoder = new TextEncoder();

/**
 * By how much a text is too long for a message.
 * @param {string} text
 * @returns {number} bytes; 0 where it is not
 */
export function excess(text) {
  // A character of JSON takes 6 bytes at most, so most texts need not be encoded.
  if (text.length * 6 <= MAX_BYTES) return 0;
  return Math.max(0, encoder.encode(JSON.stringify(text)).length - 2 - MAX_BYTES);
}

/**
 * @param {unknown} value
 * @returns {Record<string, any>}
 */
export function record(value) {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? value : {};
}

/**
 * @param {unknown} value
 * @returns {string|null} null where it is no text, or empty
 */
export function textOrNull(value) {
  return typeof value === 'string' && value !== '' ? value : null;
}

/**
 * @param {unknown} content - text, a list of content parts, or nothing
 * @returns {{text: string, thinking: string, attachments: string[]}} attachments by the words that name them
 */
export function readContent(content) {
  if (typeof content === 'string') return { text: content, thinking: '', attachments: [] };
  if (content === null || content === undefined) return { text: '', thinking: '', attachments: [] };
  if (!Array.isArray(content)) return { text: asText(content), thinking: '', attachments: [] };
  /** @type {string[]} */
  const texts = [];
  /** @type {string[]} */
  const thoughts = [];
  /** @type {string[]} */
  const attachments = [];
  for (const item of content) {
    if (typeof item === 'string') {
      texts.push(item);
      continue;
    }
    const part = record(item);
    const type = textOrNull(part.type) ?? 'part';
    if (type === 'text') texts.push(textOrNull(part.text) ?? '');
    else if (type === 'thinking') thoughts.push(textOrNull(part.text) ?? '');
    else attachments.push([type.replace(/_.*$/, ''), textOrNull(part.filename) ?? textOrNull(part.media_type)].filter(Boolean).join(', '));
  }
  return { text: texts.join('\n\n'), thinking: thoughts.join('\n\n'), attachments };
}

/**
 * A value as text: JSON where it is no text already.
 * @param {unknown} value
 */
export function asText(value) {
  if (typeof value === 'string') return value;
  if (value === null || value === undefined) return '';
  return JSON.stringify(value);
}

/**
 * A name as it is; only what stands for one begins with a capital.
 * @param {string} name
 */
export function capital(name) {
  return name === 'you' || name === SOMEONE ? name.charAt(0).toUpperCase() + name.slice(1) : name;
}

/**
 * Who wrote a message, as a label.
 * @param {unknown} by
 * @param {string} nobody - where nobody is named
 */
export function author(by, nobody) {
  const name = person(by) ?? nobody;
  return name === SOMEONE ? GUEST : name;
}

/** A person without a name, where it stands alone. */
export const GUEST = 'Guest';

/** Who did something and has no name: where people are not told apart. */
export const SOMEONE = 'someone';

/**
 * Who did something, as the gateway named them.
 * @param {unknown} by
 * @returns {string|null} null where it was no person, as far as is told
 */
export function person(by) {
  const fields = record(by);
  const name = textOrNull(by) ?? textOrNull(fields.name) ?? textOrNull(fields.id);
  return name === 'anonymous' ? SOMEONE : name;
}

/**
 * What an error, or a reason, says, as a sentence.
 * @param {unknown} reason
 */
export function sentence(reason) {
  const text = (reason instanceof Error ? reason.message : String(reason)).trim();
  return /[.!?…]$/.test(text) ? text : `${text}.`;
}
