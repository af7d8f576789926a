/** The chat page: puts the parts together. */

import { ErrorCode, Gateway, GatewayError } from '../gateway/index.js';
import { pageToken } from '../token.js';
import { addressOf, fragmentOf, freshTopic, messageOf, topicOf, wrongTopicOf } from './address.js';
import { Announcer } from './announcer.js';
import { denied, loading, notSignedIn, unheard, wrongTopic } from './blank.js';
import { Briefs } from './briefs.js';
import { Composer } from './composer.js';
import { Conversation } from './conversation.js';
import { Decisions } from './decisions.js';
import { setChildren, setText } from './dom.js';
import { Drawers } from './drawers.js';
import { Header } from './header.js';
import { Inset } from './inset.js';
import { Jump } from './jump.js';
import { listenToKeys } from './keys.js';
import { List } from './list.js';
import { Narrator } from './narrator.js';
import { Notices } from './notices.js';
import { Outbox } from './outbox.js';
import { Own } from './own.js';
import { Painter } from './painter.js';
import { Panel } from './panel.js';
import { Queue } from './queue.js';
import { signInWords, wantsToken } from './refusal.js';
import { retryWhenUsed } from './retry.js';
import { headRun, isLive } from './run_state.js';
import { Scroller } from './scroll.js';
import { connectionNotice, isStale, socketStatus, topicStatus } from './status.js';
import { StopButton } from './stop_button.js';
import { Stops } from './stops.js';
import { storage } from './storage.js';
import { Thread } from './thread.js';
import { Ticker } from './ticker.js';
import { ServerClock, elapsed, number } from './time.js';
import { TopicMemory, titleOf, wordsOf } from './topics.js';
import { Watchers } from './watchers.js';

/** An element that the page has. @param {string} id @returns {any} */
const $ = (id) => document.getElementById(id);

/** So many events at once after a gap are worth a word. */
const MANY = 50;
/** A message that a link points to is marked for so long, in ms. */
const MARKED_MS = 2000;

const topic = topicOf(location.search) ?? freshTopic(crypto.getRandomValues(new Uint8Array(8)));
/** What the address has in place of a topic. Nothing is written then, and the address stays to be corrected. */
const wrong = wrongTopicOf(location.search);
if (wrong === null && topicOf(location.search) !== topic) history.replaceState(null, '', addressOf(topic) + location.hash);

const token = pageToken();
const gateway = new Gateway({ url: new URL('connection/websocket', document.baseURI).href, token, hiddenRate: 1 });
const subscription = gateway.subscribe(topic, { joins: true });
const { mirror } = subscription;

const clock = new ServerClock(() => Date.now());
const ticker = new Ticker();
const painter = new Painter();
const thread = new Thread(clock);
const own = new Own(storage);
const memory = new TopicMemory(storage);
const notices = new Notices($('notices'));
const announcer = new Announcer({ status: $('say-status'), message: $('say-message'), alert: $('say-alert') });
const narrator = new Narrator(announcer);
const decisions = new Decisions((name, what) => gateway.decide(name, what), own);

/** When the gateway's state began, and when what is shown was last current. */
let since = Date.now();
let known = gateway.state;
/** @type {number|null} */
let current = null;
/** The position when the last gap began, where one is open. @type {number|null} */
let left = null;
/** The epoch and offset before the last change. */
let before = { epoch: '', offset: 0 };
/** What models cost, as far as the operator says. @type {{[model: string]: import('../gateway/index.js').Price}} */
let prices = {};
let hashDone = messageOf(location.hash) === null;

/** @returns {Chat.Facts} */
function facts() {
  return { gateway: gateway.state, retryAt: gateway.retryAt, refusal: gateway.refusal, topic: subscription.state, behind: subscription.behind, loading: subscription.loading, since, current, now: Date.now() };
}

const title = () => wrong !== null ? 'No such chat' : titleOf(mirror) ?? memory.title(topic) ?? topic;
const may = (/** @type {string} */ verb) => (subscription.grants ?? gateway.grants)?.includes(verb) ?? true;

const stops = new Stops({
  own,
  cancel: (name, what) => gateway.cancel(name, what),
  tell: (heading, text, bad) => notices.show('stop', { tone: bad ? 'bad' : '', symbol: bad ? 'alert' : 'stop', title: heading, text, short: true }),
  changed: () => {
    thread.changed = true;
    // The event may have been drawn before the answer told that it was this reader's doing.
    ownChanged();
  },
});

const scroller = new Scroller($('thread'), $('lane'), () => jump.show());

const outbox = new Outbox({
  topic,
  storage,
  later: (act, ms) => void setTimeout(act, ms),
  send: async (text, id) => {
    const answer = await gateway.send(topic, text, { id });
    own.add(answer.message);
    return answer;
  },
  connected: () => gateway.state === 'connected',
  mirror: () => mirror,
  changed: () => {
    conversation.outgoingChanged();
    painter.mark(conversation);
    painter.mark(dock);
  },
});

const conversation = new Conversation({
  lane: $('lane'),
  thread,
  mirror: () => mirror,
  following: () => scroller.following,
  pending: () =>
    outbox.messages.filter(({ state }) => state !== 'failed').map(({ id, text, at, state }) => ({ key: `o:${id}`, kind: 'user', run: null, at, message: null, name: null, text, attachments: '', pending: state === 'waiting' ? 'waits for the connection' : 'sending…' })),
  page: {
    clock,
    ticker,
    hold: (element) => scroller.hold(element),
    pin: (element) => scroller.pin(element),
    own,
    decisions,
    gateway,
    topic,
    depth: 0,
    may,
    alert: (words) => announcer.alert(words),
    mark: (part) => painter.mark(part),
    redraw: (key) => {
      conversation.redraw(key);
      painter.mark(conversation);
    },
    inset: (page, options) => new Inset(page, options),
    stop: (name, run) => void stops.ask(name, { run }, 'now'),
    stopping: (run) => stops.asked(run),
    prices: () => prices,
    linkTo: (message) => new URL(addressOf(topic) + fragmentOf(message), document.baseURI).href,
    topicLink: addressOf,
  },
});

const jump = new Jump({
  box: $('thread'),
  root: $('jump'),
  button: $('jump-button'),
  scroller,
  conversation,
  may,
});

const composer = new Composer({
  parts: { box: $('box'), send: $('send'), hint: $('send-hint'), note: $('composer-note'), keep: $('keep'), notices: $('unsent'), frame: $('composer') },
  topic,
  storage,
  submit: (text) => {
    outbox.add(text, crypto.randomUUID(), Date.now());
    scroller.toBottom();
  },
  save: (message, text) => queue.change(message, text),
  last: () => queue.last,
  alert: (words) => announcer.alert(words),
});

const queue = new Queue({
  root: $('queue'),
  own,
  acts: { edit: (message, content) => gateway.edit(topic, { message, content }), withdraw: (message) => gateway.withdraw(topic, { message }) },
  tell: (heading, text) => notices.show('queue', { tone: 'bad', symbol: 'alert', title: heading, text, short: true }),
  changed: () => painter.mark(dock),
  edit: (message, text) => composer.edit(message, text),
});

/** What Esc would stop: the run on top, or the own message that waits for one. @returns {Chat.Target|null} */
function stoppable() {
  const run = headRun(mirror);
  if (run !== null && isLive(run)) return { run: run.run };
  const last = mirror.queue.findLast(({ id, by }) => own.wrote(id, by));
  return last === undefined ? null : { message: last.id };
}

/** @param {'now'|'after_step'} mode */
function stop(mode) {
  const target = may('cancel') ? stoppable() : null;
  const run = headRun(mirror);
  // What is being stopped is not asked twice, unless it is to be sooner.
  if (target === null || ('run' in target && run.status === 'cancelling' && (run.cancel?.mode !== 'after_step' || mode !== 'now'))) return false;
  void stops.ask(topic, target, mode);
  return true;
}

const stopButton = new StopButton({
  parts: { root: $('stop'), stop: $('stop-now'), more: $('stop-more'), menu: $('stop-menu'), note: $('stop-note'), hints: $('hints'), hint: $('stop-hint') },
  ask: stop,
  clock,
});

const watchers = new Watchers({
  parts: { faces: $('faces'), section: $('watching-section'), count: $('watching'), names: $('watchers') },
  topic: subscription,
  client: () => gateway.client,
  own,
  mark: () => painter.mark(watchers),
});

const header = new Header({
  parts: { title: $('title'), chip: $('chip'), ribbon: $('ribbon'), note: $('note'), conn: $('conn') },
  mirror: () => mirror,
  thread,
  clock,
  title,
  may,
  facts: () => ({ status: topicStatus(facts()), stale: isStale(facts()), current }),
});

const panel = new Panel({
  parts: { step: $('step'), tree: $('tree'), usage: $('usage'), usageSection: $('usage-section'), offset: $('offset'), epoch: $('epoch'), behind: $('behind'), queued: $('queued') },
  mirror: () => mirror,
  thread,
  clock,
  entries: () => conversation.entries,
  behind: () => subscription.behind,
  prices: () => prices,
  jump: (key) => {
    const element = conversation.byKey(key);
    if (element === null) return;
    drawers.close();
    scroller.toElement(element);
    mark(element);
  },
});

const briefs = new Briefs((name) => gateway.subscribe(name, { lens: 'summary' }), () => painter.mark(list));
const list = new List({ root: $('list'), search: $('search'), current: topic, title, memory, load: () => gateway.topics(), briefs, clock, mark: () => painter.mark(list) });

/** What is around the conversation and follows the connection: the dock, the foot of the list, the page's title. */
const dock = {
  paint() {
    const run = headRun(mirror);
    const socket = socketStatus(facts());
    const running = run !== null && isLive(run);
    const stopping = running && run.cancel !== null ? { by: own.who(run.run, run.cancel.by), mode: run.cancel.mode, step: run.iteration } : null;
    const [act = null] = may('cancel') ? Object.values(stoppable() ?? {}) : [];
    if (run !== null && run.status !== 'running') stops.settle(run.run);
    composer.show({ agent: run?.agent ?? null, policy: run?.policy ?? null, running, stopping: stopping !== null, connection: subscription.state === 'denied' ? 'denied' : socket.state, allowed: may('send'), signedIn: current !== null || !(wantsToken(gateway.refusal) || subscription.error?.code === ErrorCode.PERMISSION_DENIED) });
    stopButton.show({ act, asked: act !== null && stops.asked(act), stopping });
    queue.show(mirror, may);
    composer.check((message) => queue.has(message));
    composer.showUnsent(
      outbox.messages.filter(({ state }) => state === 'failed'),
      { again: (id) => outbox.again(id), discard: (id) => outbox.discard(id) },
    );
    const foot = $('socket');
    foot.dataset.state = socket.state;
    foot.hidden = socket.text === '';
    setText(foot, socket.text);
    $('main').toggleAttribute('data-stale', isStale(facts()));
    document.title = `${title()} · Gateway`;
    const question = mirror.approvals.find(({ decision }) => decision === null);
    const left = typeof question?.expires_at === 'number' ? elapsed(question.expires_at - clock.now() + 999) : '';
    const state = run === null ? null : thread.state(mirror, run);
    const words = run === null ? '' : wordsOf({ state, agent: run.agent, error: run.error });
    list.showState(state, { decides: may('decide'), left, words, started: run?.started_at ?? null });
    painter.mark(list);
    drawBlank();
    return true;
  },
};

const refusalWords = () => signInWords(gateway.refusal ?? { code: 0, reason: '' }, token !== undefined);

/** What could not be loaded, as the gateway went away just then, is tried again. */
const retry = () => {
  blank = '';
  setTimeout(drawBlank, 2000);
};

/** Where a token can be given. Mostly nobody needs it, so it comes when somebody does. */
function tokenForm() {
  const place = document.createElement('div');
  place.className = 'sign-in';
  // Begins anew, as the page would with the token in its link; what is written stays in the box.
  void import('./sign_in.js').then(({ fillTokenForm }) => fillTokenForm(place, () => location.reload()), retry);
  return place;
}

function firstRun() {
  const place = document.createElement('div');
  place.className = 'empty';
  void import('./first_run.js').then(({ fillFirstRun }) => fillFirstRun(place, topic, (text) => composer.say(text)), retry);
  return place;
}

let blank = '';
function drawBlank() {
  const { state } = subscription;
  const nothing = mirror.offset === 0 && mirror.context.events.length === 0 && outbox.messages.length === 0;
  let name = '';
  if (wrong !== null) name = 'wrong';
  else if (wantsToken(gateway.refusal)) name = 'sign-in';
  else if (state === 'denied') name = 'denied';
  else if (nothing && state === 'live') name = 'first';
  else if (nothing && (state === 'subscribing' || state === 'loading') && Date.now() - since > 400) name = 'loading';
  else if (mirror.queue.length > 0 && mirror.runs.length === 0 && mirror.context.events.length === 0 && outbox.messages.length === 0) name = 'unheard';
  else if (nothing && (blank === 'first' || blank === 'loading')) name = blank;
  if (name === blank) return;
  blank = name;
  const made = {
    'sign-in': () => notSignedIn(refusalWords(), tokenForm()),
    denied: () => denied(topic, subscription.error, subscription.error?.code === ErrorCode.PERMISSION_DENIED ? tokenForm() : null),
    first: firstRun,
    loading,
    unheard,
    wrong: () => wrongTopic(wrong ?? ''),
  }[name];
  setChildren($('blank'), made === undefined ? [] : [made()]);
}

function around() {
  painter.mark(header);
  painter.mark(panel);
  painter.mark(dock);
}

function connectionChanged() {
  const now = facts();
  const words = connectionNotice(now);
  if (words === null) {
    notices.hide('connection');
  } else {
    const action = words.retry ? { label: 'Try now', press: () => (gateway.state === 'refused' ? gateway.connect() : gateway.retryNow()) } : undefined;
    notices.show('connection', { tone: words.tone, symbol: words.tone === 'bad' ? 'key' : 'wait', title: words.title, text: words.text, action });
  }
  if (gateway.state === 'refused') narrator.accessEnded(current === null && wantsToken(gateway.refusal) ? refusalWords().title : 'Your access ended.');
  if (subscription.state === 'live') {
    if (left !== null && mirror.offset - left > MANY) {
      notices.show('caught-up', { tone: 'tool', symbol: 'check', title: 'Up to date.', text: `${number(mirror.offset - left)} events arrived while you were away.`, short: true });
    }
    left = null;
    current = Date.now();
  } else if (subscription.state === 'reconnecting' && left === null) {
    left = mirror.offset;
  }
  clock.hold(isStale(now));
  painter.mark(header);
  painter.mark(dock);
}

async function askPrices() {
  try {
    prices = await gateway.prices();
  } catch (error) {
    if (!(error instanceof GatewayError)) throw error;
    return; // what was known before still counts; without, no cost is shown
  }
  conversation.redrawAll();
  painter.mark(conversation);
  painter.mark(panel);
}

/** Whose things are is known better now. */
function ownChanged() {
  conversation.redrawAll();
  painter.mark(conversation);
  painter.mark(dock);
}

/** @param {Element} element */
function mark(element) {
  element.classList.add('marked');
  setTimeout(() => element.classList.remove('marked'), MARKED_MS);
}

/** Goes to the message that the address names. */
function follow() {
  const message = messageOf(location.hash);
  if (message === null) return;
  const element = conversation.find(message);
  if (element === null) {
    notices.show('link', { tone: '', symbol: 'link', title: 'That message is older than what is kept.', text: 'Shown from the newest one.', short: true });
    return;
  }
  scroller.toElement(element);
  mark(element);
}

/** @param {{events: any[], reset: boolean}} change */
function changed({ events, reset }) {
  thread.take({ events, reset });
  if (reset && before.offset > 0) {
    left = null;
    if (before.epoch !== '' && mirror.epoch !== before.epoch) {
      notices.show('recreated', { tone: 'wait', symbol: 'alert', title: 'This history was recreated.', text: 'It is shown from its new start.', action: { label: 'Close', press: () => notices.hide('recreated') } });
    } else {
      notices.show('replaced', { tone: 'tool', symbol: 'fold', title: 'Too far behind to replay.', text: 'The newest state was loaded whole. Nothing is missing.', short: true });
    }
  }
  before = { epoch: mirror.epoch, offset: mirror.offset };
  if (subscription.state === 'live') current = Date.now();
  outbox.settle();
  painter.mark(conversation);
  if (thread.changed || events.some(({ data }) => data?.type === 'usage')) around();
  narrator.asks(mirror);
  if (!reset) narrator.heard(events, { mirror, following: scroller.following, state: () => stateOfHead() });
  if (!hashDone && (reset || mirror.offset > 0)) {
    hashDone = true;
    painter.mark({
      paint: () => {
        if (conversation.empty) return false;
        follow();
        return true;
      },
    });
  }
}

function stateOfHead() {
  const run = headRun(mirror);
  return run === null ? null : { state: thread.state(mirror, run), run };
}

subscription.on('change', changed);
subscription.on('state', connectionChanged);
gateway.on('state', (state) => {
  if (own.name !== gateway.user) {
    own.name = gateway.user;
    ownChanged();
  }
  // It is told again after each attempt.
  if (state !== known) {
    known = state;
    since = Date.now();
    outbox.connection(state === 'connected');
    if (state === 'connected') {
      void list.refresh();
      void askPrices();
    }
  }
  connectionChanged();
});
gateway.on('sure', connectionChanged);
ticker.add(() => {
  if (subscription.state === 'live') current = Date.now();
  if (subscription.state === 'live' && thread.listen(mirror)) {
    painter.mark(conversation);
    narrator.heard([], { mirror, following: scroller.following, state: stateOfHead });
  }
  connectionChanged();
  painter.mark(panel);
  if (mirror.offset > 0) memory.look(topic, titleOf(mirror), Date.now());
});
window.addEventListener('hashchange', follow);
own.listen(window, ownChanged);
retryWhenUsed({ gateway, page: document, now: () => Date.now() });

const drawers = new Drawers(
  $('app'),
  { list: $('side'), panel: $('panel'), veil: $('veil'), buttons: { list: [$('show-list'), $('hide-list')], panel: [$('show-panel'), $('hide-panel')] } },
  storage,
);
$('theme').addEventListener('click', () => {
  const root = document.documentElement;
  const dark = root.dataset.theme === undefined ? matchMedia('(prefers-color-scheme: dark)').matches : root.dataset.theme === 'dark';
  root.dataset.theme = dark ? 'light' : 'dark';
  try {
    storage.setItem('gateway.theme', root.dataset.theme);
  } catch {
    // The choice lives as long as the page.
  }
});
$('copy-link').addEventListener('click', async () => {
  try {
    await navigator.clipboard.writeText(new URL(addressOf(topic), document.baseURI).href);
    notices.show('copied', { tone: '', symbol: 'link', title: 'Link copied.', text: 'It opens this chat for those who may read it.', short: true });
  } catch {
    notices.show('copied', { tone: '', symbol: 'link', title: 'Not copied.', text: 'The browser does not allow it. The address of this page is the link.', short: true });
  }
});
if (wrong === null) $('open-run').href = `./dashboard/run${addressOf(topic)}`;
$('keys-button').addEventListener('click', () => $('keys').showModal());
$('keys-close').addEventListener('click', () => $('keys').close());

listenToKeys({
  dialog: $('keys'),
  toggle: $('letter-keys'),
  storage,
  end: () => scroller.toBottom(),
  escape: (shift) => stopButton.close() || drawers.close() || stop(shift ? 'after_step' : 'now'),
  letters: new Map([
    ['a', () => jump.decide('a')],
    ['e', () => jump.decide('e')],
    ['r', () => jump.decide('r')],
    ['?', () => $('keys').showModal()],
    [
      '/',
      () => {
        drawers.show('list');
        $('search').focus();
      },
    ],
    ['n', () => location.assign($('new-chat').href)],
    ['j', () => jump.step(1)],
    ['k', () => jump.step(-1)],
    ['g', () => scroller.toBottom()],
    ['c', () => void jump.copy()],
    ['.', () => drawers.toggle('panel')],
    ['[', () => drawers.toggle('list')],
  ]),
});

$('dock').hidden = wrong !== null;
$('copy-link').hidden = wrong !== null;
if (wrong !== null) {
  // There is no conversation of which the panel and the connection could tell.
  $('app').classList.add('no-panel', 'no-topic');
}
around();
painter.mark(list);
connectionChanged();
gateway.connect();
