/** @typedef {import('./index.js').Page} Page */

/**
 * What the browser says about its page and its network. Outside of a browser a page is always visible and online.
 * @implements {Page}
 */
export class BrowserPage {
  get visible() {
    return globalThis.document?.visibilityState !== 'hidden';
  }

  get online() {
    return globalThis.navigator?.onLine !== false;
  }

  /**
   * @param {() => void} changed called after `visible` or `online` changed
   * @returns {() => void} stops it
   */
  watch(changed) {
    /** @type {[EventTarget | undefined, string][]} */
    const sources = [
      [globalThis.document, 'visibilitychange'],
      [globalThis.window, 'online'],
      [globalThis.window, 'offline'],
    ];
    for (const [target, name] of sources) target?.addEventListener(name, changed);
    return () => {
      for (const [target, name] of sources) target?.removeEventListener(name, changed);
    };
  }
}
