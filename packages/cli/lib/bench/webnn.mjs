// This package as an engine of the benchmark.
import { createRequire } from 'node:module';
import { ml } from 'webnn-node';
import { systemInfo } from 'webnn-node/inspect';
import { loadModel } from 'webnn-node/onnx';
import { compile } from '../compile.mjs';
import { feedsOf, shapesOf } from '../elements.mjs';
import { formatProcessor } from '../format.mjs';

/**
 * Loads a model, ready to run.
 * @param {{ model: string, device: 'cpu' | 'gpu', threads?: number, freeDimensions: Record<string, number> }} options
 * @param {import('../types.mjs').Tensors} inputs
 * @returns {Promise<import('./worker.mjs').LoadedEngine>}
 * @throws {Error} where the GPU is asked for and cannot be used
 */
export async function load({ model: path, device, threads, freeDimensions }, inputs) {
  const { version } = createRequire(import.meta.url)('webnn-node/package.json');
  const start = performance.now();
  // On the CPU, no driver of a GPU is loaded, whose memory is not the model's.
  const context = await ml.createContext({ accelerated: device === 'gpu', ...(threads !== undefined && { numThreads: threads }) });
  const model = await loadModel(path, { context, freeDimensions });
  await compile(model, shapesOf(inputs));
  const loadMs = performance.now() - start;
  const { graph, cuts } = await model.describe(shapesOf(inputs));
  const system = systemInfo();
  if (graph === null && cuts.length === 0) throw new Error('there is nothing to measure: no output of the model has any elements');
  if (graph === null ? device === 'gpu' && system.gpuReason !== null : !graph.devices.includes(device)) throw new Error(`the GPU cannot be used: ${system.gpuReason}`);
  const feeds = feedsOf(inputs);
  // Of a model that is cut before anything is computed, no graph says it.
  const processor = graph ?? { adapter: device === 'gpu' ? 'GPU' : null, isa: system.isa, threads: threads ?? system.threads };
  return {
    version,
    processor: formatProcessor(processor),
    loadMs,
    run: () => model.run(feeds),
    tensorsOf: (results) => results,
  };
}
