// The official TypeScript SDK against the edge: everything but errors.

import assert from 'node:assert/strict';
import { check, run, sdk, words } from './checks.mjs';

const Anthropic = sdk.default;
const model = 'claude-demo';
const ask = [{ role: 'user', content: 'How are you, água?' }];
const weather = {
  name: 'weather',
  description: 'What the weather will be',
  input_schema: {
    type: 'object',
    properties: { city: { type: 'string' }, days: { type: 'integer' } },
    required: ['city', 'days'],
  },
};
const input = { city: 'água 🦀', days: 7 };
const client = new Anthropic();

const isTheEdges = (headers) => {
  assert.match(headers.get('request-id'), /^req_(?!demo)/);
  assert.match(headers.get('x-edge-input-tokens'), /^\d+;(estimate|exact)$/);
  const route = process.env.EDGE_TEST_LANE === 'zero' ? 'direct' : 'fallback';
  assert.equal(headers.get('x-claude-route'), route);
};

check('a message', async () => {
  const message = await client.messages.create({ model, max_tokens: 12, messages: ask });
  assert.deepEqual(message.content, [{ type: 'text', text: words(12) }]);
  assert.equal(message.stop_reason, 'max_tokens');
  assert.equal(message.usage.output_tokens, 12);
  assert.ok(message.usage.input_tokens > 0);
  assert.match(message._request_id, /^req_/);
});

check('a message with its response', async () => {
  const { data, response } = await client.messages
    .create({ model, max_tokens: 4, messages: ask }).withResponse();
  isTheEdges(response.headers);
  assert.equal(data.content[0].text, words(4));
});

check('a stream of raw events', async () => {
  const stream = await client.messages.create(
    { model, max_tokens: 20, messages: ask, stream: true },
    { headers: { 'x-demo-chunk-bytes': '7' } },
  );
  const events = [];
  for await (const event of stream) events.push(event);
  assert.deepEqual(events.map((event) => event.type), ['message_start', 'content_block_start',
    ...Array(20).fill('content_block_delta'), 'content_block_stop', 'message_delta', 'message_stop']);
  const deltas = events.filter((event) => event.type === 'content_block_delta');
  assert.equal(deltas.map((event) => event.delta.text).join(''), words(20));
  assert.equal(events.at(-2).usage.output_tokens, 20);
});

check('the streaming helper', async () => {
  const stream = client.messages.stream({ model, max_tokens: 50, messages: ask });
  let text = '';
  stream.on('text', (delta) => { text += delta; });
  const message = await stream.finalMessage();
  isTheEdges(stream.response.headers);
  assert.equal(text, words(50));
  assert.equal(message.content[0].text, words(50));
  assert.equal(message.usage.output_tokens, 50);
  assert.equal(await stream.finalText(), words(50));
});

check('a stream that is left', async () => {
  const stream = await client.messages.create(
    { model, max_tokens: 100000, messages: ask, stream: true },
    { headers: { 'x-demo-inter-token-ms': '5' } },
  );
  let seen = 0;
  for await (const event of stream) {
    if (event.type === 'content_block_delta' && ++seen === 5) break;
  }
  assert.equal(seen, 5);
  assert.ok((await client.messages.create({ model, max_tokens: 1, messages: ask })).content);
});

check('a count of tokens', async () => {
  const alone = await client.messages.countTokens({ model, messages: ask });
  const more = await client.messages.countTokens(
    { model, messages: ask, system: 'Be brief, '.repeat(20), tools: [weather] });
  assert.ok(alone.input_tokens > 0 && more.input_tokens > alone.input_tokens);
});

check('a call of a tool', async () => {
  const asked = { model, max_tokens: 30, tools: [weather], tool_choice: { type: 'any' } };
  const message = await client.messages.create({ ...asked, messages: ask });
  const call = message.content[1];
  assert.deepEqual([call.type, call.name, call.input], ['tool_use', 'weather', input]);
  assert.equal(message.stop_reason, 'tool_use');
  const streamed = await client.messages.stream({ ...asked, messages: ask }).finalMessage();
  assert.deepEqual(streamed.content[1].input, input);
  const answer = await client.messages.create({ ...asked, messages: [...ask,
    { role: 'assistant', content: message.content },
    { role: 'user', content: [{ type: 'tool_result', tool_use_id: call.id, content: '9 °C' }] }] });
  assert.deepEqual(answer.content.map((block) => block.type), ['text']);
});

check('the tool runner', async () => {
  const seen = [];
  const last = await client.beta.messages.toolRunner({
    model, max_tokens: 30, tool_choice: { type: 'any' }, messages: ask,
    tools: [{
      ...weather, type: 'custom', parse: (input) => input,
      run: (input) => { seen.push(input); return '9 °C'; },
    }],
  });
  assert.deepEqual(seen, [input]);
  assert.equal(last.content[0].text, words(30));
});

check('thinking', async () => {
  const asked = { model, max_tokens: 2000, messages: ask,
    thinking: { type: 'enabled', budget_tokens: 1024 } };
  const options = { headers: { 'x-demo-tokens': '40' } };
  const message = await client.messages.create(asked, options);
  assert.equal(message.content[0].thinking, words(20));
  const streamed = await client.messages.stream(asked, options).finalMessage();
  assert.deepEqual(streamed.content, message.content);
});

check('a picture', async () => {
  // A PNG of one pixel.
  const data = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGP4z8DwHwAFAAH/iZk9HQAAAABJRU5ErkJggg==';
  const message = await client.messages.create({ model, max_tokens: 2, messages: [{
    role: 'user', content: [
      { type: 'image', source: { type: 'base64', media_type: 'image/png', data } },
      { type: 'text', text: 'What is this?' },
    ] }] });
  assert.equal(message.content[0].text, words(2));
});

check('usage in every shape', async () => {
  for (const shape of ['twice', 'cumulative', 'cache', 'cache-null']) {
    const stream = client.messages.stream({ model, max_tokens: 40, messages: ask },
      { headers: { 'x-demo-usage': shape } });
    const message = await stream.finalMessage();
    assert.equal(message.content[0].text, words(40), shape);
    assert.equal(message.usage.output_tokens, 40, shape);
    if (shape === 'cache') assert.ok(message.usage.cache_read_input_tokens > 0);
  }
});

check("the edge's own events", async () => {
  const stream = client.messages.stream({ model, max_tokens: 20, messages: ask },
    { headers: { 'anthropic-beta': 'edge-usage-2026-11-01' } });
  const message = await stream.finalMessage();
  assert.equal(message.content[0].text, words(20));
});

check('models', async () => {
  const listed = await client.models.list();
  assert.deepEqual(listed.data.map((model) => model.id), ['claude-demo', 'claude-other', 'gpt-demo']);
  const pages = [];
  for await (const model of client.models.list({ limit: 1 })) pages.push(model.id);
  assert.deepEqual(pages, listed.data.map((model) => model.id));
});

check('many at once', async () => {
  const one = async (count) => {
    const message = await client.messages.stream({ model, max_tokens: count, messages: ask },
      { headers: { 'x-demo-chunk-bytes': String(count) } }).finalMessage();
    assert.equal(message.content[0].text, words(count));
    assert.equal(message.usage.output_tokens, count);
  };
  await Promise.all(Array.from({ length: 16 }, (_, n) => one(n + 1)));
});

check('two keys in one process', async () => {
  if (process.env.EDGE_TEST_LANE !== 'legacy') return; // the sidecar has one key
  // They share fetch's connections, and a connection is one key's.
  const other = new Anthropic({ apiKey: process.env.EDGE_TEST_OTHER_KEY });
  for (let n = 1; n < 6; n += 1) {
    for (const one of [client, other]) {
      const message = await one.messages.create({ model, max_tokens: n, messages: ask });
      assert.equal(message.content[0].text, words(n));
    }
  }
});

await run();
