import { Ribbon } from '../dashboard/ribbon.js';
import { svg } from './dom.js';

const WIDTH = 120;
const HEIGHT = 7;
const TONES = ['live', 'think', 'tool', 'wait', 'bad', 'gone'];

/** The rail lying down: what the run on the page did in the last two minutes, as far as this page saw it. */
export class HeaderRibbon {
  #root;
  #ribbon = new Ribbon();
  #run = '';
  #paths = new Map(TONES.map((tone) => [tone, svg('path', { class: `f-${tone}` })]));

  /** @param {Element} root - an empty `svg` */
  constructor(root) {
    this.#root = root;
    root.setAttribute('viewBox', `0 0 ${WIDTH} ${HEIGHT}`);
    root.setAttribute('preserveAspectRatio', 'none');
    root.append(...this.#paths.values());
  }

  /**
   * @param {string} run
   * @param {string} state
   * @param {number} now - ms
   */
  show(run, state, now) {
    if (this.#run !== run) this.#ribbon = new Ribbon();
    this.#run = run;
    this.#ribbon.push(state, now);
    this.#root.toggleAttribute('hidden', false);
    /** @type {Map<string, string>} */
    const shapes = new Map();
    for (const { tone, x, width } of this.#ribbon.bars(now, WIDTH)) {
      shapes.set(tone, `${shapes.get(tone) ?? ''}M${x.toFixed(1)} 0h${width.toFixed(1)}v${HEIGHT}h-${width.toFixed(1)}z`);
    }
    for (const [tone, path] of this.#paths) path.setAttribute('d', shapes.get(tone) ?? '');
  }

  hide() {
    this.#root.toggleAttribute('hidden', true);
  }
}
