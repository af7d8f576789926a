import { perFrame } from './per_frame.js';

/** @typedef {import('./gateway.js').Gateway} Gateway */
/** @typedef {import('./subscription.js').Subscription} Subscription */
/** @typedef {import('./index.js').View} View */

/**
 * A topic as a store: a value that is another one whenever something changed, and who wants to hear of it. What React's
 * `useSyncExternalStore`, Svelte's and others' stores take. The topic is followed while somebody listens.
 * @param {Gateway} gateway
 * @param {string} name of the topic
 * @param {import('./index.js').StoreOptions} [options]
 * @returns {import('./index.js').Store}
 */
export function store(gateway, name, { schedule, ...wants } = {}) {
  /** @type {Subscription | null} */
  let topic = null;
  /** @type {Set<() => void>} */
  const listeners = new Set();
  /** @type {View} */
  let view = viewOf(null);
  let stale = false;
  /** @type {(() => void)[]} */
  let unlisten = [];
  const tell = perFrame(() => {
    for (const listener of [...listeners]) listener();
  }, schedule);
  const changed = () => {
    stale = true;
    tell();
  };

  return {
    get() {
      if (stale) view = viewOf(topic);
      stale = false;
      return view;
    },
    subscribe(listener) {
      const own = () => listener();
      listeners.add(own);
      if (topic === null) {
        topic = gateway.subscribe(name, wants);
        unlisten = [topic.on('change', changed), topic.on('state', changed)];
        changed();
      }
      return () => {
        listeners.delete(own);
        if (listeners.size > 0 || topic === null) return;
        for (const stop of unlisten) stop();
        topic.unsubscribe();
        topic = null;
      };
    },
  };
}

/**
 * What is shown of a topic, in objects that nobody changes any more.
 * @param {Subscription | null} topic
 * @returns {View}
 */
function viewOf(topic) {
  if (topic === null) {
    const nothing = { behind: 0, loading: null, error: null, offset: 0, title: null };
    return Object.freeze({ state: 'subscribing', ...nothing, messages: [], open: [], runs: [], approvals: [], queue: [] });
  }
  const { state, behind, loading, error, mirror } = topic;
  return Object.freeze({
    state,
    behind,
    loading,
    error,
    offset: mirror.offset,
    title: typeof mirror.context.title === 'string' ? mirror.context.title : null,
    messages: mirror.messages(),
    open: mirror.open.map((message) => ({ ...message, tool_calls: message.tool_calls.map((call) => ({ ...call })) })),
    runs: mirror.runs.map((run) => ({ ...run })),
    approvals: mirror.approvals.map((approval) => ({ ...approval })),
    queue: [...mirror.queue],
  });
}
