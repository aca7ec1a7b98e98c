import assert from 'node:assert/strict';
import test from 'node:test';
import { decodeArgument, decodeElement, decodeTensor, float16Bits, float16Value } from './decode.mjs';

/** The value of float16 bits by the definition in IEEE 754, with nothing shared with the code under test. */
function valueByDefinition(bits) {
  const text = bits.toString(2).padStart(16, '0');
  const sign = text[0] === '1' ? -1 : 1;
  const exponent = parseInt(text.slice(1, 6), 2);
  const fraction = parseInt(text.slice(6), 2) / 1024;
  if (exponent === 31) {
    return fraction === 0 ? sign * Infinity : NaN;
  }
  return exponent === 0 ? sign * 2 ** -14 * fraction : sign * 2 ** (exponent - 15) * (1 + fraction);
}

function isNaNBits(bits) {
  return (bits & 0x7fff) > 0x7c00;
}

test('all 65,536 float16 patterns have the value of the definition and convert back to themselves', () => {
  for (let bits = 0; bits < 0x10000; bits++) {
    const value = float16Value(bits);
    assert.ok(Object.is(value, valueByDefinition(bits)), `0x${bits.toString(16)} is ${value}`);
    assert.equal(float16Bits(value), isNaNBits(bits) ? 0x7e00 : bits, `bits of ${value}`);
  }
});

test('numbers between two float16 neighbours go to the nearer one, halfway to the even one', () => {
  const beside = (value, direction) => value + (direction * value) / 2 ** 40;
  for (let bits = 0; bits < 0x7bff; bits++) {
    // Both are exact in float64, and so is their middle.
    const middle = (float16Value(bits) + float16Value(bits + 1)) / 2;
    for (const sign of [1, -1]) {
      const expected = (wanted) => (sign < 0 ? wanted | 0x8000 : wanted);
      assert.equal(float16Bits(sign * middle), expected(bits + (bits & 1)), `middle above 0x${bits.toString(16)}`);
      assert.equal(float16Bits(sign * beside(middle, -1)), expected(bits), `below the middle above 0x${bits.toString(16)}`);
      assert.equal(float16Bits(sign * beside(middle, 1)), expected(bits + 1), `above the middle above 0x${bits.toString(16)}`);
    }
  }
});

test('float16 overflows to infinity from the middle between its largest number and 65536', () => {
  assert.equal(float16Bits(65504), 0x7bff);
  assert.equal(float16Bits(65519.99), 0x7bff);
  assert.equal(float16Bits(65520), 0x7c00);
  assert.equal(float16Bits(-1e300), 0xfc00);
  assert.equal(float16Bits(-Infinity), 0xfc00);
  assert.equal(float16Bits(5e-324), 0);
  assert.equal(float16Bits(-0), 0x8000);
});

test('special float values are strings', () => {
  for (const [text, value] of Object.entries({ NaN, Infinity, '-Infinity': -Infinity, '-0': -0 })) {
    assert.ok(Object.is(decodeElement('float32', text), value));
    assert.ok(Object.is(float16Value(decodeElement('float16', text)), value));
  }
  for (const text of ['1', 'nan', 'toString', null, true]) {
    assert.throws(() => decodeElement('float32', text), /no float32 value/);
  }
});

test('a float16 value that needs rounding is refused', () => {
  assert.equal(decodeElement('float16', 0.5), 0x3800);
  assert.throws(() => decodeElement('float16', 0.1), /0\.1 is no float16 value/);
  assert.throws(() => decodeElement('float16', 65520), /no float16 value/);
});

test('integers must be in the range of their data type', () => {
  /** @type {[string, number, number][]} */
  const cases = [
    ['int8', -128, 127],
    ['uint8', 0, 255],
    ['int32', -(2 ** 31), 2 ** 31 - 1],
    ['uint32', 0, 2 ** 32 - 1],
  ];
  for (const [dataType, min, max] of cases) {
    assert.equal(decodeElement(dataType, min), min);
    assert.equal(decodeElement(dataType, max), max);
    for (const wrong of [min - 1, max + 1, 0.5, '1', 'NaN', null]) {
      assert.throws(() => decodeElement(dataType, wrong), new RegExp(`no ${dataType} value`));
    }
  }
});

test('64-bit integers are decimal strings', () => {
  assert.equal(decodeElement('int64', '-9223372036854775808'), -(2n ** 63n));
  assert.equal(decodeElement('uint64', '18446744073709551615'), 2n ** 64n - 1n);
  for (const [dataType, wrong] of [
    ['int64', '9223372036854775808'],
    ['uint64', '-1'],
    ['int64', 1],
    ['int64', '1.0'],
    ['int64', ''],
  ]) {
    assert.throws(() => decodeElement(dataType, wrong), new RegExp(`no ${dataType} value`));
  }
});

test('a tensor holds its data in the array of its type', () => {
  assert.deepEqual(decodeTensor({ dataType: 'float32', shape: [2, 1], data: [0.1, '-0'] }), Float32Array.of(0.1, -0));
  assert.deepEqual(decodeTensor({ dataType: 'float16', shape: [2], data: [1, 'Infinity'] }), Uint16Array.of(0x3c00, 0x7c00));
  assert.deepEqual(decodeTensor({ dataType: 'int64', shape: [], data: ['7'] }), BigInt64Array.of(7n));
});

test('fill stands for equal elements', () => {
  assert.deepEqual(decodeTensor({ dataType: 'uint8', shape: [2, 2], fill: 9 }), Uint8Array.of(9, 9, 9, 9));
  assert.deepEqual(decodeTensor({ dataType: 'float16', shape: [2], fill: '-0' }), Uint16Array.of(0x8000, 0x8000));
});

test('a malformed tensor is refused', () => {
  assert.throws(() => decodeTensor({ dataType: 'float32', shape: [3], data: [1, 2] }), /\[3\] has 3 elements, its data has 2/);
  assert.throws(() => decodeTensor({ dataType: 'float64', shape: [], data: [1] }), /unknown data type "float64"/);
  assert.throws(() => decodeTensor({ dataType: 'float32', shape: [] }), /either data or fill/);
  assert.throws(() => decodeTensor({ dataType: 'float32', shape: [], data: [1], fill: 1 }), /either data or fill/);
});

test('arguments: operands, numbers and bigints are replaced at any depth, all else stays', () => {
  /** @type {Map<string, any>} */
  const operands = new Map([
    ['a', 'operand a'],
    ['b', 'operand b'],
  ]);
  assert.deepEqual(decodeArgument([{ $operand: 'b' }, { $operand: 'a' }], operands), ['operand b', 'operand a']);
  assert.deepEqual(
    decodeArgument({ bias: { $operand: 'a' }, minValue: { $number: '-Infinity' }, maxValue: { $bigint: '-12' }, axes: [0, 1], layout: 'nhwc' }, operands),
    { bias: 'operand a', minValue: -Infinity, maxValue: -12n, axes: [0, 1], layout: 'nhwc' },
  );
  assert.ok(Object.is(decodeArgument({ $number: '-0' }, operands), -0));
  assert.ok(Number.isNaN(decodeArgument({ $number: 'NaN' }, operands)));
  assert.deepEqual(decodeArgument({}, operands), {});
  assert.equal(decodeArgument(false, operands), false);
});

test('an unknown operand or encoding is refused', () => {
  for (const value of [{ $operand: 'c' }, { $number: '1' }, { $bigint: '1.5' }, { $tensor: 'a' }]) {
    assert.throws(() => decodeArgument(value, new Map()), /cannot decode/);
  }
});
