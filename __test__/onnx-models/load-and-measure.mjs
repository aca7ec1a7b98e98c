// Loads a model until it is ready to run, and prints how much memory this process has and had resident, in bytes:
// { "peak": ..., "resident": ... }. Run with --expose-gc, on Linux.

import { readFileSync } from 'node:fs';
import { ml } from 'webnn-node';
import { loadModel } from 'webnn-node/onnx';
import { collect } from '../lib/wait.mjs';

/** A row of /proc/self/status, in bytes. */
function statusRow(name) {
  const row = new RegExp(`^${name}:\\s+(\\d+) kB$`, 'm').exec(readFileSync('/proc/self/status', 'utf8'));
  return Number(row?.[1]) * 1024;
}

// On the CPU: with a driver for GPUs some 100 MB of libraries come, however large the model is.
const context = await ml.createContext({ accelerated: false });
const model = await loadModel(process.argv[2], { context });
await model.compile();
const peak = statusRow('VmHWM');
collect();
console.log(JSON.stringify({ peak, resident: statusRow('VmRSS') }));
model.destroy();
context.destroy();
