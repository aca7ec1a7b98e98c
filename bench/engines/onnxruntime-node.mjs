// onnxruntime-node as an engine of the benchmark, from bench/node_modules.

import { createRequire } from 'node:module';

/** Names of element types that differ from those of NumPy. */
const DATA_TYPES = /** @type {Record<string, string>} */ ({ double: 'float64' });

/**
 * @param {import('../types.mjs').LoadParameters} parameters
 * @returns {Promise<import('../types.mjs').LoadedEngine>}
 */
export async function load({ model, inputs, outputs, threads }) {
  const require = createRequire(import.meta.url);
  const { InferenceSession, Tensor } = /** @type {typeof import('onnxruntime-node')} */ (require('onnxruntime-node'));
  const { version } = require('onnxruntime-node/package.json');
  const start = performance.now();
  const session = await InferenceSession.create(model, {
    executionProviders: ['cpu'],
    graphOptimizationLevel: 'all',
    executionMode: 'sequential',
    intraOpNumThreads: threads,
    interOpNumThreads: 1,
  });
  const loadMs = performance.now() - start;
  const types = Object.fromEntries(session.inputMetadata.map(({ name, type }) => [name, type]));
  const feeds = Object.fromEntries(
    Object.entries(inputs).map(([name, { data, shape }]) => [name, new Tensor(types[name], data, shape)]),
  );
  const run = () => session.run(feeds);
  return {
    version,
    loadMs,
    run,
    async outputs() {
      const results = await run();
      return outputs.map((name) => {
        const { type, dims, data } = results[name];
        return { dataType: DATA_TYPES[type] ?? type, shape: [...dims], data };
      });
    },
  };
}
