import { SnapshotError } from './errors.js';

/** A snapshot that comes in parts (PROTOCOL.md 3.2, 5.5). */
export class SnapshotParts {
  /** @type {Map<number, string>} */
  #texts = new Map();

  /**
   * @param {{ epoch: unknown, offset: unknown, parts: number }} announced where the snapshot stands, how many parts there are
   */
  constructor({ epoch, offset, parts }) {
    this.epoch = epoch;
    this.offset = offset;
    this.parts = parts;
  }

  /** How many have come. */
  get part() {
    return this.#texts.size;
  }

  get complete() {
    return this.#texts.size === this.parts;
  }

  /**
   * Say whether a part is one of this snapshot.
   * @param {Record<string, any>} push
   */
  includes({ epoch, offset, parts }) {
    return epoch === this.epoch && offset === this.offset && parts === this.parts;
  }

  /**
   * @param {Record<string, any>} push
   * @throws {SnapshotError} it is no part
   */
  add({ part, text }) {
    if (!Number.isInteger(part) || part < 1 || part > this.parts || typeof text !== 'string') {
      throw new SnapshotError(`expected a part from 1 to ${this.parts} with a text, got part ${part}`);
    }
    this.#texts.set(part, text);
  }

  /**
   * @returns {unknown} the snapshot; all parts must have come
   * @throws {SnapshotError} the texts are no JSON
   */
  join() {
    let joined = '';
    for (let part = 1; part <= this.parts; part += 1) joined += this.#texts.get(part);
    try {
      return JSON.parse(joined);
    } catch (error) {
      throw new SnapshotError('its parts joined are no JSON', error);
    }
  }
}
