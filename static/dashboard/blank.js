/** What stands where there is nothing to show. */

import { el } from '../chat/dom.js';

const EXAMPLE = [
  'import asyncio',
  'from gateway import Publisher',
  '',
  'async def main():',
  '    async with Publisher() as publisher:',
  '        async with publisher.run("chat:1", agent="hello") as run:',
  '            for word in "Hello from *Python*".split(" "):',
  '                await run.delta(word + " ")',
  '                await asyncio.sleep(0.2)',
  '',
  'asyncio.run(main())',
].join('\n');

/**
 * Nobody has written any topic that this reader may know of.
 * @param {boolean} given - it showed a token
 */
export function firstRun(given) {
  return el(
    'div',
    { class: 'empty wide' },
    el('h2', {}, 'No runs yet'),
    el('p', {}, `Every run of an agent ${given ? 'that your token lets you read ' : ''}appears here by itself, as soon as it writes its first event.`),
    el('p', {}, 'See one now: ', el('a', { class: 'link', href: './' }, 'start a chat'), ', or let an agent of your own publish:'),
    el('div', { class: 'code' }, el('pre', { tabindex: 0, 'aria-label': 'Example' }, EXAMPLE)),
  );
}

/** Nothing runs now. */
export function quiet() {
  return el('div', { class: 'empty' }, el('h2', {}, 'Nothing runs right now'), el('p', {}, 'Runs appear here when they start, and stay for 15 minutes after their end.'), el('a', { class: 'btn', href: './' }, 'Open the chats'));
}

/**
 * The filter leaves nothing.
 * @param {() => void} clear
 */
export function noMatch(clear) {
  return el(
    'div',
    { class: 'empty' },
    el('h2', {}, 'No run matches'),
    el('p', {}, 'Words match title, topic and agent. Terms: ', el('code', {}, 'state:failed'), ', ', el('code', {}, 'agent:re*'), ', ', el('code', {}, 'tool:run_sql'), ', ', el('code', {}, 'age>5m'), ', ', el('code', {}, 'tokens>10k'), ', ', el('code', {}, 'lag>0'), '.'),
    el('button', { type: 'button', class: 'btn', click: clear }, 'Clear the filter'),
  );
}

/**
 * The reader may not see which topics there are.
 * @param {string} reason
 * @param {HTMLElement|null} form - where another token could help
 */
export function denied(reason, form) {
  return el('div', { class: 'empty' }, el('h2', {}, 'You cannot see the runs'), el('p', {}, `The gateway says: ${reason} A token with the grant “topics” shows those it may read.`), form ?? el('a', { class: 'btn', href: './' }, 'Open the chats'));
}

/** The first answer is on its way. */
export function loading() {
  return el('div', { class: 'waiting', role: 'status', 'aria-label': 'Loading the runs' }, ...Array.from({ length: 8 }, (_, index) => el('div', { class: `skeleton w${(index % 3) + 1}` })));
}
