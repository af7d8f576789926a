/** No event yet: one next step, with the lines that do it. Loaded where a chat is empty. */

import { example } from './blank.js';
import { button, el, svg } from './dom.js';

/** What one can ask an agent that is only being tried; each shows something else. */
const PROMPTS = ['What is 17 * 23, and how many words has this question?', 'Send a postcard to Ada: greetings from the gateway.', 'Explain at length how a reader that lost its connection catches up.'];

/**
 * @param {HTMLElement} place
 * @param {string} topic
 * @param {(text: string) => void} say - sends a message
 */
export function fillFirstRun(place, topic, say) {
  const art = svg(
    'svg',
    { class: 'art', viewBox: '0 0 120 56', fill: 'none', 'aria-hidden': 'true' },
    svg('path', { d: 'M22 4v48', class: 's-line', 'stroke-width': 2 }),
    svg('circle', { cx: 22, cy: 10, r: 5, class: 'f-tool' }),
    svg('circle', { cx: 22, cy: 28, r: 5, class: 'f-think' }),
    svg('circle', { cx: 22, cy: 46, r: 5, class: 'f-live' }),
    ...[
      [10, 62],
      [28, 44],
      [46, 72],
    ].map(([y, width]) => svg('rect', { x: 38, y: y - 3, width, height: 6, rx: 3, class: 'f-hover' })),
  );
  const python = [
    'import asyncio',
    'from gateway import Publisher',
    '',
    'async def main():',
    '    async with Publisher() as publisher:',
    `        async with publisher.run(${JSON.stringify(topic)}, agent="hello") as run:`,
    '            for word in "Hello from *Python*".split(" "):',
    '                await run.delta(word + " ")',
    '                await asyncio.sleep(0.2)',
    '',
    'asyncio.run(main())',
  ].join('\n');
  place.append(
    art,
    el('h2', {}, 'Write a message below'),
    el('p', {}, 'An agent that listens here answers. Or begin with one of these:'),
    el('div', { class: 'prompts' }, ...PROMPTS.map((text) => button({ label: text, text, style: 'round', press: () => say(text) }))),
    el(
      'details',
      {},
      el('summary', {}, 'Or publish from Python'),
      el('p', {}, 'With the Redis URL that the gateway printed, these lines appear here with their first event.'),
      example('shell', 'export GATEWAY_REDIS_URL=redis://…'),
      example('python', python),
      el('p', {}, 'No agent listens yet? This one is already written:'),
      example('shell', 'gateway agent'),
    ),
  );
}
