// Loads a model until it is ready to run, and prints how much memory this process has and had resident, in bytes:
// { "peak": ..., "resident": ... }. Run with --expose-gc, on Linux.

import { readFileSync } from 'node:fs';
import { loadModel } from 'webnn-node/onnx';

/** A row of /proc/self/status, in bytes. */
function statusRow(name) {
  const row = new RegExp(`^${name}:\\s+(\\d+) kB$`, 'm').exec(readFileSync('/proc/self/status', 'utf8'));
  return Number(row[1]) * 1024;
}

const model = await loadModel(process.argv[2]);
await model.compile();
const peak = statusRow('VmHWM');
globalThis.gc();
console.log(JSON.stringify({ peak, resident: statusRow('VmRSS') }));
model.destroy();
