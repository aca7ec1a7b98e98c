// One measurement of sizes.mjs, in a process of its own: node embed.mjs '{"engine", "model", "threads", "order", "batch", "texts"}'.
// Prints a JSON of seconds, longest delay of the event loop, bytes, and the mean of the last results.

import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { dirname, join } from 'node:path';

const require = createRequire(import.meta.url);

/**
 * @typedef {{ input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor }} Feeds
 * @typedef {{ data: BigInt64Array, shape: [number, number] }} Tensor
 * @typedef {(feeds: Feeds) => Promise<Float32Array<ArrayBuffer>>} Run gives the first output
 */

/** @type {Record<string, (model: string, threads: number) => Promise<Run>>} */
const ENGINES = {
  async 'webnn-node'(file, numThreads) {
    const { loadModel } = await import('../../onnx.js');
    const model = await loadModel(file, { device: 'cpu', numThreads });
    const [{ name }] = model.outputs;
    return async (feeds) => /** @type {Float32Array<ArrayBuffer>} */ ((await model.run(feeds))[name].data);
  },
  async 'onnxruntime-node'(file, threads) {
    const { InferenceSession, Tensor } = /** @type {typeof import('onnxruntime-node')} */ (require('onnxruntime-node'));
    const session = await InferenceSession.create(file, { intraOpNumThreads: threads, interOpNumThreads: 1 });
    const [name] = session.outputNames;
    return async (feeds) => {
      const tensors = Object.entries(feeds).map(([input, { data, shape }]) => [input, new Tensor('int64', data, shape)]);
      return (await session.run(Object.fromEntries(tensors)))[name].data;
    };
  },
};

/**
 * The feeds of all batches.
 *
 * @param {string} folder
 * @param {{ order: 'given' | 'sorted', batch: number, texts: number }} options
 * @returns {Feeds[]}
 */
function batches(folder, { order, batch, texts }) {
  const { model } = JSON.parse(readFileSync(join(folder, 'tokenizer.json'), 'utf8'));
  const token = (/** @type {string} */ word) => BigInt(model.vocab[word] ?? model.vocab['[UNK]']);
  /** @type {string[]} */
  const lines = JSON.parse(readFileSync(join(folder, 'texts.json'), 'utf8')).slice(0, texts);
  const rows = lines.map((line) => ['[CLS]', ...line.split(' '), '[SEP]'].map(token));
  if (order === 'sorted') rows.sort((a, b) => a.length - b.length);
  const feeds = [];
  for (let at = 0; at < rows.length; at += batch) {
    const part = rows.slice(at, at + batch);
    const length = Math.max(...part.map((row) => row.length));
    /** @type {[number, number]} */
    const shape = [part.length, length];
    const tensor = (/** @type {(row: bigint[]) => bigint[]} */ of) => {
      const data = new BigInt64Array(part.length * length);
      part.forEach((row, i) => data.set(of(row), i * length));
      return { data, shape };
    };
    feeds.push({ input_ids: tensor((row) => row), attention_mask: tensor((row) => row.map(() => 1n)), token_type_ids: tensor(() => []) });
  }
  return feeds;
}

const options = JSON.parse(process.argv[2]);
const feeds = batches(dirname(dirname(options.model)), options);
const run = await ENGINES[options.engine](options.model, options.threads);
const delays = monitorEventLoopDelay({ resolution: 1 });
delays.enable();
const start = performance.now();
let result = new Float32Array();
for (const one of feeds) result = await run(one);
const seconds = (performance.now() - start) / 1000;
delays.disable();
const mean = result.reduce((sum, value) => sum + Math.abs(value), 0) / result.length;
const peakBytes = process.resourceUsage().maxRSS * 1024;
console.log(JSON.stringify({ seconds, peakBytes, delayMs: delays.max / 1e6, mean }));
process.exit();
