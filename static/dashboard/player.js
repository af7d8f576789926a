/** Plays a run in the scrubber, from where it stands to the end. */

import { markAt } from './as_of.js';

/** A longer run is played faster, so that it is over after so long, in ms. */
const LONGEST_MS = 30_000;
/** Silence is cut to so much of it, in ms. */
const SILENCE_MS = 1000;
/** So often it goes on, in ms. */
const EVERY_MS = 50;

export class Player {
  playing = false;
  /** Moves by the player itself do not stop it. */
  moving = false;
  #page;
  /** What of the way to the next event is over, in ms of the run. */
  #done = 0;
  #last = 0;
  /** Timers under another number are of a play that was stopped. */
  #play = 0;

  /** @param {Board.PlayerPage} page */
  constructor(page) {
    this.#page = page;
  }

  toggle() {
    if (this.playing) this.stop();
    else this.#start();
  }

  stop() {
    if (!this.playing) return;
    this.playing = false;
    this.#play += 1;
    this.#page.changed();
  }

  #start() {
    const { marks, offset, now } = this.#page;
    if (marks().length < 2) return;
    this.playing = true;
    this.#done = 0;
    this.#last = now();
    if (offset() === null) this.#go(marks()[0].offset);
    this.#page.changed();
    this.#wait();
  }

  #wait() {
    const play = this.#play;
    this.#page.later(() => {
      if (play === this.#play) this.#step();
    }, EVERY_MS);
  }

  #step() {
    const { marks: told, offset, now } = this.#page;
    const marks = told();
    const time = now();
    this.#done += (time - this.#last) * pace(marks);
    this.#last = time;
    const from = markAt(marks, offset() ?? 0);
    let index = from;
    for (; index < marks.length - 1; index += 1) {
      const next = gap(marks, index);
      if (this.#done < next) break;
      this.#done -= next;
    }
    if (index >= marks.length - 1) {
      this.#go(null);
      this.stop();
      return;
    }
    if (index > from) this.#go(marks[index].offset);
    this.#wait();
  }

  /** @param {number|null} offset */
  #go(offset) {
    this.moving = true;
    this.#page.go(offset);
    this.moving = false;
  }
}

/**
 * @param {Board.Mark[]} marks
 * @param {number} index
 */
function gap(marks, index) {
  return Math.min(SILENCE_MS, Math.max(0, marks[index + 1].at - marks[index].at));
}

/**
 * How much of the run is played in a ms.
 * @param {Board.Mark[]} marks
 */
function pace(marks) {
  let length = 0;
  for (let index = 0; index < marks.length - 1; index += 1) length += gap(marks, index);
  return Math.max(1, length / LONGEST_MS);
}
