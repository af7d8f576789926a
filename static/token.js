/**
 * The token with which our own pages show themselves to a gateway that asks for one: given in the address after `#token=`,
 * which no browser sends and no server logs, then kept for this tab alone.
 */

const KEY = 'gateway token';
const FORM = /^#token=([A-Za-z0-9_.-]+)$/;
/** What people paste: the token alone, with the word of its header before it, or a link that carries it. */
const PASTED = /^(?:Bearer\s+|\S*#token=)?([A-Za-z0-9_.-]+)$/i;

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

/**
 * The token in what a person pasted.
 * @param {string} pasted
 * @returns {string | null} null where it is none
 */
export function readToken(pasted) {
  return PASTED.exec(pasted.trim())?.[1] ?? null;
}

/**
 * Keep a token for this tab, until it is closed.
 * @param {string} token
 * @param {{ sessionStorage: Storage }} [window]
 * @returns {boolean} false where the browser keeps nothing
 */
export function keepToken(token, { sessionStorage } = globalThis.window) {
  try {
    sessionStorage.setItem(KEY, token);
    return true;
  } catch {
    return false;
  }
}
