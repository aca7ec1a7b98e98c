// One sample of `npm run bench -- border`: what a token of a decoder with many caches costs the JavaScript thread. Prints JSON.

import { existsSync, readFileSync } from 'node:fs';
import { loadModel } from 'webnn-node/onnx';
import { FLOAT, INT64, node, value, weight, writeModel } from '../../__test__/onnx/model-writer.mjs';

/** @type {{ layers: number, tokens: number, heads: number, size: number, grouped: boolean, constant?: boolean }} */
const { layers, tokens, heads, size, grouped, constant = false } = JSON.parse(process.argv[2]);

const VOCABULARY = 64;

/** Tokens after which all JavaScript is compiled: until then, the compiler itself takes memory. */
const WARMUP = 1000;

const CACHES = Array.from({ length: layers }, (_, layer) => [`${layer}.key`, `${layer}.value`]).flat();

/** Positions of a cache that does not grow. */
const CONSTANT_LENGTH = 8;

/** Whether a cache keeps its length, as those of cross attention do: half of them, if any. */
const isConstant = (/** @type {string} */ name) => constant && name.endsWith('value');

/** A decoder that hardly computes: each token is appended to every cache that grows. */
function decoder() {
  const width = heads * size;
  const floats = (/** @type {number} */ length) => Float32Array.from({ length }, (_, i) => ((i * 7919) % 101) / 100);
  const cache = (/** @type {string} */ prefix, /** @type {string} */ length) =>
    CACHES.map((name) => value(`${prefix}.${name}`, FLOAT, [1, heads, isConstant(name) ? 'constant_length' : length, size]));
  return writeModel({
    inputs: [value('input_ids', INT64, [1, 'sequence_length']), ...cache('past_key_values', 'past_sequence_length')],
    outputs: [value('logits', FLOAT, [1, 'sequence_length', VOCABULARY]), ...cache('present', 'total_sequence_length')],
    weights: [
      weight('table', [VOCABULARY, width], floats(VOCABULARY * width)),
      weight('out', [width, VOCABULARY], floats(VOCABULARY * width)),
      weight('by_head', [4], BigInt64Array.of(1n, -1n, BigInt(heads), BigInt(size))),
    ],
    nodes: [
      node('Gather', ['table', 'input_ids'], ['embedded']),
      node('MatMul', ['embedded', 'out'], ['logits']),
      node('Reshape', ['embedded', 'by_head'], ['apart']),
      node('Transpose', ['apart'], ['fresh'], { perm: { ints: [0, 2, 1, 3] } }),
      ...CACHES.map((name) => {
        const [past, present] = [`past_key_values.${name}`, `present.${name}`];
        return isConstant(name) ? node('Identity', [past], [present]) : node('Concat', [past, 'fresh'], [present], { axis: { i: 2 } });
      }),
    ],
  });
}

/**
 * The processor time of this thread so far in microseconds: that of the runtime's other threads, such as those of its garbage
 * collector, does not count, nor that of threads that compute.
 */
function threadMicroseconds() {
  const { threadCpuUsage } = /** @type {typeof process & { threadCpuUsage?: () => NodeJS.CpuUsage }} */ (process);
  if (threadCpuUsage !== undefined) {
    const { user, system } = threadCpuUsage.call(process);
    return user + system;
  }
  const path = `/proc/self/task/${process.pid}/schedstat`;
  return existsSync(path) ? Number(readFileSync(path, 'utf8').split(' ')[0]) / 1000 : Number.NaN;
}

/** @typedef {import('webnn-node/onnx').OnnxFeeds} Feeds */

const PAST = CACHES.map((name) => `past_key_values.${name}`);
const PRESENT = CACHES.map((name) => `present.${name}`);

/**
 * Feeds of the next token, written the way programs do it.
 *
 * @param {Feeds} feeds of this token
 * @param {Record<string, any>} results
 * @returns {Feeds}
 */
function nextFeeds(feeds, results) {
  if (grouped) {
    return { input_ids: feeds.input_ids, past: results.present };
  }
  for (let i = 0; i < PAST.length; i++) {
    feeds[PAST[i]] = results[PRESENT[i]];
  }
  return feeds;
}

const model = await loadModel(decoder(), { numThreads: 1, device: 'cpu' });
const first = (/** @type {number} */ length) => ({ data: new Float32Array(heads * length * size), shape: [1, heads, length, size] });
/** @type {Feeds} */
let feeds = {
  input_ids: { data: BigInt64Array.of(1n), shape: [1, 1] },
  ...Object.fromEntries(PAST.map((name) => [name, first(isConstant(name) ? CONSTANT_LENGTH : 0)])),
};

async function generate(/** @type {number} */ count) {
  for (let i = 0; i < count; i++) {
    feeds = nextFeeds(feeds, await model.run(feeds));
  }
}

await generate(WARMUP);
globalThis.gc?.();
const [time, heap] = [threadMicroseconds(), process.memoryUsage().heapUsed];
await generate(tokens);
const sample = { microseconds: (threadMicroseconds() - time) / tokens, heapBytes: (process.memoryUsage().heapUsed - heap) / tokens };
model.destroy();
console.log(JSON.stringify(sample));
