import { asText, capital, readContent, record } from '../content.js';
import { button, copyButton, el, glyph, icon, setChildren, setText, svg } from '../dom.js';
import { fields, oneLine } from '../json_text.js';
import { clockTime, duration, elapsed } from '../time.js';
import { EntryView } from './entry.js';
import { shrink } from './shrink.js';
import { JsonView, jsonNodes } from './json_view.js';
import { notice } from './lines.js';
import { Question, overtaken, struck } from './question.js';

/** A finished call stays open for so long, so that it can be seen to finish, in ms. */
const FOLD_MS = 600;
/** A longer result is shown by its beginning, in UTF-16 units. */
const WHOLE = 65_536;
const BEGINNING = 2048;

/** @type {Map<string, {glyph: string, rail: string, card: string, word: string}>} */
const PHASES = new Map([
  ['arriving', { glyph: 'tool', rail: 'tool', card: 'live', word: 'writing arguments' }],
  ['ready', { glyph: 'queued', rail: 'tool', card: '', word: 'ready' }],
  ['waiting', { glyph: 'waiting', rail: 'wait', card: '', word: '' }],
  ['running', { glyph: 'tool', rail: 'tool', card: 'live', word: 'running' }],
  ['done', { glyph: 'done', rail: 'tool', card: '', word: '' }],
  ['failed', { glyph: 'failed', rail: 'bad', card: 'bad', word: 'failed' }],
  ['rejected', { glyph: 'stopped', rail: 'gone', card: 'gone', word: 'rejected' }],
  ['expired', { glyph: 'lost', rail: 'gone', card: 'gone', word: 'expired' }],
  ['interrupted', { glyph: 'stopped', rail: 'gone', card: 'gone', word: 'interrupted' }],
]);
const FOLDING = new Set(['done', 'rejected', 'expired']);
const DECIDED = new Map([
  ['approve', 'approved'],
  ['edit', 'edited'],
  ['reject', 'rejected'],
]);
const WANTED = new Map([
  ['approve', 'approval'],
  ['edit', 'approval'],
  ['reject', 'rejection'],
]);

/** A call of a tool, from its first argument to its result. */
export class ToolView extends EntryView {
  #preview = new JsonView();
  /** What the reader chose; null while they chose nothing. @type {boolean|null} */
  #chosen = null;
  /** The time to be seen finishing is over. */
  #rested = true;
  /** @type {ReturnType<typeof setTimeout>|undefined} */
  #timer;
  /** The whole of a large result is shown. */
  #all = false;
  /** The result that the store keeps apart. @type {'away'|'coming'|'failed'|{text: string}} */
  #whole = 'away';
  /** @type {(() => void)|null} */
  #untick = null;
  /** Where the running time or the countdown stands. @type {HTMLElement} */
  #time = el('span', { class: 'num' });
  /** @type {Question|null} */
  #question = null;
  /** An edit of this reader's that another decision overtook. @type {string|null} */
  #overtaken = null;

  get questions() {
    return this.#question === null ? [] : [{ question: this.#question, element: this.#question.element }];
  }

  render() {
    const { phase, open } = this.entry;
    const look = PHASES.get(phase) ?? { glyph: 'tool', rail: 'tool', card: '', word: phase };
    if (!FOLDING.has(phase)) {
      this.#rested = false;
    } else if (!this.#rested && this.body.firstChild !== null) {
      this.#timer ??= setTimeout(() => {
        this.#rested = true;
        if (this.element.isConnected) this.render();
      }, FOLD_MS);
    } else {
      this.#rested = true;
    }
    const folded = FOLDING.has(phase) ? !(this.#chosen ?? !this.#rested) : false;
    this.look(look.rail, { live: phase === 'running' || phase === 'arriving', tight: folded });
    this.setNode(look.glyph, () => glyph(look.glyph));
    if (phase === 'running' || phase === 'waiting') this.#untick ??= this.page.ticker.add(() => this.#count());
    else this.#rest();
    const focused = this.body.contains(document.activeElement);
    if (phase === 'waiting') this.#ask();
    else this.#settle();
    if (phase === 'arriving' && open !== null) this.#drawPreview(look);
    else if (phase !== 'waiting') this.#show(folded ? this.#line() : this.#card(look), folded);
    if (focused && !this.body.contains(document.activeElement)) this.#refocus();
    this.#count();
  }

  /** What had the focus is gone: what opens and folds it gets it, else the card; a press there must not copy or stop. */
  #refocus() {
    const card = /** @type {HTMLElement|null} */ (this.body.querySelector('[aria-expanded]') ?? this.body.firstElementChild);
    if (card !== null && !card.matches('button')) card.tabIndex = -1;
    card?.focus();
  }

  /**
   * @param {HTMLElement} drawn
   * @param {boolean} folded
   */
  #show(drawn, folded) {
    const draw = () => setChildren(this.body, [drawn, ...this.#afterwards()]);
    // Only what folds by itself; what the reader folds does so at once.
    if (folded && this.#chosen === null && this.body.querySelector(':scope > .card') !== null) shrink(this.body, draw);
    else draw();
  }

  #ask() {
    this.#question ??= new Question(this.page, this.entry);
    setChildren(this.body, [this.#question.element]);
    this.#question.show(this.entry);
  }

  #settle() {
    if (this.#question === null) return;
    this.#overtaken = this.#question.unsent;
    this.#question.leave();
    this.#question = null;
  }

  /** What only this reader has to know of how it was decided. */
  #afterwards() {
    const { run, id } = this.entry;
    const sent = this.page.decisions.of(`${run} ${id}`);
    const nodes = [];
    if (sent?.state === 'lost' && sent.winner !== null) {
      const { decision, by } = sent.winner;
      const who = this.page.own.who(`${run} ${id}`, by) ?? 'someone';
      const before = decision === 'expired' ? 'It had already expired.' : `${capital(who)} had already ${DECIDED.get(decision) ?? 'decided'} this.`;
      nodes.push(notice('', 'alert', before, `Your ${WANTED.get(sent.decision)} changed nothing.`));
    }
    if (this.#overtaken !== null) nodes.push(overtaken(this.#overtaken));
    return nodes;
  }

  /** @param {string[]} pieces */
  grow(pieces) {
    const { open, phase } = this.entry;
    if (open === null || phase !== 'arriving') return;
    const text = pieces.join('');
    if (this.#preview.length + text.length === open.text.length) this.#preview.append(text);
    else this.#sync();
    setText(this.#time, this.#characters());
  }

  leave() {
    this.#question?.leave();
    this.#rest();
  }

  #rest() {
    this.#untick?.();
    this.#untick = null;
  }

  #sync() {
    const { text } = this.entry.open;
    if (this.#preview.length !== text.length) this.#preview.reset(text);
  }

  #characters() {
    const { length } = this.entry.open.text;
    return `${length} character${length === 1 ? '' : 's'}`;
  }

  #count() {
    const { phase, started, ms, open } = this.entry;
    const now = this.page.clock.now();
    if (phase === 'arriving' && open !== null) {
      setText(this.#time, this.#characters());
    } else if (phase === 'waiting') {
      this.#question?.count(now);
    } else {
      setText(this.#time, phase === 'running' ? (started === null ? '' : elapsed(now - started)) : ms === null ? '' : duration(ms));
    }
  }

  /** @param {{word: string, card: string}} look */
  #drawPreview(look) {
    const { name } = this.entry;
    const head = this.body.querySelector(':scope > .card.preview > .card-head');
    this.#sync();
    if (head !== null) {
      setText(/** @type {Node} */ (head.querySelector('.name')), name);
      return;
    }
    setChildren(this.body, [
      el(
        'div',
        { class: `card preview ${look.card}` },
        el('div', { class: 'card-head' }, el('span', { class: 'name cut' }, name), el('span', { class: 'state' }, look.word), el('span', { class: 'end' }, this.#time)),
        el('div', { class: 'card-part' }, el('div', { class: 'cap' }, el('span', {}, 'Preview, not final')), this.#preview.element),
      ),
    ]);
  }

  #line() {
    const { name } = this.entry;
    const outcome = this.#outcome();
    return el(
      'button',
      { type: 'button', class: 'line', 'aria-expanded': 'false', click: () => this.#toggle(true) },
      icon('right', 'i-s chev'),
      el('span', { class: 'name cut' }, name),
      el('span', { class: 'args cut grow' }, ...this.#arguments()),
      el('span', { class: 'end' }, ...(outcome === '' ? [] : [el('span', {}, outcome)]), this.#time),
    );
  }

  /** The arguments in a line; of edited ones what was changed. */
  #arguments() {
    const { args, edited, asked } = this.entry;
    const [before, after] = edited === null ? [null, null] : [fields(asked ?? ''), fields(edited)];
    if (before === null || after === null) return [oneLine(edited ?? args ?? '')];
    return after.flatMap(({ name, value }) => {
      const old = before.find((field) => field.name === name)?.value ?? '';
      return old === value ? [] : [`${name}=`, ...struck(old), `${value} `];
    });
  }

  /** What is known of a call that was broken off. */
  #broken() {
    const { open, requested, decision } = this.entry;
    if (open !== null) return 'It was not called.';
    if (requested !== null && (decision === null || decision === 'expired')) return 'Nobody approved it, so it was not called.';
    return 'No result. It may have had effects.';
  }

  /** What a decision or the provider adds to the outcome. */
  #outcome() {
    const { decision, by, run, id, server, reason, phase, expires } = this.entry;
    if (phase === 'expired') return `expired${expires === null ? '' : ` ${clockTime(expires)}`}`;
    const word = DECIDED.get(decision);
    if (word === undefined) return server ? 'run by the provider' : '';
    const who = this.page.own.who(`${run} ${id}`, by);
    return `${word}${who === null ? '' : ` by ${who}`}${phase === 'rejected' && reason !== null ? `: “${reason}”` : ''}`;
  }

  /** @param {{word: string, card: string}} look */
  #card(look) {
    const { name, phase, args, edited, asked, reason, result, fraction, progressText, open } = this.entry;
    const outcome = this.#outcome();
    const state = phase === 'rejected' || phase === 'expired' ? outcome : [look.word, outcome].filter(Boolean).join(', ');
    const end = el('span', { class: 'end' }, this.#time);
    if (FOLDING.has(phase)) end.append(button({ label: 'Fold', icon: 'drop', style: 'bare icon small', press: () => this.#toggle(false) }));
    const card = el('div', { class: `card ${look.card}` }, el('div', { class: 'card-head' }, el('span', { class: 'name cut' }, name), el('span', { class: 'state' }, state), end));
    if (phase === 'running') card.append(bar(fraction, name));
    if (progressText !== null) card.append(el('div', { class: 'card-part' }, el('p', { class: 'num' }, progressText)));
    if (reason !== null && phase !== 'rejected') card.append(el('div', { class: 'card-part' }, el('p', {}, `“${reason}”`)));
    if (edited !== null && asked !== null) card.append(part('Arguments asked for', asked));
    const sealed = edited ?? args;
    if (sealed !== null && sealed !== '' && sealed !== '{}') card.append(part(edited === null ? 'Arguments' : 'Arguments as edited', sealed));
    else if (open !== null && open.text !== '') card.append(part('Preview, not final', open.text));
    // What comes and folds at once would only push what is below.
    const passing = phase === 'done' && this.#chosen === null;
    if (result !== null && !passing) card.append(this.#result(result, phase === 'failed'));
    if (phase === 'interrupted') card.append(el('div', { class: 'card-part' }, el('p', {}, this.#broken())));
    return card;
  }

  /**
   * @param {any} result
   * @param {boolean} failed
   */
  #result(result, failed) {
    const content = readContent(result.content);
    const whole = content.text === '' && content.attachments.length === 0 ? asText(result.content) : [content.text, ...content.attachments.map((name) => `[${name}]`)].filter(Boolean).join('\n');
    const cap = failed ? 'Error' : 'Result';
    const { hash, bytes } = record(this.entry.large);
    if (typeof hash === 'string' && typeof bytes === 'number') return this.#largeResult(cap, whole, hash, bytes);
    if (whole === '') return el('div', { class: 'card-part' }, el('p', { class: 'quiet' }, `${cap}: empty`));
    if (whole.length <= WHOLE || this.#all) return part(cap, whole);
    const kilobytes = Math.round(whole.length / 1024);
    const shown = part(`${cap}, first 2 kB of ${kilobytes} kB`, whole.slice(0, BEGINNING));
    shown.append(
      el(
        'div',
        { class: 'card-foot' },
        button({
          label: `Show all ${kilobytes} kB`,
          text: `Show all ${kilobytes} kB`,
          style: 'small',
          press: () => {
            this.page.hold(this.element);
            this.#all = true;
            this.render();
          },
        }),
      ),
    );
    return shown;
  }

  /**
   * @param {string} cap
   * @param {string} beginning
   * @param {string} hash
   * @param {number} bytes
   */
  #largeResult(cap, beginning, hash, bytes) {
    const state = this.#whole;
    if (typeof state !== 'string') return part(cap, state.text);
    const label = `Load all ${size(bytes)}`;
    const load = async () => {
      this.page.hold(this.element);
      this.#whole = 'coming';
      this.render();
      try {
        this.#whole = { text: await this.page.gateway.blob(this.page.topic, hash) };
      } catch {
        this.#whole = 'failed';
      }
      if (this.element.isConnected) this.render();
    };
    const shown = part(`${cap}, the beginning of ${size(bytes)}`, beginning);
    const word = state === 'coming' ? 'Loading' : state === 'failed' ? 'It could not be loaded.' : '';
    shown.append(el('div', { class: 'card-foot' }, ...(state === 'coming' ? [] : [button({ label, text: label, style: 'small', press: () => void load() })]), el('span', { class: 'quiet', role: 'status' }, word)));
    return shown;
  }

  /** @param {boolean} open */
  #toggle(open) {
    this.page.hold(this.element);
    this.#chosen = open;
    this.render();
  }
}

/** @param {number} bytes */
function size(bytes) {
  return bytes < 1e6 ? `${Math.round(bytes / 1e3)} kB` : `${(bytes / 1e6).toFixed(1)} MB`;
}

/**
 * @param {string} cap
 * @param {string} text
 */
function part(cap, text) {
  return el('div', { class: 'card-part' }, el('div', { class: 'cap' }, el('span', {}, cap), copyButton(() => text, { label: `Copy ${cap.toLowerCase()}`, style: 'bare icon small' })), el('pre', {}, ...jsonNodes(text)));
}

/**
 * @param {number|null} fraction
 * @param {string} name
 */
function bar(fraction, name) {
  if (fraction === null) return el('div', { class: 'progress any', role: 'progressbar', 'aria-label': name });
  const percent = Math.round(fraction * 100);
  const filled = svg('svg', { viewBox: '0 0 100 2', preserveAspectRatio: 'none', 'aria-hidden': 'true' }, svg('rect', { class: 'f-tool', width: percent, height: 2 }));
  return el('div', { class: 'progress', role: 'progressbar', 'aria-label': name, 'aria-valuenow': percent }, filled);
}
