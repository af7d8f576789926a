/** The event types and the state of a mirror are those of `gateway/PROTOCOL.md`, sections 4 and 5. */

/** The kinds of values JSON has. */
export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

export type GatewayState =
  | 'idle'
  | 'connecting'
  | 'connected'
  /** Trying again, or waiting for it until `retryAt`. */
  | 'reconnecting'
  /** As reconnecting, and the browser says that there is no network. */
  | 'offline'
  /** Coming back is forbidden; `refusal` says why. */
  | 'refused'
  | 'closed';

export type TopicState =
  /** Asked for the first time. */
  | 'subscribing'
  /** A large snapshot is coming; the state before stays until the last part. */
  | 'loading'
  /** The history is ahead by `behind`. */
  | 'catching-up'
  | 'live'
  /** The gateway does not hear its broker, or we do not hear the gateway. */
  | 'unsure'
  | 'reconnecting'
  /** The subscription was refused; `error` says why. */
  | 'denied'
  /** Unsubscribed, by us or by the gateway, or the gateway is closed or refused. */
  | 'ended';

/** An event as a reader gets it. */
export interface Publication {
  /** Its place in the topic; of a merged one, the last it stands for. */
  readonly offset: number;
  /** The first offset it stands for; absent where it stands for one. */
  readonly first?: number;
  /** The event. */
  readonly data: any;
}

export interface Usage {
  requests: number;
  tool_calls: number;
  input_tokens: number;
  output_tokens: number;
  total_tokens: number;
  cache_creation_input_tokens: number;
  cache_read_input_tokens: number;
}

/** A logged event that is visible now. */
export interface LogEntry {
  seq: number;
  type: string;
  time: string | null;
  data: Record<string, any>;
  run: string | null;
  message: string | null;
  /** Which texts of `data` are only their beginning: by JSON pointer, where the whole is (PROTOCOL.md 4.6). */
  blobs?: { [pointer: string]: { hash: string; bytes: number } };
}

export interface ContextState {
  version: number;
  events: LogEntry[];
  archived_to: number | null;
  next_seq: number;
  id: any;
  agent_name: any;
  system_prompt: any;
  needs_response: any;
  iteration: any;
  max_iterations: any;
  started_at: any;
  title: any;
  tool_calls: any[];
  usage: Usage;
}

/** A message that is still being written. */
export interface OpenMessage {
  message: string;
  run: string | null;
  text: string;
  thinking: string;
  /** Its run ended before it did. */
  interrupted: boolean;
  /** `text` is a piece of the arguments' JSON: a preview. */
  tool_calls: { index: number; id: string | null; name: string | null; text: string }[];
}

/** What a model's tokens cost, US dollars a million. */
export interface Price {
  input: number;
  output: number;
  /** Input read from a cache; as `input` where it is absent. */
  cached?: number;
  /** Input written to a cache; as `input` where it is absent. */
  written?: number;
}

/** What model calls cost in US dollars, by the first price that matches the model; null where none does. */
export function costOf(usage: Usage, model: string | null, prices: { [model: string]: Price }): number | null;

export interface Run {
  run: string;
  agent: string | null;
  model: string | null;
  /** The run that started it. */
  parent: string | null;
  /** A sub-agent's own topic. */
  topic: string | null;
  /** `running`, `cancelling`, `completed`, `failed`, `cancelled` or `lost`. */
  status: string;
  /** Unix time, ms. */
  started_at: number | null;
  /** Unix time, ms. */
  ended_at: number | null;
  error: string | null;
  /** By the id of the model call. */
  calls: { [call: string]: Usage };
  usage: Usage;
  iteration: number;
  /** Who asked it to end, and how: `mode` is `now` or `after_step`. */
  cancel: { by?: any; mode?: string } | null;
  /** What becomes of messages that come meanwhile: `steer`, `interrupt`, `reject`, `latest`; null: they wait for their turn. */
  policy: string | null;
}

export interface Approval {
  tool_call_id: string;
  run: string | null;
  name: string | null;
  /** JSON text. */
  arguments: string | null;
  /** Unix time, ms. */
  requested_at: number | null;
  /** Unix time, ms. */
  expires_at: number | null;
  /** `approve`, `reject`, `edit` or `expired`; null while it is open. */
  decision: string | null;
  by: any;
  /** JSON text of the arguments that an edit put in place. */
  edited: string | null;
  reason: string | null;
}

/** A person's message that waits for the agent. */
export interface QueuedMessage {
  id: string;
  content: any;
  by: any;
  /** Unix time, ms. */
  at: number | null;
}

export interface LogLine {
  /** Unix time, ms. */
  at: number | null;
  run: string | null;
  level: string;
  message: string;
  logger: string | null;
  fields: Record<string, any> | null;
}

export interface MirrorState {
  context: ContextState;
  open: OpenMessage[];
  runs: Run[];
  approvals: Approval[];
  queue: QueuedMessage[];
  log: LogLine[];
}

export interface Snapshot {
  topic: string;
  epoch: string;
  offset: number;
  mirror: MirrorState;
}

/** A message of the folded conversation; null where the event says nothing. */
export interface Message {
  role: string;
  content: any;
  name: any;
  tool_calls: any;
  tool_call_id: any;
  thinking: any;
  metadata: any;
  /** ISO 8601. */
  created_at: string | null;
  message: string | null;
  run: string | null;
  seq: number;
  /** As of its log entry. */
  blobs?: LogEntry['blobs'];
}

/** A reader's copy of an agent's state, exact at its position. Its values are to be read; only the mirror changes them. */
export class Mirror {
  constructor(position?: { topic?: string; epoch?: string; offset?: number });
  /** @throws {SnapshotError} */
  static restore(snapshot: unknown): Mirror;
  topic: string;
  epoch: string;
  /** The offset of the last event in it; 0 is before all. */
  offset: number;
  get context(): ContextState;
  get open(): OpenMessage[];
  get runs(): Run[];
  get approvals(): Approval[];
  get queue(): QueuedMessage[];
  get log(): LogLine[];
  /**
   * Become what a snapshot says; nothing changes where it is refused.
   * @throws {SnapshotError}
   */
  replace(snapshot: unknown): void;
  /** Later events do not change it. */
  snapshot(): Snapshot;
  /** The conversation so far, without what is still being written; the same array until it changes. */
  messages(): readonly Message[];
  /** Go on under another epoch, which the gateway said continues this history. */
  resume(epoch: string): void;
  /** Take the next publication. Only `applied` changed something; after `hole` ask again from this position. */
  apply(publication: Publication): 'applied' | 'repeated' | 'hole';
  /** Take an event, without a position. Never fails, whatever it is. */
  fold(event: unknown): void;
}

/** Join neighbouring publications of one growing text; no mirror can tell the difference. */
export function merge(publications: Iterable<Publication>): Publication[];

export interface Page {
  readonly visible: boolean;
  readonly online: boolean;
  /** Calls `changed` after one of them changed; gives what stops it. */
  watch(changed: () => void): () => void;
}

export interface GatewayOptions {
  /** Relative to the page; `/connection/websocket` by default. */
  url?: string;
  /**
   * A function is asked for a fresh one each time one is needed: to connect, before the last one expires, and to load.
   * null is none.
   */
  token?: string | null | (() => Promise<string | null>);
  WebSocket?: new (url: string) => WebSocket;
  /** From 0 up to, without, 1. */
  random?: () => number;
  /** Unix time, ms. */
  now?: () => number;
  setTimeout?: (run: () => void, ms: number) => any;
  clearTimeout?: (timer: any) => void;
  fetch?: (address: string, options: { headers?: Record<string, string> }) => Promise<Response>;
  page?: Page;
  /**
   * How many frames a second are enough for a topic as long as the page is hidden, 1 to 60: its deltas come merged, and
   * it goes on at once when the page is seen again. null, the default, changes nothing.
   */
  hiddenRate?: number | null;
  /**
   * Whether tabs of this origin share one connection, as long as their tokens say the same of who they are and what they
   * may do. Each has its own mirrors. Where the browser has no shared worker, nothing changes. false by default.
   */
  shared?: boolean;
  SharedWorker?: new (address: URL, options: { type: 'module'; name: string }) => SharedWorker;
}

/** A client's end of a gateway: one connection that comes back by itself, and the topics on it. */
export class Gateway {
  constructor(options?: GatewayOptions);
  get state(): GatewayState;
  /** When the next attempt comes, in the time of `now`; null while none is waited for. */
  retryAt: number | null;
  /** Why coming back is forbidden. */
  refusal: { code: number; reason: string } | null;
  /** What this reader may do everywhere; null before the first connection. */
  grants: any[] | null;
  /** Who this reader is to the gateway, the `by` of its actions; null for an anonymous one, and before the first connection. */
  user: string | null;
  /** The name of the connection, by which presence knows this reader; null before the first. */
  client: string | null;
  /** Whether what is shown is current. */
  get sure(): boolean;
  /** Also after each failed attempt, when only `retryAt` is another. */
  on(name: 'state', listener: (state: GatewayState) => void): () => void;
  on(name: 'sure', listener: (sure: boolean) => void): () => void;
  on(name: 'error', listener: (error: GatewayError) => void): () => void;
  /** Connect, and stay connected until `close` or a refusal. After these it begins anew; topics go on where they were. */
  connect(): void;
  close(): void;
  /** Do not wait any longer for the next attempt. */
  retryNow(): void;
  /**
   * Follow a topic. The same name gives the same object until each who asked for it has unsubscribed.
   * `mirror: false` gets events only, from now on. `joins: true` hears who comes and goes, if the first who asks for the
   * topic wants it. `lens`: what is shown of it.
   * @throws {TypeError} the topic is followed already, in another way
   */
  subscribe(name: string, wants?: { mirror?: boolean; joins?: boolean; lens?: Lens | null }): Subscription;
  /**
   * Call a method of the gateway. Without a connection it waits for one for up to 30 s. With an `id` in the data it is
   * sent again after a lost reply, until 30 s have passed; any other is sent once.
   * @throws {GatewayError}
   */
  rpc(method: string, data?: Record<string, any>): Promise<any>;
  /**
   * Send a command of the protocol as it is. Without a connection it waits for one for up to 30 s; it is sent once.
   * @throws {GatewayError}
   */
  command(method: string, parameters: Record<string, any>): Promise<Record<string, any>>;
  /**
   * Give the agent of a topic a message. `id` is the client's own; the same one cannot double it. Drawn by default.
   * @throws {GatewayError}
   */
  send(
    topic: string,
    content: string | Record<string, any>[],
    own?: { id?: string },
  ): Promise<{ message: string; offset: number; epoch: string }>;
  /**
   * Change a message that still waits. As all actions it gives what the gateway answers, PROTOCOL.md 7.
   * @throws {GatewayError}
   */
  edit(topic: string, what: Edit): Promise<any>;
  /**
   * Take back a message that still waits.
   * @throws {GatewayError}
   */
  withdraw(topic: string, what: Withdrawal): Promise<any>;
  /**
   * Ask a run to stop. Only its own event says that it has.
   * @throws {GatewayError}
   */
  cancel(topic: string, what: Cancellation): Promise<any>;
  /**
   * Decide whether a tool call may go on. The first decision stands; the answer says whose it was.
   * @throws {GatewayError}
   */
  decide(topic: string, what: Decision): Promise<any>;
  /**
   * Read stored events. `since`: above it, or before it in reverse; the first, or the last, by default. `limit`: negative
   * for as many as fit, the default.
   * @throws {GatewayError}
   */
  history(
    topic: string,
    page?: { since?: { epoch: string; offset: number }; limit?: number; reverse?: boolean },
  ): Promise<{ publications: Publication[]; epoch: string; offset: number }>;
  /**
   * Load a large text, of which a log entry has only the beginning; `hash` as the entry's `blobs` say.
   * @throws {GatewayError}
   */
  blob(topic: string, hash: string): Promise<string>;
  /**
   * Load a page of the session log from a seq on, with what was replaced or cleared since.
   * @throws {GatewayError}
   */
  archive(topic: string, options?: { from?: number }): Promise<{ events: LogEntry[]; next: number | null }>;
  /** Newest first. */
  /** What models cost, as the operator says; empty where nothing was said. See `costOf`. */
  prices(): Promise<{ [model: string]: Price }>;
  topics(): Promise<{ topic: string; at: number }[]>;
  /**
   * Publish an event of one's own. It is sent once: a lost reply is an error.
   * @throws {GatewayError}
   */
  publish(topic: string, data: Record<string, any>): Promise<void>;
}

/** The client's own id of an action: the same one cannot do it twice. Drawn by default. */
interface Action {
  id?: string;
}

export interface Edit extends Action {
  /** The id of the waiting message. */
  message: string;
  content: string | Record<string, any>[];
}

export interface Withdrawal extends Action {
  message: string;
}

/** Of a run, or of the run that took this message; one that still waits is withdrawn. */
export interface Cancellation extends Action {
  run?: string;
  message?: string;
  /** `now` by default. */
  mode?: 'now' | 'after_step';
}

export interface Decision extends Action {
  run: string;
  tool_call_id: string;
  decision: 'approve' | 'reject' | 'edit';
  /** Of an edit: JSON text. */
  arguments?: string;
  /** The agent is told. */
  reason?: string;
}

/** Somebody who reads a topic. */
export interface Reader {
  /** Of the connection. */
  client: string;
  /** Empty for anonymous ones. */
  user: string;
}

/**
 * What a reader wants to be shown of a topic (PROTOCOL.md 3.8), or `'summary'` for nothing but its summaries: `types` of
 * events and groups of them (`chat`, `tools`, `runs`, `usage`, `logs`), `rate` flushes a second at most, with
 * neighbouring deltas merged, `finished` messages only, without their deltas.
 */
export type Lens = 'summary' | { types?: readonly string[]; rate?: number; finished?: boolean };

/** A topic in short (PROTOCOL.md 3.9). */
export interface Summary {
  type: 'summary';
  topic: string;
  /** Unix time, ms. */
  at: number;
  epoch: string;
  offset: number;
  title: string | null;
  /** `idle`, or that of the latest run. */
  state: string;
  run: string | null;
  agent: string | null;
  model: string | null;
  parent: string | null;
  /** Unix time, ms. */
  started_at: number | null;
  /** Unix time, ms. */
  ended_at: number | null;
  step: number;
  max_iterations: number | null;
  tokens: { input: number; output: number };
  tokens_per_second: number;
  events_per_second: number;
  /** `waiting`, `thinking`, `writing`, `tool` or `approval`; null where nothing runs. */
  phase: string | null;
  tools: { id: string; name: string | null; started_at: number | null }[];
  approvals: Pick<Approval, 'run' | 'tool_call_id' | 'name' | 'arguments' | 'requested_at' | 'expires_at'>[];
  queue: number;
  errors: number;
  error: string | null;
  viewers: number;
  lag: { readers: number; events: number };
}

/** What a received frame did to a topic. */
export interface Change {
  /** The events that were applied, in order; after a `reset`, those above the snapshot. */
  events: Publication[];
  /** A snapshot replaced the state. */
  reset: boolean;
}

/** One topic of one gateway. Made by `Gateway.subscribe`. */
export interface Subscription {
  readonly name: string;
  /** Always the same object; empty at first. */
  readonly mirror: Mirror;
  get state(): TopicState;
  /** How many offsets the history is ahead, as far as known. */
  get behind(): number;
  /** How much of a large snapshot has come; null while none is on its way. */
  get loading(): { part: number; parts: number } | null;
  /** Why it was denied or ended. */
  readonly error: GatewayError | null;
  /** What this reader may do on the topic; null where nothing was said. */
  readonly grants: any[] | null;
  /** What it asks to be shown; null for everything at once. */
  readonly lens: Lens | null;
  /**
   * See the topic otherwise from now on, as a hidden page wants its deltas merged: another `rate` goes on from where it
   * is; where other events are shown, a mirror begins anew with a snapshot.
   * @throws {TypeError} it is, or shall become, a subscription of summaries
   */
  setLens(lens: Lens | null): void;
  /** Once for a received frame, after the mirror changed. */
  on(name: 'change', listener: (change: Change) => void): () => void;
  /** As `change`, also where what came is hidden and only the position changed. */
  on(name: 'moved', listener: () => void): () => void;
  /** When `state` or `loading` changed. */
  on(name: 'state', listener: (state: TopicState) => void): () => void;
  /** Of a topic that was asked for with `lens: 'summary'`: with the reply, and whenever it is another one. */
  on(name: 'summary', listener: (summary: Summary) => void): () => void;
  /** Only of a topic that was asked for with `joins: true`. */
  on(name: 'join' | 'leave', listener: (reader: Reader) => void): () => void;
  /**
   * Who reads the topic now, in any process of the gateway.
   * @throws {GatewayError} 106 where they are too many for one reply: `presenceStats` counts them
   */
  presence(): Promise<Reader[]>;
  /** @throws {GatewayError} */
  presenceStats(): Promise<{ num_clients: number; num_users: number }>;
  /** Give it back; the last one who does ends it. */
  unsubscribe(): void;
}

/** A topic at a moment: values that do not change any more. */
export interface View {
  readonly state: TopicState;
  readonly behind: number;
  readonly loading: { part: number; parts: number } | null;
  readonly error: GatewayError | null;
  readonly offset: number;
  readonly title: string | null;
  /** The conversation so far; the same array until it changes. */
  readonly messages: readonly Message[];
  /** What is being written. */
  readonly open: readonly OpenMessage[];
  readonly runs: readonly Run[];
  readonly approvals: readonly Approval[];
  readonly queue: readonly QueuedMessage[];
}

/** A topic as a store. Its functions need no `this`. */
export interface Store {
  /** The same object until something changed. */
  get(): View;
  /** Hear of changes, at most once a frame. The topic is followed from the first listener on, until the last has gone. */
  subscribe(listener: () => void): () => void;
}

export interface StoreOptions {
  joins?: boolean;
  lens?: Exclude<Lens, 'summary'> | null;
  /** `requestAnimationFrame` by default; outside of a browser a timer of 16 ms. */
  schedule?: (run: () => void) => unknown;
}

/** Follow a topic as React's `useSyncExternalStore` and others' stores take it. */
export function store(gateway: Gateway, name: string, options?: StoreOptions): Store;

/** Act at most once an animation frame, however often the result is called. */
export function perFrame(act: () => void, schedule?: (run: () => void) => unknown): () => void;

export const ErrorCode: {
  readonly INTERNAL: 100;
  readonly UNAUTHORIZED: 101;
  readonly UNKNOWN_TOPIC: 102;
  readonly PERMISSION_DENIED: 103;
  readonly METHOD_NOT_FOUND: 104;
  readonly ALREADY_SUBSCRIBED: 105;
  readonly LIMIT_EXCEEDED: 106;
  readonly BAD_REQUEST: 107;
  readonly NOT_AVAILABLE: 108;
  readonly TOKEN_EXPIRED: 109;
  readonly TOO_MANY_REQUESTS: 111;
  readonly UNRECOVERABLE_POSITION: 112;
  readonly CONFLICT: 409;
};

/** Codes of errors that arise on this side of the wire. */
export const LocalCode: {
  readonly TIMEOUT: 1;
  readonly CONNECTION_LOST: 2;
  readonly NOT_CONNECTED: 3;
  readonly TOO_LARGE: 4;
  readonly TOKEN: 5;
  readonly FRAME: 6;
  readonly SNAPSHOT: 7;
};

export class GatewayError extends Error {
  /** Of `ErrorCode` or `LocalCode`. */
  code: number;
  /** The same thing can succeed later. */
  temporary: boolean;
}
/** An error reply. */
export class CommandError extends GatewayError {}
/** No reply in time; whether it was carried out is not known. */
export class CommandTimeoutError extends GatewayError {}
/** The connection ended before the reply; whether it was carried out is not known. */
export class ConnectionLostError extends GatewayError {}
/** There was no connection in time, or there will be none; it was not sent. */
export class NotConnectedError extends GatewayError {}
/** Above what the gateway accepts in a frame; it was not sent. */
export class TooLargeError extends GatewayError {}
/** The token function failed. */
export class TokenError extends GatewayError {}
/** The gateway sent what is no protocol. */
export class FrameError extends GatewayError {}
/** A snapshot that is none. */
export class SnapshotError extends GatewayError {}
