// Every model of the benchmark: loaded, run, compared with onnxruntime's results. `npm run suite -- onnx-models` writes the models
// first and names their folder.

import assert from 'node:assert/strict';
import test, { after, before } from 'node:test';
import { ml } from 'webnn-node';
import { describeContext } from 'webnn-node/inspect';
import { loadModel } from 'webnn-node/onnx';
import { numbersOf } from 'webnn-node-text/elements';
import { readNpy } from '../../packages/cli/lib/npy.mjs';
import { compareOutput, readReference } from '../../bench/check.mjs';
import { describeModel } from '../../bench/models.mjs';
import { defined } from '../lib/types.mjs';

const { ONNX_MODELS: directory, ONNX_MODELS_NAMES: names, ONNX_MODELS_DEVICE: device = 'cpu' } = process.env;
assert.ok(directory && names, 'ONNX_MODELS and ONNX_MODELS_NAMES do not name the models; run `npm run suite -- onnx-models`');

const argMax = (values) => values.indexOf(values.reduce((a, b) => Math.max(a, b)));

/**
 * Compares an output as the benchmark does it.
 *
 * @param {string} name
 * @param {{ dataType: string, data: any }} got
 * @param {{ expected: any, unquantized?: any }} reference
 * @param {import('../../bench/types.mjs').Kind} kind
 */
function assertAgrees(name, got, { expected, unquantized }, kind) {
  const { error, allowed, unit } = compareOutput(got, expected, kind, unquantized);
  assert.ok(error <= allowed, `${name}: off by ${error} ${unit}, allowed are ${allowed}`);
  if (kind === 'int8' && unquantized === undefined) {
    const [place, right] = [got, expected].map((tensor) => argMax(numbersOf(tensor)));
    assert.equal(place, right, `${name}: the place of the largest value`);
  }
}

let context;
before(async () => {
  context = await ml.createContext(device === 'gpu' ? { powerPreference: 'high-performance' } : { accelerated: false });
  assert.equal(describeContext(context).device, device);
});
after(() => context.destroy());

/** Names and shapes of inputs or outputs. */
const shapesOf = (values) => values.map(({ name, shape }) => [name, [...defined(shape)]]);

for (const name of names.split(',')) {
  test(name, async () => {
    const { file, kind, inputs, outputs } = describeModel(directory, name);
    const model = await loadModel(file, { context });
    try {
      const samples = await Promise.all(Object.entries(inputs).map(async ([key, npy]) => ({ name: key, ...(await readNpy(npy)) })));
      assert.deepEqual(shapesOf(model.inputs), shapesOf(samples));
      const results = await model.run(Object.fromEntries(samples.map(({ name: key, data }) => [key, data])));
      for (const { name: key, shape } of model.outputs) {
        const reference = await readReference(defined(outputs[key]));
        assert.deepEqual(shape, reference.expected.shape, key);
        assertAgrees(key, results[key], reference, kind);
      }
    } finally {
      model.destroy();
    }
  });
}
