import assert from 'node:assert/strict';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import test from 'node:test';
import { FLOAT, node, value, weight, writeModel } from '../../../__test__/onnx/model-writer.mjs';
import { until } from '../../../__test__/lib/wait.mjs';
import { ByteBudget } from '../lib/byte-budget.js';
import { JsonThread } from '../lib/json/thread.js';
import { DIGITS, post, postJson, repositoryOf, startServer, wordsFiles } from './support.mjs';

const MIB = 2 ** 20;

/** Doubles each number of `x` [n]. */
const DOUBLE_IT = writeModel({
  inputs: [value('x', FLOAT, ['n'])],
  outputs: [value('y', FLOAT, ['n'])],
  nodes: [node('Mul', ['x', 'two'], ['y'])],
  weights: [weight('two', [1], Float32Array.of(2))],
});

/** A server whose tests may stop its thread themselves: they parse there for comparison. */
async function modelServer(t) {
  const repository = repositoryOf(t, { 'digits/1/model.onnx': DIGITS, 'double/1/model.onnx': DOUBLE_IT, ...wordsFiles('words') });
  const { urls } = await startServer(t, { models: repository, limits: { maxEventLoopDelayMs: 0 } });
  return { url: urls.http, infer: `${urls.http}/v2/models/double/infer` };
}

/** A text of a length that consists of a part again and again. */
const repeated = (/** @type {string} */ before, /** @type {string} */ part, /** @type {string} */ after, /** @type {number} */ bytes) =>
  Buffer.from(before + part.repeat(Math.floor((bytes - before.length - after.length) / part.length)) + after);

/**
 * The longest time in which nothing else happens, in milliseconds.
 * @param {() => Promise<unknown>} run
 */
async function longestStop(run) {
  const delays = monitorEventLoopDelay({ resolution: 1 });
  delays.enable();
  await run();
  delays.disable();
  return delays.max / 1e6;
}

/**
 * The shortest of some longest stops: what else runs on the machine stops this process, too.
 * @param {() => Promise<unknown>} run
 */
async function leastStop(run) {
  const stops = [];
  for (let i = 0; i < 4; i++) stops.push(await longestStop(run));
  return Math.min(...stops);
}

/** How long the main thread would parse, in milliseconds. @param {Buffer} body */
function parseMs(body) {
  const start = performance.now();
  JSON.parse(body.toString());
  return performance.now() - start;
}

const v2 = (/** @type {string} */ data) => [`{"inputs":[{"name":"x","datatype":"FP32","shape":[1],"data":${data}`, '}]}'];
const [LIST, END] = v2('[');
const fitting = (/** @type {string} */ begin, /** @type {string} */ part, /** @type {number} */ count) =>
  Buffer.from(`{"inputs":[{"name":${begin},"shape":[${count}],"data":[${part.repeat(count).slice(0, -1)}]}]}`);
const HOSTILE = {
  'objects in v2': ['/v2/models/double/infer', repeated(LIST, '{},', `{}]${END}`, 4 * MIB)],
  'lists in v2': ['/v2/models/double/infer', repeated(LIST, '[],', `[]]${END}`, 8 * MIB)],
  'inputs in v2': ['/v2/models/double/infer', repeated('{"inputs":[', '{"name":"","datatype":"FP32","shape":[1],"data":[1]},', '{}]}', 8 * MIB)],
  'outputs in v2': ['/v2/models/double/infer', repeated('{"inputs":[],"outputs":[', '{"name":"y"},', '{"name":"y"}]}', 8 * MIB)],
  'texts in v2': ['/v2/models/words/infer', repeated('{"inputs":[{"name":"text","datatype":"BYTES","shape":[1],"data":[', '"",', '""]}]}', 8 * MIB)],
  'as many texts as are parsed': ['/v2/models/words/infer', fitting('"text","datatype":"BYTES"', '"",', 900_000)],
  'as many lists as are parsed': ['/v2/models/words/infer', fitting('"x","datatype":"FP32"', '[],', 900_000)],
  'as many tokens as are allowed': ['/v1/embeddings', repeated('{"model":"words","input":[', '1,', '1]}', 4 * MIB - 10)],
  'objects for the index': ['/v2/repository/index', repeated('[', '{},', '{}]', 4 * MIB - 10)],
  'objects for OpenAI': ['/v1/embeddings', repeated('{"model":"words","input":[', '{},', '{}]}', 4 * MIB)],
  'members that OpenAI does not have': ['/v1/embeddings', repeated('{"model":"words","input":"a dog","other":[', '{},', '{}]}', 4 * MIB)],
  'lists for OpenAI': ['/v1/completions', repeated('{"model":"words","prompt":[', '[],', '[]]}', 4 * MIB)],
  'objects for a chat': ['/v1/chat/completions', repeated('{"model":"words","messages":[', '{},', '{}]}', 4 * MIB)],
};

for (const [what, [path, body]] of Object.entries(HOSTILE)) {
  test(`${what}: ${Math.round(body.length / MIB)} MiB of JSON stop nobody else`, async (t) => {
    const { url } = await modelServer(t);
    const parse = parseMs(/** @type {Buffer} */ (body));
    let status;
    const stop = await leastStop(async () => ({ status } = await post(url + path, body)));
    assert.ok([400, 413].includes(Number(status)) || what.startsWith('members'), `status ${status}`);
    t.diagnostic(`longest stop ${stop.toFixed(0)} ms, parsing takes ${parse.toFixed(0)} ms; status ${status}`);
    const most = Math.max(100, parse / 2);
    assert.ok(stop < most, `the longest stop of ${stop} ms is above ${most} ms; parsing takes ${parse} ms`);
  });
}

test('16 MiB of numbers stop nobody else, neither as they come nor as they go', async (t) => {
  const { infer } = await modelServer(t);
  const before = '{"inputs":[{"name":"x","datatype":"FP32","shape":[COUNT],"data":[0';
  const count = Math.floor((16 * MIB - before.length - 10) / 5) + 1;
  const body = Buffer.from(`${before.replace('COUNT', String(count))}${',0.75'.repeat(count - 1)}]}]}`);
  const parse = parseMs(body);
  let response;
  const stop = await leastStop(async () => (response = await post(infer, body)));
  const { status, bytes } = /** @type {Awaited<ReturnType<typeof post>>} */ (/** @type {unknown} */ (response));
  assert.equal(status, 200, bytes.toString().slice(0, 200));
  const { data, shape } = JSON.parse(bytes.toString()).outputs[0];
  assert.deepEqual([shape, data.length, data[0], data.at(-1)], [[count], count, 0, 1.5]);
  t.diagnostic(`longest stop ${stop.toFixed(0)} ms, parsing takes ${parse.toFixed(0)} ms`);
  assert.ok(stop < parse, `the longest stop of ${stop} ms is more than the ${parse} ms that parsing alone takes`);
});

test('vectors of many texts stop nobody else while they are written', async (t) => {
  const { url } = await modelServer(t);
  const input = Array(2048).fill('a dog');
  const ask = async (/** @type {string} */ encoding_format) => (await postJson(`${url}/v1/embeddings`, { model: 'words', input, encoding_format })).json.data;
  const [floats, texts] = [await ask('float'), await ask('base64')];
  assert.equal(floats.length, 2048);
  const first = Buffer.from(texts[0].embedding, 'base64');
  assert.deepEqual(Float32Array.from(floats[0].embedding), new Float32Array(new Uint8Array(first).buffer));
});

test('long JSON is read and written as short JSON and raw bytes are', async (t) => {
  const { infer } = await modelServer(t);
  const x = Float32Array.from({ length: 50_000 }, (_, i) => Math.sin(i) * 2 ** ((i % 40) - 20));
  const input = { name: 'x', datatype: 'FP32', shape: [x.length] };
  const bytes = Buffer.from(x.buffer);
  const inputs = [{ ...input, parameters: { binary_data_size: bytes.length } }];
  const head = Buffer.from(JSON.stringify({ inputs, parameters: { binary_data_output: true } }));
  // A long head before raw bytes goes to the thread with them.
  const longHead = Buffer.from(JSON.stringify({ inputs, parameters: { binary_data_output: true, note: ' '.repeat(100_000) } }));
  for (const binaryHead of [head, longHead]) {
    const raw = await post(infer, Buffer.concat([binaryHead, bytes]), { 'inference-header-content-length': String(binaryHead.length) });
    assert.equal(raw.status, 200, raw.bytes.toString().slice(0, 200));
    const start = Number(raw.headers.get('inference-header-content-length'));
    const expected = new Float32Array(new Uint8Array(raw.bytes.subarray(start)).buffer);
    assert.deepEqual(
      expected,
      x.map((value) => 2 * value),
    );
    const { status, json } = await postJson(infer, { id: 'long', inputs: [{ ...input, data: Array.from(x) }] });
    assert.deepEqual([status, json.id, json.outputs[0].shape], [200, 'long', [x.length]]);
    assert.deepEqual(Float32Array.from(json.outputs[0].data), expected);
  }
  const wrong = Array.from(x, (value, i) => (i === 40_000 ? 'x' : value));
  assert.deepEqual(await postJson(infer, { inputs: [{ ...input, data: wrong }] }), {
    status: 400,
    json: { error: 'input "x": element 40000 is "x", expected a value of type FP32' },
  });
  const infinite = { ...input, data: Array.from(x, () => 3e38) };
  const { status, json } = await postJson(infer, { inputs: [infinite] });
  assert.deepEqual([status, json.error], [400, 'output "y": JSON cannot write Infinity of type FP32; ask for raw bytes with binary_data']);
});

test('JSON whose values take too much memory is refused before they do', async (t) => {
  const { infer } = await modelServer(t);
  const data = Array(50_000).fill(0.5);
  const good = JSON.stringify({ inputs: [{ name: 'x', datatype: 'FP32', shape: [data.length], data }] });
  const most = 16 * MIB - 10;
  const bad = [
    repeated(LIST, '{},', `{}]${END}`, most),
    repeated(LIST, '[[],[]],', `[]]${END}`, most),
    Buffer.from('['.repeat(most)),
    repeated('{', '"":"",', '"a":1}', most),
  ];
  const requests = [good, bad[0], good, bad[1], bad[2], good, bad[3], good];
  const answers = await Promise.all(requests.map((body) => postJson(infer, body)));
  for (const [i, { status, json }] of answers.entries()) {
    if (requests[i] === good) assert.equal(status, 200);
    else assert.deepEqual([status, json.error], [413, 'the JSON has more than 1048576 objects, lists and texts; send tensors as raw bytes']);
  }
  // Brackets within texts are no lists.
  const quoted = JSON.stringify({ inputs: [{ name: 'x', datatype: 'FP32', shape: [1], data: [1] }], id: '[\\"{'.repeat(MIB) });
  assert.equal((await post(infer, quoted)).status, 200);
});

test('a thread that ends by accident is started again, and no other task is lost', async (t) => {
  const bodies = new ByteBudget(64 * MIB);
  const thread = new JsonThread(bodies);
  t.after(() => thread.close());
  const { signal } = new AbortController();
  const long = () => Buffer.concat([Buffer.from('{"inputs":[],"id":"'), Buffer.alloc(100_000, 'x'), Buffer.from('"}')]);
  const tasks = ['v2', 'no kind', 'v2', 'no kind', 'v2'].map((kind) => thread.read(kind, long(), signal));
  const outcomes = await Promise.allSettled(tasks);
  assert.deepEqual(
    outcomes.map(({ status }) => status),
    ['fulfilled', 'rejected', 'fulfilled', 'rejected', 'fulfilled'],
  );
  await assert.rejects(tasks[1], { kind: 'internal' });
  assert.equal(bodies.held, 0);
  const gone = new AbortController();
  const waits = [thread.read('v2', long(), signal), thread.read('v2', long(), gone.signal)];
  gone.abort();
  await assert.rejects(waits[1], { kind: 'canceled' });
  assert.equal((await waits[0]).id.length, 100_000);
});

test('the thread ends when nobody needs it, and starts again', async () => {
  const thread = new JsonThread(new ByteBudget(2 ** 30), 50);
  const read = () => thread.read('v2', Buffer.from(JSON.stringify({ inputs: [], id: 'x'.repeat(2 ** 17) })), new AbortController().signal);
  for (let i = 0; i < 2; i++) {
    assert.equal((await read()).id.length, 2 ** 17);
    assert.equal(thread.isRunning, true);
    await until(() => !thread.isRunning, 'the thread has ended');
  }
});
