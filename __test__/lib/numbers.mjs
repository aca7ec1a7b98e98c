/** Comparisons of rounded numbers. Exact results are compared with `assert.deepEqual()`. */

import assert from 'node:assert/strict';

/**
 * The largest absolute difference; NaN if any value is NaN, and the lengths must agree.
 *
 * @param {ArrayLike<number>} a
 * @param {ArrayLike<number>} b
 */
export function maxAbsDifference(a, b) {
  if (a.length !== b.length) throw new RangeError(`${a.length} values against ${b.length}`);
  return Array.from(a).reduce((max, value, i) => Math.max(max, Math.abs(value - b[i])), 0);
}

/**
 * Asserts that numbers are equal up to rounding. NaN and infinities must be where they are expected.
 *
 * @param {ArrayLike<number | bigint>} actual
 * @param {ArrayLike<number>} expected
 * @param {number} tolerance |actual - expected| <= tolerance * max(1, |expected|)
 * @param {string} [what] is compared
 */
export function assertClose(actual, expected, tolerance, what = 'the result') {
  const got = Array.from(actual, Number);
  assert.equal(got.length, expected.length, what);
  got.forEach((value, i) => {
    const isNear = Object.is(value, expected[i]) || Math.abs(value - expected[i]) <= tolerance * Math.max(1, Math.abs(expected[i]));
    if (!isNear) assert.fail(`${what}: element ${i} is ${value}, expected ${expected[i]}\n${got}\n${Array.from(expected)}`);
  });
}
