// Numbers about numbers.
import { quantileSorted } from 'd3-array';
import { numbersOf } from './elements.mjs';

/** Elements of a tensor that are shown. */
const FIRST = 5;

/**
 * What can be said about a tensor in one line. NaNs are counted and left out of the rest; `min`, `max` and `mean` are
 * null where nothing is left.
 * @param {import('./types.mjs').Tensor} tensor
 * @returns {{ dataType: string, shape: readonly number[], min: number | null, max: number | null, mean: number | null, nans: number,
 *   first: (number | bigint)[] }}
 */
export function describeTensor(tensor) {
  const numbers = numbersOf(tensor);
  let [min, max, sum, nans] = [Infinity, -Infinity, 0, 0];
  for (let i = 0; i < numbers.length; i++) {
    const value = numbers[i];
    if (Number.isNaN(value)) {
      nans += 1;
      continue;
    }
    if (value < min) min = value;
    if (value > max) max = value;
    sum += value;
  }
  const count = numbers.length - nans;
  const known = (/** @type {number} */ value) => (count === 0 ? null : value);
  const { dataType, shape } = tensor;
  const first = Array.from({ length: Math.min(FIRST, numbers.length) }, (_, i) => exact(tensor, numbers, i));
  return { dataType, shape, min: known(min), max: known(max), mean: known(sum / count), nans, first };
}

/**
 * 64-bit integers keep all their digits.
 * @param {import('./types.mjs').Tensor} tensor
 * @param {ArrayLike<number>} numbers
 * @param {number} index
 */
function exact({ data }, numbers, index) {
  return typeof data[index] === 'bigint' ? data[index] : numbers[index];
}

/**
 * Durations in a few numbers.
 * @param {number[]} samples milliseconds, at least one, in any order
 * @returns {{ runs: number, median: number, p95: number, min: number, mean: number, throughput: number }} milliseconds,
 *   and runs per second
 */
export function summarizeSamples(samples) {
  const sorted = Float64Array.from(samples).sort();
  const mean = sorted.reduce((sum, value) => sum + value, 0) / sorted.length;
  return {
    runs: sorted.length,
    median: quantileSorted(sorted, 0.5),
    p95: quantileSorted(sorted, 0.95),
    min: sorted[0],
    mean,
    throughput: 1000 / mean,
  };
}

/**
 * How far two tensors are apart.
 * @param {import('./types.mjs').Tensor} a
 * @param {import('./types.mjs').Tensor} b the reference
 * @returns {{ maxAbsolute: number, relative: number }} largest difference, and the same relative to the largest magnitude
 *   of the reference; Infinity where the shapes differ or NaN stands against a number
 */
export function compareTensors(a, b) {
  const [left, right] = [numbersOf(a), numbersOf(b)];
  if (left.length !== right.length) return { maxAbsolute: Infinity, relative: Infinity };
  let [largest, maxAbsolute] = [0, 0];
  for (let i = 0; i < left.length; i++) {
    if (Object.is(left[i], right[i])) continue;
    const difference = Math.abs(left[i] - right[i]);
    maxAbsolute = Math.max(maxAbsolute, Number.isNaN(difference) ? Infinity : difference);
  }
  for (let i = 0; i < right.length; i++) if (Number.isFinite(right[i])) largest = Math.max(largest, Math.abs(right[i]));
  return { maxAbsolute, relative: maxAbsolute === 0 ? 0 : maxAbsolute / (largest || 1) };
}
