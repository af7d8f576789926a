// npm `ws`: every message to every client.
//
//     node ws.mjs PORT lines FEED-PORT
//     node ws.mjs PORT redis URL

import { Redis } from "ioredis";
import { WebSocketServer } from "ws";

import { channelsOf, lines } from "./feed.mjs";

const [port, feed, from] = process.argv.slice(2);
const server = new WebSocketServer({ host: "127.0.0.1", port: Number(port), perMessageDeflate: false, backlog: 4096 });

if (feed === "lines") {
  lines(Number(from), (line) => {
    for (const client of server.clients) client.send(line);
  });
} else {
  const readers = new Map();
  const redis = new Redis(from);
  redis.on("messageBuffer", (channel, message) => {
    const payload = message.subarray(message.indexOf(10) + 1);
    for (const client of readers.get(channel.toString())) client.send(payload, { binary: false });
  });
  server.on("connection", (client, request) => {
    for (const channel of channelsOf(request.url)) {
      if (readers.has(channel)) readers.get(channel).push(client);
      else {
        readers.set(channel, [client]);
        redis.subscribe(channel);
      }
    }
  });
}
