// Callers who leave in the middle of a request, at any place: the server goes on, and holds nothing for them.

import assert from 'node:assert/strict';
import http2 from 'node:http2';
import { PassThrough } from 'node:stream';
import test from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { generator } from '../../../__test__/lib/random.mjs';
import { until } from '../../../__test__/lib/wait.mjs';
import { begin, envelope, INFER as GRPC_INFER, LIVE, METADATA } from './grpc-support.mjs';
import { ask, RawConnection } from './raw.mjs';
import { DIGITS, PICTURE, repositoryOf, startServer, wordsFiles } from './support.mjs';
import { bytesField, varint } from './wire.mjs';

const INFER = '/v2/models/digits/infer';
const BODY = JSON.stringify({ inputs: [PICTURE] });

/** A server whose requests wait for others, so that callers leave meanwhile, with routes of a user. */
async function someServer(t, options = {}) {
  const server = await startServer(t, {
    models: repositoryOf(t, { 'digits/1/model.onnx': DIGITS, ...wordsFiles('words') }),
    defaults: { maxDelayMs: 20 },
    setup(app) {
      app.post('/echo', async ({ body }) => ({ body }));
      app.post('/fails', async () => assert.fail('as it should'));
      app.post('/refused', { preHandler: () => assert.fail('as it should') }, async () => 'never');
    },
    ...options,
  });
  return { server, url: server.urls.http };
}

/** Settles when the server holds no byte of requests and responses. @param {string} url */
async function isFree(url) {
  let metrics = '';
  const look = async () => {
    metrics = (await ask(`${url}/metrics`, {})).text;
    return /^webnn_serve_request_bytes 0$/m.test(metrics) && /^webnn_serve_unread_bytes 0$/m.test(metrics);
  };
  await until(look, 'nothing is held').catch((error) => assert.fail(`${error.message}: ${metrics.match(/^webnn_serve_\w+_bytes .*/gm)}`));
}

test('what the server holds is in the metrics', async (t) => {
  const { server, url } = await someServer(t, { defaults: { maxDelayMs: 60_000, maxBatch: 64 } });
  const caller = new AbortController();
  const asked = fetch(url + INFER, { method: 'POST', body: BODY, signal: caller.signal });
  await until(() => server.registry.get('digits').model.waiting === 1, 'a request waits');
  assert.match((await ask(`${url}/metrics`, {})).text, new RegExp(`^webnn_serve_request_bytes ${BODY.length}$`, 'm'));
  caller.abort();
  await assert.rejects(asked, { name: 'AbortError' });
  await isFree(url);
});

test('requests that came behind others on a connection are over with it', async (t) => {
  const { server, url } = await someServer(t, { defaults: { maxDelayMs: 60_000, maxBatch: 64 } });
  const { model } = server.registry.get('digits');
  const connection = await new RawConnection(url).connected();
  for (let i = 0; i < 3; i++) connection.send(`POST ${INFER}`, { 'content-length': BODY.length }, BODY);
  connection.send('GET /v2');
  await until(() => model.waiting === 1, 'the first one waits, and the others behind it');
  connection.destroy();
  await until(() => model.waiting === 0, 'none waits');
  await isFree(url);
});

test('a caller who leaves with a body that no route reads does not end the server', async (t) => {
  const { server, url } = await someServer(t, { defaults: { maxDelayMs: 60_000, maxBatch: 64 } });
  const { model } = server.registry.get('digits');
  for (const line of ['GET /metrics', 'GET /v2/health/live', 'GET /v2', 'GET /openapi.json', 'OPTIONS /echo', 'HEAD /metrics', 'POST /echo', 'POST /refused']) {
    for (const type of ['application/json', 'x/y']) {
      const connection = await new RawConnection(url).connected();
      // Behind a request that waits, the answer waits, too.
      connection.send(`POST ${INFER}`, { 'content-length': BODY.length }, BODY);
      connection.send(line, { 'content-type': type, 'transfer-encoding': 'chunked' }, '5\r\n{"a":');
      await until(() => model.waiting === 1, 'the first request waits');
      assert.equal((await ask(`${url}/v2/health/live`, {})).status, 200);
      connection.destroy();
      await until(() => model.waiting === 0, 'it is over');
    }
  }
  await isFree(url);
});

test('what is malformed behind a request is not answered within its response', async (t) => {
  const { url } = await someServer(t, {
    setup(app) {
      const begun = new PassThrough();
      app.get('/stream', async (_, reply) => reply.send(begun));
      begun.write('first');
    },
  });
  const connection = await new RawConnection(url).connected();
  connection.send('GET /stream');
  await until(() => connection.received.includes('first'), 'the response begins');
  connection.write('no HTTP\r\n\r\n');
  await connection.closed();
  assert.doesNotMatch(connection.received, /malformed/);
  await isFree(url);
});

test('requests that come from within the process are answered, with bodies that nobody wants', async (t) => {
  const { server, url } = await someServer(t);
  const headers = { host: 'localhost', 'content-type': 'application/json' };
  for (const path of [INFER, '/echo', '/nothing', '/v2/models/none/infer', '/v1/nothing']) {
    const { statusCode } = await /** @type {import('fastify').FastifyInstance} */ (server.app).inject({ method: 'POST', url: path, payload: BODY, headers });
    assert.equal(statusCode, [INFER, '/echo'].includes(path) ? 200 : 404, path);
  }
  await isFree(url);
});

/** Requests of one run; `ABORTED_REQUESTS` asks for more. */
const REQUESTS = Number(process.env.ABORTED_REQUESTS ?? 600);

test(`${REQUESTS} callers over HTTP who leave anywhere: nothing stays held`, async (t) => {
  const { url } = await someServer(t);
  const { below, pick, chance } = generator(7);
  const paths = [
    INFER,
    '/v2/models/none/infer',
    '/echo',
    '/fails',
    '/refused',
    '/nothing',
    '/v1/embeddings',
    '/v2/repository/index',
    '/v2/health/live',
    '/metrics',
  ];
  const caller = async () => {
    const connection = await new RawConnection(url).connected();
    for (let i = below(4); i >= 0; i--) {
      const body = Buffer.from(BODY.padEnd(BODY.length + pick([0, 0, 0, 1000, 70_000, 300_000])));
      const part = body.subarray(0, pick([body.length, body.length, below(body.length)]));
      const isChunked = chance(0.3);
      const headers = {
        'content-type': pick(['application/json', 'x/y']),
        ...(isChunked ? { 'transfer-encoding': 'chunked' } : { 'content-length': body.length + pick([0, 0, 1000, 1e6]) }),
        ...(chance(0.2) && { expect: '100-continue' }),
        ...(chance(0.1) && { connection: 'upgrade', upgrade: 'websocket' }),
        ...(chance(0.1) && { 'content-encoding': 'gzip' }),
      };
      connection.send(`${pick(['POST', 'POST', 'POST', 'PUT', 'GET', 'HEAD', 'OPTIONS'])} ${pick(paths)}`, headers);
      if (isChunked)
        connection
          .write(`${part.length.toString(16)}\r\n`)
          .write(part)
          .write('\r\n')
          .write(chance(0.7) ? '0\r\n\r\n' : '');
      else connection.write(part);
    }
    await sleep(pick([0, 0, 1, 5, 30]));
    connection.destroy();
  };
  for (let i = 0; i < REQUESTS; i += 20) await Promise.all(Array.from({ length: 20 }, caller));
  await isFree(url);
});

test(`${REQUESTS} callers over gRPC who leave anywhere: nothing stays held`, async (t) => {
  const { server, url } = await someServer(t, { grpc: 0 });
  const { below, pick, chance } = generator(8);
  const input = Buffer.concat([bytesField(1, 'pixels'), bytesField(2, 'FP32'), bytesField(3, Buffer.concat([1, 1, 8, 8].map(varint)))]);
  const infer = Buffer.concat([bytesField(1, 'digits'), bytesField(5, input), bytesField(7, Buffer.alloc(256))]);
  const paths = [GRPC_INFER, GRPC_INFER, METADATA, LIVE, '/nothing', '/grpc.reflection.v1.ServerReflection/ServerReflectionInfo'];
  const caller = async (/** @type {http2.ClientHttp2Session} */ session) => {
    const headers = { 'grpc-encoding': pick(['gzip', 'identity']), ...(chance(0.1) && { 'grpc-timeout': pick(['1m', 'x', '0m']) }) };
    const { stream } = begin(session, pick(paths), headers);
    const bytes = envelope(Buffer.concat([infer, bytesField(9, Buffer.alloc(pick([0, 100_000])))]), { isCompressed: chance(0.1) });
    stream.resume().write(bytes.subarray(0, pick([bytes.length, bytes.length, below(bytes.length)])));
    if (chance(0.5)) stream.end();
    await sleep(pick([0, 0, 1, 5, 30]));
    if (chance(0.5)) stream.close(http2.constants.NGHTTP2_CANCEL);
  };
  for (let i = 0; i < REQUESTS; i += 40) {
    const session = http2.connect(server.urls.grpc.replace('grpc', 'http')).on('error', () => undefined);
    await Promise.all(Array.from({ length: 40 }, () => caller(session)));
    session.destroy();
  }
  await isFree(url);
});
