// Statistics of tensors and times. The repository's benchmark uses them as well.
import { mean, median, quantileSorted } from 'd3-array';
import { numbersOf } from 'webnn-node-text/elements';

/** Number of elements of a tensor to show. */
const FIRST = 5;

/**
 * Describes a tensor in one line. NaNs are counted, and excluded from the rest; `min`, `max` and `mean` are null if
 * nothing is left, as of strings and maps.
 * @param {import('./types.mjs').Tensor} tensor
 * @returns {{ dataType: string, shape: readonly number[], min: number | null, max: number | null, mean: number | null, nans: number,
 *   first: (number | bigint | string | object)[] }}
 */
export function describeTensor(tensor) {
  if (Array.isArray(tensor.data)) {
    const { dataType, shape, data } = /** @type {any} */ (tensor);
    return { dataType, shape, min: null, max: null, mean: null, nans: 0, first: data.slice(0, FIRST) };
  }
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
 * Returns an element, with all digits of 64-bit integers.
 * @param {import('./types.mjs').Tensor} tensor
 * @param {ArrayLike<number>} numbers
 * @param {number} index
 */
function exact({ data }, numbers, index) {
  return typeof data[index] === 'bigint' ? data[index] : numbers[index];
}

/**
 * Summarizes durations.
 * @param {number[]} samples milliseconds, at least one, in any order
 * @returns {{ runs: number, median: number, p95: number, min: number, mean: number, throughput: number }} milliseconds,
 *   and runs per second
 */
export function summarizeTimes(samples) {
  const sorted = Float64Array.from(samples).sort();
  const average = /** @type {number} */ (mean(sorted));
  return {
    runs: sorted.length,
    median: quantileSorted(sorted, 0.5),
    p95: quantileSorted(sorted, 0.95),
    min: sorted[0],
    mean: average,
    throughput: 1000 / average,
  };
}

/**
 * A sample is dirty if other processes kept more than this number of processors busy. CPU time comes in ticks of 10 ms,
 * and a sample lasts at least 150 ms: two misattributed ticks stay below the limit.
 */
export const DIRTY_ABOVE = 0.15;

/**
 * @typedef {object} Sample measured while the rest of the machine was watched
 * @property {number} ms time of one run, in milliseconds
 * @property {number} iterations number of runs it averages
 * @property {number} foreign average number of processors that others kept busy meanwhile
 */

/** @param {Pick<Sample, 'foreign'>} sample */
export const isDirty = ({ foreign }) => foreign > DIRTY_ABOVE;

/**
 * Summarizes samples.
 * @param {Sample[]} samples at least one
 * @returns {{ median: number, fastest: number, clean: number, foreign: number }} milliseconds: the median of all
 *   samples, the fastest clean one, or the fastest of all if none is clean; the number of clean samples; the mean
 *   foreign load
 */
export function summarizeSamples(samples) {
  const clean = samples.filter((sample) => !isDirty(sample));
  const considered = clean.length > 0 ? clean : samples;
  return {
    median: /** @type {number} */ (median(samples, ({ ms }) => ms)),
    fastest: Math.min(...considered.map(({ ms }) => ms)),
    clean: clean.length,
    foreign: /** @type {number} */ (mean(samples, ({ foreign }) => foreign)),
  };
}

/**
 * Returns the geometric mean of positive numbers; null for an empty list.
 * @param {number[]} values
 */
export function geometricMean(values) {
  const exponent = mean(values, Math.log);
  return exponent === undefined ? null : Math.exp(exponent);
}

/**
 * Returns the largest difference between two lists of numbers; Infinity if the lengths differ, or NaN meets a number.
 * @param {ArrayLike<number>} a
 * @param {ArrayLike<number>} b
 */
export function largestDifference(a, b) {
  if (a.length !== b.length) return Infinity;
  let largest = 0;
  for (let i = 0; i < a.length; i++) {
    if (Object.is(a[i], b[i])) continue;
    const difference = Math.abs(a[i] - b[i]);
    if (Number.isNaN(difference)) return Infinity;
    if (difference > largest) largest = difference;
  }
  return largest;
}

/**
 * Compares two tensors.
 * @param {import('./types.mjs').Tensor} a
 * @param {import('./types.mjs').Tensor} b the reference
 * @returns {{ maxAbsolute: number, relative: number }} largest difference, and the same relative to the largest
 *   magnitude of the reference; Infinity if the shapes differ or NaN meets a number
 */
export function compareTensors(a, b) {
  const reference = numbersOf(b);
  const maxAbsolute = largestDifference(numbersOf(a), reference);
  let largest = 0;
  for (let i = 0; i < reference.length; i++) if (Number.isFinite(reference[i])) largest = Math.max(largest, Math.abs(reference[i]));
  return { maxAbsolute, relative: maxAbsolute === 0 ? 0 : maxAbsolute / (largest || 1) };
}
