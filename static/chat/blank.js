import { button, copyButton, el, icon, svg } from './dom.js';
import { number } from './time.js';

/** What stands in place of the conversation where there is none. */

/**
 * @param {string} language
 * @param {string} text
 */
function example(language, text) {
  return el('div', { class: 'code' }, el('div', { class: 'code-head' }, el('span', { class: 'grow' }, language), copyButton(() => text, { label: `Copy ${language}`, text: 'Copy' })), el('pre', { tabindex: 0 }, text));
}

/** What one can ask an agent that is only being tried; each shows something else. */
const PROMPTS = ['What is 17 * 23, and how many words has this question?', 'Send a postcard to Ada: greetings from the gateway.', 'Explain at length how a reader that lost its connection catches up.'];

/**
 * No event yet: one next step, with the lines that do it.
 * @param {string} topic
 * @param {(text: string) => void} say - sends a message
 */
export function firstRun(topic, say) {
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
  return el(
    'div',
    { class: 'empty' },
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

/** Messages wait, and no agent has ever taken one. */
export function unheard() {
  return el('div', { class: 'empty late', role: 'status' }, el('h2', {}, 'Waiting for an agent'), el('p', {}, 'No agent has taken a message of this chat yet. What waits is kept, and answered as soon as one listens.'), example('shell', 'gateway agent'));
}

/** Subscribed, nothing has come. */
export function loading() {
  return el('div', { class: 'empty wide', 'aria-busy': 'true', 'aria-label': 'Loading the conversation' }, ...['w1', 'w2', 'w3', 'w1', 'w4'].map((width) => el('div', { class: `skeleton ${width}` })));
}

/**
 * @param {string} topic
 * @param {{code: number, message: string}|null} error
 * @param {HTMLElement|null} form - where another token could help
 */
export function denied(topic, error, form) {
  if (error?.code === 102) {
    return el('div', { class: 'empty' }, el('h2', {}, 'No such chat'), el('p', {}, 'The link may be cut short.'), el('a', { class: 'btn small', href: './' }, 'New chat'));
  }
  return el(
    'div',
    { class: 'empty' },
    icon('key', 'i-l quiet'),
    el('h2', {}, 'You cannot read this chat'),
    el('p', {}, 'Your access does not include ', el('code', { class: 'mono' }, topic), error === null ? '.' : `: ${error.message}.`, form === null ? '' : ' With another token you may.'),
    form ?? button({ label: 'Try again', text: 'Try again', style: 'small', press: () => location.reload() }),
  );
}

/**
 * The address names no topic.
 * @param {string} name - what it has instead
 */
export function wrongTopic(name) {
  const shown = name.length > 60 ? `${name.slice(0, 60)}…` : name;
  const says = name === '' ? 'The address has an empty topic.' : ['The address asks for ', el('code', { class: 'mono' }, shown), name.length > 200 ? `, which has ${number(name.length)} characters.` : '.'];
  return el(
    'div',
    { class: 'empty' },
    icon('alert', 'i-l quiet'),
    el('h2', {}, 'That is not a chat’s name'),
    el('p', {}, ...says),
    el('p', {}, 'A name has 1 to 200 of the characters ', el('code', { class: 'mono' }, 'A–Z a–z 0–9 _ . : @ / -'), ' and no spaces.'),
    el('a', { class: 'btn small', href: './' }, 'New chat'),
  );
}
