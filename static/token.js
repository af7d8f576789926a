/**
 * The token with which our own pages show themselves to a gateway that asks for one: given in the address after `#token=`,
 * which no browser sends and no server logs, then kept for this tab alone.
 */

const KEY = 'gateway token';
const FORM = /^#token=([A-Za-z0-9_.-]+)$/;

/**
 * Take the token out of the page's address, or out of the tab's memory.
 * @param {{ location: Location, history: History, sessionStorage: Storage }} [window]
 * @returns {string | undefined} undefined where there is none
 */
export function pageToken({ location, history, sessionStorage } = globalThis.window) {
  const given = FORM.exec(location.hash)?.[1];
  if (given !== undefined) {
    history.replaceState(history.state, '', location.pathname + location.search);
    try {
      sessionStorage.setItem(KEY, given);
    } catch {
      return given; // a browser that keeps nothing: it lasts as long as the page
    }
  }
  try {
    return sessionStorage.getItem(KEY) ?? undefined;
  } catch {
    return undefined;
  }
}
