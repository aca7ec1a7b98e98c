// Compares an engine's outputs with the reference.

import { deviation } from 'd3-array';
import { numbersOf } from 'webnn-node-text/elements';
import { readNpy } from '../packages/cli/lib/npy.mjs';
import { largestDifference } from '../packages/cli/lib/statistics.mjs';

/**
 * Largest allowed difference, in standard deviations of the reference.
 *
 * - float32: rounding in another order. onnxruntime's own optimizations differ from each other by up to 5e-6.
 * - float16: against a computation in float32. One step of float16 is 9.8e-4, and layers add up.
 */
export const TOLERANCES = { float32: 1e-4, float16: 2e-2 };

/** Quantized outputs may be off by this many steps: near ties may be rounded to either side. */
export const QUANTIZATION_STEPS = 2;

/**
 * The largest allowed error of dynamically quantized models, as a multiple of the change that quantization causes, both
 * as root mean squares. Their outputs are not multiples of a step: the last bit of a sum decides where an activation
 * halfway between two steps goes, and each layer multiplies such cases. A relative change of 1e-7 in the scales causes
 * 0.4 to 0.7. Rounding can cause at most 1: weights and activations have 8 bits each, so half of the variance comes
 * from the activations, and two results with the same weights differ by twice that half. Single operators are compared
 * exactly, by the tests of the onnx package.
 */
const QUANTIZATION_ERROR = 1;

/** Steps are multiples of a float32, and rounded themselves. */
const STEP_ROUNDING = 0.1;

/**
 * Returns the quantization step of values that are all multiples of it: the smallest distance between two of them.
 *
 * @param {Iterable<number>} values
 */
function quantizationStep(values) {
  const sorted = Float64Array.from(new Set(values)).sort();
  let step = Infinity;
  for (let i = 1; i < sorted.length; i++) {
    step = Math.min(step, sorted[i] - sorted[i - 1]);
  }
  return step;
}

/**
 * Returns the mean square of the differences of two lists; infinite if their lengths differ.
 *
 * @param {ArrayLike<number>} a
 * @param {ArrayLike<number>} b
 */
function meanSquare(a, b) {
  if (a.length !== b.length) return Infinity;
  let sum = 0;
  for (let i = 0; i < a.length; i++) {
    sum += (a[i] - b[i]) ** 2;
  }
  return sum / a.length;
}

/** @typedef {Pick<import('../packages/cli/lib/types.mjs').Tensor, 'dataType' | 'data'>} Values */

/**
 * Reads the reference of an output.
 *
 * @param {import('./models.mjs').Reference} reference
 * @returns {Promise<{ expected: import('../packages/cli/lib/types.mjs').Tensor, unquantized?: import('../packages/cli/lib/types.mjs').Tensor }>}
 */
export async function readReference({ file, unquantized }) {
  return { expected: await readNpy(file), ...(unquantized !== undefined && { unquantized: await readNpy(unquantized) }) };
}

/**
 * Compares one output with its reference.
 *
 * @param {Values} got
 * @param {Values} expected
 * @param {import('./types.mjs').Kind} kind of the model
 * @param {Values} [unquantized] output of the network before quantization, for a model that quantizes its activations
 *   by their ranges in each run
 * @returns {import('./types.mjs').Deviation}
 */
export function compareOutput(got, expected, kind, unquantized) {
  const [a, b] = [numbersOf(got), numbersOf(expected)];
  if (unquantized !== undefined) {
    const quantization = meanSquare(numbersOf(unquantized), b);
    return { error: Math.sqrt(meanSquare(a, b) / quantization), allowed: QUANTIZATION_ERROR, unit: 'quantization errors' };
  }
  const difference = largestDifference(a, b);
  if (kind === 'int8') {
    const error = difference === 0 ? 0 : difference / quantizationStep(b);
    return { error, allowed: QUANTIZATION_STEPS + STEP_ROUNDING, unit: 'quantization steps' };
  }
  // A constant output has no deviation.
  const spread = deviation(b) || Math.abs(b[0]) || 1;
  return { error: difference / spread, allowed: TOLERANCES[kind], unit: 'standard deviations' };
}

/**
 * Returns the worst of several comparisons, relative to the allowed error.
 *
 * @template {import('./types.mjs').Deviation} T
 * @param {T[]} comparisons
 */
export function worst(comparisons) {
  return comparisons.reduce((a, b) => (b.error / b.allowed > a.error / a.allowed ? b : a));
}
