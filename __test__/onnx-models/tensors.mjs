// Between the tensors of files and those of `run()`.

import { numbersOf } from '../../cli/elements.mjs';

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
 * The data type of a file's tensor in WebNN, which has no truth values.
 *
 * @param {{ dataType: string }} tensor
 */
export const dataTypeOf = ({ dataType }) => (dataType === 'bool' ? 'uint8' : dataType);

/**
 * The elements of a tensor as numbers or bigints; float16 is widened.
 *
 * @param {ArrayBufferView} data
 * @param {string} dataType
 */
export function valuesOf(data, dataType) {
  return dataType === 'float16' ? numbersOf({ dataType, data }) : data;
}
