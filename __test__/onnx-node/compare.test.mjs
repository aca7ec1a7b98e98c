import assert from 'node:assert/strict';
import test from 'node:test';
import { ABSOLUTE_TOLERANCE, difference, RELATIVE_TOLERANCE } from './compare.mjs';

test('floats agree within the tolerances, and not beyond', () => {
  assert.equal(difference([100 * (1 + 0.9 * RELATIVE_TOLERANCE)], [100], 'float32'), undefined);
  assert.match(String(difference([100 * (1 + 1.1 * RELATIVE_TOLERANCE)], [100], 'float32')), /^1 of 1 elements differ/);
  assert.equal(difference([0.9 * ABSOLUTE_TOLERANCE], [0], 'float32'), undefined);
  assert.notEqual(difference([1.1 * ABSOLUTE_TOLERANCE], [0], 'float32'), undefined);
});

test('NaN agrees with NaN only, an infinity with itself only, zeros with each other', () => {
  assert.equal(difference([NaN, Infinity, -Infinity, -0], [NaN, Infinity, -Infinity, 0], 'float16'), undefined);
  for (const [got, expected] of [
    [NaN, 1],
    [1, NaN],
    [Infinity, -Infinity],
    [3e38, Infinity],
    [Infinity, 3e38],
  ]) {
    assert.notEqual(difference([got], [expected], 'float32'), undefined, `${got} against ${expected}`);
  }
});

test('integers agree exactly', () => {
  assert.equal(difference([10_000n], [10_000n], 'int64'), undefined);
  assert.equal(difference([10_001n, 1n], [10_000n, 1n], 'int64'), '1 of 2 elements differ, the first is [0]: got 10001, expected 10000');
});

test('another number of elements is a difference', () => {
  assert.equal(difference([1], [1, 2], 'int32'), '1 elements, expected 2');
});
