/** The run page: puts the parts together. */

import { Gateway } from '../gateway/index.js';
import { pageToken } from '../token.js';
import { addressOf, topicOf, wrongTopicOf } from '../chat/address.js';
import { Announcer } from '../chat/announcer.js';
import { record, sentence, textOrNull } from '../chat/content.js';
import { Decisions } from '../chat/decisions.js';
import { el, glyph, setChildren, setText } from '../chat/dom.js';
import { Inset } from '../chat/inset.js';
import { listenToKeys } from '../chat/keys.js';
import { Notices } from '../chat/notices.js';
import { Own } from '../chat/own.js';
import { Painter } from '../chat/painter.js';
import { retryWhenUsed } from '../chat/retry.js';
import { connectionNotice, isStale, topicStatus } from '../chat/status.js';
import { StopButton } from '../chat/stop_button.js';
import { Stops } from '../chat/stops.js';
import { storage } from '../chat/storage.js';
import { Ticker } from '../chat/ticker.js';
import { ServerClock, clockTime, number } from '../chat/time.js';
import { titleOf } from '../chat/topics.js';
import { Axis } from './axis.js';
import { factsOf } from './facts.js';
import { History } from './history.js';
import { Inspector } from './inspector.js';
import { LinesView } from './lines_view.js';
import { found, severity, shownLines } from './log_lines.js';
import { Recording } from './recording.js';
import { wordOf } from './row_view.js';
import { Scrubber } from './scrubber.js';
import { Splitter } from './splitter.js';
import { listenToTheme } from './theme_button.js';
import { Timeline, rowsOf } from './timeline.js';
import { toneOf } from './ribbon.js';
import { Waterfall } from './waterfall.js';

/** An element that the page has. @param {string} id @returns {any} */
const $ = (id) => document.getElementById(id);

/** So many entries of the conversation are drawn, the last ones. */
const MOST_ENTRIES = 60;
/** So many events are listed, the last ones. */
const MOST_EVENTS = 20_000;
/** What is sorted and searched again while lines come in, at most so often, in ms. */
const LINES_MS = 250;

const topic = topicOf(location.search);
const wrong = wrongTopicOf(location.search);
const gateway = new Gateway({ url: new URL('../../connection/websocket', import.meta.url).href, token: pageToken() });
const subscription = gateway.subscribe(topic ?? 'none');
const { mirror } = subscription;
const clock = new ServerClock(() => Date.now());
const ticker = new Ticker();
const painter = new Painter();
const own = new Own(storage);
const notices = new Notices($('notices'));
const announcer = new Announcer({ status: $('say-status'), message: $('say-message'), alert: $('say-alert') });
const decisions = new Decisions((name, what) => gateway.decide(name, what), own);
const axis = new Axis();
const mirrored = (/** @type {string} */ id) => mirror.runs.find(({ run: name }) => name === id);
let timeline = new Timeline(mirrored);

let since = Date.now();
let known = gateway.state;
/** When what is shown was last current. @type {number|null} */
let current = null;
/** The run that is shown; null for the latest. */
let chosen = new URLSearchParams(location.search).get('run');
/** @type {number|null} */
let watching = null;
/** @type {'log'|'events'|'context'} */
let tab = 'log';
/** @type {'all'|'warning'|'error'} */
let level = 'all';
let linesAt = 0;
let atFound = -1;
/** The offset that the address names, until it was gone to. */
let asked = /^#o-([0-9]{1,16})$/.exec(location.hash)?.[1] ?? null;

const may = (/** @type {string} */ verb) => (subscription.grants ?? gateway.grants)?.includes(verb) ?? true;
const title = () => titleOf(mirror) ?? topic ?? 'No run';

/** @returns {Board.RunSpan|null} */
function run() {
  const named = chosen === null ? null : timeline.run(chosen);
  return named ?? timeline.runs.findLast(({ parent }) => parent === null) ?? null;
}

/** The run that is shown, and those that it started. */
function family() {
  const root = run()?.span;
  return root === undefined ? new Set() : new Set(rowsOf(root).map(({ span }) => span.run));
}

const live = () => run()?.span.to === null;
const now = () => Math.max(clock.now(), timeline.now);
/** Where the scrubber stands, ms. */
const pastAt = () => (scrubber.offset === null ? null : (timeline.marks.findLast(({ offset }) => offset <= /** @type {number} */ (scrubber.offset))?.at ?? null));

const recording = new Recording(topic ?? '');
const history = new History(recording, {
  mirror: () => mirror,
  read: (position) => gateway.history(topic ?? '', { since: position }),
  took: (told) => timeline.take(told),
  changed: () => everything(),
  restarted: () => {
    timeline = new Timeline(mirrored);
    scrubber.go(null);
    everything();
  },
  later: (act, ms) => void setTimeout(act, ms),
});

const stops = new Stops({
  own,
  cancel: (name, what) => gateway.cancel(name, what),
  tell: (heading, text, bad) => notices.show('stop', { tone: bad ? 'bad' : '', symbol: bad ? 'alert' : 'stop', title: heading, text, short: true }),
  changed: () => painter.mark(head),
});
/** @param {'now'|'after_step'} mode */
function stop(mode) {
  const shown = run();
  if (topic === null || shown === null || shown.over !== null || scrubber.offset !== null || !may('cancel')) return false;
  if (shown.cancel !== null && (shown.cancel.mode !== 'after_step' || mode !== 'now')) return false;
  void stops.ask(topic, { run: shown.run }, mode);
  return true;
}
const stopNote = el('span', { hidden: true });
const stopButton = new StopButton({
  parts: { root: $('stop'), stop: $('stop-now'), more: $('stop-more'), menu: $('stop-menu'), note: stopNote, hints: el('span'), hint: el('span') },
  ask: stop,
  clock,
});
$('stop').before(stopNote);
stopNote.className = 'quiet not-small';

const scrubber = new Scrubber(
  { root: document.querySelector('.scrub') ?? document.body, track: $('track'), density: $('density'), place: $('place'), live: $('to-live'), back: $('back'), on: $('on') },
  {
    marks: shownMarks,
    span: () => {
      const root = run()?.span;
      return root === undefined ? [0, 1] : [root.from, root.to ?? now()];
    },
    places: () => {
      const root = run()?.span;
      return root === undefined ? [] : [...new Set(rowsOf(root).filter(({ span }) => span.kind === 'step' || span.kind === 'tool' || span.kind === 'run').flatMap(({ span }) => [span.first]))].sort((one, other) => one - other);
    },
    live,
    moved: () => {
      if (scrubber.offset !== null && tab !== 'context') choose('context');
      contextView.again();
      for (const part of [head, waterfall, scrubber, inspector, panes]) painter.mark(part);
      const fragment = scrubber.offset === null ? '' : `#o-${scrubber.offset}`;
      window.history.replaceState(null, '', location.pathname + location.search + fragment);
    },
  },
);
/** @type {{all: Board.Mark[], count: number, shown: Board.Mark[], run: string}|null} */
let marksKept = null;
function shownMarks() {
  const shown = run();
  if (shown === null) return [];
  const all = timeline.marks;
  if (marksKept?.all === all && marksKept.count === all.length && marksKept.run === shown.run) return marksKept.shown;
  const to = shown.over === null ? Number.POSITIVE_INFINITY : shown.last;
  // Nearly always the events of a run lie together; what others did meanwhile belongs to what happened then.
  const list = all.filter(({ offset }) => offset >= shown.first && offset <= to);
  marksKept = { all, count: all.length, run: shown.run, shown: list };
  return list;
}

const waterfall = new Waterfall(
  { box: $('steps'), rows: $('rows'), axis: $('axis') },
  {
    axis,
    root: () => run()?.span ?? null,
    version: () => timeline.version,
    start: () => run()?.span.from ?? 0,
    now,
    live,
    past: () => scrubber.offset,
    pastAt,
    moved: () => painter.mark(waterfall),
    selected: (span) => {
      inspector.show(span);
      $('inspector').classList.toggle('open', span !== null);
      linesAt = 0;
      painter.mark(panes);
    },
    mark: (part) => painter.mark(part),
  },
);
const inspector = new Inspector($('inspector-body'), {
  topic: topic ?? '',
  clock,
  may,
  decisions,
  run,
  past: () => scrubber.offset !== null,
  runLink: (name, id) => `${addressOf(name)}&run=${encodeURIComponent(id)}`,
  alert: (words) => announcer.alert(words),
  close: () => waterfall.select(null),
  mark: (part) => painter.mark(part),
});
const lines = new LinesView(
  { box: $('log'), lines: $('log-lines') },
  {
    mark: (part) => painter.mark(part),
    picked: (offset) => {
      const span = waterfall.spanAt(offset);
      if (span !== null) waterfall.select(span.key, { focus: false });
    },
  },
);

/** The conversation at the scrubber's place, drawn as the chat draws it. */
const contextView = {
  /** @type {any} */
  inset: null,
  note: el('p', { class: 'quiet lead' }),
  /** @returns {any} */
  mirror: () => (scrubber.offset === null ? mirror : recording.at(scrubber.offset)),
  make() {
    if (this.inset !== null || topic === null) return;
    this.inset = new Inset(
      {
        clock,
        ticker,
        hold: () => {},
        pin: () => {},
        own,
        decisions,
        topic,
        depth: 0,
        may: (/** @type {string} */ verb) => scrubber.offset === null && may(verb),
        alert: (/** @type {string} */ words) => announcer.alert(words),
        mark: (/** @type {Chat.Part} */ part) => painter.mark(part),
        redraw: () => {},
        gateway,
        inset: (/** @type {Chat.Page} */ page, /** @type {Chat.InsetOptions} */ options) => new Inset(page, options),
        stop: (/** @type {string} */ name, /** @type {string} */ id) => void (scrubber.offset === null && stops.ask(name, { run: id }, 'now')),
        stopping: (/** @type {string} */ id) => stops.asked(id),
        linkTo: (/** @type {string} */ message) => new URL(`../${addressOf(topic)}#m-${encodeURIComponent(message)}`, document.baseURI).href,
        topicLink: (/** @type {string} */ name) => `../${addressOf(name)}`,
      },
      { topic, mirror: () => this.mirror(), most: () => MOST_ENTRIES },
    );
    $('context-lane').append(this.note, this.inset.element);
  },
  /** @param {{events: any[], reset: boolean}} change */
  take(change) {
    if (tab === 'context' && scrubber.offset === null) this.inset?.take(change);
  },
  again() {
    if (tab !== 'context') return;
    this.make();
    const { offset } = scrubber;
    const at = pastAt();
    const missing = recording.floor > 0 && offset !== null ? ` Events up to ${number(recording.floor)} are not kept, so what they told is missing.` : '';
    setText(this.note, offset === null ? 'The context as it is now.' : `The context after event ${number(offset)}${at === null ? '' : `, ${clockTime(at, { seconds: true })}`}. It cannot be acted on.${missing}`);
    this.inset?.again();
  },
};

/** @param {'log'|'events'|'context'} name */
function choose(name) {
  tab = name;
  for (const other of ['log', 'events', 'context']) $(`tab-${other}`).setAttribute('aria-selected', String(other === name));
  $('log').hidden = name === 'context';
  $('context').hidden = name !== 'context';
  $('log').setAttribute('aria-labelledby', `tab-${name === 'events' ? 'events' : 'log'}`);
  $('levels').hidden = name !== 'log';
  document.querySelector('.log-find')?.toggleAttribute('hidden', name === 'context');
  linesAt = 0;
  atFound = -1;
  lines.follow();
  contextView.again();
  painter.mark(panes);
}

/** How a line or an event is shown; it stays the same. @type {WeakMap<object, Board.ShownLine>} */
const shownAs = new WeakMap();

/** @returns {Board.ShownLine[]} */
function logLines() {
  return shownLines(timeline.logs, { level, runs: family() }).map((line) => {
    const known = shownAs.get(line);
    if (known !== undefined) return known;
    const shown = { time: stamp(line.at), level: line.level, tone: severity(line.level), source: line.logger, text: line.fields === null ? line.message : `${line.message} ${JSON.stringify(line.fields)}`, offset: line.offset };
    shownAs.set(line, shown);
    return shown;
  });
}

/** @returns {Board.ShownLine[]} */
function eventLines() {
  const runs = family();
  return recording.events.slice(-MOST_EVENTS).flatMap((told) => {
    const event = record(told.data);
    if (textOrNull(event.run) !== null && !runs.has(event.run)) return [];
    const known = shownAs.get(told);
    if (known !== undefined) return [known];
    const { type, at, run: _, text, ...rest } = event;
    const said = typeof text === 'string' ? text : JSON.stringify(rest);
    const shown = { time: typeof at === 'number' ? stamp(at) : '', level: '', tone: type === 'agent_error' ? 'error' : 'info', source: String(type ?? ''), text: said.slice(0, 2000), offset: told.offset };
    shownAs.set(told, shown);
    return [shown];
  });
}

/** @param {number} at */
function stamp(at) {
  return `${clockTime(at, { seconds: true })}.${String(Math.floor(at % 1000)).padStart(3, '0')}`;
}

/** Below the timeline. */
const panes = {
  paint() {
    if (tab === 'context') return true;
    const time = performance.now();
    // Many lines a second are listed a few times a second.
    if (time - linesAt < LINES_MS) {
      setTimeout(() => painter.mark(panes), LINES_MS);
      return true;
    }
    const query = $('log-search').value;
    const selected = waterfall.selected;
    const state = `${timeline.logs.length} ${timeline.logs.at(-1)?.offset} ${recording.upto} ${recording.floor} ${query} ${selected?.first} ${selected?.last} ${tab} ${level} ${run()?.run} ${atFound}`;
    if (state === listed) return true;
    listed = state;
    linesAt = time;
    const all = shownLines(timeline.logs, { level: 'all', runs: family() });
    setText($('log-count'), all.length === 0 ? '' : number(all.length));
    const count = (/** @type {string} */ name) => all.filter((line) => severity(line.level) === name).length;
    const [warnings, errors] = [count('warning'), count('error')];
    setText($('warn-count'), warnings + errors === 0 ? '' : number(warnings + errors));
    setText($('error-count'), errors === 0 ? '' : number(errors));
    setText($('event-count'), number(recording.events.length));
    const shown = tab === 'log' ? logLines() : eventLines();
    $('log-none').hidden = shown.length > 0 || run() === null;
    setText($('log-none'), tab === 'log' && all.length === 0 ? 'This run has logged nothing. What it did is under Events.' : 'No line matches.');
    lines.set(shown, { query, within: selected === null ? null : [selected.first, selected.last] });
    const hits = found(shown.map((line) => ({ at: 0, run: null, level: '', logger: line.source, message: line.text, fields: null, offset: line.offset })), query);
    setText($('log-found'), query.trim() === '' ? '' : hits.length === 0 ? 'none' : `${atFound < 0 ? '' : `${number((atFound % hits.length) + 1)} of `}${number(hits.length)}`);
    hitsNow = hits;
    return true;
  },
};
/** @type {number[]} */
let hitsNow = [];
/** What the lines were made of. */
let listed = '';

/** The head, the facts, and what stands in place of a run. */
const head = {
  paint() {
    const shown = run();
    setText($('title'), title());
    document.title = `${title()} · run · Gateway`;
    const chip = $('chip');
    chip.hidden = shown === null;
    if (shown !== null) {
      const { state } = shown.span;
      const word = wordOf(state, may('decide'));
      const tone = toneOf(state);
      if (chip.dataset.state !== `${state} ${word}`) {
        chip.dataset.state = `${state} ${word}`;
        chip.className = `chip ${tone}`;
        chip.replaceChildren(glyph(state), el('span', {}, word));
      }
    }
    const errors = shown === null ? 0 : shownLines(timeline.logs, { level: 'error', runs: family() }).length + (shown.span.state === 'failed' ? 1 : 0);
    const facts = shown === null ? [] : factsOf(shown, { now: now(), errors, watching });
    const words = JSON.stringify(facts);
    if ($('facts').dataset.shown !== words) {
      $('facts').dataset.shown = words;
      $('facts').hidden = facts.length === 0;
      setChildren($('facts'), facts.map(({ name, value, note, class: style }) => el('div', { class: style === 't-bad' ? '' : style }, el('dt', {}, name), el('dd', {}, el('span', { class: style === 't-bad' ? style : '' }, value), ...(note === '' ? [] : [' ', el('span', { class: 'quiet' }, note)])))));
    }
    if (shown !== null && shown.over !== null) stops.settle(shown.run);
    const act = shown !== null && shown.over === null && scrubber.offset === null && may('cancel') ? shown.run : null;
    const stopping = shown?.cancel == null ? null : { by: own.who(shown.run, shown.cancel.by), mode: shown.cancel.mode, step: shown.steps };
    stopButton.show({ act, asked: act !== null && stops.asked(act), stopping: act === null ? null : stopping });
    picks(shown);
    if (scrubber.offset === null) notices.hide('past');
    else if (shown !== null && shown.over !== null) notices.show('past', { tone: 'tool', symbol: 'clock', title: 'You look at the past.', text: 'The run has ended since.', action: { label: 'To its end', press: () => scrubber.go(null) } });
    else notices.show('past', { tone: 'tool', symbol: 'clock', title: 'You look at the past.', text: 'Nothing can be acted on here; the run goes on behind.', action: { label: 'Back to live', press: () => scrubber.go(null) } });
    blank(shown);
    return true;
  },
};

/** @param {Board.RunSpan|null} shown */
function picks(shown) {
  const pick = $('pick');
  const runs = timeline.runs;
  const words = runs.map(({ run: id, span }) => `${id} ${span.name} ${span.state}`).join('\n');
  if (pick.dataset.shown !== words) {
    pick.dataset.shown = words;
    pick.replaceChildren(...runs.map(({ run: id, span }, index) => el('option', { value: id }, `${index + 1} of ${runs.length} · ${span.name} · ${clockTime(span.from)} · ${wordOf(span.state, may('decide'))}`)));
  }
  pick.parentElement.hidden = runs.length < 2;
  if (shown !== null && pick.value !== shown.run) pick.value = shown.run;
}

let blankName = '';
/** @param {Board.RunSpan|null} shown */
function blank(shown) {
  let name = '';
  if (topic === null) name = 'wrong';
  else if (subscription.state === 'denied') name = 'denied';
  else if (shown === null && (subscription.state === 'live' || history.error !== null) && history.complete) name = mirror.offset === 0 ? 'first' : 'none';
  else if (shown === null && Date.now() - since > 400) name = 'loading';
  else if (chosen !== null && shown !== null && shown.run !== chosen && history.complete) name = 'gone';
  if (name === blankName) return;
  blankName = name;
  const text = (/** @type {string} */ heading, /** @type {(Node|string)[]} */ ...words) => el('div', { class: 'empty' }, el('h2', {}, heading), el('p', {}, ...words));
  /** @type {Record<string, () => Node>} */
  const made = {
    wrong: () => text('That is not a run’s address', wrong === null ? 'The address names no topic. ' : 'A topic has 1 to 200 of the characters A–Z a–z 0–9 _ . : @ / -. ', el('a', { class: 'link', href: '../dashboard' }, 'All runs')),
    denied: () => text('You cannot read this run', `Your access does not include ${topic}${subscription.error === null ? '.' : `: ${sentence(subscription.error)}`}`),
    first: () => text('Nothing has happened on this topic', 'Its first run appears here as soon as it writes an event.'),
    none: () => text('No run on this topic', 'It has events, and none of them belongs to a run that is still kept.'),
    loading: () => el('div', { class: 'waiting', role: 'status', 'aria-label': 'Loading the run' }, ...['w1', 'w2', 'w3', 'w1'].map((width) => el('div', { class: `skeleton ${width}` }))),
  };
  if (name === 'gone') {
    notices.show('gone', { tone: 'wait', symbol: 'alert', title: 'That run is no longer kept.', text: 'The latest run of its topic is shown.' });
    setChildren($('blank'), []);
  } else {
    setChildren($('blank'), name === '' ? [] : [made[name]()]);
  }
}

function connection() {
  const facts = { gateway: gateway.state, retryAt: gateway.retryAt, refusal: gateway.refusal, topic: subscription.state, behind: subscription.behind, loading: subscription.loading, since, current, now: Date.now() };
  const shown = topicStatus(facts);
  if (subscription.state === 'live') current = Date.now();
  const conn = $('conn');
  conn.dataset.state = shown.state;
  conn.hidden = shown.text === '' || topic === null;
  setText(conn, shown.text);
  const stale = isStale(facts) && known !== 'connecting';
  $('main').toggleAttribute('data-stale', stale);
  clock.hold(stale);
  const words = connectionNotice(facts);
  if (words === null) notices.hide('connection');
  else
    notices.show('connection', {
      tone: words.tone,
      symbol: words.tone === 'bad' ? 'key' : 'wait',
      title: words.title,
      text: `Runs go on without us.${current === null ? '' : ` What you see is as of ${clockTime(current, { seconds: true })}.`}`,
      action: words.retry ? { label: 'Try now', press: () => (gateway.state === 'refused' ? gateway.connect() : gateway.retryNow()) } : undefined,
    });
  painter.mark(head);
}

/** Anything may be shown differently. */
function everything() {
  const shown = run();
  if (shown !== null) axis.follow(shown.span.from, shown.span.to ?? now(), shown.span.to === null);
  if (asked !== null && history.complete) {
    scrubber.go(Number(asked));
    asked = null;
  }
  for (const part of [head, waterfall, scrubber, panes]) painter.mark(part);
  painter.mark(inspector);
}

subscription.on('change', (/** @type {{events: any[], reset: boolean}} */ change) => {
  for (const { data } of change.events) clock.observe(record(data).at);
  history.take(change);
  contextView.take(change);
  everything();
});
subscription.on('state', connection);
gateway.on('state', (state) => {
  if (state !== known) {
    known = state;
    since = Date.now();
  }
  connection();
});
gateway.on('sure', connection);
let seconds = 0;
ticker.add(() => {
  connection();
  seconds += 1;
  if (topic !== null && subscription.state === 'live' && seconds % 5 === 1) {
    void subscription.presenceStats().then(
      ({ num_clients: clients }) => {
        watching = clients;
      },
      () => {
        watching = null;
      },
    );
  }
  if (live()) everything();
  else painter.mark(scrubber);
  inspector.tick();
  const shown = run();
  if (shown !== null) announcer.status(`${shown.span.name}: ${wordOf(shown.span.state, may('decide'))}`);
});

$('pick').addEventListener('change', () => {
  chosen = $('pick').value;
  const query = new URLSearchParams(location.search);
  query.set('run', chosen ?? '');
  window.history.replaceState(null, '', `${addressOf(topic ?? '')}&run=${encodeURIComponent(chosen ?? '')}`);
  axis.following = true;
  scrubber.go(null);
  waterfall.select(null);
  everything();
});
for (const name of /** @type {const} */ (['log', 'events', 'context'])) $(`tab-${name}`).addEventListener('click', () => choose(name));
document.querySelector('[role="tablist"]')?.addEventListener('keydown', (event) => {
  const { key } = /** @type {KeyboardEvent} */ (event);
  const names = /** @type {const} */ (['log', 'events', 'context']);
  const by = key === 'ArrowRight' ? 1 : key === 'ArrowLeft' ? -1 : 0;
  if (by === 0) return;
  const next = names[(names.indexOf(tab) + by + names.length) % names.length];
  choose(next);
  $(`tab-${next}`).focus();
});
$('levels').addEventListener('click', (/** @type {Event} */ event) => {
  const name = /** @type {HTMLElement|null} */ (/** @type {HTMLElement} */ (event.target).closest('button'))?.dataset.level;
  if (name !== 'all' && name !== 'warning' && name !== 'error') return;
  level = name;
  for (const button of $('levels').children) button.setAttribute('aria-pressed', String(button.dataset.level === name));
  linesAt = 0;
  painter.mark(panes);
});
$('log-search').addEventListener('input', () => {
  linesAt = 0;
  atFound = -1;
  lines.show(null);
  painter.mark(panes);
});
$('log-search').addEventListener('keydown', (/** @type {KeyboardEvent} */ event) => {
  if (event.key !== 'Enter' || hitsNow.length === 0) return;
  event.preventDefault();
  atFound = (atFound + (event.shiftKey ? hitsNow.length - 1 : 1)) % hitsNow.length;
  lines.show(hitsNow[atFound]);
  linesAt = 0;
  painter.mark(panes);
});
new Splitter($('splitter'), $('stack'), storage);
listenToTheme($('theme'), storage);
retryWhenUsed({ gateway, page: document, now: () => Date.now() });
$('keys-button').addEventListener('click', () => $('keys').showModal());
$('keys-close').addEventListener('click', () => $('keys').close());
if (topic !== null) $('open-chat').href = `../${addressOf(topic)}`;
else $('open-chat').hidden = true;

/** The question that has waited longest, shown beside the timeline. */
function review() {
  if (inspector.press('a')) return;
  const { question } = waterfall;
  if (question !== null) waterfall.select(question.key, { focus: true });
}
/** @param {number} factor */
function zoom(factor) {
  axis.zoom(factor);
  painter.mark(waterfall);
}
listenToKeys({
  dialog: $('keys'),
  toggle: $('letter-keys'),
  storage,
  end: () => scrubber.go(null),
  escape: () => {
    if (stopButton.close()) return true;
    if (scrubber.offset !== null) scrubber.go(null);
    else if (waterfall.selected !== null) waterfall.select(null);
    else return false;
    return true;
  },
  letters: new Map([
    ['j', () => waterfall.step(1)],
    ['k', () => waterfall.step(-1)],
    ['a', review],
    ['e', () => void inspector.press('e')],
    ['r', () => void inspector.press('r')],
    [
      'l',
      () => {
        axis.following = true;
        scrubber.go(null);
        everything();
      },
    ],
    ['+', () => zoom(1.5)],
    ['=', () => zoom(1.5)],
    ['-', () => zoom(1 / 1.5)],
    [
      '0',
      () => {
        axis.following = true;
        everything();
      },
    ],
    ['/', () => $('log-search').focus()],
    ['?', () => $('keys').showModal()],
  ]),
});
document.addEventListener('keydown', (event) => {
  const at = /** @type {HTMLElement} */ (event.target);
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || $('keys').open || !$('letter-keys').checked || at.matches('input, textarea, select')) return;
  if (event.key.toLowerCase() === 's' && stop(event.shiftKey ? 'after_step' : 'now')) event.preventDefault();
});

choose('log');
head.paint();
scrubber.paint();
connection();
if (topic !== null) gateway.connect();
