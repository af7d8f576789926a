/** Why a visitor is not let in, and whether a token can help. Pure. */

import { ErrorCode } from '../gateway/index.js';
import { sentence } from './content.js';

/** Close code of a connection whose token does not count (PROTOCOL.md 6). */
const INVALID_TOKEN = 3500;

/**
 * Whether a refusal is about who this visitor is, so that another token can help.
 * @param {{code: number, reason: string}|null} refusal
 */
export function wantsToken(refusal) {
  return refusal !== null && [ErrorCode.UNAUTHORIZED, ErrorCode.TOKEN_EXPIRED, INVALID_TOKEN].includes(refusal.code);
}

/**
 * What is the matter, and what helps. Pure.
 * @param {{code: number, reason: string}} refusal
 * @param {boolean} given - whether a token was shown at all
 * @returns {{title: string, text: string}}
 */
export function signInWords({ code, reason }, given) {
  if (!given) return { title: 'This gateway asks for a token', text: 'Open the link that you were given, or paste your token here.' };
  if (code === ErrorCode.TOKEN_EXPIRED) return { title: 'Your token has expired', text: 'Get a fresh one from where you got it, and paste it here.' };
  return { title: 'This gateway does not take your token', text: `${sentence(`It says: ${reason}`)} Paste another one here.` };
}
