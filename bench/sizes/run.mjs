// `npm run bench -- sizes`: texts of many lengths, one by one and in batches, in turns with onnxruntime-node.
// FOLDER holds another text embedder than that of bench/zoo, as published: onnx/*.onnx, tokenizer.json with a vocabulary of words; and texts.json
// with a list of texts.

import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { fileURLToPath } from 'node:url';
import { median } from 'd3-array';
import { Output } from '../../packages/cli/lib/output.mjs';
import { withProgress } from '../../packages/cli/lib/progress.mjs';
import { entry, Failure, withUsage } from '../../scripts/process.mjs';
import { install } from '../peers.mjs';
import { sampleInTurns } from '../turns.mjs';
import { writeEmbedder } from '../zoo/embedder.mjs';

const USAGE = `usage: npm run bench -- sizes [FOLDER] [OPTION ...]

  --filter RE      only models whose file name matches
  --threads LIST   numbers of threads, separated by commas (1,2)
  --rounds N       how often everything is measured (3)
  --texts N        how many texts (500)`;

/** Groupings of texts into runs. */
const GROUPINGS = [
  { text: 'one by one', order: 'given', batch: 1 },
  { text: 'batches of 64, as given', order: 'given', batch: 64 },
  { text: 'batches of 64, by length', order: 'sorted', batch: 64 },
];

const OURS = 'webnn-node';
const PEER = 'onnxruntime-node';
const WORKER = fileURLToPath(new URL('embed.mjs', import.meta.url));

/** Largest allowed difference between the means of results: 8-bit models round to other integers. */
const TOLERANCE = { float: 1e-3, quantized: 5e-2 };

function readArguments() {
  const options = /** @type {const} */ ({
    filter: { type: 'string', default: '' },
    threads: { type: 'string', default: '1,2' },
    rounds: { type: 'string', default: '3' },
    texts: { type: 'string', default: '500' },
  });
  return withUsage(USAGE, () => {
    const { values, positionals } = parseArgs({ allowPositionals: true, options });
    if (positionals.length > 1) throw new Error('expected at most one folder');
    const [rounds, texts] = [values.rounds, values.texts].map(Number);
    const threads = values.threads.split(',').map(Number);
    const wrong = [rounds, texts, ...threads].find((value) => !(Number.isInteger(value) && value > 0));
    if (wrong !== undefined) throw new Error('numbers must be integers from 1');
    return { folder: positionals[0], filter: new RegExp(values.filter), threads, rounds, texts };
  });
}

/**
 * @typedef {{ model: string, threads: number, order: string, batch: number, texts: number }} Parameters of a measurement
 * @typedef {{ seconds: number, peakBytes: number, delayMs: number, mean: number }} Sample
 */

/**
 * Returns the medians of both engines.
 *
 * @param {Parameters} parameters
 * @param {number} rounds
 * @param {(done: number) => void} advance
 */
async function compare(parameters, rounds, advance) {
  const processOf = (/** @type {string} */ engine) => ({ worker: WORKER, parameters: { ...parameters, engine } });
  /** @type {Record<string, Sample[]>} */
  const taken = await sampleInTurns([OURS, PEER], processOf, rounds, advance);
  const means = [OURS, PEER].map((engine) => taken[engine][0].mean);
  const allowed = /quant/.test(parameters.model) ? TOLERANCE.quantized : TOLERANCE.float;
  if (!(Math.abs(means[0] / means[1] - 1) <= allowed)) {
    throw new Failure(`${parameters.model}: the means of results differ: ${means.join(' and ')}`);
  }
  return [OURS, PEER].map((engine) => {
    const of = (/** @type {keyof Sample} */ key) => /** @type {number} */ (median(taken[engine], (sample) => sample[key]));
    return { seconds: of('seconds'), peak: of('peakBytes'), delay: of('delayMs') };
  });
}

await entry(async () => {
  const { folder: given, filter, threads, rounds, texts } = readArguments();
  const folder = given ?? (await writeEmbedder());
  await install([PEER]);
  const models = readdirSync(join(folder, 'onnx')).filter((file) => file.endsWith('.onnx') && filter.test(file));
  const rows = [];
  for (const file of models) {
    for (const count of threads) {
      for (const { text, order, batch } of GROUPINGS) {
        const label = `${file}, ${count} threads, ${text}`;
        const parameters = { model: join(folder, 'onnx', file), threads: count, order, batch, texts };
        const [ours, peer] = await withProgress(label, (advance) => compare(parameters, rounds, advance), 2 * rounds);
        /** @type {(key: keyof typeof ours, digits: number, scale?: number) => string} */
        const both = (key, digits, scale = 1) => `${(ours[key] / scale).toFixed(digits)}, ${(peer[key] / scale).toFixed(digits)}`;
        rows.push([file, String(count), text, both('seconds', 2), (peer.seconds / ours.seconds).toFixed(2), both('peak', 0, 1e6), both('delay', 1)]);
      }
    }
  }
  const output = new Output();
  output.heading(`${texts} texts: ${OURS}, ${PEER}; medians of ${rounds}`);
  output.table(['model', 'threads', 'texts', 'seconds', 'times as fast', 'peak MB', 'longest delay, ms'], rows);
});
