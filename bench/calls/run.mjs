// `npm run bench -- calls`: what a run costs beside its operators, in turns with onnxruntime-node.

import { createRequire } from 'node:module';
import { availableParallelism } from 'node:os';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { fileURLToPath } from 'node:url';
import { median, quantileSorted } from 'd3-array';
import { withProgress } from '../../packages/cli/lib/progress.mjs';
import { entry, Failure, say } from '../../scripts/process.mjs';
import { checksOf, MAX_THREADS } from '../arguments.mjs';
import { describeMachine } from '../machine.mjs';
import { install } from '../peers.mjs';
import { markdownTable } from '../report/markdown.mjs';
import { printTables, writeFiles } from '../report/print.mjs';
import { CALLS, modelOf } from './models.mjs';

const USAGE = `usage: npm run bench -- calls [OPTION ...]

  --threads LIST   numbers of threads, separated by commas (1 and 2, or 1 on a single processor)
  --runs N         runs of each engine and call (10000)
  --against NAME   onnxruntime-node, or none (onnxruntime-node)
  --from FOLDER    with an installed onnxruntime-node, instead of one that is installed in bench/
  --write          write bench/calls/RESULTS.md
  --help`;

const PEER = 'onnxruntime-node';
const RESULTS = fileURLToPath(new URL('RESULTS.md', import.meta.url));

/** Turns of each engine, and the pause before each: threads of some engines spin for a while after a run. */
const [TURNS, PAUSE_MS] = [10, 80];

/** Runs that are not counted, and runs that tell how long the steps take. */
const [WARM_UP, PROFILED] = [200, 50];

/** The largest number of bytes that all runs of a call are fed: calls with large feeds run less often. */
const MOST_BYTES = 4e9;

const { ml } = createRequire(import.meta.url)('../../index.js');
const { loadModel } = createRequire(import.meta.url)('../../onnx.js');

/** @typedef {{ run: (data: Float32Array) => Promise<Float32Array>, close: () => Promise<void>, stepsUs?: () => Promise<number> }} Engine */

/**
 * @param {import('./models.mjs').Call} call
 * @param {number} threads
 * @returns {Promise<Engine>}
 */
async function ours({ model, shape, transfers }, threads) {
  const context = await ml.createContext({ numThreads: threads });
  const loaded = await loadModel(modelOf(model, shape), { context });
  const feedOf = (/** @type {Float32Array} */ data) => ({ x: { data, shape, ...(transfers ? { transfer: true } : {}) } });
  return {
    run: async (data) => (await loaded.run(feedOf(data))).y.data,
    async stepsUs() {
      const times = [];
      for (let i = 0; i < PROFILED; i++) {
        const { graphs } = await loaded.profile({ x: { data: new Float32Array(shape.reduce((a, b) => a * b)), shape } });
        times.push(graphs.reduce((/** @type {number} */ total, /** @type {{ duration: number }} */ { duration }) => total + duration, 0) / 1000);
      }
      return /** @type {number} */ (median(times));
    },
    async close() {
      context.destroy();
    },
  };
}

/**
 * @param {any} ort
 * @param {import('./models.mjs').Call} call
 * @param {number} threads
 * @returns {Promise<Engine>}
 */
async function theirs(ort, { model, shape }, threads) {
  const session = await ort.InferenceSession.create(modelOf(model, shape), { intraOpNumThreads: threads });
  return { run: async (data) => (await session.run({ x: new ort.Tensor('float32', data, shape) })).y.data, close: () => session.release() };
}

/**
 * Takes turns, and returns the sorted microseconds of all runs of each engine.
 *
 * @param {import('./models.mjs').Call} call
 * @param {Engine[]} engines
 * @param {number} runs
 */
async function measure({ shape, transfers }, engines, runs) {
  const elements = shape.reduce((a, b) => a * b);
  const kept = new Float32Array(elements).fill(1);
  const times = engines.map(() => /** @type {number[]} */ ([]));
  const once = async (/** @type {Engine} */ engine) => {
    const data = transfers ? new Float32Array(elements).fill(1) : kept;
    const start = performance.now();
    const result = await engine.run(data);
    const end = performance.now();
    if (!(result.length > 0 && Number.isFinite(result[result.length - 1]))) throw new Failure('a result is not what it should be');
    return (end - start) * 1000;
  };
  for (let turn = 0; turn < TURNS; turn++) {
    for (const [i, engine] of engines.entries()) {
      await sleep(PAUSE_MS);
      for (let run = 0; run < (turn === 0 ? WARM_UP : 1); run++) await once(engine);
      for (let run = 0; run < runs / TURNS; run++) times[i].push(await once(engine));
    }
  }
  return times.map((list) => list.sort((a, b) => a - b));
}

const us = (/** @type {number} */ value) => (value < 100 ? value.toFixed(1) : value.toFixed(0));

/** @param {import('./models.mjs').Call} call @param {number} threads @param {any} ort @param {number} wanted */
async function rowOf(call, threads, ort, wanted) {
  const bytes = 4 * call.shape.reduce((a, b) => a * b);
  const runs = Math.max(100, Math.min(wanted, Math.floor(MOST_BYTES / bytes)));
  const engines = [await ours(call, threads), ...(ort === undefined ? [] : [await theirs(ort, call, threads)])];
  const [own, peer] = await measure(call, engines, runs);
  const steps = await /** @type {() => Promise<number>} */ (engines[0].stepsUs)();
  for (const engine of engines) await engine.close();
  const at = (/** @type {number[]} */ list, /** @type {number} */ share) => /** @type {number} */ (quantileSorted(list, share));
  const cells = (/** @type {number[]} */ list) => [at(list, 0.5), at(list, 0.99)].map(us);
  const compared = peer === undefined ? ['–', '–', '–'] : [...cells(peer), (at(peer, 0.5) / at(own, 0.5)).toFixed(2)];
  return [call.name, String(threads), String(runs), ...cells(own), ...compared, us(at(own, 0.5) - steps)];
}

await entry(async () => {
  const { wrong, parsed, integer, integers } = checksOf(USAGE);
  const values = parsed(
    () =>
      parseArgs({
        options: {
          threads: { type: 'string', default: availableParallelism() > 1 ? '1,2' : '1' },
          runs: { type: 'string', default: '10000' },
          against: { type: 'string', default: PEER },
          from: { type: 'string' },
          write: { type: 'boolean', default: false },
          help: { type: 'boolean', short: 'h', default: false },
        },
      }).values,
  );
  const [threads, runs] = [integers('threads', values.threads, MAX_THREADS), integer('runs', values.runs, 1e6)];
  if (![PEER, 'none'].includes(values.against)) throw wrong(`--against is ${values.against}, expected ${PEER} or none`);
  if (values.write && values.against === 'none') throw wrong(`--write needs times of ${PEER}`);
  const hasPeer = values.against === PEER;
  if (hasPeer && values.from === undefined) await install([PEER]);
  const { from = dirname(import.meta.dirname) } = values;
  const ort = hasPeer ? createRequire(join(from, 'package.json'))(PEER) : undefined;
  const rows = [];
  for (const call of CALLS) {
    for (const count of threads) {
      const row = await withProgress(`${call.name}, threads: ${count}`, () => rowOf(call, count, ort, runs));
      say(row.join('  '));
      rows.push(row);
    }
  }
  const table = {
    title: 'Calls',
    remark:
      'Microseconds from the call of run() to the result in a typed array: median and 99th percentile. ×: by the medians. Beside: of the median, what the steps of the graph do not take, copies included.',
    head: ['call', '>threads', '>runs', '>webnn-node', '>99 %', `>${PEER}`, '>99 %', '>×', '>beside'],
    rows,
  };
  printTables([table], []);
  const { cpu, processors, system, node } = describeMachine();
  const head = [`# Results of calls`, '', `${new Date().toISOString().slice(0, 10)}, ${cpu}, ${processors} processors, ${system}, Node ${node}.`, ''];
  const how = 'To repeat it on an otherwise idle machine: `npm run bench -- calls --write`.';
  writeFiles([[values.write ? RESULTS : undefined, () => [...head, how, '', table.remark, '', ...markdownTable(table), ''].join('\n')]]);
});
