// Whether an engine computes what the reference says.

import { deviation } from 'd3-array';
import { numbersOf } from 'webnn-node-cli/lib/elements.mjs';
import { largestDifference } from 'webnn-node-cli/lib/statistics.mjs';

/**
 * Largest difference that is allowed, in standard deviations of the reference.
 *
 * - float32: rounding in another order. onnxruntime's own optimisations differ from each other by up to 5e-6.
 * - float16: against a computation in float32. One step of float16 is 9.8e-4, and layers add up.
 */
export const TOLERANCES = { float32: 1e-4, float16: 2e-2 };

/** Quantised outputs may be off by so many steps: sums that nearly tie are rounded to either side. */
export const QUANTISATION_STEPS = 2;

/** Steps are multiples of a float32 and rounded themselves. */
const STEP_ROUNDING = 0.1;

/**
 * The quantisation step of values that all are multiples of it: the smallest distance of two of them.
 *
 * @param {Iterable<number>} values
 */
function quantisationStep(values) {
  const sorted = Float64Array.from(new Set(values)).sort();
  let step = Infinity;
  for (let i = 1; i < sorted.length; i++) {
    step = Math.min(step, sorted[i] - sorted[i - 1]);
  }
  return step;
}

/**
 * Compares one output with its reference.
 *
 * @param {Pick<import('webnn-node-cli/lib/types.mjs').Tensor, 'dataType' | 'data'>} got
 * @param {Pick<import('webnn-node-cli/lib/types.mjs').Tensor, 'dataType' | 'data'>} expected
 * @param {import('./types.mjs').Kind} kind of the model
 * @returns {import('./types.mjs').Deviation}
 */
export function compareOutput(got, expected, kind) {
  const [a, b] = [numbersOf(got), numbersOf(expected)];
  const difference = largestDifference(a, b);
  if (kind === 'int8') {
    const error = difference === 0 ? 0 : difference / quantisationStep(b);
    return { error, allowed: QUANTISATION_STEPS + STEP_ROUNDING, unit: 'quantisation steps' };
  }
  // A constant output has no deviation to compare with.
  const spread = deviation(b) || Math.abs(b[0]) || 1;
  return { error: difference / spread, allowed: TOLERANCES[kind], unit: 'standard deviations' };
}

/**
 * The worst of several comparisons: the one that is furthest off, measured by what is allowed.
 *
 * @template {import('./types.mjs').Deviation} T
 * @param {T[]} comparisons
 */
export function worst(comparisons) {
  return comparisons.reduce((a, b) => (b.error / b.allowed > a.error / a.allowed ? b : a));
}
