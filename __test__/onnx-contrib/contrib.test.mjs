// Every model of scripts/python/contrib_models.py, one operator of com.microsoft each: loaded, run, compared with
// onnxruntime's results. `npm run test:onnx-contrib` writes the models first and names their folder.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import test, { after, before } from 'node:test';
import { ml } from 'webnn-node';
import { loadModel } from 'webnn-node/onnx';
import { readNpy } from 'webnn-node-cli/lib/npy.mjs';
import { valuesOf } from '../onnx-models/tensors.mjs';

const RELATIVE_TOLERANCE = 1e-3;
const ABSOLUTE_TOLERANCE = 1e-5;

/**
 * Quantized results may be off by one step: onnxruntime rounds some of its intermediate results to integers. Other integers are
 * exact.
 */
const QUANTIZATION_STEPS = { int8: 1, uint8: 1 };

const directory = process.env.ONNX_CONTRIB;
assert.ok(directory, 'ONNX_CONTRIB does not name the folder of the models; run `npm run test:onnx-contrib`');
const manifest = JSON.parse(readFileSync(path.join(directory, 'manifest.json'), 'utf8'));

function assertAgrees(output, got, expected) {
  assert.equal(got.length, expected.length, output.name);
  for (const [i, value] of got.entries()) {
    const difference = Math.abs(Number(value) - Number(expected[i]));
    const isFloat = output.dtype.startsWith('float');
    const allowed = isFloat ? ABSOLUTE_TOLERANCE + RELATIVE_TOLERANCE * Math.abs(expected[i]) : (QUANTIZATION_STEPS[output.dtype] ?? 0);
    assert.ok(difference <= allowed, `${output.name}[${i}] is ${value}, expected ${expected[i]}`);
  }
}

let context;
before(async () => {
  context = await ml.createContext();
});
after(() => context.destroy());

for (const [name, entry] of Object.entries(manifest)) {
  test(name, async () => {
    const folder = path.join(directory, name);
    const model = await loadModel(path.join(folder, 'model.onnx'), { context });
    try {
      const feeds = {};
      for (const input of entry.inputs) {
        feeds[input.name] = (await readNpy(path.join(folder, `in_${input.name}.npy`))).data;
      }
      const results = await model.run(feeds);
      for (const output of entry.outputs) {
        const expected = await readNpy(path.join(folder, `out_${output.name}.npy`));
        assertAgrees(output, valuesOf(results[output.name].data, output.dtype), valuesOf(expected.data, expected.dataType));
      }
    } finally {
      model.destroy();
    }
  });
}
