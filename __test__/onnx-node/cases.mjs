// Runs one prepared single-operator test of the onnx package through `webnn-node/onnx`.

import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { inspect, isDeepStrictEqual } from 'node:util';
import { loadModel, OnnxError } from 'webnn-node/onnx';
import { arrayOf } from 'webnn-node-text/elements';
import { readNpy } from '../../packages/cli/lib/npy.mjs';
import { dataTypeOf, valuesOf } from '../onnx-models/tensors.mjs';
import { difference } from './compare.mjs';

/** A test that takes longer hangs: the slowest needs less than a second. In milliseconds. */
const TIME_LIMIT = 60_000;

/** Reads what a row of the index names. */
async function readValue(directory, row) {
  if (row.isNothing) return null;
  const read = async (name) => {
    const file = join(directory, name);
    const tensor = file.endsWith('.json') ? JSON.parse(await readFile(file, 'utf8')) : await readNpy(file);
    // NumPy has no such type: the file has the bits.
    return row.dataType.startsWith('bfloat16') ? { ...tensor, dataType: 'bfloat16' } : tensor;
  };
  return Array.isArray(row.file) ? Promise.all(row.file.map(read)) : read(row.file);
}

/** Reads the values that `rows` of the index name. @returns {Promise<Record<string, any>>} */
async function readValues(directory, { name, ...test }, kind) {
  const entries = test[kind].map(async (row) => [row.name, await readValue(join(directory, name), row)]);
  return Object.fromEntries(await Promise.all(entries));
}

/** What is wrong with a value; `undefined` if nothing. */
function valueProblem(name, result, expected) {
  if (expected === null || Array.isArray(expected)) {
    const isAlike = expected === null ? result === null : result?.length === expected.length;
    if (!isAlike) return `${name}: got ${inspect(result)}, expected ${expected === null ? 'null' : `${expected.length} tensors`}`;
    return expected?.map((item, at) => outputProblem(`${name}[${at}]`, result[at], item)).find((problem) => problem !== undefined);
  }
  return outputProblem(name, result, expected);
}

/**
 * What is wrong with one output; `undefined` if nothing.
 * @param {string} name
 * @param {import('webnn-node/onnx').OnnxResult} result
 * @param {Awaited<ReturnType<typeof readNpy>>} expected
 */
function outputProblem(name, { data, ...descriptor }, expected) {
  const wanted = { dataType: dataTypeOf(expected), shape: expected.shape };
  if (descriptor.dataType !== wanted.dataType || descriptor.shape.join() !== wanted.shape.join()) {
    return `${name}: is ${descriptor.dataType} [${descriptor.shape.join(', ')}], expected ${wanted.dataType} [${wanted.shape.join(', ')}]`;
  }
  if (wanted.dataType === 'string') {
    return isDeepStrictEqual(data, expected.data) ? undefined : `${name}: got ${inspect(data)}, expected ${inspect(expected.data)}`;
  }
  const kind = expected.dataType === 'bfloat16' ? Uint16Array : /** @type {any} */ (arrayOf(expected.dataType, 0).constructor);
  if (!(data instanceof kind)) {
    return `${name}: is a ${data.constructor.name}, expected a ${kind.name}`;
  }
  const problem = difference(valuesOf(data, wanted.dataType), valuesOf(expected.data, wanted.dataType), wanted.dataType);
  return problem && `${name}: ${problem}`;
}

/** What was thrown, in words. */
const shown = (error) => `${error?.name}: ${error?.message}`;

/** Runs the test with the inputs that data decide by as constants and, where it has some, with all inputs as inputs. */
async function loadAndRun(directory, test, context) {
  const outcome = await loadAndRunOne(directory, test, 'model.onnx', context);
  if (test.computed === null || outcome.outcome !== 'agrees') return outcome;
  try {
    const computed = await loadAndRunOne(directory, { ...test, inputs: test.computed }, 'computed.onnx', context);
    return { ...computed, message: computed.message && `with computed inputs: ${computed.message}` };
  } catch (error) {
    // The test is expressible: its results are right with constants.
    return { outcome: 'error', message: `with computed inputs: ${shown(error)}` };
  }
}

async function loadAndRunOne(directory, test, file, context) {
  const model = await loadModel(join(directory, test.name, file), { context });
  try {
    if ([...test.inputs, ...test.outputs].some(({ file, isNothing }) => !isNothing && [file].flat().includes(null))) {
      return { outcome: 'loaded', message: 'it is loaded, although its data are of types that NumPy lacks' };
    }
    const feeds = Object.entries(await readValues(directory, test, 'inputs'));
    const fed = (value) => (Array.isArray(value) ? value.map(fed) : value && { data: value.data, shape: value.shape });
    const results = await model.run(Object.fromEntries(feeds.map(([name, value]) => [name, fed(value)])));
    const expected = await readValues(directory, test, 'outputs');
    const problems = Object.keys(expected)
      .map((name) => valueProblem(name, results[name], expected[name]))
      .filter((problem) => problem !== undefined);
    return problems.length === 0 ? { outcome: 'agrees' } : { outcome: 'differs', message: problems.join('; ') };
  } finally {
    model.destroy();
  }
}

/**
 * Loads a test's model, runs it and compares the results. Never rejects.
 *
 * @param {string} directory the folder of prepared tests
 * @param {object} test a row of its index
 * @param {MLContext} context
 * @returns {Promise<{ outcome: 'agrees' | 'differs' | 'refused' | 'loaded' | 'error', message?: string }>}
 *   `refused`: with an OnnxError; `loaded`: but its data cannot be fed; `error`: any other error, or too slow
 */
export async function runCase(directory, test, context) {
  let timer;
  const tooSlow = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`not finished after ${TIME_LIMIT / 1000} s`)), TIME_LIMIT);
  });
  try {
    return await Promise.race([loadAndRun(directory, test, context), tooSlow]);
  } catch (error) {
    return error instanceof OnnxError ? { outcome: 'refused', message: error.message } : { outcome: 'error', message: shown(error) };
  } finally {
    clearTimeout(timer);
  }
}
