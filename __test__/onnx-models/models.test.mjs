// Every model of make_models.py and bench_models.py: loaded, run, compared with onnxruntime's results. `npm run
// test:onnx-models` writes the models first and names their folder.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import test, { after, before } from 'node:test';
import { ml } from 'webnn-node';
import { loadModel } from 'webnn-node/onnx';
import { numbersOf } from 'webnn-node-text/elements';
import { readNpy } from '../../packages/cli/lib/npy.mjs';
import { compareOutput, readReference } from '../../bench/check.mjs';
import { describeModel } from '../../bench/models.mjs';
import { defined } from '../lib/types.mjs';

const directory = process.env.ONNX_MODELS;
assert.ok(directory, 'ONNX_MODELS does not name the folder of the models; run `npm run test:onnx-models`');
const manifest = JSON.parse(readFileSync(path.join(directory, 'manifest.json'), 'utf8'));
const only = process.env.ONNX_MODELS_ONLY?.split(',');

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
  context = await ml.createContext();
});
after(() => context.destroy());

for (const [name, entry] of Object.entries(manifest)) {
  if (only !== undefined && !only.includes(name)) continue;
  test(name, async () => {
    const model = await loadModel(path.join(directory, entry.file), { context });
    try {
      assert.deepEqual(
        model.inputs.map((input) => [input.name, ...defined(input.shape)]),
        entry.inputs.map((input) => [input.name, ...input.shape]),
      );
      assert.deepEqual(
        model.outputs.map((output) => [output.name, ...defined(output.shape)]),
        entry.outputs.map((output) => [output.name, ...output.shape]),
      );
      const feeds = {};
      for (const input of entry.inputs) {
        feeds[input.name] = (await readNpy(path.join(directory, input.npy))).data;
      }
      const results = await model.run(feeds);
      const { kind, outputs } = describeModel(directory, name);
      for (const output of entry.outputs) {
        assert.ok(outputs[output.name], `${output.name} has no reference`);
        assertAgrees(output.name, results[output.name], await readReference(defined(outputs[output.name])), kind);
      }
    } finally {
      model.destroy();
    }
  });
}
