// One measurement of run.mjs, in its own process: node load.mjs '{"file", "from", "depth"}'. Prints the CPU seconds of
// loading a model and of its first run, those of a second run, the peak of memory above that before, and what is left of
// it, in bytes, as JSON.

import { readFileSync } from 'node:fs';
import { ml } from '../../index.js';
import { loadModel } from '../../onnx.js';

/** A number from `/proc/self/status`, in bytes. @param {string} name */
function status(name) {
  const line = new RegExp(`^${name}:\\s*(\\d+) kB$`, 'm').exec(readFileSync('/proc/self/status', 'utf8'));
  if (line === null) throw new Error(`/proc/self/status has no ${name}`);
  return Number(line[1]) * 1024;
}

/** Runs `work`, and returns the CPU seconds of all threads. @param {() => Promise<unknown>} work */
async function cpuSeconds(work) {
  const before = process.cpuUsage();
  await work();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1e6;
}

const { file, from, depth } = JSON.parse(process.argv[2]);
const context = await ml.createContext({ numThreads: 1 });
const source = from === 'bytes' ? new Uint8Array(readFileSync(file)) : file;
const x = { data: new Float32Array(depth).fill(0.01), shape: [1, depth] };
const empty = status('VmRSS');
/** @type {import('../../onnx.js').OnnxModel | undefined} */
let model;
const load = await cpuSeconds(async () => {
  model = await loadModel(source, { context });
  await model.run({ x });
});
const run = await cpuSeconds(async () => model?.run({ x }));
console.log(JSON.stringify({ load, run, peak: status('VmHWM') - empty, left: status('VmRSS') - empty }));
process.exit();
