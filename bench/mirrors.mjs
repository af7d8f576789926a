// The browser's mirror for bench.mirrors: microseconds of a delta at each number of messages, one number a line.
//
//     node mirrors.mjs DELTAS MESSAGES...

import { Mirror } from "../static/gateway/mirror.js";

const [deltas, ...sizes] = process.argv.slice(2).map(Number);
for (const messages of sizes) {
  const mirror = new Mirror({ topic: "bench", epoch: "aaaaaaaa" });
  let offset = 0;
  const apply = (data) => mirror.apply({ offset: (offset += 1), data });
  apply({ type: "agent_start", run: "r", agent: "bench" });
  for (let seq = 0; seq < messages; seq += 1) apply({ type: "user_message", seq, time: "t", run: "r", content: `question ${seq}` });
  const piece = () => {
    if (apply({ type: "agent_delta", run: "r", message: "m", text: "twenty characters ok" }) !== "applied") throw new Error("hole");
  };
  for (let n = 0; n < deltas; n += 1) piece();
  const begun = process.hrtime.bigint();
  for (let n = 0; n < deltas; n += 1) piece();
  console.log(Number(process.hrtime.bigint() - begun) / 1000 / deltas);
}
