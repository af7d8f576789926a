import assert from 'node:assert/strict';
import { test } from 'node:test';

import { addressOf, fragmentOf, freshTopic, messageOf, topicOf, wrongTopicOf } from '../../static/chat/address.js';
import { JsonScanner, fields, layout, oneLine } from '../../static/chat/json_text.js';
import { signInWords, wantsToken } from '../../static/chat/refusal.js';
import { connectionNotice, isStale, socketStatus, topicStatus } from '../../static/chat/status.js';
import { ServerClock, daysAgo, duration, elapsed, shortNumber, spoken } from '../../static/chat/time.js';
import { TopicMemory, groups, titleOf } from '../../static/chat/topics.js';

test('address: the topic is in the query, checked', () => {
  assert.equal(topicOf('?topic=chat:42'), 'chat:42');
  assert.equal(topicOf('?topic=a%2Fb'), 'a/b');
  for (const search of ['', '?topic=', '?topic=a%20b', `?topic=${'x'.repeat(201)}`, '?other=1']) assert.equal(topicOf(search), null, search);
  assert.equal(addressOf('chat:42/@x'), '?topic=chat:42/@x');
  assert.equal(topicOf(addressOf('a.b-c_d:1/2@3')), 'a.b-c_d:1/2@3');
});

test('address: what names no topic is told from no topic', () => {
  for (const search of ['', '?other=1', '?topic=chat:1', `?topic=${'a'.repeat(200)}`]) assert.equal(wrongTopicOf(search), null);
  assert.equal(wrongTopicOf('?topic=two%20words'), 'two words');
  assert.equal(wrongTopicOf(`?topic=${'a'.repeat(201)}`), 'a'.repeat(201));
  assert.equal(wrongTopicOf('?topic='), '');
});

test('address: the message is in the fragment', () => {
  assert.equal(messageOf(fragmentOf('a b%')), 'a b%');
  for (const hash of ['', '#', '#m-', '#x-1', '#m-%E0%A4%A']) assert.equal(messageOf(hash), null, hash);
});

test('address: a fresh topic is a valid one', () => {
  const topic = freshTopic(Uint8Array.from([0, 35, 36, 71, 255, 1, 2, 3, 9]));
  assert.match(topic, /^chat:[a-z0-9]{8}$/);
  assert.equal(topicOf(addressOf(topic)), topic);
});

const TEXTS = ['{"a": "b\\"c", "n": -1.50e3, "l": [true, null, {}], "k": {"x": "y"}}', '{"a', '', '[[[', '"\\', 'no json at {all}', '{"a":{"b":[1,"x"]},"c":"d,e:f"}'];

test('json: tokens are the text, however it is cut', () => {
  for (const text of TEXTS) {
    const whole = new JsonScanner().feed(text);
    for (let size = 1; size <= 4; size += 1) {
      const scanner = new JsonScanner();
      const joined = [];
      for (let at = 0; at < text.length; at += size) {
        for (const token of scanner.feed(text.slice(at, at + size))) {
          if (token.goesOn) joined.at(-1).text += token.text;
          else joined.push({ ...token });
        }
      }
      assert.deepEqual(joined, whole, `${text} by ${size}`);
      assert.equal(joined.map((token) => token.text).join(''), text);
    }
  }
});

test('json: keys and strings are told apart', () => {
  const kinds = new JsonScanner().feed('{"a":"b","c":["d",{"e":1}]}').filter(({ text }) => text.startsWith('"'));
  assert.deepEqual(kinds.map(({ kind, text }) => `${kind} ${text}`), ['key "a"', 'string "b"', 'key "c"', 'string "d"', 'key "e"']);
});

test('json: a layout changes space alone, never a number', () => {
  const text = '{"amount":48.00,"big":12345678901234567890,"list":[1,2],"long":["aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"],"e":{},"f":[]}';
  const shown = layout(text).map((token) => token.text).join('');
  assert.ok(shown.includes('"amount": 48.00') && shown.includes('12345678901234567890') && shown.includes('[1, 2]'));
  assert.deepEqual(JSON.parse(shown), JSON.parse(text));
  assert.equal(shown.replace(/\s/g, ''), text);
  assert.ok(shown.split('\n').length > 8);
  assert.equal(layout('{"a":').map((token) => token.text).join(''), '{"a":');
});

test('json: fields and one line', () => {
  assert.deepEqual(fields('{"a":1.50,"b":{"c":[1,2]},"d":"x y"}'), [
    { name: 'a', value: '1.50' },
    { name: 'b', value: '{"c": [1, 2]}' },
    { name: 'd', value: '"x y"' },
  ]);
  assert.equal(fields('[1]'), null);
  assert.equal(fields('{"a"'), null);
  assert.deepEqual(fields('{}'), []);
  assert.equal(oneLine('{"path":"a.txt","n":20,"q":"two words"}'), 'path=a.txt n=20 q="two words"');
  assert.equal(oneLine('not json\nat all'), 'not json at all');
});

test('time: words', () => {
  assert.deepEqual([5, 120, 6200, 59_600, 151_000, 3_727_000].map(duration), ['5 ms', '0.1 s', '6.2 s', '1:00', '2:31', '1:02:07']);
  assert.deepEqual([0, 41_900, 725_000, 3_727_000].map(elapsed), ['0:00', '0:41', '12:05', '1:02:07']);
  assert.deepEqual([812, 8140, 99_960, 190_464, 999_600, 2_400_000].map(shortNumber), ['812', '8.1k', '100k', '190k', '1.0M', '2.4M']);
  assert.equal(spoken(151_000), '2 minutes 31 seconds');
  assert.equal(spoken(1000), '1 second');
  assert.equal(daysAgo(new Date(2026, 0, 1, 23, 59).getTime(), new Date(2026, 0, 2, 0, 1).getTime()), 1);
});

test('time: the clock of the publishers', () => {
  let now = 1000;
  const clock = new ServerClock(() => now);
  assert.equal(clock.now(), 1000);
  clock.observe(900);
  assert.equal(clock.now(), 1000, 'under a second it is the way here');
  clock.observe(61_000);
  clock.observe(50_000);
  clock.observe('x');
  assert.equal(clock.now(), 61_000);
  now = 2000;
  assert.equal(clock.now(), 62_000);
  clock.hold(true);
  now = 9000;
  assert.equal(clock.now(), 62_000, 'stands still');
  clock.hold(false);
  assert.equal(clock.now(), 69_000);
});

const FACTS = { gateway: 'connected', retryAt: null, refusal: null, topic: 'live', behind: 0, loading: null, since: 0, current: 0, now: 10_000 };

test('status: never live while behind', () => {
  assert.deepEqual(topicStatus(FACTS), { state: 'live', text: 'Live' });
  assert.deepEqual(topicStatus({ ...FACTS, topic: 'catching-up', behind: 1204 }), { state: 'behind', text: 'Catching up, 1,204 behind' });
  assert.deepEqual(topicStatus({ ...FACTS, topic: 'loading', loading: { part: 3, parts: 8 } }), { state: 'behind', text: 'Loading the newest state, 3 of 8' });
  assert.equal(topicStatus({ ...FACTS, topic: 'unsure' }).text, 'Not sure this is current');
  assert.equal(topicStatus({ ...FACTS, topic: 'denied' }).state, 'denied');
  for (const topic of ['subscribing', 'loading', 'catching-up', 'unsure', 'reconnecting', 'denied', 'ended']) assert.notEqual(topicStatus({ ...FACTS, topic }).state, 'live', topic);
});

test('status: the socket and the topic are two facts', () => {
  const facts = { ...FACTS, topic: 'unsure' };
  assert.equal(socketStatus(facts).text, 'Connected');
  assert.equal(topicStatus(facts).state, 'unsure');
});

test('status: a quick first connection is not spoken of', () => {
  const facts = { ...FACTS, gateway: 'connecting', topic: 'subscribing' };
  assert.equal(topicStatus({ ...facts, since: 9700 }).text, '');
  assert.equal(topicStatus({ ...facts, since: 9500 }).text, 'Connecting…');
});

test('status: the way back is counted down, and gets a notice after a while', () => {
  const facts = { ...FACTS, gateway: 'reconnecting', topic: 'reconnecting', retryAt: 13_200, since: 8000 };
  assert.equal(topicStatus(facts).text, 'Reconnecting in 4 s');
  assert.equal(connectionNotice(facts), null);
  const notice = connectionNotice({ ...facts, since: 6000 });
  assert.equal(notice?.title, 'Connection lost.');
  assert.equal(notice?.retry, true);
  assert.equal(isStale(facts), true);
  assert.equal(isStale(FACTS), false);
});

test('status: offline and refused', () => {
  assert.equal(topicStatus({ ...FACTS, gateway: 'offline', topic: 'reconnecting' }).state, 'offline');
  const refused = { ...FACTS, gateway: 'refused', topic: 'ended', current: 1000, refusal: { code: 3503, reason: 'asked to leave' } };
  assert.deepEqual(topicStatus(refused), { state: 'denied', text: 'Access ended' });
  assert.match(connectionNotice(refused)?.text ?? '', /asked to leave.*Your draft is kept/);
});

test('status: who was let in and whose token ended is told apart from who never was', () => {
  const refused = { ...FACTS, gateway: 'refused', topic: 'ended', current: 1000, refusal: { code: 109, reason: 'token expired' } };
  assert.equal(connectionNotice(refused)?.title, 'Your access ended.');
  assert.equal(topicStatus({ ...refused, current: null }).text, 'Not signed in');
  assert.equal(connectionNotice({ ...refused, current: null }), null);
});

for (const [code, given, title] of [
  [101, false, 'This gateway asks for a token'],
  [109, true, 'Your token has expired'],
  [101, true, 'This gateway does not take your token'],
  [3500, true, 'This gateway does not take your token'],
]) {
  test(`sign in: ${code}, ${given ? 'with' : 'without'} a token`, () => {
    assert.equal(wantsToken({ code, reason: 'it says why' }), true);
    assert.equal(signInWords({ code, reason: 'it says why' }, given).title, title);
  });
}

test('sign in: what another token cannot help is not asked for one', () => {
  assert.equal(wantsToken(null), false);
  assert.equal(wantsToken({ code: 3504, reason: 'connection limit' }), false);
});

class Storage {
  map = new Map();
  getItem(key) {
    return this.map.get(key) ?? null;
  }
  setItem(key, value) {
    this.map.set(key, value);
  }
}

test('topics: groups by day, titles and unread where they are known', () => {
  const now = new Date(2026, 5, 10, 12).getTime();
  const memory = new TopicMemory(new Storage());
  memory.look('b', 'Beta', now - 5000);
  const topics = [
    { topic: 'a', at: now },
    { topic: 'b', at: now - 1000 },
    { topic: 'c', at: now - 86_400_000 },
    { topic: 'd', at: now - 9 * 86_400_000 },
  ];
  const all = groups(topics, { current: 'a', title: 'Alpha', state: 'done', memory, brief: () => null, filter: '', now });
  assert.deepEqual(all.map(({ title, rows }) => [title, rows.map((row) => row.title)]), [
    ['Today', ['Alpha', 'Beta']],
    ['Yesterday', ['c']],
    ['Earlier', ['d']],
  ]);
  assert.deepEqual(all[0].rows.map(({ unread }) => unread), [false, true]);
  assert.equal(all[1].rows[0].unread, false, 'what was never looked at is not called new');
  for (const [state, group] of [['waiting', 'Needs you'], ['thinking', 'Running'], ['failed', 'Today'], [null, 'Today']]) {
    const [{ title, rows }] = groups(topics, { current: 'a', title: 'Alpha', state, memory, brief: () => null, filter: '', now });
    assert.deepEqual([title, rows[0].topic], [group, 'a']);
  }
  assert.deepEqual(groups(topics, { current: 'a', title: 'Alpha', state: 'done', memory, brief: () => null, filter: 'BET', now }).flatMap(({ rows }) => rows.map(({ topic }) => topic)), ['b']);
});

test('topics: what is told of the others gives them titles and groups, and hides sub-agents', () => {
  const now = new Date(2026, 5, 10, 12).getTime();
  const memory = new TopicMemory(new Storage());
  const topics = ['a', 'b', 'c', 'b/run', 'x/run'].map((topic) => ({ topic, at: now }));
  const briefs = new Map([
    ['b', { title: 'Beta', state: 'waiting', started: now - 5000, expires: now + 60_000 }],
    ['c', { title: null, state: 'done', started: now - 5000, expires: null }],
    ['x/run', { title: 'An orphan', state: 'tool', started: now, expires: null }],
  ]);
  const rows = (filter) =>
    groups(topics, { current: 'a', title: 'Alpha', state: null, memory, brief: (topic) => briefs.get(topic) ?? null, filter, now }).map(({ title, rows: found }) => [title, found.map((row) => row.title)]);
  assert.deepEqual(rows(''), [
    ['Needs you', ['Beta']],
    ['Running', ['An orphan']],
    ['Today', ['Alpha', 'c']],
  ]);
  assert.deepEqual(rows('b/run'), [['Today', ['b/run']]]);
});

test('topics: memory survives a reload, is bounded, and survives what it cannot read', () => {
  const storage = new Storage();
  const memory = new TopicMemory(storage);
  for (let index = 0; index < 600; index += 1) memory.look(`t${index}`, `T${index}`, index);
  const again = new TopicMemory(storage);
  assert.equal(again.title('t599'), 'T599');
  assert.equal(again.title('t0'), null);
  storage.setItem('gateway.topics', '{"no":"list"');
  assert.equal(new TopicMemory(storage).title('t599'), null);
});

test('topics: the title of a topic', () => {
  const event = (content) => ({ context: { title: null, events: [{ type: 'user_message', data: { content } }] } });
  assert.equal(titleOf({ context: { title: ' Named ', events: [] } }), 'Named');
  assert.equal(titleOf(event('\nfirst line\nsecond')), 'first line');
  assert.equal(titleOf(event([{ type: 'image' }, { type: 'text', text: 'parts' }])), 'parts');
  assert.equal(titleOf(event(null)), null);
  assert.equal(titleOf({ context: { title: 5, events: [] } }), null);
});
