// A process of cache.test.mjs, and of whoever else keeps packed weights: loads a model, runs it, and prints what it found.
//
//   node cached.mjs '{"source": "model.onnx", "load": {"cache": "DIR"}}'
//
// `source`: a path; `asBytes`: loads its bytes; `load`: options of loadModel(); `feeds`: by name, a shape, whose elements are numbers
// that follow from it; `waits`: whether it waits until the weights are saved, as it does by default; `telling`: whether it says
// "loaded" before that, and "saved" after; `ends`: whether it calls process.exit() after the load.

import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { loadModel } from '../../onnx.js';

const { source, asBytes = false, load = {}, feeds = {}, waits = true, telling = false, ends = false } = JSON.parse(process.argv[2]);

/** @type {{ code: string, message: string }[]} */
const warnings = [];
process.on('warning', (/** @type {NodeJS.ErrnoException} */ { code = '', message }) => void warnings.push({ code, message }));

/** @param {number[]} shape */
const feedOf = (shape) => ({ data: Float32Array.from({ length: shape.reduce((a, b) => a * b, 1) }, (_, i) => ((i * 7) % 23) / 23 - 0.5), shape });

const model = await loadModel(asBytes ? readFileSync(source) : source, { device: 'cpu', numThreads: 1, ...load });
if (telling) process.stdout.write('loaded\n');
if (ends) process.exit();
const results = await model.run(Object.fromEntries(Object.entries(feeds).map(([name, shape]) => [name, feedOf(shape)])));
const digest = createHash('sha256');
for (const { name } of model.outputs) digest.update(new Uint8Array(results[name].data.buffer, results[name].data.byteOffset, results[name].data.byteLength));
/** @type {{ code?: string, message: string } | null} */
let failure = null;
if (waits) {
  await model.saved().catch((/** @type {NodeJS.ErrnoException} */ { code, message }) => {
    failure = { code, message };
  });
}
if (telling) process.stdout.write('saved\n');
else process.stdout.write(JSON.stringify({ memory: model.memory, digest: digest.digest('hex'), warnings, failure }));
