/** The run page: puts the parts together. */

import { Gateway } from '../gateway/index.js';
import { pageToken } from '../token.js';
import { addressOf, topicOf, wrongTopicOf } from '../chat/address.js';
import { Announcer } from '../chat/announcer.js';
import { record } from '../chat/content.js';
import { Decisions } from '../chat/decisions.js';
import { el, setText } from '../chat/dom.js';
import { listenToKeys } from '../chat/keys.js';
import { Notices } from '../chat/notices.js';
import { Own } from '../chat/own.js';
import { Painter } from '../chat/painter.js';
import { wantsToken } from '../chat/refusal.js';
import { retryWhenUsed } from '../chat/retry.js';
import { connectionNotice, isStale, topicStatus } from '../chat/status.js';
import { StopButton } from '../chat/stop_button.js';
import { Stops } from '../chat/stops.js';
import { storage } from '../chat/storage.js';
import { Ticker } from '../chat/ticker.js';
import { ServerClock, clockTime } from '../chat/time.js';
import { titleOf } from '../chat/topics.js';
import { markAt, totalsAt } from './as_of.js';
import { Axis } from './axis.js';
import { ContextPane } from './context_pane.js';
import { History } from './history.js';
import { Inspector } from './inspector.js';
import { Panes } from './panes.js';
import { Player } from './player.js';
import { Recording } from './recording.js';
import { wordOf } from './row_view.js';
import { RunBlank } from './run_blank.js';
import { RunHead } from './run_head.js';
import { Scrubber } from './scrubber.js';
import { Splitter } from './splitter.js';
import { listenToTheme } from './theme_button.js';
import { Timeline, rowsOf } from './timeline.js';
import { Waterfall } from './waterfall.js';

/** An element that the page has. @param {string} id @returns {any} */
const $ = (id) => document.getElementById(id);

/** The address names the place that is looked at once it was looked at for so long, in ms: browsers bound how often it changes. */
const ADDRESS_MS = 300;

const topic = topicOf(location.search);
const wrong = wrongTopicOf(location.search);
const token = pageToken();
const gateway = new Gateway({ url: new URL('../../connection/websocket', import.meta.url).href, token });
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
/** The offset that the address names, until it was gone to. */
let asked = askedFor();

function askedFor() {
  return /^#o-([0-9]{1,16})$/.exec(location.hash)?.[1] ?? null;
}
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
/** @returns {Board.Moment|null} what is looked at; null for the present */
function moment() {
  const { offset } = scrubber;
  if (offset === null) return null;
  const mark = timeline.marks[markAt(timeline.marks, offset)];
  return { offset, at: mark === undefined ? now() : mark.at };
}
/** The library's mirror at that moment. */
const mirrorThen = () => (scrubber.offset === null ? mirror : recording.at(scrubber.offset));
/** @returns {Board.Totals|null} */
function totals() {
  const shown = run();
  if (shown === null) return null;
  const entry = mirrorThen().runs.find(({ run: id }) => id === shown.run);
  return totalsAt(shown, { moment: moment(), marks: timeline.marks, lines: timeline.logs, entry, now: now() });
}

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

/** The past was looked at before. */
let past = false;
/** @type {Scrubber} */
const scrubber = new Scrubber(
  { root: document.querySelector('.scrub') ?? document.body, track: $('track'), density: $('density'), place: $('place'), live: $('to-live'), back: $('back'), play: $('play'), on: $('on') },
  {
    marks: shownMarks,
    span: () => {
      const root = run()?.span;
      return root === undefined ? [0, 1] : [root.from, root.to ?? now()];
    },
    places: () => {
      const root = run()?.span;
      const rows = root === undefined ? [] : rowsOf(root).filter(({ span }) => span.kind === 'step' || span.kind === 'tool' || span.kind === 'run');
      return [...new Set(rows.map(({ span }) => span.first))].sort((one, other) => one - other);
    },
    live,
    moved: () => {
      if (!player.moving) player.stop();
      // Who goes back wants to see the context; who looks at the log meanwhile keeps it.
      if (scrubber.offset !== null && !past) panes.choose('context');
      past = scrubber.offset !== null;
      context.again();
      for (const part of [head, waterfall, scrubber, inspector, panes]) painter.mark(part);
      named();
    },
    play: () => player.toggle(),
    playing: () => player.playing,
  },
);
/** @type {Player} */
const player = new Player({
  marks: shownMarks,
  offset: () => scrubber.offset,
  go: (offset) => scrubber.go(offset),
  changed: () => painter.mark(scrubber),
  now: () => performance.now(),
  later: (act, ms) => void setTimeout(act, ms),
});

let naming = 0;
/** The address names the place that is looked at. */
function named() {
  window.clearTimeout(naming);
  naming = window.setTimeout(() => {
    const fragment = scrubber.offset === null ? '' : `#o-${scrubber.offset}`;
    window.history.replaceState(null, '', location.pathname + location.search + fragment);
  }, ADDRESS_MS);
}
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
    moment,
    state: () => totals()?.state ?? null,
    moved: () => painter.mark(waterfall),
    selected: (span) => {
      inspector.show(span);
      $('inspector').classList.toggle('open', span !== null);
      panes.again();
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
  totals,
  moment,
  runLink: (name, id) => `${addressOf(name)}&run=${encodeURIComponent(id)}`,
  alert: (words) => announcer.alert(words),
  close: () => waterfall.select(null),
  mark: (part) => painter.mark(part),
});
const panes = new Panes(
  {
    list: $('tabs'),
    tabs: { log: $('tab-log'), events: $('tab-events'), context: $('tab-context') },
    log: $('log'),
    lines: $('log-lines'),
    none: $('log-none'),
    context: $('context'),
    find: $('log-find'),
    search: $('log-search'),
    found: $('log-found'),
    levels: $('levels'),
    counts: { log: $('log-count'), events: $('event-count'), warning: $('warn-count'), error: $('error-count') },
  },
  {
    logs: () => timeline.logs,
    recording,
    run,
    family,
    moment,
    selected: () => waterfall.selected,
    chosen: () => context.again(),
    mark: (part) => painter.mark(part),
    picked: (offset) => {
      const span = waterfall.spanAt(offset);
      if (span !== null) waterfall.select(span.key, { focus: false });
    },
  },
);
const context = new ContextPane($('context-lane'), {
  topic,
  recording,
  mirror: mirrorThen,
  moment,
  shown: () => panes.tab === 'context',
  chat: {
    clock,
    ticker,
    hold: () => {},
    pin: () => {},
    own,
    decisions,
    may,
    alert: (words) => announcer.alert(words),
    mark: (part) => painter.mark(part),
    redraw: () => {},
    gateway,
    stop: (name, id) => void (scrubber.offset === null && stops.ask(name, { run: id }, 'now')),
    stopping: (id) => stops.asked(id),
    linkTo: (message) => new URL(`../${addressOf(topic ?? '')}#m-${encodeURIComponent(message)}`, document.baseURI).href,
    topicLink: (name) => `../${addressOf(name)}`,
  },
});
const head = new RunHead(
  { title: $('title'), chip: $('chip'), facts: $('facts'), pick: $('pick') },
  {
    run,
    runs: () => timeline.runs,
    title,
    totals,
    moment,
    may,
    stops,
    own,
    button: stopButton,
    notices,
    live: () => scrubber.go(null),
    blank: new RunBlank($('blank'), { topic, wrong, gateway, given: token !== undefined, subscription, history, notices, chosen: () => chosen, waited: () => Date.now() - since }),
    picked: (id) => {
      chosen = id;
      window.history.replaceState(null, '', `${addressOf(topic ?? '')}&run=${encodeURIComponent(id)}`);
      axis.following = true;
      scrubber.go(null);
      waterfall.select(null);
      everything();
    },
  },
);

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
      action: wantsToken(gateway.refusal) ? { label: 'Sign in', press: () => location.reload() } : words.retry ? { label: 'Try now', press: () => (gateway.state === 'refused' ? gateway.connect() : gateway.retryNow()) } : undefined,
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
  context.take(change);
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
        head.watching = clients;
      },
      () => {
        head.watching = null;
      },
    );
  }
  if (live()) everything();
  else painter.mark(scrubber);
  inspector.tick();
  const shown = run();
  if (shown !== null) announcer.status(`${shown.span.name}: ${wordOf(shown.span.state, may('decide'))}`);
});

new Splitter($('splitter'), $('stack'), storage);
listenToTheme($('theme'), storage);
// A link to another place, or with a token, opened where the page already is.
window.addEventListener('hashchange', () => {
  if (location.hash.startsWith('#token=')) location.reload();
  asked = askedFor();
  everything();
});
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
    ['p', () => player.toggle()],
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

panes.choose('log');
head.paint();
scrubber.paint();
connection();
if (topic !== null) gateway.connect();
