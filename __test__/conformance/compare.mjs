// Compares results with expected values as the conformance vectors define it.

import { elementValue } from './decode.mjs';

const BITS = new DataView(new ArrayBuffer(4));

/**
 * For float types: the element's bit pattern read as a sign-and-magnitude integer, so that neighbours differ by one
 * and both zeros are 0.
 */
function rank(dataType, elements, index) {
  if (dataType === 'float16') {
    const bits = elements[index];
    return bits & 0x8000 ? -(bits & 0x7fff) : bits;
  }
  BITS.setFloat32(0, elements[index]);
  const bits = BITS.getInt32(0);
  return bits < 0 ? -(bits & 0x7fffffff) : bits;
}

function absoluteDifference(a, b) {
  // Equal infinities differ by 0, not by NaN.
  if (a === b) {
    return typeof a === 'bigint' ? 0n : 0;
  }
  return a < b ? b - a : a - b;
}

/**
 * Distance of two elements under a metric, as a number or bigint.
 *
 * `ULP` counts the numbers of the data type between them (for integers: the absolute difference), `ATOL` is the
 * absolute difference. NaN has distance 0 to NaN and Infinity to everything else.
 *
 * @throws {Error} when the metric is unknown
 */
export function distance(metric, dataType, got, expected, index) {
  if (metric !== 'ULP' && metric !== 'ATOL') {
    throw new Error(`unknown metric ${JSON.stringify(metric)}`);
  }
  const [a, b] = [elementValue(dataType, got, index), elementValue(dataType, expected, index)];
  if (Number.isNaN(a) || Number.isNaN(b)) {
    return Number.isNaN(a) && Number.isNaN(b) ? 0 : Infinity;
  }
  if (metric === 'ULP' && (dataType === 'float32' || dataType === 'float16')) {
    return Math.abs(rank(dataType, got, index) - rank(dataType, expected, index));
  }
  return absoluteDifference(a, b);
}

/**
 * The elements of `got` that are further from `expected` than the tolerance allows.
 *
 * @param {string} dataType of both
 * @param got a typed array as `decodeTensor` makes it
 * @param expected a typed array of the same length
 * @param {{ metric: 'ULP' | 'ATOL', value: number }} tolerance
 * @returns {{ index: number, got: number | bigint, expected: number | bigint, distance: number | bigint }[]}
 * @throws {Error} when the tolerance cannot be understood or the lengths differ
 */
export function mismatches(dataType, got, expected, { metric, value }) {
  if (!(value >= 0)) {
    throw new Error(`a tolerance of ${JSON.stringify(value)}`);
  }
  if (got.length !== expected.length) {
    throw new Error(`${got.length} elements, expected ${expected.length}`);
  }
  const found = [];
  for (let index = 0; index < expected.length; index++) {
    const away = distance(metric, dataType, got, expected, index);
    if (!(away <= value)) {
      found.push({
        index,
        got: elementValue(dataType, got, index),
        expected: elementValue(dataType, expected, index),
        distance: away,
      });
    }
  }
  return found;
}
