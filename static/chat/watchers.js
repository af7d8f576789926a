import { GUEST } from './content.js';
import { el, setChildren, setText } from './dom.js';
import { initials } from './entries/user.js';
import { number } from './time.js';

/** Joins and leaves are heard; a look now and then finds what was missed, in ms. */
const REFRESH_MS = 30_000;
const FACES = 3;
const ROWS = 8;
const COLOURS = ['a', 'b', 'c'];

/** Who watches: faces in the head, names in the panel, in the order they came. A part of the painter. */
export class Watchers {
  #options;
  /** By connection, in the order they came. @type {Map<string, {client: string, user: string}>} */
  #readers = new Map();
  /** Where they are too many to be listed. @type {number|null} */
  #count = null;
  #shown = '';

  /**
   * @param {Chat.WatchersOptions} options
   */
  constructor(options) {
    this.#options = options;
    const { topic, mark } = options;
    topic.on('join', (reader) => this.#came(reader));
    topic.on('leave', ({ client: gone }) => {
      this.#readers.delete(gone);
      mark();
    });
    topic.on('state', (state) => state === 'live' && void this.refresh());
    document.addEventListener('visibilitychange', () => void this.refresh());
    setInterval(() => void this.refresh(), REFRESH_MS);
  }

  async refresh() {
    if (document.hidden || this.#options.topic.state !== 'live') return;
    try {
      const readers = await this.#options.topic.presence();
      const there = new Map(readers.map((reader) => [reader.client, reader]));
      for (const client of this.#readers.keys()) if (!there.has(client)) this.#readers.delete(client);
      for (const reader of readers) this.#came(reader);
      this.#count = null;
    } catch {
      // Too many to list, or none may be: the number is what is left.
      this.#count = await this.#options.topic.presenceStats().then(
        ({ num_clients: clients }) => clients,
        () => null,
      );
      this.#readers.clear();
    }
    this.#options.mark();
  }

  /** @param {{client: string, user: string}} reader */
  #came(reader) {
    if (!this.#readers.has(reader.client)) this.#readers.set(reader.client, reader);
    this.#options.mark();
  }

  /** One for each person, however many tabs they have; who is anonymous is one for each tab. */
  get #people() {
    const mine = this.#options.client();
    /** @type {Map<string, Chat.Person>} */
    const people = new Map();
    for (const { client, user } of this.#readers.values()) {
      const own = client === mine || (user !== '' && user === this.#options.own.name);
      const key = user === '' ? `${client} ` : user;
      if (!people.has(key) || own) people.set(key, { name: own ? 'You' : user || GUEST, own });
    }
    return [...people.values()];
  }

  paint() {
    const people = this.#people;
    const total = this.#count ?? people.length;
    const shown = JSON.stringify([people, total]);
    if (shown === this.#shown) return true;
    this.#shown = shown;
    const { faces, section, count, names } = this.#options.parts;
    const rest = total - Math.min(people.length, FACES);
    faces.hidden = total < 2;
    faces.setAttribute('aria-label', `Watching: ${total}`);
    faces.title = `${number(total)} watching`;
    setChildren(faces, [...people.slice(0, FACES).map((who, index) => face(who, index)), ...(rest > 0 ? [el('span', { class: 'quiet num' }, `+${number(rest)}`)] : [])]);
    section.hidden = total === 0;
    setText(count, number(total));
    const rows = people.slice(0, ROWS).map((who, index) => el('li', { class: 'row' }, face(who, index), el('span', { class: 'cut' }, who.name)));
    if (total > rows.length) rows.push(el('li', { class: 'quiet' }, `${rows.length > 0 ? 'and ' : ''}${number(total - rows.length)} more`));
    setChildren(names, rows);
    return true;
  }
}

/**
 * @param {Chat.Person} person
 * @param {number} index
 */
function face({ name, own }, index) {
  return el('span', { class: `face ${own ? 'a' : COLOURS[index % COLOURS.length]}`, 'aria-hidden': 'true' }, initials(name));
}
