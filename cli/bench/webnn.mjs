// This package as an engine of the benchmark.
import { createRequire } from 'node:module';
import { ml } from 'webnn-node';
import { loadModel } from 'webnn-node/onnx';
import { feedsOf, shapesOf } from '../elements.mjs';

/**
 * Loads a model, ready to run.
 * @param {{ model: string, threads?: number, freeDimensions: Record<string, number> }} options
 * @param {Record<string, { dataType: string, shape: number[], data: ArrayBufferView }>} inputs
 * @returns {Promise<import('./worker.mjs').LoadedEngine>}
 */
export async function load({ model: path, threads, freeDimensions }, inputs) {
  const { version } = createRequire(import.meta.url)('webnn-node/package.json');
  const start = performance.now();
  const context = await ml.createContext(threads === undefined ? {} : { numThreads: threads });
  const model = await loadModel(path, { context, freeDimensions });
  await model.compile(shapesOf(inputs));
  const loadMs = performance.now() - start;
  const feeds = feedsOf(inputs);
  return {
    version,
    loadMs,
    run: () => model.run(feeds),
    tensorsOf: (results) => results,
  };
}
