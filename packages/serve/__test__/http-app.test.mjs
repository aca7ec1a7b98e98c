import assert from 'node:assert/strict';
import http from 'node:http';
import test from 'node:test';
import { gzipSync } from 'node:zlib';
import { until } from '../../../__test__/lib/wait.mjs';
import { ask } from './raw.mjs';
import { DIGITS, PICTURE, post, postJson, repositoryOf, slowModel, startServer } from './support.mjs';

const INFER = '/v2/models/digits/infer';

async function digitsServer(t, options = {}) {
  const server = await startServer(t, { models: repositoryOf(t, { 'digits/1/model.onnx': DIGITS }), ...options });
  return { server, url: server.urls.http };
}

test('routes, hooks and plugins of the user stand beside the protocols', async (t) => {
  const { server, url } = await digitsServer(t, {
    apiKey: 'k',
    limits: { maxTextBytes: 1000, maxBytesInFlight: 10_000 },
    async setup(app) {
      app.addHook('onSend', async (_, reply) => void reply.header('x-own', '1'));
      app.post('/own', async ({ body }) => ({ got: body }));
      app.post('/strict', { schema: { body: { type: 'object', required: ['n'] } } }, async ({ body }) => body);
      app.post('/small', { bodyLimit: 50 }, async () => 'small');
      app.get('/teapot', async () => {
        throw Object.assign(new Error('I am a teapot'), { statusCode: 418 });
      });
      app.get('/busy', async () => {
        throw Object.assign(new Error('/secret/path'), { statusCode: 502 });
      });
      app.get('/fails', async () => {
        throw new Error('/secret/path');
      });
      await app.register(async (scope) => {
        scope.get('/scoped', async () => 'scoped');
      });
    },
  });
  const headers = { authorization: 'Bearer k', 'content-type': 'application/json' };
  const own = await postJson(`${url}/own`, { a: [1] }, headers);
  assert.deepEqual(own, { status: 200, json: { got: { a: [1] } } });
  assert.equal((await post(`${url}/own`, { a: 1 }, { 'content-type': 'application/json' })).status, 401);
  assert.equal((await post(`${url}/own`, JSON.stringify('x'.repeat(1000)), headers)).status, 413);
  assert.equal((await post(`${url}/small`, JSON.stringify('x'.repeat(50)), headers)).status, 413);
  assert.equal((await post(`${url}/strict`, {}, headers)).status, 400);
  assert.equal((await post(`${url}/own`, '{', headers)).status, 400);
  // Bodies of unknown length are counted, limited, and given back.
  const chunked = (/** @type {number} */ length) =>
    ask(`${url}/own`, { method: 'POST', headers: { ...headers, 'transfer-encoding': 'chunked' } }, JSON.stringify('x'.repeat(length)));
  assert.equal((await chunked(1001)).status, 413);
  for (let i = 0; i < 30; i++) assert.equal((await chunked(900)).status, 200);
  assert.deepEqual(await postJson(`${url}/fails`, undefined, headers).catch(() => undefined), { status: 404, json: { error: 'there is no POST /fails' } });
  const get = async (/** @type {string} */ path) => ask(url + path, { headers });
  assert.deepEqual([(await get('/teapot')).status, (await get('/teapot')).text], [418, '{"error":"I am a teapot"}']);
  assert.deepEqual([(await get('/fails')).status, (await get('/fails')).text], [500, '{"error":"internal error"}']);
  assert.deepEqual([(await get('/busy')).status, (await get('/busy')).text], [502, '{"error":"internal error"}']);
  assert.equal((await get('/scoped')).text, 'scoped');
  // The protocols still take any type of body.
  const infer = await post(url + INFER, gzipSync(JSON.stringify({ inputs: [PICTURE] })), { ...headers, 'content-type': 'x/y', 'content-encoding': 'gzip' });
  assert.deepEqual([infer.status, infer.headers.get('x-own')], [200, '1']);
  // The server is Fastify's.
  const injected = await server.app?.inject({ url: '/v2/health/live', headers: { host: 'localhost' } });
  assert.equal(injected?.statusCode, 200);
});

test('an error of setup ends the start', async (t) => {
  const repository = repositoryOf(t, { 'digits/1/model.onnx': DIGITS });
  const setup = async () => {
    throw new Error('no plugin');
  };
  await assert.rejects(startServer(t, { models: repository, setup }), /no plugin/);
});

test('under pressure, all but health and metrics get 503 in the form of their protocol', async (t) => {
  // No heap is that small.
  const { url } = await digitsServer(t, { limits: { maxHeapBytes: 1 } });
  await until(async () => (await fetch(`${url}/v2`)).status === 503, 'the heap is measured');
  for (const path of ['/v2/health/live', '/v2/health/ready', '/metrics']) assert.equal((await fetch(url + path)).status, 200, path);
  const v2 = await post(url + INFER, { inputs: [PICTURE] });
  assert.deepEqual([v2.status, v2.headers.get('retry-after'), v2.bytes.toString()], [503, '1', '{"error":"the server is overloaded"}']);
  const { status, json } = await postJson(`${url}/v1/embeddings`, { model: 'digits', input: 'a' });
  assert.deepEqual([status, json.error.message, json.error.type], [503, 'the server is overloaded', 'server_error']);
  // Limits of 0 are none.
  const free = await digitsServer(t, { limits: { maxHeapBytes: 0, maxEventLoopDelayMs: 0 } });
  assert.equal((await post(free.url + INFER, { inputs: [PICTURE] })).status, 200);
});

test('models that are still loading are 503 from the first moment, never 404', async (t) => {
  const slow = slowModel({ size: 8 });
  t.after(slow.remove);
  const files = Object.fromEntries(Array.from({ length: 20 }, (_, i) => [`m${String(i).padStart(2, '0')}/1/model.onnx`, i === 19 ? DIGITS : slow.file]));
  const repository = repositoryOf(t, files);
  // The port is known before the server listens.
  const probe = http.createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => probe.once('listening', resolve));
  const { port } = /** @type {import('node:net').AddressInfo} */ (probe.address());
  await new Promise((resolve) => probe.close(resolve));
  const url = `http://127.0.0.1:${port}`;
  /** @type {Set<string>} */
  const seen = new Set();
  let isReady = false;
  const asking = (async () => {
    while (!isReady) {
      const [model, state, infer] = await Promise.all([
        ask(`${url}/v2/models/m19`, {}),
        ask(`${url}/v2/models/m19/ready`, {}),
        ask(`${url}/v2/models/m19/infer`, { method: 'POST' }, '{}'),
      ]).catch(() => [null, null, null]);
      if (model === null || state === null || infer === null) continue;
      seen.add(`${model.status} ${state.status} ${infer.status}`);
      if (model.status === 503) {
        assert.match(model.text, /"m19\\" is not ready: loading/);
        assert.equal(model.headers['retry-after'], '1');
      }
      if (state.status === 503) assert.deepEqual([JSON.parse(state.text), state.headers['retry-after']], [{ name: 'm19', ready: false }, '1']);
    }
  })();
  const server = await startServer(t, { models: repository, http: port });
  isReady = true;
  await asking;
  assert.ok(
    [...seen].some((statuses) => statuses.startsWith('503')),
    [...seen].join(),
  );
  assert.ok(![...seen].some((statuses) => statuses.includes('404')), [...seen].join());
  assert.deepEqual(JSON.parse((await ask(`${url}/v2/models/m19/ready`, {})).text), { name: 'm19', ready: true });
  assert.equal((await ask(`${url}/v2/models/none/ready`, {})).status, 404);
  await server.registry.unload('m19');
  assert.equal((await ask(`${url}/v2/models/m19/ready`, {})).status, 503);
});

test('the port of the metrics answers probes, too', async (t) => {
  const server = await startServer(t, { models: repositoryOf(t, { 'digits/1/model.onnx': DIGITS }), metrics: 0, limits: { leaveMs: 1000 } });
  const ask = async (/** @type {string} */ path) => {
    const response = await fetch(server.urls.metrics + path);
    return [response.status, await response.json()];
  };
  assert.deepEqual(await ask('/v2/health/live'), [200, { live: true }]);
  assert.deepEqual(await ask('/v2/health/ready'), [200, { ready: true, live: true }]);
  const closed = server.close();
  assert.deepEqual(await ask('/v2/health/ready'), [503, { ready: false, live: true }]);
  await closed;
});
