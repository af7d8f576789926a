/** Builds nodes. Text from outside only ever becomes a text node or an attribute's value. */

const SVG = 'http://www.w3.org/2000/svg';

/**
 * @param {string} tag
 * @param {Record<string, string | number | boolean | ((event: any) => void)>} [attributes] - a function listens to the
 *   event its name says; `true` sets an empty attribute, `false` none
 * @param {...(Node | string)} children
 * @returns {HTMLElement}
 */
export function el(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === 'function') element.addEventListener(name, value);
    else if (value === true) element.setAttribute(name, '');
    else if (value !== false) element.setAttribute(name, String(value));
  }
  element.append(...children);
  return element;
}

/**
 * @param {string} tag
 * @param {Record<string, string | number>} [attributes]
 * @param {...Node} children
 * @returns {SVGElement}
 */
export function svg(tag, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
  element.append(...children);
  return element;
}

/**
 * @param {string} name - a symbol of the page's sprite
 * @param {string} [extra] - further classes
 */
export function icon(name, extra = '') {
  return svg('svg', { class: `i ${extra}`.trim(), 'aria-hidden': 'true' }, svg('use', { href: `#i-${name}` }));
}

/**
 * @param {{label: string, press: () => void, icon?: string, text?: string, style?: string}} options - `label` is read
 *   out and shown as a tip where there is no text
 */
export function button({ label, press, icon: symbol, text, style = '' }) {
  const element = el('button', { type: 'button', class: `btn ${style}`.trim(), click: press });
  if (symbol !== undefined) element.append(icon(symbol));
  if (text !== undefined) element.append(text);
  if (text !== label) {
    element.setAttribute('aria-label', label);
    element.title = label;
  }
  return element;
}

/** @type {Map<string, () => SVGElement[]>} */
const SHAPES = new Map([
  ['queued', () => [svg('circle', { cx: 8, cy: 8, r: 6, 'stroke-dasharray': '2.6 2.1' })]],
  [
    'thinking',
    () => [
      svg('circle', { cx: 8, cy: 8, r: 6, 'stroke-dasharray': '1.2 3.05' }),
      svg('circle', { class: 'breath', cx: 8, cy: 8, r: 2.2, fill: 'currentColor', stroke: 'none' }),
    ],
  ],
  [
    'writing',
    () => [
      svg('circle', { cx: 8, cy: 8, r: 6, opacity: 0.28 }),
      svg('path', { class: 'turn', d: 'M8 2a6 6 0 0 1 6 6' }),
      svg('circle', { cx: 8, cy: 8, r: 1.6, fill: 'currentColor', stroke: 'none' }),
    ],
  ],
  ['silent', () => [svg('circle', { cx: 8, cy: 8, r: 6, 'stroke-dasharray': '2.6 2.1' }), svg('path', { d: 'M5.5 8h5' })]],
  [
    'tool',
    () => [
      svg('rect', { x: 2, y: 2, width: 12, height: 12, rx: 3.5, opacity: 0.35 }),
      svg('rect', { class: 'dash', x: 2, y: 2, width: 12, height: 12, rx: 3.5 }),
      svg('path', { d: 'm6.75 5.75 2.5 2.25-2.5 2.25' }),
    ],
  ],
  ['waiting', () => [svg('path', { class: 'solid', d: 'M8 1.6 14.4 8 8 14.4 1.6 8 8 1.6Z' })]],
  [
    'stopping',
    () => [
      svg('circle', { cx: 8, cy: 8, r: 6.25, opacity: 0.3 }),
      svg('rect', { x: 5.5, y: 5.5, width: 5, height: 5, rx: 1, fill: 'currentColor', stroke: 'none' }),
      svg('path', { class: 'turn', d: 'M8 1.75A6.25 6.25 0 0 1 14.25 8' }),
    ],
  ],
  ['done', () => [svg('path', { d: 'm3 8.5 3.4 3.4L13 4.75' })]],
  [
    'failed',
    () => [
      svg('path', { class: 'solid', d: 'M5.3 1.75h5.4l3.55 3.55v5.4l-3.55 3.55H5.3L1.75 10.7V5.3L5.3 1.75Z' }),
      svg('path', { class: 'cross', d: 'm5.9 5.9 4.2 4.2m0-4.2-4.2 4.2' }),
    ],
  ],
  ['stopped', () => [svg('rect', { x: 3, y: 3, width: 10, height: 10, rx: 2 })]],
  [
    'lost',
    () => [
      svg('path', { d: 'M8 2a6 6 0 0 1 5.2 3M14 8a6 6 0 0 1-3 5.2M8 14a6 6 0 0 1-5.2-3M2 8a6 6 0 0 1 3-5.2' }),
      svg('path', { d: 'M8 5.5v3M8 10.6v.1' }),
    ],
  ],
]);

/**
 * The glyph of a state: its shape says it, its colour repeats it.
 * @param {string} state - as `run_state.js` names them
 * @param {{label?: string, still?: boolean}} [options] - the word for it where no text beside the glyph says it; still
 *   glyphs do not move
 */
export function glyph(state, { label, still = false } = {}) {
  const shape = SHAPES.get(state) ?? SHAPES.get('queued');
  const attributes = { class: still ? `g g-${state} still` : `g g-${state}`, viewBox: '0 0 16 16' };
  /** @type {Record<string, string>} */
  const named = label === undefined ? { 'aria-hidden': 'true' } : { role: 'img', 'aria-label': label };
  return svg('svg', { ...attributes, ...named }, ...(shape?.() ?? []));
}

/**
 * Sets a text only where it differs: what is selected in it stays selected.
 * @param {Node} node
 * @param {string} text
 */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/**
 * Makes an element's children these, touching only those that differ.
 * @param {Element} parent
 * @param {Node[]} children
 */
export function setChildren(parent, children) {
  let at = parent.firstChild;
  for (const child of children) {
    if (child === at) at = at.nextSibling;
    else parent.insertBefore(child, at);
  }
  while (at !== null) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}

/**
 * A button that copies a text and says so.
 * @param {() => string} text
 * @param {{label: string, text?: string, icon?: string, style?: string}} options
 */
export function copyButton(text, { label, text: shown, icon: symbol = 'copy', style = 'bare small' }) {
  const element = button({
    label,
    text: shown,
    icon: symbol,
    style,
    press: async () => {
      let done = true;
      try {
        await navigator.clipboard.writeText(text());
      } catch {
        done = false;
      }
      const before = element.title;
      element.classList.toggle('did', done);
      element.title = done ? 'Copied' : 'The browser does not allow copying';
      if (shown !== undefined) setText(element.lastChild ?? element, done ? 'Copied' : 'Not copied');
      setTimeout(() => {
        element.classList.remove('did');
        element.title = before;
        if (shown !== undefined) setText(element.lastChild ?? element, shown);
      }, 1600);
    },
  });
  return element;
}
