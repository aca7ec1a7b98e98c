// Between the tensors of files and those of `run()`.

import { TensorData } from '../../examples/lib/tensor-data.mjs';

/** The class of the typed arrays of a data type that `run()` gives and takes. */
export const TYPED_ARRAYS = {
  float32: Float32Array,
  float16: globalThis.Float16Array ?? Uint16Array,
  int64: BigInt64Array,
  uint64: BigUint64Array,
  int32: Int32Array,
  uint32: Uint32Array,
  int8: Int8Array,
  uint8: Uint8Array,
};

/**
 * What `run()` takes for the content of a file.
 *
 * @param {TensorData} tensor
 * @returns {ArrayBufferView}
 */
export function feedOf(tensor) {
  return new TYPED_ARRAYS[tensor.descriptor.dataType](new Uint8Array(tensor.bytes).buffer);
}

/**
 * The elements of a result as numbers or bigints; float16 is widened.
 *
 * @param {ArrayBufferView} result
 * @param {string} type the element type, in words
 * @param {number[]} shape
 */
export function valuesOf(result, type, shape) {
  return new TensorData(type, shape, new Uint8Array(result.buffer, result.byteOffset, result.byteLength)).values;
}
