// onnxruntime-node on the CPU.

import { loadDirect } from '../direct.mjs';
import { onnxruntimeRuntime } from '../runtimes.mjs';

/** @param {import('../types.d.mts').GenerateLoad} parameters */
export const load = (parameters) => loadDirect(onnxruntimeRuntime(import.meta.url), parameters);
