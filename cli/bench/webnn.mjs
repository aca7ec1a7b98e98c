// This package as an engine of the benchmark.
import { createRequire } from 'node:module';
import { ml } from 'webnn-node';
import { describeGraph, systemInfo } from 'webnn-node/inspect';
import { loadModel } from 'webnn-node/onnx';
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
  const { graph } = await model.compile(shapesOf(inputs));
  const loadMs = performance.now() - start;
  if (graph === null) throw new Error('there is nothing to measure: no output of the model has any elements');
  if (!graph.devices.includes(device)) throw new Error(`the GPU cannot be used: ${systemInfo().gpuReason}`);
  const feeds = feedsOf(inputs);
  return {
    version,
    processor: formatProcessor(describeGraph(graph)),
    loadMs,
    run: () => model.run(feeds),
    tensorsOf: (results) => results,
  };
}
