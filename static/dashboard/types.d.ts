/** The types of the dashboard and the run page, for those who read or check them; the browser does not load them. */
declare namespace Board {
  type State = 'idle'|'queued'|'writing'|'thinking'|'tool'|'waiting'|'stopping'|'done'|'failed'|'stopped'|'lost';
  /** What a person is asked. Times are Unix ms. */
  interface Asked {
    run: string;
    id: string;
    name: string;
    /** JSON text. */
    args: string;
    requested: number|null;
    expires: number|null;
  }
  /** The state of a topic, as the gateway sums it up. Times are Unix ms on the publishers' clock. */
  interface Summary {
    topic: string;
    at: number|null;
    offset: number;
    title: string|null;
    status: string;
    state: State;
    run: string|null;
    agent: string|null;
    model: string|null;
    parent: string|null;
    started: number|null;
    ended: number|null;
    step: number;
    steps: number|null;
    /** Tokens. */
    input: number;
    output: number;
    /** Tokens a second. */
    rate: number;
    /** Events a second. */
    events: number;
    phase: string|null;
    tools: {id: string, name: string, at: number|null}[];
    approvals: Asked[];
    queue: number;
    errors: number;
    error: string|null;
    viewers: number;
    behind: {readers: number, events: number};
  }
  /** Of the table: a row, or the head of a group. */
  interface Item {
    row: import('./row.js').Row|null;
    title: string;
    note: string;
    key: string;
  }
  /** An event with its place; `first` where it stands for several. */
  interface Told {
    offset: number;
    first?: number;
    data: any;
  }
  interface Segment {
    tone: string;
    /** Unix ms. */
    from: number;
    /** Null while it goes on. */
    to: number|null;
  }
  /** A row of the waterfall. Times are Unix ms. */
  interface Span {
    key: string;
    kind: 'run'|'sub'|'step'|'call'|'tool';
    name: string;
    run: string;
    from: number;
    to: number|null;
    state: State;
    segments: Segment[];
    children: Span[];
    /** The offsets of its first and last event. */
    first: number;
    last: number;
    /** Of a tool call. */
    id: string|null;
    /** Of a model call. */
    message: string|null;
    /** Of a sub-agent: its own. */
    topic: string|null;
    /** JSON text. */
    args: string|null;
    result: string|null;
    error: string|null;
    question: {requested: number, expires: number|null, decision: string|null, by: string|null, reason: string|null}|null;
    usage: {input: number, cached: number, output: number}|null;
  }
  interface Point {
    at: number;
    offset: number;
    input: number;
    cached: number;
    output: number;
  }
  interface RunSpan {
    run: string;
    span: Span;
    step: Span|null;
    steps: number;
    /** The last model call. */
    call: Span|null;
    /** Since when the model may be waited for. */
    waiting: number;
    /** How it ended. */
    over: State|null;
    model: string|null;
    parent: string|null;
    first: number;
    last: number;
    /** By model call. */
    usage: Map<string, {input: number, cached: number, output: number}>;
    points: Point[];
    cancel: {by: string|null, mode: string}|null;
  }
  interface Mark {
    at: number;
    offset: number;
    tone: string;
    run: string|null;
    /** Of that run, after it. */
    state: State|null;
  }
  /** A place in the past: after an event, when that was told. */
  interface Moment {
    offset: number;
    at: number;
  }
  /** Of a run, at a moment. */
  interface Totals {
    state: State;
    /** It had ended. */
    over: boolean;
    /** Its end, else the moment, ms. */
    until: number;
    steps: number;
    tools: number;
    errors: number;
    /** Tokens. */
    usage: {input: number, cached: number, output: number};
  }
  interface Line {
    at: number;
    offset: number;
    run: string|null;
    level: string;
    logger: string;
    message: string;
    fields: any;
  }
  interface FeedOptions {
    topics: () => Promise<{topic: string, at: number}[]>;
    /** Whether it makes sense to ask now. */
    connected: () => boolean;
    now: () => number;
    later: (act: () => void, ms: number) => void;
    /** The list of topics came, or did not. */
    changed: () => void;
    follow: (topic: string, heard: (summary: unknown) => void) => import('../gateway/index.js').Subscription;
    /** `at`: when the topic was last heard of, Unix ms. */
    heard: (topic: string, at: number, summary: unknown) => void;
    gone: (topic: string) => void;
  }
  /** What the table needs of the page. */
  interface TablePage {
    clock: import('../chat/time.js').ServerClock;
    now: () => number;
    may: (verb: string, topic: string) => boolean;
    /** This page asked, and nothing says so yet. */
    stopping: (run: string) => boolean;
    runLink: (row: import('./row.js').Row) => string;
    chatLink: (topic: string) => string;
    stop: (topic: string) => void;
    review: (topic: string) => void;
    open: (topic: string) => void;
    selected: (topic: string|null) => void;
    sortBy: (column: string) => void;
    mark: (part: Chat.Part) => void;
  }
  interface ReviewPage extends TablePage {
    decisions: import('../chat/decisions.js').Decisions;
    own: import('../chat/own.js').Own;
    /** Said at once to those who listen. */
    alert: (words: string) => void;
    who: (by: unknown) => string;
  }
  interface HistoryOptions {
    mirror: () => {epoch: string, offset: number};
    /** Events after a position, or the first ones. */
    read: (position: {epoch: string, offset: number}|undefined) => Promise<{publications: Told[], epoch: string, offset: number}>;
    /** An event more is recorded. */
    took: (told: Told) => void;
    changed: () => void;
    /** Everything so far is forgotten. */
    restarted: () => void;
    later: (act: () => void, ms: number) => void;
  }
  interface WaterfallPage {
    axis: import('./axis.js').Axis;
    root: () => Span|null;
    /** Another one when a span is another. */
    version: () => number;
    start: () => number;
    now: () => number;
    live: () => boolean;
    /** What is looked at; null for the present. */
    moment: () => Moment|null;
    /** Of the run, at that moment. */
    state: () => State|null;
    /** Another part of the run is in view. */
    moved: () => void;
    selected: (span: Span|null) => void;
    mark: (part: Chat.Part) => void;
  }
  interface ScrubberPage {
    /** Of the run that is shown, in order. */
    marks: () => Mark[];
    /** When it began, and ended, or now, ms. */
    span: () => [number, number];
    /** Offsets of steps and tools, in order. */
    places: () => number[];
    live: () => boolean;
    moved: () => void;
    /** Plays, or stops that. */
    play: () => void;
    playing: () => boolean;
  }
  interface PlayerPage {
    /** Of the run that is shown, in order. */
    marks: () => Mark[];
    /** Where the scrubber stands; null for the present. */
    offset: () => number|null;
    go: (offset: number|null) => void;
    /** It plays, or not any more. */
    changed: () => void;
    /** Ms. */
    now: () => number;
    later: (act: () => void, ms: number) => void;
  }
  interface InspectorPage {
    topic: string;
    clock: import('../chat/time.js').ServerClock;
    may: (verb: string) => boolean;
    decisions: import('../chat/decisions.js').Decisions;
    run: () => RunSpan|null;
    /** Of the run, at the moment that is looked at. */
    totals: () => Totals|null;
    /** What is looked at; null for the present. */
    moment: () => Moment|null;
    runLink: (topic: string, run: string) => string;
    alert: (words: string) => void;
    close: () => void;
    mark: (part: Chat.Part) => void;
  }
  interface PanesParts {
    list: HTMLElement;
    tabs: {log: HTMLElement, events: HTMLElement, context: HTMLElement};
    log: HTMLElement;
    lines: HTMLElement;
    none: HTMLElement;
    context: HTMLElement;
    find: HTMLElement;
    search: HTMLInputElement;
    found: HTMLElement;
    levels: HTMLElement;
    counts: {log: HTMLElement, events: HTMLElement, warning: HTMLElement, error: HTMLElement};
  }
  interface PanesPage {
    logs: () => Line[];
    recording: import('./recording.js').Recording;
    run: () => RunSpan|null;
    /** The run that is shown, and those that it started. */
    family: () => Set<string>;
    moment: () => Moment|null;
    /** The selected row of the timeline. */
    selected: () => Span|null;
    /** Another pane was chosen. */
    chosen: () => void;
    /** A line was. */
    picked: (offset: number) => void;
    mark: (part: Chat.Part) => void;
  }
  interface ContextPage {
    topic: string|null;
    recording: import('./recording.js').Recording;
    /** The state that is looked at. */
    mirror: () => any;
    moment: () => Moment|null;
    /** Whether the context is in view. */
    shown: () => boolean;
    /** What the entries of the conversation need. */
    chat: Omit<Chat.Page, 'topic'|'depth'|'inset'>;
  }
  interface RunHeadParts {
    title: HTMLElement;
    chip: HTMLElement;
    facts: HTMLElement;
    pick: HTMLSelectElement;
  }
  interface RunHeadPage {
    run: () => RunSpan|null;
    runs: () => RunSpan[];
    title: () => string;
    totals: () => Totals|null;
    moment: () => Moment|null;
    may: (verb: string) => boolean;
    stops: import('../chat/stops.js').Stops;
    own: import('../chat/own.js').Own;
    button: import('../chat/stop_button.js').StopButton;
    notices: import('../chat/notices.js').Notices;
    blank: import('./run_blank.js').RunBlank;
    /** Back to the present. */
    live: () => void;
    picked: (run: string) => void;
  }
  interface RunBlankPage {
    topic: string|null;
    /** What the address names instead of a topic. */
    wrong: string|null;
    gateway: import('../gateway/index.js').Gateway;
    /** A token was shown. */
    given: boolean;
    subscription: import('../gateway/index.js').Subscription;
    history: import('./history.js').History;
    notices: import('../chat/notices.js').Notices;
    /** The run that was asked for; null for the latest. */
    chosen: () => string|null;
    /** For how long nothing has changed about the connection, ms. */
    waited: () => number;
  }
  interface ShownLine {
    time: string;
    level: string;
    tone: string;
    source: string;
    text: string;
    offset: number;
  }
}
