// Streams of OpenAI's API on a real network: heartbeats, errors, callers that go away.

import assert from 'node:assert/strict';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { once } from 'node:events';
import { connect } from 'node:net';
import test from 'node:test';
import { until } from '../../../__test__/lib/wait.mjs';
import { ServeError } from '../lib/errors.js';
import { generationServer, HELLO, textOf } from './openai-support.mjs';

/**
 * Makes a model wait before each text until the gate is opened, as a long queue or a long prompt does.
 * @param {import('../lib/serve.js').Server} server
 */
function gateOf(server) {
  const model = /** @type {import('../lib/models/generator.js').Generator} */ (server.registry.get('letters').model);
  const generate = model.generate.bind(model);
  /** @type {{ waiting: number, resolve: (value?: unknown) => void, reject: (error: Error) => void }} */
  const gate = { waiting: 0, resolve: () => undefined, reject: () => undefined };
  const opened = new Promise((resolve, reject) => Object.assign(gate, { resolve, reject }));
  model.generate = async (prompt, wishes, options) => {
    gate.waiting += 1;
    await opened;
    return generate(prompt, wishes, options);
  };
  return gate;
}

/** @param {string} url @param {object} body @param {AbortSignal} [signal] */
const post = (url, body, signal) =>
  fetch(`${url}/v1/chat/completions`, { method: 'POST', body: JSON.stringify({ model: 'letters', messages: HELLO, ...body }), signal });

/** Reads until a text has come. @param {ReadableStreamDefaultReader<Uint8Array>} reader @param {(text: string) => boolean} isEnough */
async function read(reader, isEnough) {
  let text = '';
  while (!isEnough(text)) {
    const { value, done } = await reader.read();
    if (done) break;
    text += Buffer.from(value).toString();
  }
  return text;
}

const readerOf = (/** @type {Response} */ { body }) => /** @type {ReadableStream<Uint8Array>} */ (body).getReader();
const pings = (/** @type {string} */ text) => text.split(': ping\n\n').length - 1;

test('a stream that waits has heartbeats, which clients skip', { timeout: 60_000 }, async (t) => {
  const { server, url, client } = await generationServer(t, {}, { limits: { heartbeatMs: 20 } });
  const gate = gateOf(server);
  const asked = client.chat.completions.create({ model: 'letters', messages: HELLO, max_tokens: 5, stream: true });
  const response = await post(url, { max_tokens: 5, stream: true });
  assert.deepEqual([response.status, response.headers.get('content-type')], [200, 'text/event-stream']);
  const reader = readerOf(response);
  const waited = await read(reader, (text) => pings(text) >= 3);
  assert.equal(waited.replaceAll(': ping\n\n', ''), '', 'nothing but heartbeats');
  gate.resolve();
  const rest = await read(reader, () => false);
  assert.ok(rest.endsWith('data: [DONE]\n\n'), rest);
  let text = '';
  for await (const { choices } of await asked) text += choices[0].delta.content ?? '';
  const { choices } = await client.chat.completions.create({ model: 'letters', messages: HELLO, max_tokens: 5 });
  assert.equal(text, choices[0].message.content);
});

test('a stream that writes has no heartbeats', async (t) => {
  const { url } = await generationServer(t, {}, { limits: { heartbeatMs: 60_000 } });
  const text = await (await post(url, { max_tokens: 5, stream: true })).text();
  assert.match(text, /^data: \{.*\n\ndata: \[DONE\]\n\n$/s);
  assert.equal(pings(text), 0);
});

test('an error before the first heartbeat has a status; behind one it is data, and no [DONE] follows', { timeout: 60_000 }, async (t) => {
  for (const heartbeatMs of [60_000, 20]) {
    const { server, url, client } = await generationServer(t, {}, { limits: { heartbeatMs } });
    const gate = gateOf(server);
    const asked = post(url, { stream: true });
    const streamed = client.chat.completions.create({ model: 'letters', messages: HELLO, stream: true });
    const heard = heartbeatMs === 20 ? readerOf(await asked) : null;
    const begun = heard === null ? '' : await read(heard, (text) => pings(text) > 0);
    if (heard !== null) await streamed;
    await until(() => gate.waiting === 2, 'both texts wait');
    gate.reject(new ServeError('overloaded', 'too long a queue'));
    if (heard === null) {
      const response = await asked;
      assert.equal(response.status, 503);
      assert.equal((await response.json()).error.message, 'too long a queue');
      await assert.rejects(streamed, { status: 503 });
      continue;
    }
    const events = (begun + (await read(heard, () => false))).replaceAll(': ping\n\n', '');
    assert.equal(events, 'data: {"error":{"message":"too long a queue","type":"server_error","param":null,"code":null}}\n\n');
    const stream = await streamed;
    await assert.rejects(async () => {
      for await (const _ of stream) assert.fail('no chunk comes');
    }, /too long a queue/);
  }
});

test('a caller that goes away frees the place at once, and its connection', async (t) => {
  const { url, client, metric } = await generationServer(t, { maxSequences: 1 });
  /** @type {import('node:net').Socket[]} */
  const sockets = [];
  const seen = (/** @type {any} */ { request, socket }) => {
    if (request.url.endsWith('/chat/completions')) sockets.push(socket);
  };
  subscribe('http.server.request.start', seen);
  t.after(() => void unsubscribe('http.server.request.start', seen));
  const leaving = [
    // One text is computed, the others wait.
    async () => {
      const controller = new AbortController();
      const response = await post(url, { max_tokens: 200, n: 8, stream: true }, controller.signal);
      await readerOf(response).read();
      controller.abort();
    },
    async () => {
      const stream = await client.chat.completions.create({ model: 'letters', messages: HELLO, max_tokens: 200, n: 8, stream: true });
      for await (const _ of stream) break;
    },
    async () => {
      const { hostname, port } = new URL(url);
      const socket = connect(Number(port), hostname);
      const body = JSON.stringify({ model: 'letters', messages: HELLO, max_tokens: 200, n: 8, stream: true });
      socket.write(`POST /v1/chat/completions HTTP/1.1\r\nHost: ${hostname}:${port}\r\nContent-Length: ${body.length}\r\n\r\n${body}`);
      await once(socket, 'data');
      socket.destroy();
    },
  ];
  leaving.push(async () => {
    const controller = new AbortController();
    const whole = post(url, { max_tokens: 200, n: 128 }, controller.signal);
    const left = assert.rejects(whole, { name: 'AbortError' });
    await until(async () => (await metric('vllm:num_requests_waiting')) > 0, 'an answer that is no stream is computed');
    controller.abort();
    await left;
  });
  for (const [i, leave] of leaving.entries()) {
    await leave();
    await until(() => sockets.length === i + 1 && sockets[i].destroyed, `connection ${i} is closed`);
    await until(async () => (await metric('vllm:num_requests_running')) + (await metric('vllm:num_requests_waiting')) === 0, `text ${i} is not computed`);
  }
  assert.ok((await metric('vllm:generation_tokens_total')) < (3 * 8 + 128) * 200, 'most tokens were not computed');
  const { choices } = await client.completions.create({ model: 'letters', prompt: 'Hello', max_tokens: 4 });
  assert.equal(choices[0].text, textOf('Hello', 4));
});
