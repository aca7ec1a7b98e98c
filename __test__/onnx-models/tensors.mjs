// Between the tensors of files and those of `run()`.

import { numbersOf } from 'webnn-node-cli/lib/elements.mjs';

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
