// onnxruntime-node as an engine of the benchmark. It is not a dependency: the user's own installation is measured.
import { createRequire } from 'node:module';
import path from 'node:path';

/** Execution providers that compute on GPUs, the fastest first. */
const GPU_PROVIDERS = ['cuda', 'dml', 'webgpu'];

/** Names of element types that differ from those of WebNN. */
const DATA_TYPES = /** @type {Record<string, string>} */ ({ bool: 'uint8', double: 'float64' });

/**
 * A session on the CPU, or on the GPU with the first provider that works.
 * @param {typeof import('onnxruntime-node')} runtime
 * @param {'cpu' | 'gpu'} device
 * @param {(provider: string) => Promise<import('onnxruntime-node').Session>} create
 * @returns {Promise<{ session: import('onnxruntime-node').Session, provider: string, loadMs: number }>}
 * @throws {Error} with what each provider says, where none works
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

/**
 * Loads a model, ready to run. See `load` of webnn.mjs.
 * @param {{ model: string, device: 'cpu' | 'gpu', threads?: number, freeDimensions: Record<string, number>, from: string }}
 *   options `from`: folder in whose node_modules (or in those above it) onnxruntime-node is
 * @param {import('../types.mjs').Tensors} inputs
 * @returns {Promise<import('./worker.mjs').LoadedEngine>}
 */
export async function load({ model, device, threads, freeDimensions, from }, inputs) {
  const require = createRequire(path.join(from, 'any.js'));
  const runtime = /** @type {typeof import('onnxruntime-node')} */ (require('onnxruntime-node'));
  const { InferenceSession, Tensor } = runtime;
  const { version } = require('onnxruntime-node/package.json');
  const { session, provider, loadMs } = await openSession(runtime, device, (executionProvider) => InferenceSession.create(model, {
    executionProviders: [executionProvider],
    freeDimensionOverrides: freeDimensions,
    ...(threads !== undefined && { intraOpNumThreads: threads }),
  }));
  const types = Object.fromEntries(session.inputMetadata.map(({ name, type }) => [name, type]));
  const feeds = Object.fromEntries(
    Object.entries(inputs).map(([name, { data, shape }]) => [name, new Tensor(types[name], data, shape)]),
  );
  return {
    version,
    processor: provider,
    loadMs,
    run: () => session.run(feeds),
    tensorsOf: (results) => Object.fromEntries(
      Object.entries(results).map(([name, { type, dims, data }]) =>
        [name, { dataType: DATA_TYPES[type] ?? type, shape: [...dims], data }]),
    ),
  };
}
