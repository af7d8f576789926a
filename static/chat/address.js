/** What the page's address says: the topic in `?topic=`, a message in `#m-…`. Pure. */

const TOPIC = /^[A-Za-z0-9_.:@/-]{1,200}$/;
const LETTERS = 'abcdefghijklmnopqrstuvwxyz0123456789';

/**
 * @param {string} search - the query with its question mark
 * @returns {string|null} null where there is none, or what is there names no topic
 */
export function topicOf(search) {
  const topic = new URLSearchParams(search).get('topic');
  return topic !== null && TOPIC.test(topic) ? topic : null;
}

/**
 * What stands where a topic should and names none.
 * @param {string} search - the query with its question mark
 * @returns {string|null} null where a topic is named, or nothing stands there
 */
export function wrongTopicOf(search) {
  const topic = new URLSearchParams(search).get('topic');
  return topic === null || TOPIC.test(topic) ? null : topic;
}

/** @param {string} topic */
export function addressOf(topic) {
  // These are legal in a query and readable; encoding them helps nobody.
  return `?topic=${encodeURIComponent(topic).replace(/%(3A|40|2F)/g, decodeURIComponent)}`;
}

/**
 * @param {string} hash - the fragment with its mark
 * @returns {string|null} the message that it points to
 */
export function messageOf(hash) {
  if (!hash.startsWith('#m-')) return null;
  try {
    return decodeURIComponent(hash.slice(3)) || null;
  } catch {
    return null;
  }
}

/**
 * @param {string} message
 */
export function fragmentOf(message) {
  return `#m-${encodeURIComponent(message)}`;
}

/**
 * A name that nobody has used.
 * @param {Uint8Array} random - at least 8 bytes
 */
export function freshTopic(random) {
  return `chat:${Array.from(random.slice(0, 8), (byte) => LETTERS[byte % LETTERS.length]).join('')}`;
}
