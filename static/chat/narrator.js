import { readContent, record } from './content.js';
import { remember } from './remember.js';
import { spoken } from './time.js';

const DOING = new Map([
  ['writing', 'is writing'],
  ['thinking', 'is thinking'],
  ['tool', 'uses a tool'],
  ['waiting', 'waits for a decision'],
  ['silent', 'gives no sign of life'],
  ['stopping', 'is stopping'],
]);

/** Tells those who listen what happens: what it is, not each word of it. */
export class Narrator {
  #announcer;
  #ended = false;
  /** Questions that were announced. @type {Map<string, boolean>} */
  #asked = new Map();

  /** @param {import('./announcer.js').Announcer} announcer */
  constructor(announcer) {
    this.#announcer = announcer;
  }

  /**
   * @param {{data: any}[]} events - live ones
   * @param {{mirror: any, following: boolean, state: () => {state: string, run: any}|null}} now
   */
  heard(events, { mirror, following, state }) {
    for (const { data } of events) {
      const event = record(data);
      const run = mirror.runs.find((/** @type {any} */ { run: id }) => id === event.run);
      const name = run?.agent ?? 'The agent';
      switch (event.type) {
        case 'assistant_message': {
          const { text } = readContent(event.content);
          if (following && text !== '') this.#announcer.message(text);
          break;
        }
        case 'agent_error':
          this.#announcer.alert(`${name} failed: ${event.error ?? 'without a reason'}`);
          break;
        default:
      }
    }
    const head = state();
    if (head === null) return;
    const { run } = head;
    const doing = DOING.get(head.state);
    if (doing !== undefined) this.#announcer.status(`${run.agent ?? 'The agent'} ${doing}`);
    else if (head.state === 'done' && run.started_at !== null && run.ended_at !== null) this.#announcer.status(`Done in ${spoken(run.ended_at - run.started_at)}`);
    else if (head.state === 'stopped') this.#announcer.status('Stopped');
    else if (head.state === 'lost') this.#announcer.status('Lost: its process went silent');
  }

  /**
   * Announces the questions that wait, each once.
   * @param {any} mirror
   */
  asks({ approvals, runs }) {
    for (const approval of approvals) {
      const act = `${approval.run} ${approval.tool_call_id}`;
      if (approval.decision !== null || this.#asked.has(act)) continue;
      remember(this.#asked, act, true);
      const run = runs.find((/** @type {any} */ { run: id }) => id === approval.run);
      this.#announcer.alert(`${run?.agent ?? 'The agent'} asks: run ${approval.name}?`);
    }
  }

  /** @param {string} words */
  accessEnded(words) {
    if (this.#ended) return;
    this.#ended = true;
    this.#announcer.alert(words);
  }
}
