// Between the tensors of files and those of `run()`.

import { numbersOf } from 'webnn-node-text/elements';

/** Data types that are called something else in results. @type {Record<string, string>} */
const NAMES = { bool: 'uint8', float64: 'double' };

/**
 * The data type of a file's tensor in results of models.
 *
 * @param {{ dataType: string }} tensor
 */
export const dataTypeOf = ({ dataType }) => NAMES[dataType] ?? dataType;

/**
 * The elements of a tensor as numbers or bigints; float16 and bfloat16 are widened.
 *
 * @param {Parameters<typeof numbersOf>[0]['data']} data
 * @param {string} dataType
 */
export function valuesOf(data, dataType) {
  if (dataType === 'bfloat16') return new Float32Array(Uint32Array.from(/** @type {Uint16Array} */ (data), (half) => half << 16).buffer);
  return dataType === 'float16' ? numbersOf({ dataType, data }) : data;
}
