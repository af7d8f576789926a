import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Briefs } from '../../static/chat/briefs.js';

function made() {
  const followed = new Map();
  let changes = 0;
  const briefs = new Briefs(
    (topic) => {
      const subscription = { on: (_, listener) => (subscription.tell = listener), unsubscribe: () => followed.delete(topic) };
      followed.set(topic, subscription);
      return subscription;
    },
    () => {
      changes += 1;
    },
  );
  return { briefs, followed, changes: () => changes };
}

const summary = (facts) => ({ type: 'summary', topic: 't', title: 'Title', agent: 'keeper', state: 'running', phase: 'tool', started_at: 5, approvals: [], ...facts });

test('what a summary says is known, and told only when it is another thing', () => {
  const { briefs, followed, changes } = made();
  briefs.follow(['t']);
  assert.equal(briefs.of('t'), null);
  followed.get('t').tell(summary({}));
  followed.get('t').tell(summary({ events_per_second: 9 }));
  assert.deepEqual(briefs.of('t'), { title: 'Title', state: 'tool', agent: 'keeper', error: null, started: 5, expires: null });
  assert.equal(changes(), 1);
  followed.get('t').tell(summary({ approvals: [{ expires_at: 90 }, { expires_at: 70 }] }));
  assert.deepEqual(briefs.of('t'), { title: 'Title', state: 'waiting', agent: 'keeper', error: null, started: 5, expires: 70 });
  followed.get('t').tell(summary({ state: 'idle' }));
  assert.equal(briefs.of('t').state, null);
  followed.get('t').tell('nothing that can be read');
  assert.equal(changes(), 3);
});

test('the newest are followed, others are let go of', () => {
  const { briefs, followed } = made();
  const names = Array.from({ length: 60 }, (_, index) => `t${index}`);
  briefs.follow(names);
  assert.equal(followed.size, 40);
  const [kept] = followed.values();
  briefs.follow(['new', 't0']);
  assert.deepEqual([...followed.keys()].sort(), ['new', 't0']);
  assert.equal(followed.get('t0'), kept);
});
