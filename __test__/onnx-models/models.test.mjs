// Every model of bench/make_models.py: loaded, run, compared with onnxruntime's results. `npm run test:onnx-models`
// writes the models first and names their folder.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import test, { after, before } from 'node:test';
import { ml } from 'webnn-node';
import { loadModel } from 'webnn-node/onnx';
import { readNpy } from 'webnn-node-cli/lib/npy.mjs';
import { valuesOf } from './tensors.mjs';

/** Of the largest value of an output. onnxruntime's own optimisations differ from each other by up to 5e-6. */
const FLOAT32_TOLERANCE = 1e-3;

/** The same for float16, against a computation in float32: one step of float16 is 9.8e-4, and six layers add up. */
const FLOAT16_TOLERANCE = 2e-2;

/** Quantised outputs may be off by so many steps: sums that nearly tie are rounded to either side. */
const QUANTISATION_STEPS = 2;

const directory = process.env.ONNX_MODELS;
assert.ok(directory, 'ONNX_MODELS does not name the folder of the models; run `npm run test:onnx-models`');
const manifest = JSON.parse(readFileSync(path.join(directory, 'manifest.json'), 'utf8'));
const only = process.env.ONNX_MODELS_ONLY?.split(',');

const largest = (values) => values.reduce((max, value) => Math.max(max, Math.abs(value)), 0);
const largestDifference = (a, b) => a.reduce((max, value, i) => Math.max(max, Math.abs(value - b[i])), 0);
const argMax = (values) => values.indexOf(values.reduce((a, b) => Math.max(a, b)));

/** The quantisation step of values that all are multiples of it: the smallest distance of two of them. */
function quantisationStep(values) {
  const sorted = [...new Set(values)].sort((a, b) => a - b);
  return sorted.slice(1).reduce((step, value, i) => Math.min(step, value - sorted[i]), Infinity);
}

function assertAgrees(entry, output, got, expected) {
  assert.equal(got.length, expected.length, output.name);
  assert.ok(got.every(Number.isFinite), `${output.name}: not all finite`);
  const difference = largestDifference(got, expected);
  if ('QuantizeLinear' in entry.ops) {
    assert.equal(argMax(got), argMax(expected), `${output.name}: the place of the largest value`);
    const steps = difference / quantisationStep(expected);
    // A tenth for the rounding of float32 in the multiples themselves.
    assert.ok(steps <= QUANTISATION_STEPS + 0.1, `${output.name}: off by ${steps} quantisation steps`);
    return;
  }
  const tolerance = output.dtype === 'float16' ? FLOAT16_TOLERANCE : FLOAT32_TOLERANCE;
  const relative = difference / largest(expected);
  assert.ok(relative <= tolerance, `${output.name}: off by ${relative} of its largest value, allowed are ${tolerance}`);
}

let context;
before(async () => {
  context = await ml.createContext();
});
after(() => context.destroy());

for (const [name, entry] of Object.entries(manifest)) {
  if (only !== undefined && !only.includes(name)) continue;
  test(name, async () => {
    const model = await loadModel(path.join(directory, entry.file), { context });
    try {
      assert.deepEqual(model.inputs.map((input) => [input.name, ...input.shape]), entry.inputs.map((input) => [input.name, ...input.shape]));
      assert.deepEqual(model.outputs.map((output) => [output.name, ...output.shape]), entry.outputs.map((output) => [output.name, ...output.shape]));
      const feeds = {};
      for (const input of entry.inputs) {
        feeds[input.name] = (await readNpy(path.join(directory, input.npy))).data;
      }
      const results = await model.run(feeds);
      for (const output of entry.outputs) {
        const expected = await readNpy(path.join(directory, output.npy));
        assertAgrees(entry, output, valuesOf(results[output.name].data, output.dtype), valuesOf(expected.data, expected.dataType));
      }
    } finally {
      model.destroy();
    }
  });
}
