// The process of an engine, which holds a model once for each number of threads: node serve.mjs MODULE. See types.d.mts for
// the requests.

import { writeFileSync } from 'node:fs';
import { median } from 'd3-array';
import { answerRequests } from '../../packages/cli/lib/bench/answers.mjs';
import { formatNpy, readNpy } from '../../packages/cli/lib/npy.mjs';

/** Runs of a turn that are not counted: other engines have evicted this one from the caches. */
const WARM_UP = 1;

/** Turns of slow cases end with fewer runs, after this many times their length. */
const PATIENCE = 5;

/** ONNX's names of types that NumPy calls otherwise. */
const DATA_TYPES = /** @type {Record<string, string>} */ ({ double: 'float64' });

/** @type {Map<number, import('../../packages/cli/lib/bench/types.mjs').LoadedEngine>} by the number of threads */
const engines = new Map();

/** @param {number} threads */
const engineWith = (threads) => /** @type {import('../../packages/cli/lib/bench/types.mjs').LoadedEngine} */ (engines.get(threads));

/** Milliseconds in which memory may become warm, times {@link PATIENCE}. */
const MOST_MS = 100;

/** The largest number of runs for the sake of their results' bytes. */
const MOST_FOR_BYTES = 2000;

/**
 * Runs once, and reads the results as a program does.
 *
 * @param {import('../../packages/cli/lib/bench/types.mjs').LoadedEngine} engine
 * @returns {Promise<number>} bytes of the results
 */
async function runAndRead(engine) {
  const results = /** @type {Record<string, { data: ArrayBufferView }>} */ (await engine.run());
  let bytes = 0;
  for (const name in results) bytes += results[name].data.byteLength;
  return bytes;
}

async function close() {
  for (const engine of engines.values()) await engine.close();
  engines.clear();
}

/** @type {import('./types.mjs').OperatorCommands} */
const commands = {
  async load({ inputs, threads, ...options }) {
    await close();
    /** @type {import('../../packages/cli/lib/types.mjs').Tensors} */
    const tensors = {};
    for (const [name, file] of Object.entries(inputs)) tensors[name] = await readNpy(file);
    const { load } = await import(process.argv[2]);
    for (const count of threads) engines.set(count, await load({ ...options, inputs: tensors, threads: count }));
    return { version: engineWith(threads[0]).version };
  },

  async save({ threads, files }) {
    const outputs = await engineWith(threads).outputs();
    outputs.forEach(({ dataType, shape, data }, i) => writeFileSync(files[i], formatNpy({ dataType: DATA_TYPES[dataType] ?? dataType, shape, data })));
    return {};
  },

  async turn({ threads, ms, runs, bytes = 0 }) {
    const engine = engineWith(threads);
    let each = 0;
    for (let i = 0; i < WARM_UP; i++) each = await runAndRead(engine);
    const patience = PATIENCE * Math.max(ms, bytes === 0 ? 0 : MOST_MS);
    const wanted = each === 0 ? runs : Math.max(runs, Math.min(MOST_FOR_BYTES, bytes / each));
    const times = [];
    const begin = performance.now();
    let now = begin;
    do {
      await runAndRead(engine);
      const end = performance.now();
      times.push(end - now);
      now = end;
    } while (now < begin + ms || (times.length < wanted && now < begin + patience));
    return { ms: /** @type {number} */ (median(times)), runs: times.length };
  },

  operators: async ({ threads, runs }) => ({ ms: await engineWith(threads).operators(runs) }),

  async close() {
    await close();
    return {};
  },
};

await answerRequests((command) => /** @type {Record<string, (parameters: any) => Promise<unknown>>} */ ({ ...commands })[command]);
