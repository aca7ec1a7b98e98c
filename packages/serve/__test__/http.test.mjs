import assert from 'node:assert/strict';
import { once } from 'node:events';
import { request } from 'node:http';
import { connect } from 'node:net';
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import test from 'node:test';
import { gzipSync } from 'node:zlib';
import pino from 'pino';
import { until } from '../../../__test__/lib/wait.mjs';
import { DOUBLE, FLOAT, node, value, weight, writeModel } from '../../../__test__/onnx/model-writer.mjs';
import { DIGITS, PICTURE, post, postJson, repositoryOf, startServer, wordsFiles } from './support.mjs';

/** A server with one model for digits. */
async function digitsServer(t, options = {}) {
  const server = await startServer(t, { models: repositoryOf(t, { 'digits/1/model.onnx': DIGITS }), ...options });
  return { server, url: server.urls.http, infer: `${server.urls.http}/v2/models/digits/infer` };
}

const getJson = async (url) => (await fetch(url)).json();

test('says what it is and has', async (t) => {
  const { url } = await digitsServer(t);
  const { name, extensions } = await getJson(`${url}/v2`);
  assert.equal(name, 'webnn-node-serve');
  assert.ok(extensions.includes('binary_tensor_data'));
  assert.deepEqual(await getJson(`${url}/v2/health/live`), { live: true });
  assert.deepEqual(await getJson(`${url}/v2/health/ready`), { ready: true, live: true });
  assert.deepEqual(await getJson(`${url}/v2/models/digits/versions/1/ready`), { name: 'digits', ready: true });
  assert.deepEqual(await getJson(`${url}/v2/models/digits`), {
    name: 'digits',
    versions: ['1'],
    platform: 'onnx_webnn-node',
    inputs: [{ name: 'pixels', datatype: 'FP32', shape: [-1, 1, 8, 8] }],
    outputs: [{ name: 'probabilities', datatype: 'FP32', shape: [-1, 10] }],
  });
  assert.deepEqual(await getJson(`${url}/v1/models`), { object: 'list', data: [] });
});

test('says what of a model with doubles is computed in float32', async (t) => {
  const model = writeModel({
    inputs: [value('seconds', DOUBLE, ['n'])],
    outputs: [value('rest', DOUBLE, ['n'])],
    weights: [weight('day', [], Float64Array.of(86400), DOUBLE)],
    nodes: [node('Mod', ['seconds', 'day'], ['rest'], { fmod: { i: 1 } }, 'modulo')],
  });
  /** @type {any[]} */
  const lines = [];
  const log = pino({}, { write: (line) => lines.push(JSON.parse(line)) });
  const { urls } = await startServer(t, { models: repositoryOf(t, { 'days/1/model.onnx': model }), log });
  const warnings = lines.filter(({ level }) => level === pino.levels.values.warn);
  assert.deepEqual(
    warnings.map(({ model: name, msg }) => [name, msg]),
    [['days', 'FP64 is computed in float32: inputs seconds; outputs rest; nodes modulo']],
  );
  const inputs = [{ name: 'seconds', datatype: 'FP64', shape: [2], data: [43200, 172800] }];
  const { json } = await postJson(`${urls.http}/v2/models/days/infer`, { inputs });
  assert.deepEqual(json.outputs, [{ name: 'rest', datatype: 'FP64', shape: [2], data: [43200, 0] }]);
  const bytes = await post(`${urls.http}/v2/models/days/infer`, { inputs, outputs: [{ name: 'rest', parameters: { binary_data: true } }] });
  const head = Number(bytes.headers.get('inference-header-content-length'));
  assert.deepEqual([...new Float64Array(Uint8Array.from(bytes.bytes.subarray(head)).buffer)], [43200, 0]);
  assert.deepEqual(await getJson(`${urls.http}/v2/models/days`), {
    name: 'days',
    versions: ['1'],
    platform: 'onnx_webnn-node',
    inputs: [{ name: 'seconds', datatype: 'FP64', shape: [-1] }],
    outputs: [{ name: 'rest', datatype: 'FP64', shape: [-1] }],
    properties: { computed_as_fp32_inputs: 'seconds', computed_as_fp32_outputs: 'rest', computed_as_fp32_nodes: 'modulo' },
  });
});

test('requests at the same time give the answers of single ones, in fewer computations', async (t) => {
  // Without a delay, runs as short as these leave no request waiting that others could join.
  const models = repositoryOf(t, { 'digits/1/model.onnx': DIGITS, 'digits/model.json': { maxDelayMs: 5 } });
  const { url, infer } = await digitsServer(t, { models });
  const pictures = Array.from({ length: 40 }, (_, n) => ({ ...PICTURE, data: PICTURE.data.map((value) => (value * (n + 3)) % 17) }));
  const alone = [];
  for (const picture of pictures) alone.push((await postJson(infer, { inputs: [picture] })).json.outputs[0].data);
  const together = await Promise.all(pictures.map((picture) => postJson(infer, { inputs: [picture] })));
  // A batch is another product of matrices: its sums have another order.
  together.forEach(({ json }, n) => {
    json.outputs[0].data.forEach((value, i) => assert.ok(Math.abs(value - alone[n][i]) < 1e-5));
  });
  const metrics = await (await fetch(`${url}/metrics`)).text();
  const valueOf = (name) => Number(new RegExp(`^${name}\\{model="digits",version="1"\\} (\\d+)$`, 'm').exec(metrics)?.[1]);
  assert.equal(valueOf('nv_inference_request_success'), 80);
  assert.equal(valueOf('nv_inference_count'), 80);
  assert.ok(valueOf('nv_inference_exec_count') < 80);
  assert.ok(valueOf('nv_inference_compute_infer_duration_us') > 0);
  assert.match(metrics, /^nodejs_eventloop_lag_seconds/m);
});

test('requests are not joined where the size of a batch is set', async (t) => {
  const repository = repositoryOf(t, { 'digits/model.onnx': DIGITS, 'digits/model.json': { freeDimensions: { batch: 1 }, maxDelayMs: 20 } });
  const warnings = [];
  const log = /** @type {any} */ (pino({ level: 'warn' }, { write: (line) => warnings.push(line) }));
  const { urls } = await startServer(t, { models: repository, log });
  const answers = await Promise.all(Array.from({ length: 4 }, () => post(`${urls.http}/v2/models/digits/infer`, { inputs: [PICTURE] })));
  assert.deepEqual(
    answers.map(({ status }) => status),
    [200, 200, 200, 200],
  );
  assert.deepEqual(warnings, []);
});

test('one wrong request does not harm others', async (t) => {
  const { infer } = await digitsServer(t);
  const wrong = [
    { ...PICTURE, shape: [1, 1, 8, 9] },
    { ...PICTURE, datatype: 'FP64' },
    { ...PICTURE, name: 'x' },
  ];
  const answers = await Promise.all([...wrong, PICTURE, PICTURE].map((input) => postJson(infer, { inputs: [input] })));
  assert.deepEqual(
    answers.map(({ status }) => status),
    [400, 400, 400, 200, 200],
  );
});

test('bodies come compressed, with any type or none', async (t) => {
  const { infer } = await digitsServer(t);
  const body = gzipSync(JSON.stringify({ inputs: [PICTURE] }));
  assert.equal((await post(infer, body, { 'content-encoding': 'gzip' })).status, 200);
  assert.equal((await post(infer, body, { 'content-encoding': 'br' })).status, 400);
  assert.equal((await post(infer, body.subarray(0, 20), { 'content-encoding': 'gzip' })).status, 400);
  for (const type of ['text/plain', 'application/octet-stream', 'x/y'])
    assert.equal((await post(infer, { inputs: [PICTURE] }, { 'content-type': type })).status, 200);
});

test('a body beyond the limit is refused, also one that only grows when it is unpacked', async (t) => {
  const { infer } = await digitsServer(t, { limits: { maxBodyBytes: 10_000 } });
  assert.equal((await post(infer, Buffer.alloc(10_001))).status, 413);
  assert.equal((await post(infer, gzipSync(Buffer.alloc(1_000_000)), { 'content-encoding': 'gzip' })).status, 413);
});

test('embeddings of more texts than a request may have are refused in both protocols', async (t) => {
  const { urls } = await startServer(t, { models: repositoryOf(t, wordsFiles('words')) });
  const texts = Array(2049).fill('a');
  const inputs = [{ name: 'text', shape: [texts.length], datatype: 'BYTES', data: texts }];
  assert.equal((await postJson(`${urls.http}/v2/models/words/infer`, { inputs })).status, 400);
  assert.equal((await postJson(`${urls.http}/v1/embeddings`, { model: 'words', input: texts })).status, 400);
});

test('what there is not is an error in the form of the protocol', async (t) => {
  const { url } = await digitsServer(t);
  const unknown = await postJson(`${url}/v2/models/none/infer`, { inputs: [] });
  assert.deepEqual(unknown, { status: 404, json: { error: 'there is no model "none", the server has "digits"' } });
  assert.equal((await postJson(`${url}/v2/models/digits/versions/2/infer`, { inputs: [] })).status, 404);
  assert.equal((await postJson(`${url}/v3`, {})).status, 404);
  for (const name of ['..%2f..%2fetc%2fpasswd', '%00', '__proto__', 'constructor', '.', '%E0%A4%A']) {
    assert.ok([400, 404].includes((await postJson(`${url}/v2/models/${name}/infer`, { inputs: [PICTURE] })).status), name);
  }
  const openai = await postJson(`${url}/v1/embeddings`, { model: 'none', input: 'a' });
  assert.equal(openai.status, 404);
  assert.deepEqual(openai.json.error, {
    message: 'there is no model "none", the server has "digits"',
    type: 'invalid_request_error',
    param: 'model',
    code: 'model_not_found',
  });
});

test('request ids are kept where a header can have them', async (t) => {
  const { infer } = await digitsServer(t);
  const idOf = async (id) => (await post(infer, { inputs: [PICTURE] }, { 'x-request-id': id })).headers.get('x-request-id');
  assert.equal(await idOf('abc-1'), 'abc-1');
  const made = [await idOf('a b'), await idOf('x'.repeat(129)), await idOf('')];
  for (const id of made) assert.match(String(id), /^[0-9a-f]{12}-[0-9a-z]+$/);
  assert.equal(new Set(made).size, 3);
});

test('bytes that are no HTTP get an answer, and the server goes on', async (t) => {
  const { server, infer } = await digitsServer(t);
  const { port } = new URL(server.urls.http);
  for (const text of ['nonsense\r\n\r\n', `GET / HTTP/1.1\r\n${'a: b\r\n'.repeat(50_000)}\r\n`, 'POST /v2 HTTP/1.1\r\nContent-Length: -1\r\n\r\n']) {
    const socket = connect(Number(port));
    socket.on('error', () => undefined);
    socket.write(text);
    const [answer] = await once(socket, 'data');
    assert.match(answer.toString(), /^HTTP\/1\.1 4\d\d /);
    socket.destroy();
  }
  assert.equal((await post(infer, { inputs: [PICTURE] })).status, 200);
});

test('a body that does not come ends the connection', async (t) => {
  const { server } = await digitsServer(t, { limits: { requestTimeoutMs: 200 } });
  const { port } = new URL(server.urls.http);
  const socket = connect(Number(port));
  socket.write('POST /v2/models/digits/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{');
  const [answer] = await once(socket, 'data');
  assert.match(answer.toString(), /^HTTP\/1\.1 408 /);
  socket.destroy();
});

test('an answer may take longer than a connection may be idle', async (t) => {
  const { infer } = await digitsServer(t, { limits: { idleTimeoutMs: 100 }, defaults: { maxDelayMs: 500 } });
  assert.equal((await post(infer, { inputs: [PICTURE] })).status, 200);
});

test('a connection on which nothing moves is closed', async (t) => {
  const { server } = await digitsServer(t, { limits: { idleTimeoutMs: 100 } });
  const socket = connect(Number(new URL(server.urls.http).port));
  await once(socket.resume(), 'close');
});

test('answers that nobody reads do not fill the memory', async (t) => {
  const { infer } = await digitsServer(t, { limits: { maxUnreadBytes: 100 } });
  const { status, json } = await postJson(infer, { inputs: [PICTURE] });
  assert.deepEqual({ status, json }, { status: 503, json: { error: 'too many responses wait to be read' } });
});

test('answers to callers who have gone do not count as unread', async (t) => {
  const { infer } = await digitsServer(t, { limits: { maxUnreadBytes: 1000 }, defaults: { maxDelayMs: 100 } });
  for (let i = 0; i < 40; i++)
    await assert.rejects(fetch(infer, { method: 'POST', body: JSON.stringify({ inputs: [PICTURE] }), signal: AbortSignal.timeout(20) }));
  assert.equal((await post(infer, { inputs: [PICTURE] })).status, 200);
});

test('requests that are sent ahead of the responses wait, and hold nothing when their connection is gone', async (t) => {
  const { server, infer } = await digitsServer(t, { limits: { maxBytesInFlight: 10_000 }, defaults: { maxDelayMs: 60_000, maxBatch: 4 } });
  const { model } = server.registry.get('digits');
  const { port, pathname } = new URL(infer);
  const body = JSON.stringify({ inputs: [PICTURE] });
  const one = `POST ${pathname} HTTP/1.1\r\nHost: localhost\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
  for (let i = 0; i < 20; i++) {
    const socket = connect(Number(port));
    socket.write(one.repeat(3));
    await until(() => model.waiting === 1, 'the first request waits for others to join');
    socket.destroy();
    await until(() => model.waiting === 0, 'nobody waits any more');
  }
  const socket = connect(Number(port));
  let text = '';
  socket.on('data', (bytes) => {
    text += bytes;
  });
  socket.write('GET /v2 HTTP/1.1\r\nHost: localhost\r\n\r\n'.repeat(100));
  await until(() => text.split('HTTP/1.1 200').length === 101, 'each has its response');
  socket.destroy();
  const answers = await Promise.all(Array.from({ length: 4 }, () => post(infer, { inputs: [PICTURE] })));
  assert.deepEqual(new Set(answers.map(({ status }) => status)), new Set([200]));
});

test('models are loaded and unloaded', async (t) => {
  const { url, infer } = await digitsServer(t);
  const control = (action) => postJson(`${url}/v2/repository/models/digits/${action}`, {});
  assert.equal((await control('unload')).status, 200);
  assert.equal((await post(infer, { inputs: [PICTURE] })).status, 503);
  assert.deepEqual((await postJson(`${url}/v2/repository/index`, {})).json, [{ name: 'digits', version: '1', state: 'UNAVAILABLE', reason: 'unloaded' }]);
  assert.equal((await control('load')).status, 200);
  assert.equal((await post(infer, { inputs: [PICTURE] })).status, 200);
  assert.equal((await postJson(`${url}/v2/repository/models/none/load`, {})).status, 404);
});

test('a model is replaced while it is asked, and no request fails', async (t) => {
  const { url, infer } = await digitsServer(t);
  let isDone = false;
  const asking = (async () => {
    const statuses = new Set();
    while (!isDone) statuses.add((await post(infer, { inputs: [PICTURE] })).status);
    return statuses;
  })();
  for (let i = 0; i < 5; i++) await postJson(`${url}/v2/repository/models/digits/load`, {});
  isDone = true;
  assert.deepEqual([...(await asking)], [200]);
});

test('a model is replaced while a request of several parts is computed', async (t) => {
  const server = await startServer(t, { models: repositoryOf(t, wordsFiles('words')), defaults: { maxBatch: 1 } });
  const url = server.urls.http;
  const input = Array.from({ length: 2000 }, (_, i) => ['a dog', 'bread with cheese', 'the train'][i % 3]);
  const asked = postJson(`${url}/v1/embeddings`, { model: 'words', input });
  const computed = async () => Number(/^nv_inference_exec_count\{model="words",version="1"\} (\d+)$/m.exec(await (await fetch(`${url}/metrics`)).text())?.[1]);
  await until(async () => (await computed()) > 0, 'the request is computed');
  assert.equal((await postJson(`${url}/v2/repository/models/words/load`, {})).status, 200);
  const { status, json } = await asked;
  assert.equal(status, 200, JSON.stringify(json).slice(0, 200));
  assert.equal(json.data.length, 2000);
});

test('models are loaded through the network only where that is allowed', async (t) => {
  const { url } = await digitsServer(t, { control: false });
  assert.equal((await postJson(`${url}/v2/repository/models/digits/unload`, {})).status, 403);
});

test('close answers what has begun', async (t) => {
  const { server, infer } = await digitsServer(t, { defaults: { maxDelayMs: 500, maxBatch: 64 } });
  const { model } = server.registry.get('digits');
  const asked = Array.from({ length: 20 }, () => post(infer, { inputs: [PICTURE] }));
  await until(() => model.waiting === 20, 'all requests wait for others to join');
  const closed = server.close();
  assert.deepEqual(new Set((await Promise.all(asked)).map(({ status }) => status)), new Set([200]));
  await closed;
  await assert.rejects(fetch(infer));
});

test('who never ends a request does not hold up the end of the server', async (t) => {
  const { server } = await digitsServer(t, { limits: { drainMs: 100 } });
  const socket = connect(Number(new URL(server.urls.http).port));
  socket.on('error', () => undefined);
  const gone = once(socket, 'close');
  socket.write('POST /v2/models/digits/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{');
  await once(socket, 'connect');
  await post(`${server.urls.http}/v2/models/digits/infer`, { inputs: [PICTURE] });
  await server.close();
  await gone;
});

test('a model that cannot be loaded is said to be unavailable, others serve', async (t) => {
  const repository = repositoryOf(t, {
    'digits/1/model.onnx': DIGITS,
    'broken/1/model.onnx': { not: 'a model' },
    'wrong/1/model.onnx': DIGITS,
    'wrong/model.json': { maxBatch: 0 },
  });
  /** @type {string[]} */
  const lines = [];
  const log = /** @type {any} */ (pino({ level: 'error' }, { write: (line) => lines.push(line) }));
  const server = await startServer(t, { models: repository, log });
  const { json } = await postJson(`${server.urls.http}/v2/repository/index`, {});
  assert.deepEqual(
    json.map(({ name, state }) => [name, state]),
    [
      ['broken', 'UNAVAILABLE'],
      ['digits', 'READY'],
      ['wrong', 'UNAVAILABLE'],
    ],
  );
  // The reasons name files, and stay in the log.
  for (const { reason } of [json[0], json[2]]) assert.equal(reason, "the model could not be loaded; see the server's log");
  const reload = await postJson(`${server.urls.http}/v2/repository/models/broken/load`, {});
  assert.deepEqual(reload, { status: 400, json: { error: `model "broken" could not be loaded; see the server's log` } });
  const { status, json: answer } = await postJson(`${server.urls.http}/v2/models/broken/infer`, { inputs: [] });
  assert.equal(status, 503);
  assert.equal(answer.error, `model "broken" is not ready: the model could not be loaded; see the server's log`);
  const logged = lines.map((line) => JSON.parse(line)).filter(({ msg }) => msg === 'model not loaded');
  assert.ok(logged.some(({ err }) => /wrong\/model.json: maxBatch is 0, expected a whole number from 1/.test(err.message)));
});

test('a folder that is itself a model has the name that is given', async (t) => {
  const repository = repositoryOf(t, { '1/model.onnx': DIGITS });
  const server = await startServer(t, { models: repository, name: 'given' });
  assert.deepEqual(
    server.registry.ready.map(({ name, version }) => [name, version]),
    [['given', '1']],
  );
  await server.registry.load('given');
  assert.equal((await postJson(`${server.urls.http}/v2/models/given/infer`, { inputs: [PICTURE] })).status, 200);
});

test('what a volume has beside the models does not stop the server', async (t) => {
  // Root can read all: what is not a folder with models stands for what nobody may read.
  const repository = repositoryOf(t, { 'digits/1/model.onnx': DIGITS, 'lost+found/1/model.onnx': DIGITS, '..data/1/model.onnx': DIGITS });
  const server = await startServer(t, { models: repository });
  assert.deepEqual(
    server.registry.versions.map(({ name }) => name),
    ['digits'],
  );
});

test('pages of other origins, and names that point here, are refused', async (t) => {
  const { url } = await digitsServer(t);
  const { host, port } = new URL(url);
  const ask = (headers) =>
    new Promise((resolve, reject) => {
      const asked = request(`${url}/v2`, { headers }, (response) => {
        response.resume();
        resolve(response.statusCode);
      });
      asked.on('error', reject).end();
    });
  assert.equal(await ask({}), 200);
  assert.equal(await ask({ host: `localhost:${port}` }), 200);
  assert.equal(await ask({ origin: `http://${host}` }), 200);
  assert.equal(await ask({ origin: 'https://example.com' }), 403);
  assert.equal(await ask({ origin: 'null' }), 403);
  assert.equal(await ask({ host: `example.com:${port}` }), 403);
  assert.equal(await ask({ host: `example.com:${port}`, origin: `http://example.com:${port}` }), 403);
});

test('with a key, only those who have it are answered', async (t) => {
  const { url, infer } = await digitsServer(t, { apiKey: 'k' });
  const statusOf = async (authorization) => (await post(infer, { inputs: [PICTURE] }, authorization === undefined ? {} : { authorization })).status;
  assert.deepEqual(await Promise.all([undefined, 'k', 'Bearer', 'Bearer x', 'Bearer k'].map(statusOf)), [401, 401, 401, 401, 200]);
  const { json } = await postJson(`${url}/v1/embeddings`, { model: 'digits', input: 'a' });
  assert.equal(json.error.code, 'invalid_api_key');
  assert.deepEqual(await getJson(`${url}/v2/health/live`), { live: true });
  assert.equal((await fetch(`${url}/metrics`)).status, 200);
});

test('placeholders are free sizes, and no batch; optional inputs may be sent', async (t) => {
  const repository = repositoryOf(t, { 'digits/model.onnx': DIGITS });
  const model = writeModel({
    inputs: [value('x', FLOAT, ['?', '?']), value('w', FLOAT, [1])],
    outputs: [value('y', FLOAT, ['?', '?'])],
    nodes: [node('Mul', ['x', 'w'], ['y'])],
    weights: [weight('w', [1], Float32Array.of(2))],
  });
  writeFileSync(path.join(repository, 'pixels.onnx'), model);
  // The same with a real batch, which is joined.
  const named = (shape) => [value('x', FLOAT, shape), value('w', FLOAT, [1])];
  writeFileSync(
    path.join(repository, 'rows.onnx'),
    writeModel({
      inputs: named(['batch', 2]),
      outputs: [value('y', FLOAT, ['batch', 2])],
      nodes: [node('Mul', ['x', 'w'], ['y'])],
      weights: [weight('w', [1], Float32Array.of(2))],
    }),
  );
  const { urls } = await startServer(t, { models: repository });
  const metadata = await getJson(`${urls.http}/v2/models/pixels`);
  assert.deepEqual(
    [metadata.inputs, metadata.outputs],
    [[{ name: 'x', datatype: 'FP32', shape: [-1, -1] }], [{ name: 'y', datatype: 'FP32', shape: [-1, -1] }]],
  );
  const tensor = (name, shape, data) => ({ name, shape, datatype: 'FP32', data });
  const infer = async (name, inputs) => (await postJson(`${urls.http}/v2/models/${name}/infer`, { inputs })).json.outputs[0];
  const w = tensor('w', [1], [10]);
  for (const name of ['pixels', 'rows']) {
    const answers = await Promise.all([
      infer(name, [tensor('x', [1, 2], [1, 2])]),
      infer(name, [tensor('x', [2, 2], [3, 4, 5, 6])]),
      infer(name, [tensor('x', [1, 2], [7, 8]), w]),
      infer(name, [w, tensor('x', [2, 2], [1, 1, 2, 2])]),
    ]);
    assert.deepEqual(
      answers.map(({ shape, data }) => [shape, data]),
      [
        [
          [1, 2],
          [2, 4],
        ],
        [
          [2, 2],
          [6, 8, 10, 12],
        ],
        [
          [1, 2],
          [70, 80],
        ],
        [
          [2, 2],
          [10, 10, 20, 20],
        ],
      ],
    );
  }
  assert.deepEqual((await infer('pixels', [tensor('x', [1, 3], [1, 2, 3])])).data, [2, 4, 6]);
  const wrong = await postJson(`${urls.http}/v2/models/pixels/infer`, { inputs: [tensor('x', [1, 2], [1, 2]), tensor('w', [2], [1, 2])] });
  assert.deepEqual(wrong, { status: 400, json: { error: 'input "w" is [2], expected [1]' } });
});
