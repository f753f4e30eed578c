// The table errors.json with the official TypeScript SDK: its class of exception, and how often
// it asked.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { check, ledger, run, sdk } from './checks.mjs';

const Anthropic = sdk.default;
const table = JSON.parse(readFileSync(new URL('../errors.json', import.meta.url)));
const lane = process.env.EDGE_TEST_LANE;
const COLUMN = 1;

const clientOf = (row, maxRetries) => new Anthropic({
  maxRetries,
  ...(row.key && { apiKey: row.key }),
  ...(row.as && {
    apiKey: process.env[`EDGE_TEST_${row.as}_KEY`],
    baseURL: process.env[`EDGE_TEST_${row.as}_BASE`],
  }),
  ...(row.at && { baseURL: process.env[row.at] }),
});

const accountOf = (row) => `node-${lane}-${row.name.replaceAll(' ', '-')}`;

/** Asks, and reads the answer to its end. */
const ask = async (client, row) => {
  const content = 'How are you?' + ' padding'.repeat((row.padding ?? 0) / 8);
  const body = { model: 'claude-demo', max_tokens: 20, messages: [{ role: 'user', content }], ...row.body };
  const headers = { 'x-demo-account': accountOf(row), ...row.headers };
  if (!row.stream) return client.messages.create(body, { headers });
  const events = [];
  for await (const event of await client.messages.create({ ...body, stream: true }, { headers })) {
    events.push(event);
  }
  return events;
};

/** How many requests the edge has answered with this status so far. */
const refusedByTheEdge = async (status) => {
  const answer = await fetch(process.env.EDGE_TEST_ADMIN + '/metrics');
  const lines = (await answer.text()).matchAll(/^edge_requests_total\{[^}]*status="(\d+)"[^}]*\} (\d+)/gm);
  return [...lines].filter(([, of]) => Number(of) === status)
    .reduce((sum, [, , count]) => sum + Number(count), 0);
};

const errorOf = async (row, maxRetries) => {
  let answer;
  try {
    answer = await ask(clientOf(row, maxRetries), row);
  } catch (error) {
    if (error instanceof assert.AssertionError) throw error;
    return error;
  }
  assert.fail(`${row.name}: no error but ${JSON.stringify(answer)}`);
};

const assertIs = (error, row) => {
  const expected = row.node ?? table.classes[row.status][COLUMN];
  assert.equal(error.constructor.name, expected, row.name);
  assert.ok(error instanceof sdk[expected], row.name);
  assert.equal(error.status, row.status, row.name);
  assert.equal(error.type, row.type, row.name);
  assert.match(error.requestID, /^req_/, row.name);
};

const rows = (counted) => table.rows.filter((row) =>
  (row.counted ?? 'model') === counted && (row.only ?? ['node']).includes('node')
  && (row.lane ?? lane) === lane);

check('errors of the upstream', async () => {
  await Promise.all(rows('model').map(async (row) => {
    assertIs(await errorOf(row, 1), row);
    assert.equal((await ledger(accountOf(row))).requests, 1 + row.retried, row.name);
  }));
});

check('errors of the edge', async () => {
  // One after the other: they are counted at the edge, all together.
  for (const row of rows('edge')) {
    if (row.first) assert.ok(await ask(clientOf(row, 0), row), row.name);
    const before = await refusedByTheEdge(row.status);
    assertIs(await errorOf(row, 1), row);
    assert.equal((await ledger(accountOf(row))).requests, row.first ? 1 : 0, row.name);
    if (!row.at) {
      assert.equal(await refusedByTheEdge(row.status) - before, 1 + row.retried, row.name);
    }
  }
});

check('an error that passes is not seen', async () => {
  for (const error of ['429', '500', '529', 'close-before-head']) {
    const row = { name: `passes ${error}`, headers: { 'x-demo-error': error, 'x-demo-error-times': '1' } };
    assert.ok(await ask(clientOf(row, 2), row));
    assert.equal((await ledger(accountOf(row))).requests, 2, error);
  }
});

check('retry-after is waited for', async () => {
  const row = { name: 'retry after', headers: { 'x-demo-error': '429', 'x-demo-error-times': '1',
    'x-demo-headers': '{"retry-after":"2"}' } };
  const since = performance.now();
  assert.ok(await ask(clientOf(row, 1), row));
  // The SDK's own wait would have been half a second at most.
  assert.ok(performance.now() - since >= 1999);
  assert.equal((await ledger(accountOf(row))).requests, 2);
});

check('errors within a stream', async () => {
  const chosen = table.streams.filter((row) => (row.lane ?? lane) === lane);
  await Promise.all(chosen.map(async (streamed) => {
    const row = { ...streamed, stream: true };
    const error = await errorOf(row, 2);
    if (row.broken) {
      // The SDK lets the error of `fetch` through.
      assert.equal(error.message, 'terminated', row.name);
    } else {
      assert.equal(error.constructor.name, 'APIError', row.name);
      assert.equal(error.type, row.type, row.name);
    }
    assert.equal((await ledger(accountOf(row))).requests, 1, row.name);
  }));
});

await run();
