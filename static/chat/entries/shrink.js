/** How long it takes, in ms. */
const SHRINK_MS = 180;

/**
 * Changes what is in an element, which becomes lower: not at once, so that what is below is not seen to jump.
 * @param {HTMLElement} element
 * @param {() => void} change
 */
export function shrink(element, change) {
  const before = element.offsetHeight;
  change();
  const after = element.offsetHeight;
  if (after >= before || matchMedia('(prefers-reduced-motion: reduce)').matches) return;
  element.animate([{ blockSize: `${before}px`, overflow: 'clip' }, { blockSize: `${after}px`, overflow: 'clip' }], { duration: SHRINK_MS, easing: 'ease-out' });
}
