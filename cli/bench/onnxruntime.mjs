// onnxruntime-node as an engine of the benchmark. It is not a dependency: the user's own installation is measured.
import { createRequire } from 'node:module';
import path from 'node:path';

/** Names of element types that differ from those of WebNN. */
const DATA_TYPES = { bool: 'uint8', double: 'float64' };

/**
 * Loads a model, ready to run. See `load` of webnn.mjs.
 * @param {{ model: string, threads?: number, freeDimensions: Record<string, number>, from: string }} options `from`: folder
 *   in whose node_modules (or in those above it) onnxruntime-node is
 * @param {Record<string, { dataType: string, shape: number[], data: ArrayBufferView }>} inputs
 * @returns {Promise<import('./worker.mjs').LoadedEngine>}
 */
export async function load({ model, threads, freeDimensions, from }, inputs) {
  const require = createRequire(path.join(from, 'any.js'));
  const { InferenceSession, Tensor } = require('onnxruntime-node');
  const { version } = require('onnxruntime-node/package.json');
  const start = performance.now();
  const session = await InferenceSession.create(model, {
    executionProviders: ['cpu'],
    freeDimensionOverrides: freeDimensions,
    ...(threads !== undefined && { intraOpNumThreads: threads }),
  });
  const loadMs = performance.now() - start;
  const types = Object.fromEntries(session.inputMetadata.map(({ name, type }) => [name, type]));
  const feeds = Object.fromEntries(
    Object.entries(inputs).map(([name, { data, shape }]) => [name, new Tensor(types[name], data, shape)]),
  );
  return {
    version,
    loadMs,
    run: () => session.run(feeds),
    tensorsOf: (results) => Object.fromEntries(
      Object.entries(results).map(([name, { type, dims, data }]) =>
        [name, { dataType: DATA_TYPES[type] ?? type, shape: [...dims], data }]),
    ),
  };
}
