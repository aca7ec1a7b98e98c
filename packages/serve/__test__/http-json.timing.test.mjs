// How long JSON that callers send stops everybody else.

import assert from 'node:assert/strict';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import test from 'node:test';
import { END, LIST, MIB, modelServer, repeated } from './json-support.mjs';
import { post, postJson } from './support.mjs';

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
