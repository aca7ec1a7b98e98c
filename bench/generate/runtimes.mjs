// The libraries that run ONNX models directly, behind one interface.

import { createRequire } from 'node:module';
import { loadModel } from 'webnn-node/onnx';
import { sessionOptions } from './session-options.mjs';

const { version } = createRequire(import.meta.url)('webnn-node/package.json');

/**
 * webnn-node through `loadModel()` and `run()`.
 *
 * @param {'cpu' | 'gpu'} device
 * @returns {import('./types.d.mts').Runtime}
 */
export const webnnRuntime = (device) => ({
  version,
  async open(file, threads) {
    const model = await loadModel(file, { device, numThreads: threads });
    // No output goes to an MLTensor.
    const run = (/** @type {Record<string, any>} */ feeds) => /** @type {Promise<Record<string, import('webnn-node/onnx').OnnxResult>>} */ (model.run(feeds));
    return { inputs: model.inputs, run };
  },
  tensor: (_, data, shape) => ({ data, shape }),
});

/**
 * onnxruntime-node through `InferenceSession.run()`.
 *
 * @param {string} importer path or URL of a file from which it can be imported
 * @returns {import('./types.d.mts').Runtime}
 */
export function onnxruntimeRuntime(importer) {
  const require = createRequire(importer);
  const { InferenceSession, Tensor } = require('onnxruntime-node');
  return {
    version: require('onnxruntime-node/package.json').version,
    async open(file, threads) {
      const session = await InferenceSession.create(file, { executionProviders: ['cpu'], ...sessionOptions(threads) });
      return { inputs: session.inputMetadata, run: (feeds) => session.run(feeds) };
    },
    tensor: (dataType, data, shape) => new Tensor(dataType, data, shape),
  };
}
