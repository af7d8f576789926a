/** What the page says about its connection. Pure. */

import { wantsToken } from './refusal.js';
import { clockTime, number } from './time.js';

/** A connection that comes about sooner is not spoken of, in ms. */
const QUIET_MS = 400;
/** A lost connection that takes longer gets a notice, in ms. */
const NOTICE_MS = 3000;

/**
 * @param {Chat.Facts} facts
 * @returns {Chat.Shown} the socket's state, for the foot of the list
 */
export function socketStatus({ gateway, retryAt, since, now, refusal, current }) {
  switch (gateway) {
    case 'connected':
      return { state: 'live', text: 'Connected' };
    case 'offline':
      return { state: 'offline', text: `Offline since ${clockTime(since)}` };
    case 'refused':
      return { state: 'denied', text: current === null && wantsToken(refusal) ? 'Not signed in' : 'Access ended' };
    case 'closed':
      return { state: 'denied', text: 'Closed' };
    case 'reconnecting': {
      const seconds = retryAt === null ? 0 : Math.ceil((retryAt - now) / 1000);
      return { state: 'reconnecting', text: seconds > 0 ? `Reconnecting in ${seconds} s` : 'Reconnecting…' };
    }
    default:
      return { state: 'connecting', text: now - since < QUIET_MS ? '' : 'Connecting…' };
  }
}

/**
 * @param {Chat.Facts} facts
 * @returns {Chat.Shown} the topic's state, for the head of the page
 */
export function topicStatus(facts) {
  if (facts.gateway === 'refused' || facts.gateway === 'offline' || facts.gateway === 'reconnecting') return socketStatus(facts);
  switch (facts.topic) {
    case 'live':
      return { state: 'live', text: 'Live' };
    case 'unsure':
      return { state: 'unsure', text: 'Not sure this is current' };
    case 'loading':
      return { state: 'behind', text: facts.loading === null ? 'Loading the newest state' : `Loading the newest state, ${facts.loading.part} of ${facts.loading.parts}` };
    case 'catching-up':
      return { state: 'behind', text: facts.behind > 0 ? `Catching up, ${number(facts.behind)} behind` : 'Catching up' };
    case 'reconnecting':
      return { state: 'reconnecting', text: 'Reconnecting…' };
    case 'denied':
      return { state: 'denied', text: 'No access' };
    case 'ended':
      return { state: 'denied', text: 'Ended' };
    default:
      return { state: 'connecting', text: facts.now - facts.since < QUIET_MS ? '' : 'Connecting…' };
  }
}

/** @param {Chat.Facts} facts - whether what is shown may be out of date */
export function isStale({ topic }) {
  return topic !== 'live' && topic !== 'catching-up' && topic !== 'subscribing' && topic !== 'loading';
}

/**
 * The notice that a state of the connection deserves.
 * @param {Chat.Facts} facts
 * @returns {{tone: 'wait'|'bad', title: string, text: string, retry: boolean}|null}
 */
export function connectionNotice(facts) {
  const { gateway, since, now, refusal, current } = facts;
  const asOf = current === null ? '' : ` What you see is from ${clockTime(current, { seconds: true })}.`;
  if (gateway === 'refused') {
    // Who was never in is told so where the conversation would stand.
    if (wantsToken(refusal)) return current === null ? null : { tone: 'bad', title: 'Your access ended.', text: `Your draft is kept.${asOf}`, retry: false };
    return { tone: 'bad', title: 'Your access ended.', text: `${refusal?.reason ? `The gateway says: ${refusal.reason}. ` : ''}Your draft is kept.`, retry: true };
  }
  if (gateway === 'offline') return { tone: 'wait', title: 'You are offline.', text: `Runs go on without us.${asOf}`, retry: false };
  if (gateway === 'reconnecting' && now - since >= NOTICE_MS) {
    return { tone: 'wait', title: 'Connection lost.', text: `Runs go on without us.${asOf}`, retry: true };
  }
  return null;
}
