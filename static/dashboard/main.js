/** The dashboard: puts the parts together. */

import { ErrorCode, Gateway } from '../gateway/index.js';
import { pageToken } from '../token.js';
import { addressOf } from '../chat/address.js';
import { Announcer } from '../chat/announcer.js';
import { SOMEONE, capital, person, sentence } from '../chat/content.js';
import { Decisions } from '../chat/decisions.js';
import { setChildren, setText } from '../chat/dom.js';
import { listenToKeys } from '../chat/keys.js';
import { Notices } from '../chat/notices.js';
import { Own } from '../chat/own.js';
import { Painter } from '../chat/painter.js';
import { wantsToken } from '../chat/refusal.js';
import { retryWhenUsed } from '../chat/retry.js';
import { connectionNotice, socketStatus } from '../chat/status.js';
import { Stops } from '../chat/stops.js';
import { storage } from '../chat/storage.js';
import { Ticker } from '../chat/ticker.js';
import { ServerClock, clockTime, number } from '../chat/time.js';
import { denied, firstRun, loading, noMatch, quiet } from './blank.js';
import { readFilter } from './filter.js';
import { FilterBox } from './filter_box.js';
import { Feed } from './feed.js';
import { Order, isColumn } from './order.js';
import { Review } from './review.js';
import { Row } from './row.js';
import { notSignedIn, tokenForm } from './sign_in.js';
import { Stats } from './stats.js';
import { readSummary } from './summary.js';
import { Table } from './table.js';
import { listenToTheme } from './theme_button.js';
import { Totals } from './totals.js';

/** An element that the page has. @param {string} id @returns {any} */
const $ = (id) => document.getElementById(id);

/** Totals are counted anew at most so often, in ms. */
const TOTALS_MS = 250;

const token = pageToken();
const gateway = new Gateway({ url: new URL('../../connection/websocket', import.meta.url).href, token });
const clock = new ServerClock(() => Date.now());
const ticker = new Ticker();
const painter = new Painter();
const own = new Own(storage);
const notices = new Notices($('notices'));
const announcer = new Announcer({ status: $('say-status'), message: $('say-message'), alert: $('say-alert') });
const decisions = new Decisions((topic, what) => gateway.decide(topic, what), own);
const totals = new Totals();
const order = new Order();
/** @type {Map<string, Row>} */
const rows = new Map();
/** When each was last heard of, as the list of topics says. @type {Map<string, number>} */
const heardAt = new Map();

let since = Date.now();
let known = gateway.state;
/** When what is shown was last current. @type {number|null} */
let current = null;
let over = false;
let counted = 0;
/** They are counted again soon. */
let counting = false;
let filter = readFilter('');

/** @param {string} verb @param {string} topic */
function may(verb, topic) {
  return (feed.followed.get(topic)?.grants ?? gateway.grants)?.includes(verb) ?? true;
}

/** @param {Row} row */
function runLink(row) {
  const { run } = row.summary;
  return `./dashboard/run${addressOf(row.topic)}${run === null ? '' : `&run=${encodeURIComponent(run)}`}`;
}

/** @param {string} topic */
const chatLink = (topic) => `./${addressOf(topic)}`;

const stops = new Stops({
  own,
  cancel: (topic, what) => gateway.cancel(topic, what),
  tell: (title, text, bad) => notices.show('stop', { tone: bad ? 'bad' : '', symbol: bad ? 'alert' : 'stop', title, text, short: true }),
  changed: () => table.refresh(),
});

/** @param {string} topic */
function stop(topic) {
  const row = rows.get(topic);
  if (row === undefined || !row.live || row.summary.run === null || row.state === 'stopping' || !may('cancel', topic)) return;
  void stops.ask(topic, { run: row.summary.run }, 'now');
}

const feed = new Feed({
  topics: () => gateway.topics(),
  connected: () => gateway.state === 'connected' && !document.hidden,
  now: () => Date.now(),
  later: (act, ms) => void setTimeout(act, ms),
  changed: () => painter.mark(board),
  follow: (topic, heard) => {
    const subscription = gateway.subscribe(topic, { lens: 'summary' });
    subscription.on('summary', heard);
    return subscription;
  },
  heard: (topic, at, data) => {
    heardAt.set(topic, at);
    take(data);
  },
  gone: (topic) => {
    rows.delete(topic);
    heardAt.delete(topic);
    order.change();
    painter.mark(board);
  },
});

/** @param {unknown} data */
function take(data) {
  const summary = readSummary(data);
  if (summary === null) return;
  if (summary.at !== null) clock.observe(summary.at);
  const row = rows.get(summary.topic);
  const asked = row?.question ?? null;
  if (row === undefined) {
    rows.set(summary.topic, new Row(summary, Date.now()));
    order.change();
  } else if (row.take(summary, Date.now())) {
    order.change();
  }
  const now = rows.get(summary.topic);
  if (now?.question != null && asked === null) asks(now);
  if (now !== undefined && (now.ended || now.state === 'stopping') && summary.run !== null) stops.settle(summary.run);
  table.changed(summary.topic);
  review.changed(summary.topic);
  painter.mark(board);
}

/** @param {Row} row */
function asks(row) {
  if (feed.settled && may('decide', row.topic)) announcer.alert(`${row.title} needs you: run ${row.question?.name}?`);
}

const page = {
  clock,
  now: () => Date.now(),
  may,
  stopping: (/** @type {string} */ run) => stops.asked(run),
  runLink,
  chatLink,
  stop,
  review: (/** @type {string} */ topic) => {
    table.select(topic);
    review.show(topic);
  },
  open: (/** @type {string} */ topic) => {
    const row = rows.get(topic);
    if (row !== undefined) location.assign(runLink(row));
  },
  selected: () => {},
  sortBy: (/** @type {string} */ column) => {
    const { sort } = order;
    // Numbers are looked at for the largest.
    const usual = ['rate', 'tokens', 'tools', 'errors', 'viewers', 'lag'].includes(column);
    order.sort = { column, descending: sort.column === column ? !sort.descending : usual };
    arranged();
  },
  mark: (/** @type {{paint: (deadline: number) => boolean}} */ part) => painter.mark(part),
};
const table = new Table({ root: $('runs'), head: $('head'), body: $('body') }, page);
const review = new Review(
  { root: $('review'), title: $('review-title'), body: $('review-body'), close: $('review-close') },
  { ...page, decisions, own, alert: (words) => announcer.alert(words), who: (by) => capital(person(by) ?? SOMEONE) },
  (topic) => rows.get(topic),
);
const stats = new Stats($('stats'), { totals, clock, toggle: (term) => box.toggle(term) });
const box = new FilterBox({ terms: $('terms'), box: $('filter') }, () => {
  filter = readFilter(box.text);
  stats.pressed(box.terms);
  arranged();
});

/** Another filter, order or grouping. */
function arranged() {
  order.reset();
  table.showSort(order.sort);
  for (const button of $('group').children) button.setAttribute('aria-pressed', String(button.dataset.group === order.group));
  const { column, descending } = order.sort;
  const usual = column === 'time' && !descending;
  setText($('order-note'), usual ? 'newest first, and it never reorders by itself' : 'live columns reorder every 2 s');
  const query = new URLSearchParams();
  if (box.text !== '') query.set('q', box.text);
  if (order.group !== 'state') query.set('group', order.group);
  if (!usual) query.set('sort', `${descending ? '-' : ''}${column}`);
  history.replaceState(null, '', query.size === 0 ? location.pathname : `?${query}`);
  painter.mark(board);
}

/** What is around the table, and which rows stand in it. */
const board = {
  paint() {
    const now = Date.now();
    const still = feed.settled && (over || table.scrolled);
    if (order.update(rows, { now, clock: clock.now(), filter, still })) table.set(order.items);
    if (now - counted >= TOTALS_MS) {
      counted = now;
      totals.count(rows.values());
      stats.paint();
      status();
    } else if (!counting) {
      counting = true;
      setTimeout(() => {
        counting = false;
        painter.mark(board);
      }, TOTALS_MS);
    }
    const shown = order.items.reduce((sum, { row }) => sum + (row === null ? 0 : 1), 0);
    const all = [...rows.values()].reduce((sum, row) => sum + (row.state === 'idle' ? 0 : 1), 0);
    setText($('shown'), all === 0 ? '' : `${number(shown)} of ${number(all)}`);
    $('fresh').hidden = order.fresh === 0;
    setText($('fresh-button'), `${number(order.fresh)} new`);
    blank(shown, all);
    if (feed.left > 0) notices.show('bound', { tone: 'wait', symbol: 'alert', title: 'Not all are shown.', text: `One page follows 1,000 topics; ${number(feed.left)} more were heard of longer ago.` });
    else notices.hide('bound');
    return true;
  },
};

let blankName = '';
/**
 * @param {number} shown
 * @param {number} all
 */
function blank(shown, all) {
  let name = '';
  if (all === 0 && wantsToken(gateway.refusal)) name = 'sign-in';
  else if (feed.error !== null && all === 0) name = 'denied';
  else if (!feed.settled && shown === 0) name = 'loading';
  else if (shown > 0 || order.fresh > 0) name = '';
  else if (all > 0) name = 'none';
  else name = feed.any ? 'quiet' : 'first';
  if (name === blankName) return;
  blankName = name;
  const refused = /** @type {any} */ (feed.error)?.code === ErrorCode.PERMISSION_DENIED;
  const made = { 'sign-in': () => notSignedIn(gateway.refusal, token !== undefined), denied: () => denied(sentence(feed.error), refused ? tokenForm() : null), loading, none: () => noMatch(() => box.set('')), first: () => firstRun(token !== undefined), quiet }[name];
  setChildren($('blank'), made === undefined ? [] : [made()]);
  $('runs').classList.toggle('bare', name !== '');
}

function status() {
  const facts = { gateway: gateway.state, retryAt: gateway.retryAt, refusal: gateway.refusal, topic: '', behind: 0, loading: null, since, current, now: Date.now() };
  const shown = socketStatus(facts);
  const live = shown.state === 'live';
  const conn = $('conn');
  const unsure = live && !gateway.sure;
  conn.dataset.state = unsure ? 'unsure' : shown.state;
  conn.hidden = shown.text === '';
  if (live && !unsure) current = Date.now();
  setText(conn, unsure ? 'Not sure this is current' : live ? `Live${totals.events >= 1 ? `, ${number(Math.round(totals.events))} events/s` : ''}` : shown.text);
  const stale = (!live || unsure) && known !== 'connecting' && rows.size > 0;
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
}

gateway.on('state', (state) => {
  if (state !== known) {
    known = state;
    since = Date.now();
  }
  status();
});
gateway.on('state', () => painter.mark(board));
gateway.on('sure', status);
gateway.on('error', () => status());

ticker.add(() => {
  const now = Date.now();
  for (const row of rows.values()) {
    if (row.settle(now)) order.change();
    row.sample();
  }
  for (const topic of order.leaving(rows, now, clock.now())) feed.drop(topic, heardAt.get(topic) ?? 0);
  totals.count(rows.values());
  totals.sample();
  stats.paint();
  stats.draw();
  table.tick();
  review.tick();
  status();
  if (totals.waiting > 0 && totals.oldest !== null) announcer.status(`${number(totals.waiting)} ${totals.waiting === 1 ? 'run needs' : 'runs need'} you.`);
  else if (feed.settled) announcer.status(totals.running === 0 ? 'Nothing runs.' : '');
  painter.mark(board);
});

$('sheet').addEventListener('pointerenter', () => {
  over = true;
});
$('sheet').addEventListener('pointerleave', () => {
  over = false;
  order.change();
  painter.mark(board);
});
$('fresh-button').addEventListener('click', () => {
  order.reset();
  table.toTop();
  painter.mark(board);
});
$('hold').addEventListener('click', hold);
function hold() {
  order.hold = !order.hold;
  $('hold').setAttribute('aria-pressed', String(order.hold));
  order.change();
  painter.mark(board);
}
$('group').addEventListener('click', (/** @type {Event} */ event) => {
  const name = /** @type {HTMLElement} */ (event.target).dataset.group;
  if (name !== 'state' && name !== 'agent' && name !== 'flat') return;
  order.group = name;
  arranged();
});
listenToTheme($('theme'), storage);
// A link with a token, opened where the page already is.
window.addEventListener('hashchange', () => location.hash.startsWith('#token=') && location.reload());
retryWhenUsed({ gateway, page: document, now: () => Date.now() });
$('keys-button').addEventListener('click', () => $('keys').showModal());
$('keys-close').addEventListener('click', () => $('keys').close());
$('runs').addEventListener('keydown', (/** @type {KeyboardEvent} */ event) => {
  if (event.key === 'ArrowDown' || event.key === 'ArrowUp') {
    event.preventDefault();
    table.step(event.key === 'ArrowDown' ? 1 : -1);
  } else if (event.key === 'Enter' && /** @type {HTMLElement} */ (event.target).closest('a, button') === null && table.selected !== null) {
    page.open(table.selected);
  }
});
/** The selected run, or the one that has waited longest. */
function reviewed() {
  const selected = rows.get(table.selected ?? '');
  if (selected?.question != null) return selected.topic;
  return order.items.find(({ row }) => row?.question != null)?.row?.topic ?? null;
}
listenToKeys({
  dialog: $('keys'),
  toggle: $('letter-keys'),
  storage,
  end: () => {},
  escape: () => review.close(),
  letters: new Map([
    ['j', () => table.step(1)],
    ['k', () => table.step(-1)],
    [
      'a',
      () => {
        const topic = reviewed();
        if (review.open && review.press('a')) return;
        if (topic !== null) page.review(topic);
      },
    ],
    ['e', () => void (review.open && review.press('e'))],
    ['r', () => void (review.open && review.press('r'))],
    ['s', () => table.selected !== null && stop(table.selected)],
    ['p', hold],
    ['/', () => $('filter').focus()],
    ['?', () => $('keys').showModal()],
  ]),
});

const query = new URLSearchParams(location.search);
const group = query.get('group');
if (group === 'agent' || group === 'flat') order.group = group;
const [, sign, column] = /^(-?)([a-z]+)$/.exec(query.get('sort') ?? '') ?? [];
if (column !== undefined && isColumn(column)) order.sort = { column, descending: sign === '-' };
box.set(query.get('q') ?? '');
status();
gateway.connect();
feed.start();
