// Numbers about numbers: tensors, and times. Those of the benchmark of the repository, too.
import { mean, median, quantileSorted } from 'd3-array';
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
 * A sample in which others kept more than this many processors busy is dirty: it says more about them. CPU time comes in
 * ticks of 10 ms, and a sample lasts 150 ms or more, so two ticks that fall on the wrong side stay below.
 */
export const DIRTY_ABOVE = 0.15;

/**
 * @typedef {object} Sample while the rest of the machine was watched
 * @property {number} ms time of one run, in milliseconds
 * @property {number} iterations runs that it is the average of
 * @property {number} foreign processors that others kept busy meanwhile, on average
 */

/** @param {Pick<Sample, 'foreign'>} sample */
export const isDirty = ({ foreign }) => foreign > DIRTY_ABOVE;

/**
 * Samples in a few numbers.
 * @param {Sample[]} samples at least one
 * @returns {{ median: number, fastest: number, clean: number, foreign: number }} milliseconds: the median of all samples,
 *   the fastest clean one, or of all where none is clean; the number of clean samples; the mean foreign load
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
 * Geometric mean of positive numbers; null of none.
 * @param {number[]} values
 */
export function geometricMean(values) {
  const exponent = mean(values, Math.log);
  return exponent === undefined ? null : Math.exp(exponent);
}

/**
 * The largest difference of two lists of numbers; Infinity where the lengths differ or NaN stands against a number.
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
 * How far two tensors are apart.
 * @param {import('./types.mjs').Tensor} a
 * @param {import('./types.mjs').Tensor} b the reference
 * @returns {{ maxAbsolute: number, relative: number }} largest difference, and the same relative to the largest magnitude
 *   of the reference; Infinity where the shapes differ or NaN stands against a number
 */
export function compareTensors(a, b) {
  const reference = numbersOf(b);
  const maxAbsolute = largestDifference(numbersOf(a), reference);
  let largest = 0;
  for (let i = 0; i < reference.length; i++) if (Number.isFinite(reference[i])) largest = Math.max(largest, Math.abs(reference[i]));
  return { maxAbsolute, relative: maxAbsolute === 0 ? 0 : maxAbsolute / (largest || 1) };
}
