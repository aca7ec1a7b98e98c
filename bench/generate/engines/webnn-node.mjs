// webnn-node on the CPU.

import { loadDirect } from '../direct.mjs';
import { webnnRuntime } from '../runtimes.mjs';

/** @param {import('../types.d.mts').GenerateLoad} parameters */
export const load = (parameters) => loadDirect(webnnRuntime('cpu'), parameters);
