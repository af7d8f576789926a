// The browser's mirror for tests in other languages: one JSON `{"given"?: snapshot, "publications": […]}` a line on
// stdin, one JSON `{"snapshot", "messages", "results"}` a line on stdout.
import { Mirror } from '../../static/gateway/mirror.js';
import { readPublication } from '../../static/gateway/publication.js';

/** Not by `node:readline`, which ends a line at U+2028 too; a JSON text may contain that. */
async function* lines(stream) {
  let rest = '';
  for await (const chunk of stream.setEncoding('utf8')) {
    const parts = (rest + chunk).split('\n');
    rest = parts.pop();
    yield* parts;
  }
  if (rest !== '') yield rest;
}

for await (const line of lines(process.stdin)) {
  const { given, publications } = JSON.parse(line);
  const mirror = given === undefined ? new Mirror() : Mirror.restore(given);
  const results = publications.map((publication) => mirror.apply(readPublication(publication)));
  process.stdout.write(`${JSON.stringify({ snapshot: mirror.snapshot(), messages: mirror.messages(), results })}\n`);
}
