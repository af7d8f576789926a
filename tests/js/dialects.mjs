// Reads streams of dialects with the clients that people use, one request a line of standard input:
// {"id", "dialect": a key of CLIENTS, "url"} → {"id", "result": what the client made of it}, as one line.

import { createInterface } from "node:readline";
import { HttpAgent } from "@ag-ui/client";
import { EventSchemas } from "@ag-ui/core/schemas";
import { stream } from "@durable-streams/client";
import { DefaultChatTransport, readUIMessageStream } from "ai";

class Agent extends HttpAgent {
  requestInit() {
    return { method: "GET", headers: { accept: "text/event-stream" }, signal: this.abortController.signal };
  }
}

async function agUi(url) {
  const agent = new Agent({ url, threadId: "t" });
  const events = [];
  const errors = [];
  let end = null;
  try {
    await agent.runAgent({ runId: "r" }, {
      onEvent: ({ event }) => void events.push(event.type),
      onRunFinishedEvent: ({ event }) => void (end = event),
      onRunErrorEvent: ({ event }) => void (end = event),
    });
  } catch (error) {
    errors.push(String(error));
  }
  return { messages: agent.messages, events, end, errors };
}

// Every event by itself against the published schemas; the client does not look that closely.
async function schemas(url) {
  const text = await (await fetch(url)).text();
  const bad = [];
  for (const line of text.split("\n").filter((each) => each.startsWith("data: "))) {
    const result = EventSchemas.safeParse(JSON.parse(line.slice(6)));
    if (!result.success) bad.push(`${line.slice(0, 200)}: ${result.error.message.slice(0, 300)}`);
  }
  return bad;
}

async function aiSdk(url) {
  const transport = new DefaultChatTransport({ prepareReconnectToStreamRequest: () => ({ api: url }) });
  const stream = await transport.reconnectToStream({ chatId: "t" });
  if (stream === null) return { message: null, errors: [] };
  const errors = [];
  let message = null;
  for await (const each of readUIMessageStream({ stream, onError: (error) => errors.push(String(error)) })) {
    message = each;
  }
  return { message, errors };
}

// Live modes read until the message {"last": true}.
function durable(live) {
  return async (url) => {
    const session = await stream({ url, offset: "-1", live });
    if (live === false) return { items: await session.json(), offset: session.offset };
    const items = [];
    for await (const item of session.jsonStream()) {
      items.push(item);
      if (item.last) break;
    }
    session.cancel();
    return { items };
  };
}

const CLIENTS = {
  "ag-ui": agUi,
  "ag-ui-schemas": schemas,
  "ai-sdk": aiSdk,
  "durable": durable(false),
  "durable-long-poll": durable("long-poll"),
  "durable-sse": durable("sse"),
};

async function answer({ id, dialect, url }) {
  let result;
  try {
    result = await CLIENTS[dialect](url);
  } catch (error) {
    result = { crashed: String(error?.stack ?? error) };
  }
  process.stdout.write(`${JSON.stringify({ id, result })}\n`);
}

createInterface({ input: process.stdin }).on("line", (line) => void answer(JSON.parse(line)));
