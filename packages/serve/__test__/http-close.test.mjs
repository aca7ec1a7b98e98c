import assert from 'node:assert/strict';
import http from 'node:http';
import test from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { until } from '../../../__test__/lib/wait.mjs';
import { ask, openRaw } from './raw.mjs';
import { DIGITS, PICTURE, post, repositoryOf, startServer } from './support.mjs';

const INFER = '/v2/models/digits/infer';
const BODY = JSON.stringify({ inputs: [PICTURE] });

/** No end of a server in these tests takes so long, and what held it up took longer. */
const LONG_MS = 15_000;

/** A server whose limits would let a connection live for minutes; its requests wait for others, if that is wanted. */
async function digitsServer(t, options = {}) {
  const limits = { drainMs: 120_000, idleTimeoutMs: 120_000, requestTimeoutMs: 120_000 };
  const server = await startServer(t, { models: repositoryOf(t, { 'digits/1/model.onnx': DIGITS }), limits, ...options });
  return { server, url: server.urls.http, infer: server.urls.http + INFER };
}

/** Settles like a promise, and fails where that takes long. */
const soon = (/** @type {Promise<unknown>} */ promise, /** @type {string} */ what) =>
  Promise.race([promise, sleep(LONG_MS, undefined, { ref: false }).then(() => assert.fail(`${what} takes too long`))]);

test('close can be taken from the server', async (t) => {
  const { close, registry, urls } = (await digitsServer(t)).server;
  assert.equal(registry.isReady, true);
  await close();
  await assert.rejects(fetch(`${urls.http}/v2/health/live`));
});

test('silent connections do not hold up the end of the server, at no port', async (t) => {
  const { server, url, infer } = await digitsServer(t, { metrics: 0, defaults: { maxDelayMs: 300 } });
  const { metrics } = server.urls;
  const never = await openRaw(t, url, 100);
  const kept = await openRaw(t, url, 10);
  for (const connection of kept) assert.equal((await connection.send('GET /v2/health/live').response()).status, 200);
  const begun = await openRaw(t, url, 10);
  for (const connection of begun) connection.write('POST /v2/models/digits/infer HTTP/1.1\r\nHost: loc');
  const half = await openRaw(t, url, 10);
  for (const connection of half) connection.send(`POST ${INFER}`, { 'content-length': 1000 }, '{');
  const atMetrics = [...(await openRaw(t, metrics, 10))];
  const [read] = await openRaw(t, metrics, 1);
  assert.equal((await read.send('GET /metrics').response()).status, 200);
  // As fetch() leaves one after a stream that it does not read.
  const aborted = new AbortController();
  await fetch(`${url}/metrics`, { signal: aborted.signal }).catch(() => undefined);
  aborted.abort();

  const { model } = server.registry.get('digits');
  const asked = post(infer, BODY);
  await until(() => model.waiting === 1, 'a request waits');
  const closed = server.close();
  assert.equal((await asked).status, 200);
  await soon(closed, 'the end of the server');
  await Promise.all([...never, ...kept, ...begun, ...half, ...atMetrics, read].map((connection) => connection.closed()));
});

test('requests that arrive while the server ends get 503 in the form of their protocol, and the connection ends', async (t) => {
  const { server, url, infer } = await digitsServer(t, { defaults: { maxDelayMs: 60_000, maxBatch: 64 } });
  const [v2, openai, upload] = await openRaw(t, url, 3);
  for (const connection of [v2, openai, upload]) assert.equal((await connection.send('GET /v2/health/live').response()).status, 200);
  const { model } = server.registry.get('digits');
  const caller = new AbortController();
  const asked = fetch(infer, { method: 'POST', body: BODY, signal: caller.signal });
  await until(() => model.waiting === 1, 'a request waits');
  const closed = server.close();
  await until(() => server.registry.isDraining, 'the server ends');
  // Long after it has begun to end, connections are still open.
  await sleep(1000);
  v2.send(`POST ${INFER}`, { 'content-length': BODY.length }, BODY);
  openai.send('POST /v1/embeddings', { 'content-length': 2 }, '{}');
  const length = 4 * 2 ** 20;
  upload.send(`POST ${INFER}`, { 'content-length': length }, Buffer.alloc(length));
  for (const connection of [v2, openai, upload]) {
    const { status, head, body } = await connection.response();
    assert.equal(status, 503);
    assert.match(head, /connection: close/i);
    assert.match(head, /retry-after: 1/i);
    const { error } = JSON.parse(body);
    assert.equal(connection === openai ? error.message : error, 'the server is shutting down');
    await connection.closed();
  }
  caller.abort();
  await assert.rejects(asked, { name: 'AbortError' });
  await soon(closed, 'the end of the server');
});

test('a body that has begun to arrive when the server ends is read and answered', async (t) => {
  const { server, url } = await digitsServer(t);
  const [connection] = await openRaw(t, url, 1);
  connection.send(`POST ${INFER}`, { 'content-length': BODY.length }, BODY.slice(0, 100));
  // A request that was answered before shows that the other has arrived.
  assert.equal((await ask(`${url}/v2/health/live`, {})).status, 200);
  const closed = server.close();
  await until(() => server.registry.isDraining, 'the server ends');
  connection.write(BODY.slice(100));
  assert.equal((await connection.response()).status, 200);
  await soon(closed, 'the end of the server');
});

test('clients that go on calling while the server ends lose no request', async (t) => {
  const { server, url } = await digitsServer(t);
  const agent = new http.Agent({ keepAlive: true, maxSockets: 8 });
  t.after(() => agent.destroy());
  /** @type {Map<number | string, number>} */
  const outcomes = new Map();
  const count = (/** @type {number | string} */ outcome) => outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1);
  let isOver = false;
  const call = async () => {
    while (!isOver) {
      try {
        const { status, headers } = await ask(url + INFER, { method: 'POST', agent, headers: { 'content-length': BODY.length } }, BODY);
        count(status);
        if (headers.connection === 'close') return;
      } catch (error) {
        // A new connection finds nobody; that is no request that was lost.
        count(/** @type {NodeJS.ErrnoException} */ (error).code ?? String(error));
        return;
      }
    }
  };
  const callers = Array.from({ length: 8 }, call);
  await until(() => (outcomes.get(200) ?? 0) > 50, 'the server is busy');
  await soon(server.close(), 'the end of the server');
  isOver = true;
  await Promise.all(callers);
  assert.deepEqual(
    [...outcomes.keys()].filter((outcome) => ![200, 503, 'ECONNREFUSED'].includes(outcome)),
    [],
  );
});

test('localhost is served at all its addresses, and ends at all', async (t) => {
  const { server, url } = await digitsServer(t, { host: 'localhost' });
  const { port } = new URL(url);
  for (const host of ['127.0.0.1', 'localhost']) assert.equal((await ask(`http://${host}:${port}/v2/health/live`, {})).status, 200);
  await openRaw(t, `http://127.0.0.1:${port}`, 5);
  await soon(server.close(), 'the end of the server');
  await assert.rejects(ask(`http://127.0.0.1:${port}/v2/health/live`, {}), { code: 'ECONNREFUSED' });
});

test('a server that leaves is not ready, and still takes requests; then it ends', async (t) => {
  const { server, url, infer } = await digitsServer(t, { limits: { leaveMs: 2000 } });
  const closed = server.close();
  assert.equal((await fetch(`${url}/v2/health/ready`)).status, 503);
  assert.equal((await post(infer, BODY)).status, 200);
  await closed;
  await assert.rejects(post(infer, BODY));
});
