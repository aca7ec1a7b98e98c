import assert from 'node:assert/strict';
import test from 'node:test';
import { distance, mismatches } from './compare.mjs';
import { decodeTensor, float16Bits } from './decode.mjs';
import { wrong } from '../lib/types.mjs';

function between(metric, dataType, got, expected) {
  const elements = (value) => decodeTensor({ dataType, shape: [], data: [value] });
  return distance(metric, dataType, elements(got), elements(expected), 0);
}

test('ULP counts the floats between two numbers', () => {
  assert.equal(between('ULP', 'float32', 1, 1), 0);
  assert.equal(between('ULP', 'float32', 1, 1 + 2 ** -23), 1);
  assert.equal(between('ULP', 'float32', 1, 1 - 2 ** -24), 1);
  assert.equal(between('ULP', 'float32', 1, 2), 2 ** 23);
  assert.equal(between('ULP', 'float16', 1, 2), 2 ** 10);
  assert.equal(between('ULP', 'float16', 65504, 'Infinity'), 1);
});

test('ULP goes through zero, whose sign does not count', () => {
  for (const [dataType, smallest] of [
    ['float32', 2 ** -149],
    ['float16', 2 ** -24],
  ]) {
    assert.equal(between('ULP', dataType, 0, '-0'), 0);
    assert.equal(between('ULP', dataType, smallest, '-0'), 1);
    assert.equal(between('ULP', dataType, smallest, -smallest), 2);
    assert.equal(between('ULP', dataType, -1, 1), Number(between('ULP', dataType, 1, 0)) * 2);
  }
});

test('ULP of neighbouring float16 numbers is 1 everywhere', () => {
  for (let bits = 0; bits < 0x7c00; bits++) {
    assert.equal(distance('ULP', 'float16', Uint16Array.of(bits), Uint16Array.of(bits + 1), 0), 1);
    assert.equal(distance('ULP', 'float16', Uint16Array.of(0x8000 | bits), Uint16Array.of(0x8001 + bits), 0), 1);
  }
});

test('ULP of integers is their difference', () => {
  assert.equal(between('ULP', 'int8', -128, 127), 255);
  assert.equal(between('ULP', 'uint32', 0, 4294967295), 4294967295);
  assert.equal(between('ULP', 'int64', '-9223372036854775808', '9223372036854775807'), 2n ** 64n - 1n);
});

test('ATOL is the absolute difference', () => {
  assert.equal(between('ATOL', 'float32', 1.5, -1), 2.5);
  assert.equal(between('ATOL', 'float16', 0.25, 0.5), 0.25);
  assert.equal(between('ATOL', 'uint64', '1', '3'), 2n);
  assert.equal(between('ATOL', 'float32', 0, '-0'), 0);
  assert.equal(between('ATOL', 'float32', 'Infinity', 'Infinity'), 0);
  assert.equal(between('ATOL', 'float32', 'Infinity', '-Infinity'), Infinity);
});

test('NaN matches NaN only, whatever its bits', () => {
  for (const metric of ['ULP', 'ATOL']) {
    for (const dataType of ['float32', 'float16']) {
      assert.equal(between(metric, dataType, 'NaN', 'NaN'), 0);
      for (const other of [0, 1, 'Infinity']) {
        assert.equal(between(metric, dataType, 'NaN', other), Infinity);
        assert.equal(between(metric, dataType, other, 'NaN'), Infinity);
      }
    }
  }
  assert.equal(distance('ULP', 'float16', Uint16Array.of(0xfe01), Uint16Array.of(0x7e00), 0), 0);
});

test('an unknown metric, a tolerance that is no number and other lengths are refused', () => {
  const one = Float32Array.of(1);
  assert.throws(() => distance('RTOL', 'float32', one, one, 0), /unknown metric "RTOL"/);
  assert.throws(() => mismatches('float32', one, one, wrong({ metric: 'ULP' })), /tolerance/);
  assert.throws(() => mismatches('float32', one, one, { metric: 'ULP', value: -1 }), /tolerance/);
  assert.throws(() => mismatches('float32', one, Float32Array.of(1, 2), { metric: 'ULP', value: 0 }), /1 elements, expected 2/);
});

test('mismatches lists exactly the elements beyond the tolerance', () => {
  const expected = Float32Array.of(1, 1, 1, NaN, 0);
  const got = Float32Array.of(1, 1 + 2 ** -23, 1 + 2 ** -22, 1, -0);
  assert.deepEqual(mismatches('float32', got, expected, { metric: 'ULP', value: 1 }), [
    { index: 2, got: 1 + 2 ** -22, expected: 1, distance: 2 },
    { index: 3, got: 1, expected: NaN, distance: Infinity },
  ]);
  assert.deepEqual(
    mismatches('float32', got, expected, { metric: 'ULP', value: 0 }).map(({ index }) => index),
    [1, 2, 3],
  );
});

test('mismatches gives float16 values, not bits', () => {
  const bits = (value) => Uint16Array.of(float16Bits(value));
  assert.deepEqual(mismatches('float16', bits(1), bits(2), { metric: 'ATOL', value: 0.5 }), [{ index: 0, got: 1, expected: 2, distance: 1 }]);
});

test('64-bit integers are compared without rounding', () => {
  const [got, expected] = [BigInt64Array.of(2n ** 62n + 1n), BigInt64Array.of(2n ** 62n)];
  assert.deepEqual(mismatches('int64', got, expected, { metric: 'ULP', value: 0 }), [{ index: 0, got: got[0], expected: expected[0], distance: 1n }]);
  assert.deepEqual(mismatches('int64', got, expected, { metric: 'ULP', value: 1 }), []);
});
