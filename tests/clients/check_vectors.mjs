// SPDX-License-Identifier: Apache-2.0
// Checks examples/clients/pawl_client.ts by its vectors: COMPILED VECTORS. Prints what differs.
import {readFileSync} from 'node:fs';
import {pathToFileURL} from 'node:url';

const [compiled, file] = process.argv.slice(2);
const client = await import(pathToFileURL(compiled));
const vectors = JSON.parse(readFileSync(file, 'utf8'));
let checked = 0;
let bad = 0;

function expect(made, wanted, what) {
  checked++;
  if (JSON.stringify(made) === JSON.stringify(wanted)) return;
  bad++;
  console.log(`${JSON.stringify(what)}: ${JSON.stringify(made)}`);
}

for (const one of vectors.canonical) {
  const body = new TextEncoder().encode(one.body);
  const text = new TextDecoder('utf-8', {ignoreBOM: true}).decode(client.canonical(body));
  expect(text, one.canonical, one);
  expect(await client.payloadHash(body), one.payload_hash, one);
}
for (const one of vectors.keys)
  expect(client.formatKey(Buffer.from(one.random, 'hex')), one.key, one);
for (const one of vectors.dated_keys)
  expect(client.formatDatedKey(one.made_ms, Buffer.from(one.random, 'hex')), one.key, one);
for (const one of vectors.delays) {
  const profile = client.PROFILES[one.profile];
  const made = [];
  for (let n = 2; n <= profile.attempts; n++)
    made.push(client.delayMs(profile, n, BigInt(one.seed)));
  expect(made, one.delays_ms, one);
}
for (const one of vectors.responses) {
  const headers = new Headers(one.headers.map((line) => line.split(/: (.*)/s).slice(0, 2)));
  expect(client.leavesDoubt(one.status, headers, one.body), one.leaves_doubt, one);
  for (const doubted of [false, true])
    expect(client.classify(one.status, headers, one.body, doubted, one),
      doubted ? one.in_doubt : one.class, one);
}
for (const one of vectors.portals) {
  const [sent, headers] = [one.sent, one.headers].map((lines) =>
    lines.map((line) => line.split(/: (.*)/s).slice(0, 2)));
  expect(client.isPortal(one.url, sent, one.status, new Headers(headers), one), one.portal, one);
}
for (const one of vectors.hints)
  expect(client.readHint(one.value, vectors.hints_at_ms) ?? null, one.hint_ms, one);
for (const one of vectors.decisions) {
  const course = new client.Course(client.PROFILES[one.profile], BigInt(one.seed),
    one.deadline_ms);
  let now = 0;
  for (const step of one.steps) {
    const headers = new Headers({'Error-Code': step.code});
    const kind = client.classify(step.status, headers, '', course.inDoubt);
    const made = course.decide(kind, step.hint_ms, now + step.took_ms);
    course.inDoubt ||= client.leavesDoubt(step.status, headers, '');
    expect([made.retry ? 'retry' : made.ended, made.at], [step.decision, step.at_ms], step);
    now = made.at;
    course.attempts++;
  }
}
expect(client.readHint('5, 7', 0), 7000, 'two lines');
console.log(`${checked} checked, ${bad} differ`);
process.exit(bad > 0 ? 1 : 0);
