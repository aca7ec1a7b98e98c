// onnxruntime-node as an engine. It is not a dependency: measures the user's own installation.

import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import os from 'node:os';
import path from 'node:path';
import { median } from 'd3-array';

/** Execution providers for GPUs, fastest first. */
const GPU_PROVIDERS = ['cuda', 'dml', 'webgpu'];

/** Element types whose names differ from NumPy's. */
const DATA_TYPES = /** @type {Record<string, string>} */ ({ double: 'float64' });

/**
 * Opens a session on the CPU, or on the GPU with the first provider that works.
 *
 * @param {typeof import('onnxruntime-node')} runtime
 * @param {string} device
 * @param {(provider: string) => Promise<import('onnxruntime-node').Session>} create
 * @returns {Promise<{ session: import('onnxruntime-node').Session, provider: string, loadMs: number }>}
 * @throws {Error} with the message of each provider, if none works
 */
async function openSession({ listSupportedBackends }, device, create) {
  const names = listSupportedBackends?.().map(({ name }) => name) ?? [];
  const providers = device === 'cpu' ? ['cpu'] : GPU_PROVIDERS.filter((name) => names.includes(name));
  const refusals = [];
  for (const provider of providers) {
    const start = performance.now();
    try {
      return { session: await create(provider), provider, loadMs: performance.now() - start };
    } catch (error) {
      refusals.push(`${provider}: ${/** @type {Error} */ (error).message}`);
    }
  }
  throw new Error(device === 'cpu' ? refusals[0] : `it cannot use the GPU: ${refusals.join('; ') || `it has only ${names.join(', ') || 'cpu'}`}`);
}

/** Runs before those that are counted. */
const WARM_UP = 3;

/** Microseconds of a millisecond. */
const MICROSECONDS = 1000;

/**
 * Returns the time of the kernels in a run, in milliseconds, which a session of its own measures.
 *
 * @param {(options: object) => Promise<import('onnxruntime-node').Session>} create
 * @param {Record<string, import('onnxruntime-node').Tensor>} feeds
 * @param {number} runs
 */
async function profiledTime(create, feeds, runs) {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'onnxruntime-profile-'));
  try {
    const session = await create({ enableProfiling: true, profileFilePrefix: path.join(folder, 'profile') });
    for (let i = 0; i < WARM_UP + runs; i++) await session.run(feeds);
    session.endProfiling();
    await session.release();
    const [file] = readdirSync(folder);
    const times = kernelTimes(JSON.parse(readFileSync(path.join(folder, file), 'utf8')));
    return /** @type {number} */ (median(times.slice(WARM_UP))) / MICROSECONDS;
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/**
 * Returns the microseconds of the kernels in each run.
 *
 * @param {{ cat?: string, name: string, dur: number }[]} events of a profile: those of a run come before the run's own
 */
function kernelTimes(events) {
  const times = [];
  let sum = 0;
  for (const { cat, name, dur } of events) {
    if (cat === 'Node' && name.endsWith('_kernel_time')) sum += dur;
    if (name !== 'model_run') continue;
    times.push(sum);
    sum = 0;
  }
  return times;
}

/**
 * @param {import('./types.mjs').LoadParameters} parameters
 * @returns {Promise<import('./types.mjs').LoadedEngine>}
 */
export async function load({ model, inputs = {}, outputs, threads, device = 'cpu', freeDimensions = {}, from = '.' }) {
  const require = createRequire(path.resolve(from, 'any.js'));
  const runtime = /** @type {typeof import('onnxruntime-node')} */ (require('onnxruntime-node'));
  const { InferenceSession, Tensor } = runtime;
  const { version } = require('onnxruntime-node/package.json');
  const create = (/** @type {string} */ executionProvider, options = {}) =>
    InferenceSession.create(model, {
      executionProviders: [executionProvider],
      graphOptimizationLevel: 'all',
      executionMode: 'sequential',
      interOpNumThreads: 1,
      freeDimensionOverrides: freeDimensions,
      ...(threads !== undefined && { intraOpNumThreads: threads }),
      ...options,
    });
  const { session, provider, loadMs } = await openSession(runtime, device, create);
  const types = Object.fromEntries(session.inputMetadata.map(({ name, type }) => [name, type]));
  const feedsOf = (/** @type {import('../types.mjs').Tensors} */ tensors) =>
    Object.fromEntries(Object.entries(tensors).map(([name, { data, shape }]) => [name, new Tensor(types[name], data, shape)]));
  const feeds = feedsOf(inputs);
  /** @type {(result: import('onnxruntime-node').Value) => import('../types.mjs').Tensor} */
  const tensorOf = ({ type, dims, data }) => ({ dataType: DATA_TYPES[type] ?? type, shape: [...dims], data });
  return {
    version,
    loadMs,
    run: () => session.run(feeds),
    processor: async () => provider,
    async outputs(others) {
      const results = await session.run(others === undefined ? feeds : feedsOf(others));
      return (outputs ?? session.outputNames).map((name) => {
        if (!Object.hasOwn(results, name)) throw new Error(`it has no output ${name}`);
        return tensorOf(results[name]);
      });
    },
    operators: (runs) => profiledTime((options) => create(provider, options), feeds, runs),
    close: () => session.release(),
    session: { feedsOf, run: (values) => session.run(values), tensorOf },
  };
}
