// webnn-node by `loadModel()` and `run()`.

import { createRequire } from 'node:module';
import { loadModel } from 'webnn-node/onnx';
import { loadDirect } from '../direct.mjs';

/** @type {import('../types.d.mts').Runtime} */
const runtime = {
  version: createRequire(import.meta.url)('webnn-node/package.json').version,
  async open(file, threads) {
    const model = await loadModel(file, { device: 'cpu', numThreads: threads });
    // No output goes to an MLTensor.
    const run = (/** @type {Record<string, any>} */ feeds) => /** @type {Promise<Record<string, import('webnn-node/onnx').OnnxResult>>} */ (model.run(feeds));
    return { inputs: model.inputs, run };
  },
  tensor: (_, data, shape) => ({ data, shape }),
};

/** @param {import('../types.d.mts').GenerateLoad} parameters */
export const load = (parameters) => loadDirect(runtime, parameters);
