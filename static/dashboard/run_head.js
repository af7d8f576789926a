import { el, glyph, setChildren, setText } from '../chat/dom.js';
import { clockTime } from '../chat/time.js';
import { factsOf } from './facts.js';
import { toneOf } from './ribbon.js';
import { wordOf } from './row_view.js';

/** The run's name, state and facts, the other runs of its topic, and the way to stop it. A part of the painter. */
export class RunHead {
  /** How many read the topic; null while it is not known. @type {number|null} */
  watching = null;
  #parts;
  #page;

  /**
   * @param {Board.RunHeadParts} parts
   * @param {Board.RunHeadPage} page
   */
  constructor(parts, page) {
    this.#parts = parts;
    this.#page = page;
    parts.pick.addEventListener('change', () => page.picked(parts.pick.value));
  }

  paint() {
    const { run, title, totals, stops } = this.#page;
    const shown = run();
    setText(this.#parts.title, title());
    document.title = `${title()} · run · Gateway`;
    const told = totals();
    this.#chip(told);
    this.#facts(shown === null || told === null ? [] : factsOf(shown, told, this.watching));
    if (shown !== null && shown.over !== null) stops.settle(shown.run);
    this.#stop(shown);
    this.#picks(shown);
    this.#past(shown);
    this.#page.blank.show(shown);
    return true;
  }

  /** @param {Board.Totals|null} totals */
  #chip(totals) {
    const { chip } = this.#parts;
    chip.hidden = totals === null;
    if (totals === null) return;
    const word = wordOf(totals.state, this.#page.may('decide'));
    if (chip.dataset.state === `${totals.state} ${word}`) return;
    chip.dataset.state = `${totals.state} ${word}`;
    chip.className = `chip ${toneOf(totals.state)}`;
    chip.replaceChildren(glyph(totals.state), el('span', {}, word));
  }

  /** @param {ReturnType<typeof factsOf>} facts */
  #facts(facts) {
    const list = this.#parts.facts;
    const words = JSON.stringify(facts);
    if (list.dataset.shown === words) return;
    list.dataset.shown = words;
    list.hidden = facts.length === 0;
    setChildren(
      list,
      facts.map(({ name, value, note, class: style }) => {
        const bad = style === 't-bad';
        return el('div', { class: bad ? '' : style }, el('dt', {}, name), el('dd', {}, el('span', { class: bad ? style : '' }, value), ...(note === '' ? [] : [' ', el('span', { class: 'quiet' }, note)])));
      }),
    );
  }

  /** @param {Board.RunSpan|null} shown */
  #stop(shown) {
    const { moment, may, stops, own, button } = this.#page;
    const act = shown !== null && shown.over === null && moment() === null && may('cancel') ? shown.run : null;
    const stopping = act === null || shown?.cancel == null ? null : { by: own.who(shown.run, shown.cancel.by), mode: shown.cancel.mode, step: shown.steps };
    button.show({ act, asked: act !== null && stops.asked(act), stopping });
  }

  /** @param {Board.RunSpan|null} shown */
  #picks(shown) {
    const { pick } = this.#parts;
    const runs = this.#page.runs();
    const words = runs.map(({ run: id, span }) => `${id} ${span.name} ${span.state}`).join('\n');
    if (pick.dataset.shown !== words) {
      pick.dataset.shown = words;
      pick.replaceChildren(...runs.map(({ run: id, span }, index) => el('option', { value: id }, `${index + 1} of ${runs.length} · ${span.name} · ${clockTime(span.from)} · ${wordOf(span.state, this.#page.may('decide'))}`)));
    }
    /** @type {HTMLElement} */ (pick.parentElement).hidden = runs.length < 2;
    if (shown !== null && pick.value !== shown.run) pick.value = shown.run;
  }

  /** @param {Board.RunSpan|null} shown */
  #past(shown) {
    const { moment, notices, live } = this.#page;
    if (moment() === null) {
      notices.hide('past');
      return;
    }
    const over = shown !== null && shown.over !== null;
    const text = over ? 'The run has ended since.' : 'Nothing can be acted on here; the run goes on behind.';
    notices.show('past', { tone: 'tool', symbol: 'clock', title: 'You look at the past.', text, action: { label: over ? 'To its end' : 'Back to live', press: live } });
  }
}
