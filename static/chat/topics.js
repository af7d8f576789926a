/** The list of conversations: what the gateway names, with what this browser knows of them. Pure. */

import { daysAgo } from './time.js';

/** States of a run that is over. */
export const ENDED = new Set(['done', 'failed', 'stopped', 'lost']);
/** What is remembered of topics is bounded: so many. */
const REMEMBERED = 500;

/** What this browser remembers of topics: titles it has seen, and when it last looked. */
export class TopicMemory {
  #storage;
  /** @type {Map<string, {title: string|null, seen: number}>} */
  #topics = new Map();

  /** @param {Pick<Storage, 'getItem'|'setItem'>} storage */
  constructor(storage) {
    this.#storage = storage;
    try {
      for (const [topic, title, seen] of JSON.parse(storage.getItem('gateway.topics') ?? '[]')) {
        this.#topics.set(String(topic), { title: typeof title === 'string' ? title : null, seen: Number(seen) });
      }
    } catch {
      // What is stored is not ours to read.
    }
  }

  /** @param {string} topic */
  title(topic) {
    return this.#topics.get(topic)?.title ?? null;
  }

  /**
   * When it was last looked at; 0 for never.
   * @param {string} topic
   */
  seen(topic) {
    return this.#topics.get(topic)?.seen ?? 0;
  }

  /**
   * @param {string} topic
   * @param {string|null} title
   * @param {number} seen - Unix time in ms
   */
  look(topic, title, seen) {
    const before = this.#topics.get(topic);
    if (before !== undefined && before.title === title && before.seen >= seen) return;
    this.#topics.delete(topic);
    this.#topics.set(topic, { title: title ?? before?.title ?? null, seen });
    const [oldest] = this.#topics.keys();
    if (this.#topics.size > REMEMBERED) this.#topics.delete(oldest);
    try {
      this.#storage.setItem('gateway.topics', JSON.stringify([...this.#topics].map(([name, { title: known, seen: when }]) => [name, known, when])));
    } catch {
      // Without room to store it, it is known as long as the page lives.
    }
  }
}

/**
 * @param {{topic: string, at: number}[]} topics - newest first
 * @param {Chat.GroupsOptions} options
 * @returns {Chat.Group[]}
 */
export function groups(topics, { current, title: currentTitle, state, memory, brief, filter, now }) {
  const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
  /** @type {Map<string, Chat.Row[]>} */
  const found = new Map();
  const names = new Set(topics.map(({ topic }) => topic));
  for (const { topic, at } of topics) {
    // A sub-agent's is shown inside of the one that it belongs to.
    if (topic !== current && words.length === 0 && names.has(topic.slice(0, Math.max(0, topic.lastIndexOf('/'))))) continue;
    const other = topic === current ? null : brief(topic);
    const title = topic === current ? currentTitle : (other?.title ?? memory.title(topic) ?? topic);
    const shown = topic === current ? state : (other?.state ?? null);
    const text = `${title} ${topic}`.toLowerCase();
    if (!words.every((word) => text.includes(word))) continue;
    const days = daysAgo(at, now);
    const busy = shown === null || ENDED.has(shown) ? null : shown === 'waiting' ? 'Needs you' : 'Running';
    const group = busy ?? (days <= 0 ? 'Today' : days === 1 ? 'Yesterday' : 'Earlier');
    const seen = memory.seen(topic);
    const row = { topic, at, title, state: shown, words: wordsOf(other), started: other?.started ?? null, expires: other?.expires ?? null, unread: topic !== current && seen > 0 && at > seen };
    const rows = found.get(group);
    if (rows === undefined) found.set(group, [row]);
    else rows.push(row);
  }
  return ['Needs you', 'Running', 'Today', 'Yesterday', 'Earlier'].flatMap((title) => (found.has(title) ? [{ title, rows: found.get(title) ?? [] }] : []));
}

/** @type {Map<string, (brief: Pick<Chat.Brief, 'state'|'agent'|'error'>) => string>} */
const WORDS = new Map([
  ['queued', () => 'Waits for its agent'],
  ['writing', ({ agent }) => `${agent ?? 'The agent'} is writing`],
  ['thinking', ({ agent }) => `${agent ?? 'The agent'} is thinking`],
  ['tool', ({ agent }) => `${agent ?? 'The agent'} uses a tool`],
  ['waiting', ({ agent }) => `${agent ?? 'The agent'} asks`],
  ['stopping', () => 'Stopping'],
  ['done', () => 'Done'],
  ['failed', ({ error }) => (error === null ? 'Failed' : `Failed: ${error}`)],
  ['stopped', () => 'Stopped, text kept'],
  ['lost', () => 'Lost: its process went silent'],
]);

/**
 * What a conversation does, or how it ended.
 * @param {Pick<Chat.Brief, 'state'|'agent'|'error'>|null} brief
 */
export function wordsOf(brief) {
  return brief === null || brief.state === null ? '' : (WORDS.get(brief.state)?.(brief) ?? '');
}

/**
 * The title of a topic: what its agent named it, else the first line of the first message of a person.
 * @param {any} mirror
 * @returns {string|null}
 */
export function titleOf(mirror) {
  const { title, events } = mirror.context;
  if (typeof title === 'string' && title.trim() !== '') return title.trim();
  const first = events.find((/** @type {any} */ event) => event.type === 'user_message');
  const content = first?.data.content;
  const text = typeof content === 'string' ? content : Array.isArray(content) ? content.find((part) => part?.type === 'text')?.text : null;
  const line = typeof text === 'string' ? text.trim().split('\n', 1)[0] : '';
  return line === '' ? null : line.slice(0, 120);
}
