// The models of scripts/python/contrib_models.py (one operator of com.microsoft each), optimized_models.py (networks that
// onnxruntime saved after all of its optimizations), resize_models.py, ml_models.py (one operator of ai.onnx.ml each),
// text_models.py (strings and maps), double_models.py (one operator on doubles each) and classical_models.py (what exporters
// write): loaded, run, compared with onnxruntime's results.
// `npm run suite -- onnx-contrib` writes the models first and names their folders.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import test, { after, before } from 'node:test';
import { ml } from 'webnn-node';
import { loadModel, supportedOperators, unsupportedOperators } from 'webnn-node/onnx';
import { readNpy } from '../../packages/cli/lib/npy.mjs';
import { valuesOf } from '../onnx-models/tensors.mjs';

const RELATIVE_TOLERANCE = 1e-3;
const ABSOLUTE_TOLERANCE = 1e-5;
/** The same for doubles. */
const DOUBLE_TOLERANCE = 1e-12;

/**
 * Quantized results may be off by one step: onnxruntime rounds some of its intermediate results to integers. Other integers are
 * exact.
 */
const QUANTIZATION_STEPS = { int8: 1, uint8: 1 };

const { ONNX_OPERATORS: names } = process.env;
const directories = process.env.ONNX_CONTRIB?.split(path.delimiter);
assert.ok(directories && names, 'ONNX_CONTRIB does not name the folders of the models; run `npm run suite -- onnx-contrib`');

/** How much a number of a type may differ. */
function usualTolerance(dtype, size) {
  if (dtype === 'float64') {
    return DOUBLE_TOLERANCE * (1 + size);
  }
  return dtype.startsWith('float') ? ABSOLUTE_TOLERANCE + RELATIVE_TOLERANCE * size : (QUANTIZATION_STEPS[dtype] ?? 0);
}

/** Compares numbers; `tolerance`, if the case has one, is for all of them. */
function assertAgrees(output, got, expected, tolerance) {
  assert.equal(got.length, expected.length, output.name);
  for (const [i, value] of got.entries()) {
    const difference = Math.abs(Number(value) - Number(expected[i]));
    const usual = usualTolerance(output.dtype, Math.abs(Number(expected[i])));
    const isSame = Object.is(Number(value), Number(expected[i]));
    assert.ok(isSame || difference <= (tolerance ?? usual), `${output.name}[${i}] is ${value}, expected ${expected[i]}`);
  }
}

/** Compares strings, or maps. */
function assertEqual(output, got, expected) {
  if (output.dtype === 'string') return assert.deepEqual(got, expected, output.name);
  const names = (maps) => maps.map((map) => Object.keys(map).sort());
  assert.deepEqual(names(got), names(expected), output.name);
  const numbers = (maps) =>
    maps.flatMap((map) =>
      Object.keys(map)
        .sort()
        .map((name) => map[name]),
    );
  assertAgrees({ ...output, dtype: 'float32' }, numbers(got), numbers(expected));
}

/** Strings and maps are JSON. */
const read = async (file) => (file.endsWith('.json') ? JSON.parse(readFileSync(file, 'utf8')) : await readNpy(file));

let context;
before(async () => {
  context = await ml.createContext();
});
after(() => context.destroy());

test('each operator of ONNX and onnxruntime is supported, or is not for a reason that is named', () => {
  const known = new Set([...supportedOperators(), ...unsupportedOperators()].map(({ domain, operator }) => `${domain}.${operator}`));
  /** @type {[domain: string, name: string][]} */
  const all = JSON.parse(readFileSync(names, 'utf8'));
  assert.ok(all.length > 300);
  assert.deepEqual(
    all.map((name) => name.join('.')).filter((name) => !known.has(name)),
    [],
  );
});

for (const directory of directories) {
  const manifest = JSON.parse(readFileSync(path.join(directory, 'manifest.json'), 'utf8'));
  for (const [name, entry] of Object.entries(manifest)) {
    test(`${path.basename(directory)}: ${name}`, async () => {
      const folder = path.join(directory, name);
      const model = await loadModel(path.join(folder, 'model.onnx'), { context, outputs: entry.outputs });
      try {
        for (const { inputs, outputs } of entry.runs) {
          const feeds = {};
          for (const input of inputs) {
            const { data, shape } = await read(path.join(folder, input.file));
            feeds[input.name] = { data, shape };
          }
          const results = await model.run(feeds);
          for (const output of outputs) {
            const expected = await read(path.join(folder, output.file));
            assert.deepEqual(results[output.name].shape, output.shape, output.name);
            if (['string', 'map'].includes(output.dtype)) {
              assert.equal(results[output.name].dataType, output.dtype);
              assertEqual(output, results[output.name].data, expected.data);
              continue;
            }
            const values = [results[output.name].data, expected.data].map((data) => valuesOf(data, output.dtype));
            assertAgrees(output, ...values, entry.tolerance);
          }
        }
      } finally {
        model.destroy();
      }
    });
  }
}
