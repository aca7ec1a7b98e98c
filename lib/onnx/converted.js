'use strict';

/** The elements of inputs and outputs: arrays outside, arrays of the native side inside. */

const { DATA_TYPES } = require('../descriptor.js');

/** @typedef {import('../../index.js').MLOperandDataType | 'double'} NativeDataType of elements on the native side */

/** @type {readonly NativeDataType[]} Their names; the native side uses the indices. */
const NATIVE_DATA_TYPES = [...DATA_TYPES, 'double'];

/** @type {Record<NativeDataType, (new (buffer: ArrayBuffer) => ArrayBufferView) & {BYTES_PER_ELEMENT: number}>} */
const ARRAYS = {
  float32: Float32Array,
  // Without Float16Array, only the bit patterns can be passed.
  float16: globalThis.Float16Array ?? Uint16Array,
  int32: Int32Array,
  uint32: Uint32Array,
  int64: BigInt64Array,
  uint64: BigUint64Array,
  int8: Int8Array,
  uint8: Uint8Array,
  double: Float64Array,
};

/** @typedef {new (source: ArrayBufferLike | Iterable<number> | number, byteOffset?: number, length?: number) => ArrayBufferView & Iterable<number>} NumberArray */

/**
 * @typedef {object} Conversion
 * @property {string[]} views the names of the arrays that callers may pass
 * @property {NumberArray & {BYTES_PER_ELEMENT: number}} outside the array that callers get
 * @property {(elements: any) => {buffer: ArrayBufferLike}} enter makes an array of the native side of an array of `outside`
 * @property {(elements: any) => ArrayBufferView} leave makes an array of `outside` of one of the native side
 */

/**
 * @param {NumberArray & {BYTES_PER_ELEMENT: number, name: string}} outside
 * @param {NumberArray} inside
 * @returns {Conversion} that of each element as JavaScript converts numbers
 */
const elementwise = (outside, inside) => ({
  views: [outside.name],
  outside,
  enter: (elements) => /** @type {any} */ (new inside(elements)),
  leave: (elements) => new outside(elements),
});

/** @param {Uint16Array} halves the upper halves of float32 numbers */
const enterBfloat16 = (halves) => Uint32Array.from(halves, (half) => half << 16);

/** @param {Float32Array} numbers, which are rounded to the nearest bfloat16, halfway to the even one */
function leaveBfloat16(numbers) {
  const bits = new Uint32Array(numbers.buffer, numbers.byteOffset, numbers.length);
  return Uint16Array.from(bits, (word) => {
    const isNan = (word & 0x7fffffff) >>> 0 > 0x7f800000;
    // A NaN whose lower half says so must not become an infinity.
    return isNan ? (word >>> 16) | 0x40 : (word + 0x7fff + ((word >>> 16) & 1)) >>> 16;
  });
}

/**
 * Types of inputs and outputs that the native side lacks.
 *
 * @type {Map<string, Conversion>}
 */
const CONVERTED = new Map([
  ['int16', elementwise(Int16Array, Int32Array)],
  ['uint16', elementwise(Uint16Array, Int32Array)],
  ['bfloat16', { views: ['Uint16Array'], outside: Uint16Array, enter: enterBfloat16, leave: leaveBfloat16 }],
]);

/**
 * @param {ArrayBuffer} buffer of the native side
 * @param {NativeDataType} made its data type
 * @param {string} dataType of the output
 * @returns {ArrayBufferView} a typed array of its elements
 */
function elementsOf(buffer, made, dataType) {
  const elements = new ARRAYS[made](buffer);
  const types = CONVERTED.get(dataType);
  return types === undefined ? elements : types.leave(elements);
}

/**
 * @param {NativeDataType} made
 * @param {readonly number[]} shape
 * @returns {number} length in bytes of a tensor on the native side
 */
function nativeByteLength(made, shape) {
  return shape.reduce((product, dimension) => product * dimension, ARRAYS[made].BYTES_PER_ELEMENT);
}

module.exports = { CONVERTED, NATIVE_DATA_TYPES, elementsOf, nativeByteLength };
