// uWebSockets.js: its own publish and subscribe. (The package is an unofficial build: the official one is not on npm.)
//
//     node uws.mjs PORT FEED-PORT

import uws from "@trufflesuite/uws-js-unofficial";

import { lines } from "./feed.mjs";

const [port, feed] = process.argv.slice(2).map(Number);
const app = uws.App().ws("/*", { idleTimeout: 0, maxBackpressure: 16 << 20, open: (client) => client.subscribe("all") });
app.listen("127.0.0.1", port, () => lines(feed, (line) => app.publish("all", line)));
