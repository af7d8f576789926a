// socket.io with its Redis adapter; a client reads the rooms that its query names.
//
//     node socketio.mjs PORT URL

import { createServer } from "node:http";

import { createAdapter } from "@socket.io/redis-adapter";
import { Redis } from "ioredis";
import { Server } from "socket.io";

const [port, url] = process.argv.slice(2);
const redis = new Redis(url);
const http = createServer();
const server = new Server(http, {
  adapter: createAdapter(redis, redis.duplicate()),
  transports: ["websocket"],
  pingInterval: 3_600_000,
  perMessageDeflate: false,
});
server.on("connection", (client) => {
  const [first, topics, step, each] = ["topic", "topics", "step", "each"].map((name) => Number(client.handshake.query[name]));
  for (let turn = 0; turn < each; turn += 1) client.join(String((first + turn * step) % topics).padStart(5, "0"));
});
http.listen(Number(port), "127.0.0.1", 4096);
