// Models to measure: NAME.onnx and a folder NAME with in_INPUT.npy and out_OUTPUT.npy, and out_float_OUTPUT.npy for
// dynamically quantized models.

import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { inspectModel } from '../onnx.js';
import { Failure } from '../scripts/process.mjs';
import { CATALOG } from './zoo/catalog.mjs';
import { MODELS, writeModels } from './zoo/write.mjs';

/** Operators of quantized models. */
const QUANTIZED = /(^|\.)(QuantizeLinear|DynamicQuantizeLinear|ConvInteger|MatMulInteger|QLinear\w+)$/;

/**
 * @typedef {object} BenchModel
 * @property {string} name
 * @property {string} file
 * @property {import('./types.mjs').Kind} kind type of its computation
 * @property {number} weightBytes size of its weights in the file
 * @property {Record<string, string>} inputs .npy files by name, in the order of the model
 * @property {Record<string, Reference | null>} outputs by name; null without a reference
 *
 * @typedef {object} Reference
 * @property {string} file .npy file of the reference
 * @property {string} [unquantized] .npy file of the output before quantization, for a model that quantizes its activations
 *   by their ranges in each run
 */

/**
 * @param {import('../onnx.js').OnnxInspection} inspection
 * @returns {import('./types.mjs').Kind}
 */
function kindOf({ operators, inputs, outputs }) {
  if (Object.keys(operators).some((operator) => QUANTIZED.test(operator))) {
    return 'int8';
  }
  return [...inputs, ...outputs].some(({ dataType }) => dataType === 'float16') ? 'float16' : 'float32';
}

/**
 * @param {string} directory
 * @param {string} name
 * @returns {BenchModel}
 * @throws {Failure} without its inputs
 */
export function describeModel(directory, name) {
  const file = join(directory, `${name}.onnx`);
  const inspection = inspectModel(file);
  /** @type {(kind: 'in' | 'out' | 'out_float', value: { name: string }) => string} */
  const beside = (kind, { name: value }) => join(directory, name, `${kind}_${value}.npy`);
  const inputs = Object.fromEntries(inspection.inputs.map((input) => [input.name, beside('in', input)]));
  const missing = Object.values(inputs).find((input) => !existsSync(input));
  if (missing !== undefined) {
    throw new Failure(`${file}: its input ${missing} is missing`, 2);
  }
  const isDynamic = 'DynamicQuantizeLinear' in inspection.operators;
  /** @type {(output: { name: string }) => Reference | null} */
  const reference = (output) => {
    const [expected, unquantized] = [beside('out', output), beside('out_float', output)];
    const needed = isDynamic ? [expected, unquantized] : [expected];
    if (!needed.every((one) => existsSync(one))) return null;
    return isDynamic ? { file: expected, unquantized } : { file: expected };
  };
  return {
    name,
    file,
    kind: kindOf(inspection),
    weightBytes: inspection.parameterBytes,
    inputs,
    outputs: Object.fromEntries(inspection.outputs.map((output) => [output.name, reference(output)])),
  };
}

/**
 * Finds the models of a folder whose names match, sorted by name.
 *
 * @param {string} directory
 * @param {RegExp} filter
 * @returns {BenchModel[]}
 * @throws {Failure} without any, or without their inputs
 */
export function findModels(directory, filter) {
  if (!existsSync(directory)) {
    throw new Failure(`--models: there is no folder ${directory}`, 2);
  }
  const names = readdirSync(directory)
    .filter((file) => file.endsWith('.onnx'))
    .map((file) => file.slice(0, -'.onnx'.length))
    .filter((name) => filter.test(name))
    .sort();
  if (names.length === 0) {
    throw new Failure(`${directory} has no model NAME.onnx whose name matches ${filter}`, 2);
  }
  return names.map((name) => describeModel(directory, name));
}

/**
 * The models of a folder, or of the benchmark, which are written where they are missing.
 *
 * @param {string | undefined} directory
 * @param {RegExp} filter of their names
 * @returns {Promise<BenchModel[]>}
 */
export async function modelsToMeasure(directory, filter) {
  if (directory !== undefined) return findModels(directory, filter);
  await writeModels(Object.keys(CATALOG).filter((name) => filter.test(name)));
  return findModels(MODELS, filter);
}
