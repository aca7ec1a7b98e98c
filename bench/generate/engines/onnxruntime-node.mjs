// onnxruntime-node by `InferenceSession.run()`.

import { createRequire } from 'node:module';
import { InferenceSession, Tensor } from 'onnxruntime-node';
import { loadDirect } from '../direct.mjs';
import { sessionOptions } from '../session-options.mjs';

/** @type {import('../types.d.mts').Runtime} */
const runtime = {
  version: createRequire(import.meta.url)('onnxruntime-node/package.json').version,
  async open(file, threads) {
    const session = await InferenceSession.create(file, { executionProviders: ['cpu'], ...sessionOptions(threads) });
    return { inputs: session.inputMetadata, run: (feeds) => session.run(/** @type {any} */ (feeds)) };
  },
  tensor: (dataType, data, shape) => new Tensor(dataType, data, shape),
};

/** @param {import('../types.d.mts').GenerateLoad} parameters */
export const load = (parameters) => loadDirect(runtime, parameters);
