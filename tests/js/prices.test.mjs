import assert from 'node:assert/strict';
import { test } from 'node:test';

import { runCost, topicCost } from '../../static/chat/costs.js';
import { money } from '../../static/chat/time.js';
import { costOf } from '../../static/gateway/index.js';
import { noUsage } from '../../static/gateway/usage.js';

const PRICES = { 'fast-*': { input: 1, output: 2, cached: 0.1, written: 1.25 }, '*-mini-*-x': { input: 5, output: 5 }, plain: { input: 3, output: 15 } };
const usage = (counters) => ({ ...noUsage(), ...counters });

test('cost: what a cache gave or took has its own price, and is not counted twice', () => {
  const used = usage({ input_tokens: 1_000_000, output_tokens: 500_000, cache_read_input_tokens: 600_000, cache_creation_input_tokens: 100_000 });
  assert.equal(costOf(used, 'fast-1', PRICES)?.toFixed(9), '1.485000000');
  assert.equal(costOf(used, 'plain', PRICES), 3 + 7.5);
});

for (const [model, dollars] of [
  ['fast-', 1],
  ['fast', null],
  ['a fast-1', null],
  ['plain', 3],
  ['plainer', null],
  ['a-mini-b-x', 5],
  ['a-mini-x', null],
  ['-mini--x', 5],
  [null, null],
]) {
  test(`cost: ${model} costs ${dollars}`, () => assert.equal(costOf(usage({ input_tokens: 1_000_000 }), model, PRICES), dollars));
}

test('cost: the first that matches counts, and without a table nothing has a cost', () => {
  const both = { 'a*': { input: 1, output: 1 }, '*': { input: 2, output: 2 } };
  assert.equal(costOf(usage({ input_tokens: 1_000_000 }), 'ab', both), 1);
  assert.equal(costOf(usage({ input_tokens: 1_000_000 }), 'b', both), 2);
  assert.equal(costOf(usage({ input_tokens: 1_000_000 }), 'b', {}), null);
});

test('cost: of a topic, and that there is more where a run has no price', () => {
  const runs = [
    { model: 'plain', usage: usage({ input_tokens: 1000, output_tokens: 1000 }) },
    { model: 'unknown', usage: usage({ input_tokens: 10 }) },
  ];
  assert.equal(topicCost({ runs: runs.slice(0, 1), context: { usage: runs[0].usage } }, PRICES), '$0.018');
  assert.equal(topicCost({ runs, context: { usage: usage({ input_tokens: 1010, output_tokens: 1000 }) } }, PRICES), 'at least $0.018');
  assert.equal(topicCost({ runs: runs.slice(1), context: { usage: runs[1].usage } }, PRICES), '');
  assert.equal(runCost(runs[0], PRICES), '$0.018');
  assert.equal(runCost(runs[1], PRICES), '');
});

for (const [dollars, text] of [
  [0, '$0.00'],
  [12.345, '$12.35'],
  [0.5, '$0.50'],
  [0.018, '$0.018'],
  [0.099_6, '$0.10'],
  [0.0034, '$0.0034'],
  [0.000_123_4, '$0.00012'],
  [1e-12, '$0.00000000'],
]) {
  test(`money: ${dollars} is ${text}`, () => assert.equal(money(dollars), text));
}
