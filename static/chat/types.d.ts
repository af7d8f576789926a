/** The types of the chat page, for those who read or check it; the browser does not load them. */
declare namespace Chat {
  interface ComposerOptions {
    /** Of the page. */
    parts: {box: HTMLTextAreaElement, send: HTMLElement, hint: HTMLElement, note: HTMLElement, keep: HTMLElement, notices: HTMLElement, frame: HTMLElement};
    topic: string;
    storage: Pick<Storage, 'getItem'|'setItem'|'removeItem'>;
    submit: (text: string) => void;
    /** The changed text of a waiting message. */
    save: (message: string, text: string) => void;
    /** Said at once to those who listen. */
    alert: (words: string) => void;
    /** The waiting message that can be changed. */
    last: () => {id: string, text: string}|null;
  }
  interface ConversationOptions {
    lane: HTMLElement;
    thread: import('./thread.js').Thread;
    mirror: () => any;
    page: Page;
    /** Whether the reader is at the bottom. */
    following: () => boolean;
    /** Own messages on their way, as entries. */
    pending: () => any[];
    /** So many entries are shown, the last ones; all by default. */
    most?: () => number;
  }
  interface Sent {
    /** Lost: someone else, or the time, had decided before. */
    state: 'sending'|'failed'|'lost';
    /** What this reader wanted. */
    decision: string;
    /** Why it failed. */
    reason: string;
    winner: {decision: string, by: unknown}|null;
  }
  /** What the entries of a conversation need of the page. */
  interface Page {
    clock: import('./time.js').ServerClock;
    ticker: import('./ticker.js').Ticker;
    /** What the reader opens or folds keeps its place; following ends. */
    hold: (element: Element) => void;
    /** What a pointer is over keeps its place, until null. */
    pin: (element: Element|null) => void;
    own: import('./own.js').Own;
    decisions: import('./decisions.js').Decisions;
    /** Whose conversation it is. */
    topic: string;
    /** 0, or how many sub-agents deep. */
    depth: number;
    /** What this reader may do. */
    may: (verb: string) => boolean;
    /** Said at once to those who listen. */
    alert: (words: string) => void;
    /** To be painted. */
    mark: (part: Part) => void;
    /** An entry of this conversation. */
    redraw: (key: string) => void;
    gateway: import('../gateway/index.js').Gateway;
    /** A conversation inside this one. */
    inset: (page: Page, options: {topic: string, mirror: () => any, most?: () => number, painted?: () => void}) => import('./inset.js').Inset;
    stop: (topic: string, run: string) => void;
    /** This page asked, and no event says so yet. */
    stopping: (run: string) => boolean;
    /** What models cost, as far as the operator says; a page without it shows no costs. */
    prices?: () => {[model: string]: import('../gateway/index.js').Price};
    /** The address of a message. */
    linkTo: (message: string) => string;
    /** The address of another conversation. */
    topicLink: (topic: string) => string;
  }
  /** Further fields by kind:
   * user: message, name, text, attachments · note: title, text, seq; what it stands for: from, to ·
   * think and text: message, open (the mirror's open message, or null), text (once written), interrupted, live; think: ms, since ·
   * tool: name, id, phase, args, open, result, failed, ms, started, server, progress, approval, runEnded ·
   * item: name, item (of the provider, in a form that nobody here knows) · sub, start, end: status and facts of the run */
  interface Entry {
    /** Stays the same while the message is written and after. */
    key: string;
    kind: 'user'|'think'|'text'|'item'|'tool'|'note'|'sub'|'start'|'end';
    run: string|null;
    /** Unix time in ms. */
    at: number|null;
    open?: any;
    text?: any;
  }
  /** What live events told beside the mirror. */
  interface Live {
    progress: Map<string, {text: string|null, fraction: number|null}>;
    started: Map<string, number>;
    thought: Map<string, {from: number, to: number|null}>;
    kinds: Map<string, string>;
    /** Since when nothing was heard of a run, where that is news. */
    silentSince: (run: string|null) => number|null;
    callKey: (run: unknown, message: string, index: unknown, id: string|null) => string;
  }
  interface HeaderOptions {
    parts: {title: HTMLElement, chip: HTMLElement, ribbon: Element, note: HTMLElement, conn: HTMLElement};
    mirror: () => any;
    thread: import('./thread.js').Thread;
    clock: import('./time.js').ServerClock;
    facts: () => {status: Shown, stale: boolean, current: number|null};
    title: () => string;
    may: (verb: string) => boolean;
  }
  interface InsetOptions {
    topic: string;
    mirror: () => any;
    /** So many entries are shown, the last ones. */
    most?: () => number;
    painted?: () => void;
  }
  interface Changed {
    /** What stood there; empty where something was put in. */
    from: string;
    /** What stands there now; empty where something was taken out. */
    to: string;
  }
  type Kind = 'key'|'string'|'number'|'word'|'mark'|'space';
  interface Token {
    kind: Kind;
    text: string;
    /** It is the rest of the last token of the piece before. */
    goesOn: boolean;
  }
  interface JumpOptions {
    /** That scrolls. */
    box: HTMLElement;
    root: HTMLElement;
    button: HTMLElement;
    scroller: import('./scroll.js').Scroller;
    conversation: import('./conversation.js').Conversation;
    may: (verb: string) => boolean;
  }
  interface ListenToKeysOptions {
    /** By the key that does it. */
    letters: Map<string, () => void>;
    /** Closes what is open, else asks to stop; false where nothing was. */
    escape: (shift: boolean) => boolean;
    end: () => void;
    /** That explains them. */
    dialog: HTMLDialogElement;
    /** Whether single letters are on. */
    toggle: HTMLInputElement;
    storage: Pick<Storage, 'getItem'|'setItem'>;
  }
  interface ListOptions {
    root: HTMLElement;
    search: HTMLInputElement;
    /** The topic on the page. */
    current: string;
    /** Of that topic. */
    title: () => string;
    memory: import('./topics.js').TopicMemory;
    load: () => Promise<{topic: string, at: number}[]>;
    briefs: import('./briefs.js').Briefs;
    clock: import('./time.js').ServerClock;
    /** Something is to be painted. */
    mark: () => void;
  }
  interface Block {
    type: 'document'|'quote'|'list'|'item'|'paragraph'|'heading'|'fence'|'table'|'rule';
    /** It has ended, as far as the text goes. */
    closed: boolean;
    /** No later text can change it: a complete line ended it. */
    settled: boolean;
    /** Of document, quote, list and item. */
    children: Block[];
    /** Of paragraph and heading: the source of its inline content. */
    text: string;
    /** Of fence: the lines of code. */
    lines: string[];
    /** Of fence: what stands after the opening marks. */
    info: string;
    /** Of fence: the opening marks; of list: the bullet, or the mark after the number. */
    marker: string;
    /** Columns of indentation that belong to the block. */
    indent: number;
    /** Of heading, 1 to 6. */
    level: number;
    /** Of heading, its depth among the headings before it, from 1, without the levels that the text leaves out. */
    rank: number;
    /** Of list: the first number, null for bullets. */
    start: number|null;
    /** Of item: a checkbox and whether it is ticked, null without one. */
    task: boolean|null;
    /** Of table, one for each column. */
    align: ('start'|'center'|'end'|null)[];
    /** Of table: the cells of its first row. */
    head: string[];
    /** Of table. */
    rows: string[][];
  }
  interface Inline {
    type: 'text'|'code'|'strong'|'em'|'del'|'link'|'break';
    /** Of text and code. */
    text: string;
    /** Of strong, em, del and link. */
    children: Inline[];
    /** Of link; null while its address is unfinished or must not be followed. */
    href: string|null;
    /** Of link. */
    title: string|null;
  }
  interface Parsed {
    nodes: Inline[];
    /** Where constructs of the outermost level lie in the text, in order. */
    spans: [number, number][];
    /** Where the first mark stands that has not ended; the text's length where all have. */
    unfinished: number;
  }
  interface Bracket {
    at: number;
    length: number;
    /** Its place among the items. */
    index: number;
    active: boolean;
  }
  type Read = (page: {from: number}) => Promise<{events: any[], next: number|null}>;
  interface Outgoing {
    /** The client's own, of this message for ever. */
    id: string;
    text: string;
    /** When it was written, Unix time in ms. */
    at: number;
    /** Waiting: for the connection; sent: answered, its event has not come yet. */
    state: 'sending'|'waiting'|'sent'|'failed';
    /** Why it failed. */
    reason: string;
    /** The same message would be refused again. */
    final: boolean;
    /** Of its event. */
    position: {epoch: string, offset: number}|null;
    attempts: number;
  }
  interface OutboxOptions {
    topic: string;
    send: (text: string, id: string) => Promise<{message: string, offset?: number, epoch?: string}>;
    /** Whether there is somebody to send to. */
    connected: () => boolean;
    /** Where the topic's mirror stands. */
    mirror: () => {epoch: string, offset: number};
    /** The list is another. */
    changed: () => void;
    storage: Pick<Storage, 'getItem'|'setItem'|'removeItem'>;
    later: (act: () => void, ms: number) => void;
  }
  interface Part {
    /** Draws until the deadline (as `performance.now()`); true when done. */
    paint: (deadline: number) => boolean;
  }
  interface PanelOptions {
    prices: () => {[model: string]: import('../gateway/index.js').Price};
    parts: {step: HTMLElement, tree: HTMLElement, usage: HTMLElement, usageSection: HTMLElement, offset: HTMLElement, epoch: HTMLElement, behind: HTMLElement, queued: HTMLElement};
    mirror: () => any;
    thread: import('./thread.js').Thread;
    clock: import('./time.js').ServerClock;
    /** Of the conversation, as drawn. */
    entries: () => any[];
    behind: () => number;
    /** To an entry. */
    jump: (key: string) => void;
  }
  /** What this reader changed and the topic does not tell yet. */
  type Change = {kind: 'edit'|'withdraw', text: string, until: {epoch: string, offset: number}|null};
  interface QueueOptions {
    root: HTMLElement;
    own: import('./own.js').Own;
    acts: {edit: (message: string, text: string) => Promise<any>, withdraw: (message: string) => Promise<any>};
    /** That something was refused. */
    tell: (title: string, text: string) => void;
    changed: () => void;
    /** Lets the reader change a text. */
    edit: (message: string, text: string) => void;
  }
  type State = 'queued'|'writing'|'thinking'|'tool'|'waiting'|'silent'|'stopping'|'done'|'failed'|'stopped'|'lost';
  interface Facts {
    /** The gateway's state. */
    gateway: string;
    /** Unix time in ms. */
    retryAt: number|null;
    refusal: {code: number, reason: string}|null;
    /** The subscription's state. */
    topic: string;
    behind: number;
    loading: {part: number, parts: number}|null;
    /** When the gateway's state began, Unix time in ms. */
    since: number;
    /** When what is shown was last known to be current, Unix time in ms. */
    current: number|null;
    now: number;
  }
  interface Shown {
    /** How it looks. */
    state: 'live'|'behind'|'connecting'|'reconnecting'|'offline'|'unsure'|'denied'|'none';
    /** Empty while there is nothing worth saying. */
    text: string;
  }
  interface StopButtonOptions {
    parts: {root: HTMLElement, stop: HTMLButtonElement, more: HTMLButtonElement, menu: HTMLElement, note: HTMLElement, hints: HTMLElement, hint: HTMLElement};
    ask: (mode: 'now'|'after_step') => void;
    clock: import('./time.js').ServerClock;
  }
  type Target = {run: string}|{message: string};
  interface StopsOptions {
    cancel: (topic: string, what: any) => Promise<any>;
    own: import('./own.js').Own;
    tell: (title: string, text: string, bad: boolean) => void;
    changed: () => void;
  }
  interface Row {
    topic: string;
    /** Last heard of, Unix time in ms. */
    at: number;
    title: string;
    state: string|null;
    /** What it does, or how it ended, in words. */
    words: string;
    /** Of its latest run, Unix time in ms; known of other topics than that of the page. */
    started: number|null;
    /** When its oldest question is decided by nobody any more, Unix time in ms. */
    expires: number|null;
    unread: boolean;
  }
  /** What is known of a topic that is not on the page. */
  type Brief = {title: string|null, state: string|null, agent: string|null, error: string|null, started: number|null, expires: number|null};
  type Group = {title: string, rows: Row[]};
  interface GroupsOptions {
    /** The topic on the page. */
    current: string;
    /** Of that topic. */
    title: string;
    memory: TopicMemory;
    /** Of that topic, where it runs or waits. */
    state: string|null;
    /** What is known of another topic. */
    brief: (topic: string) => Brief|null;
    /** Words that a row must hold, in its title or topic. */
    filter: string;
    now: number;
  }
  type Person = {name: string, own: boolean};
  interface WatchersOptions {
    parts: {faces: HTMLElement, section: HTMLElement, count: HTMLElement, names: HTMLElement};
    topic: import('../gateway/index.js').Subscription;
    /** This connection. */
    client: () => string|null;
    own: import('./own.js').Own;
    /** Something is to be painted. */
    mark: () => void;
  }
}
