// How the node baselines are fed: lines of a TCP connection, or the channels of Redis that a gateway hears.

import net from "node:net";

/** Give each line that a publisher sends over a plain connection. */
export function lines(port, heard) {
  net
    .createServer((socket) => {
      let rest = "";
      socket.setEncoding("latin1");
      socket.on("data", (data) => {
        const found = (rest + data).split("\n");
        rest = found.pop();
        for (const line of found) heard(line);
      });
    })
    .listen(port, "127.0.0.1");
}

/** Name the channels that a reader of a path wants. */
export function channelsOf(url) {
  const asked = new URL(url, "http://localhost");
  const first = Number(asked.pathname.slice(1));
  const [topics, step, each] = ["topics", "step", "each"].map((name) => Number(asked.searchParams.get(name)));
  return Array.from({ length: each }, (_, turn) => {
    const number = String((first + turn * step) % topics).padStart(5, "0");
    return `gw:{bench:${number}}`;
  });
}
