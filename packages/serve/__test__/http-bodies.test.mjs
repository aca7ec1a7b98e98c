import assert from 'node:assert/strict';
import test from 'node:test';
import { gzipSync } from 'node:zlib';
import pino from 'pino';
import { until } from '../../../__test__/lib/wait.mjs';
import { ask, openRaw } from './raw.mjs';
import { DIGITS, PICTURE, post, postJson, repositoryOf, startServer, wordsFiles } from './support.mjs';

const INFER = '/v2/models/digits/infer';
const MIB = 2 ** 20;

/** A server with a model for digits and one for words. */
async function modelServer(t, options = {}) {
  const server = await startServer(t, { models: repositoryOf(t, { 'digits/1/model.onnx': DIGITS, ...wordsFiles('words') }), ...options });
  return { server, url: server.urls.http, infer: server.urls.http + INFER };
}

/** Requests that are refused whatever their body says: with the options of their server. */
const UNWANTED = [
  ['a path that there is not', 'POST /nothing', 404, {}],
  ['a path of OpenAI that there is not', 'POST /v1/nothing', 404, {}],
  ['a wrong method', `PUT ${INFER}`, 404, {}],
  ['a model that there is not', 'POST /v2/models/none/infer', 404, {}],
  ['a version that there is not', 'POST /v2/models/digits/versions/7/infer', 404, {}],
  ['a model that is not loaded', 'POST /v2/models/broken/infer', 503, {}],
  ['a model with a full queue', `POST ${INFER}`, 503, { defaults: { maxQueue: 0 } }],
  ['a model for texts with a full queue', 'POST /v2/models/words/infer', 503, { defaults: { maxQueue: 0 } }],
  ['a caller without the key', `POST ${INFER}`, 401, { apiKey: 'k' }],
  ['a caller whom authenticate() refuses', `POST ${INFER}`, 401, { authenticate: async () => false }],
  ['what is not allowed', 'POST /v2/repository/models/digits/load', 403, { control: false }],
  ['an encoding that there is not', `POST ${INFER}`, 400, {}, { 'content-encoding': 'br' }],
  ['a long body', `POST ${INFER}`, 413, { limits: { maxJsonBytes: 1000 } }],
  ['a long head of raw bytes', `POST ${INFER}`, 413, { limits: { maxJsonBytes: 1000 } }, { 'inference-header-content-length': '1001' }],
  ['a long body for OpenAI', 'POST /v1/embeddings', 413, { limits: { maxTextBytes: 1000 } }],
  ['a body for which there is no room', `POST ${INFER}`, 503, { limits: { maxBytesInFlight: 1000 } }],
];

for (const [what, line, status, options, headers = {}] of /** @type {[string, string, number, any, any][]} */ (/** @type {unknown} */ (UNWANTED))) {
  test(`${what}: refused before the body is read, and clients see it`, async (t) => {
    const repository = repositoryOf(t, { 'digits/1/model.onnx': DIGITS, 'broken/1/model.onnx': { not: 'a model' }, ...wordsFiles('words') });
    const server = await startServer(t, { models: repository, ...options });
    const length = 2 * MIB;
    const [connection] = await openRaw(t, server.urls.http, 1);
    // The body never comes as a whole.
    const response = await connection.send(line, { 'content-length': length, ...headers }, '{').response();
    assert.equal(response.status, status, response.body);
    const { error } = JSON.parse(response.body);
    assert.equal(typeof (line.includes('/v1/') ? error.message : error), 'string');
    if (status === 503) assert.match(response.head, /retry-after: \d/i);
    if (status === 401) assert.match(response.head, /www-authenticate: Bearer/i);
    // The rest is dropped, and the connection goes on.
    connection.write(Buffer.alloc(length - 1)).send('GET /v2/health/live');
    assert.equal((await connection.response()).status, 200);

    const [method, path] = line.split(' ');
    const body = Buffer.alloc(8 * MIB, ' ');
    assert.equal((await fetch(server.urls.http + path, { method, body, headers })).status, status, 'fetch');
    for (const agent of [undefined, /** @type {const} */ (false)]) {
      assert.equal((await ask(server.urls.http + path, { method, headers, agent }, body)).status, status, `http.request, agent ${agent}`);
    }
  });
}

test('bytes of bodies are held from when they come until the answer, and those that are only announced are nobody’s', async (t) => {
  const { url, infer } = await modelServer(t, { limits: { maxBytesInFlight: 10_000 } });
  const body = JSON.stringify({ inputs: [PICTURE] }).padEnd(5000);
  const waiting = await openRaw(t, url, 10);
  for (const connection of waiting) connection.send(`POST ${INFER}`, { 'content-length': 9500 }, '{');
  const holds = (/** @type {number} */ bytes) =>
    until(async () => (await ask(`${url}/metrics`, {})).text.includes(`\nwebnn_serve_request_bytes ${bytes}\n`), `${bytes} bytes are held`);
  await holds(10);
  assert.equal((await post(infer, body)).status, 200);
  await holds(10);
  // Now one has come, but for its end.
  const [sending] = await openRaw(t, url, 1);
  sending.send(`POST ${INFER}`, { 'content-length': 9501 }, ' '.repeat(9500));
  await holds(9510);
  const refused = await post(infer, body);
  assert.deepEqual([refused.status, refused.headers.get('retry-after')], [503, '1']);
  assert.equal((await fetch(`${url}/v2/health/ready`)).status, 200);
  sending.destroy();
  await until(async () => (await post(infer, body)).status === 200, 'the bytes of a caller who has gone are free');
});

test('callers who send slowly lose their room to others, whatever they send', async (t) => {
  const { url, infer } = await modelServer(t, {
    limits: { maxBytesInFlight: 320_000 },
    setup: (app) => void app.post('/own', async ({ body }) => ({ body })),
  });
  const json = { 'content-type': 'application/json' };
  const part = gzipSync(Buffer.alloc(150_000, ' '), { level: 0 }).subarray(0, 120_000);
  /** @type {[path: string, headers: Record<string, string | number>, part: string | Uint8Array, rest: string | Uint8Array][]} */
  const senders = [
    [INFER, { 'content-length': 150_000 }, ' '.repeat(100_000), ' '],
    [INFER, { 'transfer-encoding': 'chunked' }, `186a0\r\n${' '.repeat(100_000)}\r\n`, '1\r\n \r\n'],
    [INFER, { 'content-encoding': 'gzip', 'content-length': 150_000 }, part, ''],
    ['/own', { 'content-length': 150_000, ...json }, ' '.repeat(100_000), ' '],
    ['/own', { 'transfer-encoding': 'chunked', ...json }, `186a0\r\n${' '.repeat(100_000)}\r\n`, '1\r\n \r\n'],
  ];
  // Long JSON is held twice.
  const body = JSON.stringify({ inputs: [PICTURE] }).padEnd(150_000);
  for (const [path, headers, part, rest] of senders) {
    const [connection] = await openRaw(t, url, 1);
    connection.send(`POST ${path}`, headers, part);
    // A little now and then does not help.
    const timer = setInterval(() => connection.write(rest), 100);
    t.after(() => clearInterval(timer));
    await until(async () => Number(/request_bytes (\d+)/.exec((await ask(`${url}/metrics`, {})).text)?.[1]) > 90_000, 'they hold the room');
    assert.equal((await post(infer, body)).status, 503, path);
    await until(async () => (await post(infer, body)).status === 200, 'others get it');
    clearInterval(timer);
    const { status, body: text } = await connection.response();
    assert.deepEqual([status, JSON.parse(text).error], [503, 'the server holds too many request bodies, and this one came too slowly'], path);
    connection.destroy();
  }
});

test('a body that a request should not have is dropped, and the connection goes on', async (t) => {
  const { url } = await modelServer(t);
  for (const path of ['/v2', '/metrics', '/v2/health/live', '/openapi.json', '/nothing']) {
    const [connection] = await openRaw(t, url, 1);
    connection.send(`GET ${path}`, { 'content-length': MIB }, Buffer.alloc(MIB));
    connection.send(`GET ${path}`, { 'transfer-encoding': 'chunked' }, `100000\r\n${' '.repeat(MIB)}\r\n0\r\n\r\n`);
    connection.send('GET /v2/health/live');
    const expected = path === '/nothing' ? 404 : 200;
    for (const status of [expected, expected, 200]) assert.equal((await connection.response()).status, status, path);
  }
});

test('bytes of bodies that are not announced are held as they come, and given back', async (t) => {
  const { url, infer } = await modelServer(t, { limits: { maxBytesInFlight: 10_000 } });
  const json = JSON.stringify({ inputs: [PICTURE] });
  const chunked = (/** @type {number} */ length, path = infer) =>
    ask(path, { method: 'POST', headers: { 'transfer-encoding': 'chunked' } }, json.padEnd(length)).then(({ status }) => status);
  const compressed = (/** @type {number} */ length) => post(infer, gzipSync(json.padEnd(length)), { 'content-encoding': 'gzip' }).then(({ status }) => status);
  for (const send of [chunked, compressed]) {
    assert.equal(await send(9000), 200);
    assert.equal(await send(10_001), 503);
    // One after the other has room: nothing stays counted.
    for (let i = 0; i < 20; i++) assert.equal(await send(9000), 200);
  }
  assert.equal(await chunked(10_001, `${url}/v1/embeddings`), 503);
  const hundred = await Promise.all(Array.from({ length: 100 }, () => compressed(9000)));
  assert.deepEqual(new Set(hundred), new Set([200, 503]));
  assert.equal(await chunked(9000), 200);
});

test('each kind of route has its limit of bytes, also for what is unpacked or not announced', async (t) => {
  const { url, infer } = await modelServer(t, { limits: { maxTextBytes: 1000, maxJsonBytes: 2000, maxBodyBytes: 3000 } });
  const json = JSON.stringify({ inputs: [PICTURE] });
  const head = JSON.stringify({ inputs: [{ ...PICTURE, data: undefined, parameters: { binary_data_size: 256 } }] });
  /** @type {[path: string, text: string, most: number, headers: Record<string, string>][]} */
  const cases = [
    [`${url}/v1/embeddings`, JSON.stringify({ model: 'words', input: 'a dog' }), 1000, {}],
    [`${url}/v2/repository/index`, '{}', 1000, {}],
    [infer, json, 2000, {}],
    [infer, head, 3000, { 'inference-header-content-length': String(head.length) }],
  ];
  for (const [path, text, most, headers] of cases) {
    const forms = [
      async (/** @type {Buffer} */ body) => (await post(path, body, headers)).status,
      async (/** @type {Buffer} */ body) => (await post(path, gzipSync(body), { ...headers, 'content-encoding': 'gzip' })).status,
      async (/** @type {Buffer} */ body) => (await ask(path, { method: 'POST', headers: { ...headers, 'transfer-encoding': 'chunked' } }, body)).status,
    ];
    for (const [i, send] of forms.entries()) {
      assert.equal(await send(Buffer.from(text.padEnd(most + 1))), 413, `${path} ${i}`);
      // What fits is read: raw bytes that belong to no input are found.
      assert.equal(await send(Buffer.from(text.padEnd(most))), most === 3000 ? 400 : 200, `${path} ${i}`);
    }
  }
});

test('who asks before sending a body is told first whether it is wanted', async (t) => {
  const { url } = await modelServer(t);
  const body = JSON.stringify({ inputs: [PICTURE] });
  const headers = { expect: '100-continue', 'content-length': body.length };
  const [wanted, refused] = await openRaw(t, url, 2);
  assert.equal((await wanted.send(`POST ${INFER}`, headers).response()).status, 100);
  assert.equal((await wanted.write(body).response()).status, 200);
  const { status, head } = await refused.send('POST /v2/models/none/infer', headers).response();
  assert.equal(status, 404);
  assert.match(head, /connection: close/i);
  await refused.closed();
});

test('a body that ends early is nobody else’s, and its bytes are free again', async (t) => {
  const { url, infer } = await modelServer(t, { limits: { maxBytesInFlight: 10_000 } });
  /** @type {Record<string, string>[]} */
  const forms = [{ 'content-length': '9000' }, { 'transfer-encoding': 'chunked' }, { 'content-length': '9000', 'content-encoding': 'gzip' }];
  for (const headers of forms) {
    for (const connection of await openRaw(t, url, 5)) {
      connection.send(`POST ${INFER}`, headers, 'transfer-encoding' in headers ? '5\r\n{"inp' : '{"inp');
      connection.destroy();
    }
  }
  await until(async () => (await post(infer, JSON.stringify({ inputs: [PICTURE] }).padEnd(9000))).status === 200, 'all bytes are free');
});

test('an unwanted body that does not end is not read for ever', async (t) => {
  const { url } = await modelServer(t, { limits: { maxBodyBytes: MIB } });
  const [connection] = await openRaw(t, url, 1);
  const chunk = Buffer.concat([Buffer.from('100000\r\n'), Buffer.alloc(MIB), Buffer.from('\r\n')]);
  assert.equal((await connection.send('POST /nothing', { 'transfer-encoding': 'chunked' }, chunk).response()).status, 404);
  await until(() => {
    if (!connection.isClosed) connection.write(chunk);
    return connection.isClosed;
  }, 'the connection ends');
});

test('connections beyond the limit are refused while the others are in use, which the log and the metrics say', async (t) => {
  /** @type {any[]} */
  const lines = [];
  const log = /** @type {any} */ (pino({ level: 'warn' }, { write: (line) => lines.push(JSON.parse(line)) }));
  const { server, url } = await modelServer(t, { log, metrics: 0, limits: { maxConnections: 3 } });
  const three = [];
  for (let i = 0; i < 3; i++) {
    const [connection] = await openRaw(t, url, 1);
    // A request that has begun to arrive.
    connection.send(`POST ${INFER}`, { 'content-length': 10, expect: '100-continue' });
    assert.equal((await connection.response()).status, 100);
    three.push(connection);
  }
  const more = await openRaw(t, url, 4);
  await Promise.all(more.map((connection) => connection.closed()));
  assert.match((await ask(`${server.urls.metrics}/metrics`, {})).text, /^webnn_serve_refused_connections_total 4$/m);
  assert.equal(lines.filter(({ msg }) => /connections are refused/.test(msg)).length, 1);
  assert.ok(three.every(({ isClosed }) => !isClosed));
  three[1].destroy();
  const isLive = () =>
    ask(`${url}/v2/health/live`, { agent: false }).then(
      ({ status }) => status === 200,
      () => false,
    );
  await until(isLive, 'there is room again');
});

test('connections on which nothing happens make room for others, the longest unused first', async (t) => {
  const { url } = await modelServer(t, { limits: { maxConnections: 5 } });
  const [busy] = await openRaw(t, url, 1);
  busy.send(`POST ${INFER}`, { 'content-length': 10, expect: '100-continue' });
  assert.equal((await busy.response()).status, 100);
  const [kept] = await openRaw(t, url, 1);
  for (let i = 0; i < 8; i++) {
    // One that says nothing, and one that asks.
    await openRaw(t, url, 1);
    const [other] = await openRaw(t, url, 1);
    assert.equal((await other.send('GET /v2/health/live').response()).status, 200, `${i}`);
    // Used now and then, it stays.
    assert.equal((await kept.send('GET /v2/health/live').response()).status, 200, `${i}`);
  }
  assert.ok(!busy.isClosed);
});

test('texts in raw bytes are limited: each one is a value of its own', async (t) => {
  const { url } = await modelServer(t);
  const count = 2 ** 20;
  const head = Buffer.from(JSON.stringify({ inputs: [{ name: 'text', datatype: 'BYTES', shape: [count], parameters: { binary_data_size: 4 * count } }] }));
  const { status, json } = await postJson(`${url}/v2/models/words/infer`, Buffer.concat([head, Buffer.alloc(4 * count)]), {
    'inference-header-content-length': String(head.length),
  });
  assert.deepEqual([status, json.error], [400, 'input "text": 1048576 strings, expected at most 65536']);
});
