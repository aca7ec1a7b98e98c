// Programs that were written for onnxruntime-node, unchanged, on webnn-node-ort: put in its place by `overrides`, and by
// `--import webnn-node-ort/register`. Their results are compared with those of onnxruntime-node in references.json.
// `npm run suite -- ort-programs` installs and writes what they need; `-- --reference` computes references.json anew.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import test from 'node:test';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { digests, ONLY_REGISTERED, PROGRAMS, REFERENCES, runProgram } from './runs.mjs';
import { defined } from '../../lib/types.mjs';

const [replaced, folder] = [defined(process.env.WEBNN_ORT_REPLACED), defined(process.env.WEBNN_ORT_DATA)];
const data = { models: join(folder, 'models'), speech: join(folder, 'speech') };
const references = JSON.parse(readFileSync(REFERENCES, 'utf8'));

/** Between vectors of length 1, probabilities and scores. Sums of floats in another order; 8-bit models round to other integers. */
const TOLERANCES = { q8: 1e-3, other: 1e-5 };

/**
 * Asserts that results are the same, but for small differences of numbers with a fraction.
 *
 * @param {any} actual
 * @param {any} expected
 * @param {string} path of the values in the results
 */
function assertResults(actual, expected, path) {
  if (expected !== null && typeof expected === 'object') {
    assert.deepEqual(Object.keys(actual ?? {}), Object.keys(expected), path);
    Object.keys(expected).forEach((key) => assertResults(actual[key], expected[key], `${path}/${key}`));
  } else if (typeof expected === 'number' && !Number.isInteger(expected)) {
    const tolerance = path.includes('/q8/') ? TOLERANCES.q8 : TOLERANCES.other;
    assert.ok(Math.abs(actual - expected) <= tolerance, `${path} is ${actual}, expected ${expected}`);
  } else {
    assert.equal(actual, expected, path);
  }
}

test('models and speech are those of the references', () => {
  const advice = 'another version of a generator wrote them: npm run suite -- ort-programs --reference';
  assert.deepEqual(digests(data), references.digests, advice);
});

test('there is no onnxruntime-node in the project with overrides', () => {
  const { name } = JSON.parse(readFileSync(join(replaced, 'node_modules', 'onnxruntime-node', 'package.json'), 'utf8'));
  assert.equal(name, 'webnn-node-ort');
});

const REGISTER = ['--import', pathToFileURL(join(replaced, 'node_modules', 'onnxruntime-node', 'register.js')).href];
const ALL = Object.keys(PROGRAMS);
const WAYS = {
  'by overrides': { project: replaced, flags: [], names: ALL.filter((name) => !(name in ONLY_REGISTERED)) },
  'by register, beside onnxruntime-node': { project: fileURLToPath(new URL('programs', import.meta.url)), flags: REGISTER, names: ALL },
};

for (const [way, { project, flags, names }] of Object.entries(WAYS)) {
  for (const name of names) {
    test(`${name} ${way}`, async () => {
      const { results, libraries } = await runProgram(project, name, data, flags);
      assert.ok(libraries.length > 0 && libraries.every((library) => library.startsWith('webnn-node')), `loaded ${libraries}`);
      assertResults(results, references.results[name], name);
    });
  }
}
