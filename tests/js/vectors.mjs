// Reading tests/vectors, whose form is described in its README.
import { readFileSync, readdirSync } from 'node:fs';

const FOLDER = new URL('../vectors/', import.meta.url);
const DEFAULTS = read('defaults/state.json');

function read(name) {
  return JSON.parse(readFileSync(new URL(name, FOLDER), 'utf8'));
}

/** The vectors of all files, expanded. */
export function vectors() {
  return readdirSync(FOLDER)
    .filter((name) => name.endsWith('.json'))
    .flatMap((name) => read(name).map((vector) => ({ file: name, ...expand(vector) })));
}

/** The state that an absent `given` means. */
export function emptyState() {
  return structuredClone(DEFAULTS.empty);
}

/** Fill a state in: what is absent is that of `base`, or of an item's defaults. */
export function complete(state, base) {
  const { context = {}, ...lists } = state;
  const filled = { ...base, ...lists, context: { ...base.context, ...context } };
  filled.context.events = filled.context.events.map((entry) => withDefaults('events', entry));
  filled.context.usage = { ...DEFAULTS.empty.context.usage, ...filled.context.usage };
  filled.open = filled.open.map((entry) => {
    const message = withDefaults('open', entry);
    return { ...message, tool_calls: message.tool_calls.map((call) => withDefaults('tool_calls', call)) };
  });
  filled.runs = filled.runs.map((entry) => {
    const run = withDefaults('runs', entry);
    const calls = Object.entries(run.calls).map(([call, usage]) => [call, withCounters(usage)]);
    return { ...run, usage: withCounters(run.usage), calls: Object.fromEntries(calls) };
  });
  for (const name of ['approvals', 'queue', 'log'])
    filled[name] = filled[name].map((entry) => withDefaults(name, entry));
  return filled;
}

function withDefaults(name, entry) {
  return { ...DEFAULTS.items[name], ...entry };
}

function withCounters(usage) {
  return { ...DEFAULTS.empty.context.usage, ...usage };
}

function expand(value) {
  if (Array.isArray(value)) return value.flatMap((item) => (item?.$item === undefined ? [expand(item)] : copies(item)));
  if (typeof value !== 'object' || value === null) return value;
  if (value.$text !== undefined) return value.$text.repeat(value.$times);
  return mapValues(value, expand);
}

function copies({ $from: first, $count: count, $item: item }) {
  return Array.from({ length: count }, (_, index) => expand(numbered(item, first + index)));
}

function numbered(value, number) {
  if (value === '{i}') return number;
  if (typeof value === 'string') return value.replaceAll('{i}', String(number));
  if (Array.isArray(value)) return value.map((item) => numbered(item, number));
  return typeof value === 'object' && value !== null ? mapValues(value, (item) => numbered(item, number)) : value;
}

function mapValues(object, change) {
  return Object.fromEntries(Object.entries(object).map(([key, value]) => [key, change(value)]));
}
