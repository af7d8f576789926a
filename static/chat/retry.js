/** Who presses a key or a button is there, and wants the connection now. */

/** Attempts that people cause are this far apart, in ms. */
const APART_MS = 2000;

/**
 * Ends the wait for the next attempt whenever the page is used.
 * @param {object} options
 * @param {{state: string, retryNow: () => void}} options.gateway
 * @param {Pick<EventTarget, 'addEventListener'>} options.page
 * @param {() => number} options.now - Unix time in ms
 */
export function retryWhenUsed({ gateway, page, now }) {
  let last = Number.NEGATIVE_INFINITY;
  const used = () => {
    if (gateway.state !== 'reconnecting' || now() - last < APART_MS) return;
    last = now();
    gateway.retryNow();
  };
  // Captured, as what handles a press may keep it from the page.
  for (const name of ['keydown', 'pointerdown']) page.addEventListener(name, used, { capture: true });
}
