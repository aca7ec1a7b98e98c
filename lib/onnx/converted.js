'use strict';

/** The elements of inputs and outputs: arrays outside, arrays of the native side inside. */

/** @type {Record<import('../../index.js').MLOperandDataType, new (buffer: ArrayBuffer) => ArrayBufferView>} */
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
};

/** @typedef {new (source: ArrayBufferLike | Iterable<number>, byteOffset?: number, length?: number) => ArrayBufferView & Iterable<number>} NumberArray */

/**
 * Types of inputs and outputs that WebNN lacks: their arrays outside, and the arrays of the native side.
 *
 * @type {Map<string, {views: string[], outside: NumberArray & {BYTES_PER_ELEMENT: number}, inside: NumberArray}>}
 */
const CONVERTED = new Map([
  ['double', { views: ['Float64Array'], outside: Float64Array, inside: Float32Array }],
  ['int16', { views: ['Int16Array'], outside: Int16Array, inside: Int32Array }],
  ['uint16', { views: ['Uint16Array'], outside: Uint16Array, inside: Int32Array }],
]);

/**
 * @param {ArrayBuffer} buffer of the native side
 * @param {import('../../index.js').MLOperandDataType} made its data type
 * @param {string} dataType of the output
 * @returns {ArrayBufferView} a typed array of its elements
 */
function elementsOf(buffer, made, dataType) {
  const elements = new ARRAYS[made](buffer);
  const types = CONVERTED.get(dataType);
  return types === undefined ? elements : new types.outside(/** @type {Float32Array | Int32Array} */ (elements));
}

module.exports = { CONVERTED, elementsOf };
