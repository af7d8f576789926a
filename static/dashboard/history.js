/** Brings a whole history into a recording: what is stored first, then what is told, without a gap. */

/** Failing to read is tried again after so long, in ms. */
const AGAIN_MS = 2000;
/** What came while earlier events were read is kept up to here; the rest is read again. */
const MOST_KEPT = 5000;

export class History {
  /** Why the last reading failed. @type {unknown} */
  error = null;
  #recording;
  #options;
  #reading = false;
  /** @type {Board.Told[]} */
  #kept = [];
  /** Readings under another number are of a history that was given up. */
  #attempt = 0;

  /**
   * @param {import('./recording.js').Recording} recording
   * @param {Board.HistoryOptions} options
   */
  constructor(recording, options) {
    this.#recording = recording;
    this.#options = options;
  }

  get recording() {
    return this.#recording;
  }

  /** It holds all that the topic's mirror does. */
  get complete() {
    return !this.#reading && this.#recording.upto === this.#options.mirror().offset;
  }

  /**
   * What the topic told.
   * @param {{events: Board.Told[], reset: boolean}} change
   */
  take({ events, reset }) {
    const { epoch } = this.#options.mirror();
    if (reset && this.#recording.epoch !== '' && this.#recording.epoch !== epoch) {
      this.#restart({ epoch, offset: 0 });
    } else if (!reset && epoch !== this.#recording.epoch && this.#recording.upto > 0) {
      this.#recording.resume(epoch);
    }
    if (this.#reading) {
      this.#kept.push(...events);
      if (this.#kept.length > MOST_KEPT) this.#kept.splice(0, this.#kept.length - MOST_KEPT);
    } else {
      this.#all(events);
    }
    void this.#read();
  }

  /** @param {{epoch: string, offset: number}} position */
  #restart(position) {
    this.#attempt += 1;
    this.#reading = false;
    this.#kept = [];
    this.#recording.begin(position);
    this.#options.restarted();
  }

  /** @param {Board.Told[]} events */
  #all(events) {
    let count = 0;
    for (const told of events) {
      const result = this.#recording.take(told);
      if (result === 'hole') break;
      if (result === 'applied') {
        this.#options.took(told);
        count += 1;
      }
    }
    if (count > 0) this.#options.changed();
  }

  async #read() {
    if (this.#reading || this.complete) return;
    this.#reading = true;
    const attempt = this.#attempt;
    try {
      while (attempt === this.#attempt && this.#recording.upto < this.#options.mirror().offset) {
        const { epoch, upto } = this.#recording;
        const begun = upto > 0 || epoch !== '';
        const page = await this.#options.read(begun && upto > 0 ? { epoch: epoch, offset: upto } : undefined);
        if (attempt !== this.#attempt) return;
        const [first] = page.publications;
        if (!begun || upto === 0) this.#recording.begin({ epoch: page.epoch, offset: first === undefined ? page.offset : (first.first ?? first.offset) - 1 });
        const before = this.#recording.upto;
        this.#all(page.publications);
        this.#all(this.#kept);
        this.#kept = this.#kept.filter(({ offset }) => offset > this.#recording.upto);
        if (this.#recording.upto === before) break;
      }
      this.error = null;
    } catch (error) {
      if (attempt !== this.#attempt) return;
      this.error = error;
      // Its position may not be continued: what is stored now is read from its beginning.
      if (/** @type {any} */ (error).code === 112) this.#restart({ epoch: '', offset: 0 });
      this.#options.later(() => void this.#read(), AGAIN_MS);
    }
    if (attempt === this.#attempt) this.#reading = false;
    this.#options.changed();
  }
}
