// Tensors of the models in this folder: small, with the same contents in every process.

import { BOOL, FLOAT, FLOAT16, INT32, INT4, INT64, INT8, UINT32, UINT4, UINT8 } from '../../onnx/model-writer.mjs';
import { generator } from '../../lib/random.mjs';

/** The element types by the names that onnxruntime's `Tensor` knows them by. */
export const ELEMENT_TYPES = {
  float32: FLOAT,
  float16: FLOAT16,
  int8: INT8,
  uint8: UINT8,
  int4: INT4,
  uint4: UINT4,
  int32: INT32,
  uint32: UINT32,
  int64: INT64,
  bool: BOOL,
};

/**
 * @typedef {object} TestTensor
 * @property {keyof typeof ELEMENT_TYPES} type
 * @property {number[]} shape
 * @property {ArrayBufferView} data float16 as the bit patterns in a Uint16Array, truth values in a Uint8Array, and there two
 *   elements of 4 bits in each
 */

const random = generator(20261120);

/** @returns {number} of elements */
export const sizeOf = (shape) => shape.reduce((product, size) => product * size, 1);

/** @returns {(shape: number[], low?: number, high?: number) => TestTensor} integers from `low` to `high` - 1 */
const integers =
  (type, Array, convert = /** @type {(value: number) => unknown} */ (Number)) =>
  (shape, low = 0, high = 10) => ({
    type,
    shape,
    data: Array.from({ length: sizeOf(shape) }, () => convert(low + random.below(high - low))),
  });

/** Float32 numbers from `low` to `high`. @returns {TestTensor} */
export const float32 = (shape, low = -2, high = 2) => ({
  type: 'float32',
  shape,
  data: Float32Array.from({ length: sizeOf(shape) }, () => low + random.next() * (high - low)),
});

export const int8 = integers('int8', Int8Array);
export const uint8 = integers('uint8', Uint8Array);
export const int32 = integers('int32', Int32Array);
export const uint32 = integers('uint32', Uint32Array);
export const int64 = integers('int64', BigInt64Array, BigInt);
/** @returns {TestTensor} */
export const bool = (shape) => integers('bool', Uint8Array)(shape, 0, 2);

/** Float16 numbers of normal size: the sign, exponents of 2^-4 to 2^1 and random fractions. @returns {TestTensor} */
export const float16 = (shape) => ({
  type: 'float16',
  shape,
  data: Uint16Array.from({ length: sizeOf(shape) }, () => (random.below(2) << 15) | ((11 + random.below(6)) << 10) | random.below(1024)),
});

/** Integers of 4 bits, two in a byte. @returns {TestTensor} */
export const nibbles = (type, shape) => ({ type, shape, data: uint8([Math.ceil(sizeOf(shape) / 2)], 0, 256).data });

/** A float32 tensor with these contents. @returns {TestTensor} */
export const floats = (shape, ...numbers) => ({ type: 'float32', shape, data: Float32Array.from(numbers) });
/** A list of int64, as shapes and axes are given. @returns {TestTensor} */
export const int64s = (...numbers) => ({
  type: 'int64',
  shape: [numbers.length],
  data: BigInt64Array.from(numbers, BigInt),
});
/** A scalar. @returns {TestTensor} */
export const scalar = ({ type, data }) => ({ type, shape: [], data });
