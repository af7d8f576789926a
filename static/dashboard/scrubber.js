import { icon, setChildren, setText, svg } from '../chat/dom.js';
import { clockTime, number } from '../chat/time.js';
import { markAt } from './as_of.js';
import { density } from './axis.js';

const BARS = 160;
const WIDTH = 1000;
const HEIGHT = 36;
/** The bars are drawn anew at most so often, in ms; what was left out comes with the next second. */
const DENSITY_MS = 250;

/** The whole of a run as a strip to drag along. A part of the painter. */
export class Scrubber {
  /** Null: the present. @type {number|null} */
  offset = null;
  #parts;
  #page;
  #handle = svg('path', { class: 'handle' });
  #bars = svg('g', {});
  #shown = '';
  #dragging = false;
  /** When the bars were drawn, in the time of the page. */
  #drawnAt = Number.NEGATIVE_INFINITY;

  /**
   * @param {{root: HTMLElement, track: HTMLElement, density: SVGElement, place: HTMLElement, live: HTMLElement, back: HTMLElement, play: HTMLElement, on: HTMLElement}} parts
   * @param {Board.ScrubberPage} page
   */
  constructor(parts, page) {
    this.#parts = parts;
    this.#page = page;
    parts.density.append(this.#bars, this.#handle);
    const { track } = parts;
    track.addEventListener('pointerdown', (event) => {
      this.#dragging = true;
      track.setPointerCapture(event.pointerId);
      track.focus();
      this.#drag(event);
    });
    track.addEventListener('pointermove', (event) => this.#dragging && this.#drag(event));
    for (const name of ['pointerup', 'pointercancel']) track.addEventListener(name, () => void (this.#dragging = false));
    track.addEventListener('keydown', (event) => {
      const by = event.key === 'ArrowLeft' || event.key === 'ArrowDown' ? -1 : event.key === 'ArrowRight' || event.key === 'ArrowUp' ? 1 : 0;
      if (by !== 0) {
        event.preventDefault();
        if (event.shiftKey) this.leap(by);
        else this.step(by);
      } else if (event.key === ' ') {
        event.preventDefault();
        page.play();
      } else if (event.key === 'Home') {
        event.preventDefault();
        this.go(page.marks()[0]?.offset ?? null);
      } else if (event.key === 'End') {
        event.preventDefault();
        this.go(null);
      }
    });
    parts.live.addEventListener('click', () => this.go(null));
    parts.back.addEventListener('click', () => this.leap(-1));
    parts.play.addEventListener('click', () => page.play());
    parts.on.addEventListener('click', () => this.leap(1));
  }

  /** @param {number|null} offset - null for the present */
  go(offset) {
    if (offset === this.offset) return;
    this.offset = offset;
    this.#page.moved();
  }

  /** One event. @param {number} by */
  step(by) {
    const marks = this.#page.marks();
    if (marks.length === 0) return;
    const at = this.offset === null ? marks.length - 1 : markAt(marks, this.offset);
    const next = at + by;
    if (next >= marks.length) this.go(null);
    else this.go(marks[Math.max(0, next)].offset);
  }

  /** One step of the run. @param {number} by */
  leap(by) {
    const places = this.#page.places();
    const at = this.offset ?? Number.POSITIVE_INFINITY;
    const next = by < 0 ? places.findLast((offset) => offset < at) : places.find((offset) => offset > at);
    if (next !== undefined) this.go(next);
    else if (by > 0) this.go(null);
  }

  /** @param {PointerEvent} event */
  #drag({ clientX }) {
    const { left, width } = this.#parts.track.getBoundingClientRect();
    const part = (clientX - left) / Math.max(1, width);
    const marks = this.#page.marks();
    if (marks.length === 0) return;
    if (part >= 0.995) {
      this.go(null);
      return;
    }
    const [from, to] = this.#page.span();
    const wanted = from + Math.max(0, part) * (to - from);
    let [low, high] = [0, marks.length - 1];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (marks[middle].at <= wanted) low = middle;
      else high = middle - 1;
    }
    this.go(marks[low].offset);
  }

  paint() {
    const marks = this.#page.marks();
    const [from, to] = this.#page.span();
    const last = marks.at(-1)?.offset ?? 0;
    const here = this.offset ?? last;
    const mark = this.offset === null ? null : marks[markAt(marks, this.offset)];
    const shown = `${marks.length} ${last} ${Math.round((to - from) / 500)}`;
    const time = performance.now();
    if (shown !== this.#shown && time - this.#drawnAt >= DENSITY_MS) {
      this.#shown = shown;
      this.#drawnAt = time;
      const each = WIDTH / BARS;
      setChildren(
        this.#bars,
        density(marks, from, to, BARS).flatMap(({ tone, height }, index) => (height === 0 ? [] : [svg('rect', { class: `f-${tone}`, x: (index * each).toFixed(2), width: (each * 0.75).toFixed(2), y: (HEIGHT - 2 - height * (HEIGHT - 6)).toFixed(1), height: (height * (HEIGHT - 6)).toFixed(1) })])),
      );
    }
    const at = mark?.at ?? null;
    const x = at === null ? WIDTH - 1 : ((at - from) / Math.max(1, to - from)) * WIDTH;
    this.#handle.setAttribute('d', `M${Math.min(WIDTH - 1, Math.max(1, x)).toFixed(1)} 0V${HEIGHT}`);
    const { track, root, place, live, play } = this.#parts;
    root.classList.toggle('past', this.offset !== null);
    track.setAttribute('aria-valuemin', String(marks[0]?.offset ?? 0));
    track.setAttribute('aria-valuemax', String(last));
    track.setAttribute('aria-valuenow', String(here));
    const word = this.#page.live() ? 'live' : 'the end';
    track.setAttribute('aria-valuetext', at === null ? `${word}, offset ${number(last)}` : `offset ${number(here)}, ${clockTime(at, { seconds: true })}`);
    setText(place, `${number(here)} of ${number(last)}`);
    setText(live, this.#page.live() ? 'Live' : 'End');
    const act = this.#page.playing() ? 'Pause' : 'Play';
    if (play.title !== act) {
      play.title = act;
      play.setAttribute('aria-label', act);
      play.replaceChildren(icon(act === 'Pause' ? 'pause' : 'play'));
    }
    play.toggleAttribute('disabled', marks.length < 2);
    live.setAttribute('aria-pressed', String(this.offset === null));
    return true;
  }
}
