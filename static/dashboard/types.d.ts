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
}
