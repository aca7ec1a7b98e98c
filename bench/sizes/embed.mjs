// One measurement of run.mjs, in its own process: node embed.mjs '{"engine", "model", "threads", "order", "batch",
// "texts"}'. Prints seconds, the longest delay of the event loop, bytes, and the mean of the last results as JSON.

import { readFileSync } from 'node:fs';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { dirname, join } from 'node:path';
import { ENGINES } from '../../packages/cli/lib/bench/engines.mjs';

/**
 * Returns the feeds of all batches.
 *
 * @param {string} folder
 * @param {{ order: 'given' | 'sorted', batch: number, texts: number }} options
 * @returns {import('../../packages/cli/lib/types.mjs').Tensors[]}
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
      return { dataType: 'int64', shape, data };
    };
    feeds.push({ input_ids: tensor((row) => row), attention_mask: tensor((row) => row.map(() => 1n)), token_type_ids: tensor(() => []) });
  }
  return feeds;
}

const options = JSON.parse(process.argv[2]);
const feeds = batches(dirname(dirname(options.model)), options);
const { load } = await import(ENGINES[options.engine].href);
/** @type {import('../../packages/cli/lib/bench/types.mjs').LoadedEngine} */
const engine = await load({ model: options.model, threads: options.threads, from: dirname(import.meta.dirname) });
const delays = monitorEventLoopDelay({ resolution: 1 });
delays.enable();
const start = performance.now();
let result = new Float32Array();
for (const one of feeds) {
  const [{ data }] = await engine.outputs(one);
  result = /** @type {Float32Array<ArrayBuffer>} */ (data);
}
const seconds = (performance.now() - start) / 1000;
delays.disable();
const mean = result.reduce((sum, value) => sum + Math.abs(value), 0) / result.length;
const peakBytes = process.resourceUsage().maxRSS * 1024;
console.log(JSON.stringify({ seconds, peakBytes, delayMs: delays.max / 1e6, mean }));
process.exit();
