// Tensors of programs: typed arrays and texts, whose types need not be named.

import { amount, invalid } from '../errors.js';

/**
 * A tensor: texts, numbers of one type, or these with their shape. float16 needs its name where the runtime has no Float16Array.
 * @typedef {string[] | ArrayBufferView | { data: string[] | ArrayBufferView, shape?: readonly number[], datatype?: string }} Value
 */

/** @typedef {{ datatype: string, shape: readonly number[], data: any }} Output texts are strings, numbers a typed array */

/** @type {Record<string, string>} */
const NAMES = {
  Float32Array: 'FP32',
  Float64Array: 'FP64',
  Float16Array: 'FP16',
  Int8Array: 'INT8',
  Uint8Array: 'UINT8',
  Int16Array: 'INT16',
  Uint16Array: 'UINT16',
  Int32Array: 'INT32',
  Uint32Array: 'UINT32',
  BigInt64Array: 'INT64',
  BigUint64Array: 'UINT64',
};

/**
 * @param {string} name
 * @param {Value} value
 * @returns {import('../protocol/tensors.js').Tensor}
 * @throws {import('../errors.js').ServeError} `invalid`, if it is none
 */
function tensorOf(name, value) {
  const { data, shape, datatype } = Array.isArray(value) || ArrayBuffer.isView(value) ? { data: value } : (value ?? {});
  const isTexts = Array.isArray(data) && data.every((text) => typeof text === 'string');
  const kind = ArrayBuffer.isView(data) ? (datatype ?? NAMES[data.constructor.name]) : undefined;
  if (!isTexts && kind === undefined) throw invalid(`input ${JSON.stringify(name)} is not a typed array or a list of strings`);
  const { buffer, byteOffset, length } = /** @type {any} */ (data);
  const sizes = shape ?? [length];
  if (sizes.reduce((a, b) => a * b, 1) !== length) throw invalid(`input ${JSON.stringify(name)} is [${sizes.join(', ')}] and has ${amount(length, 'element')}`);
  if (isTexts) return { datatype: 'BYTES', shape: sizes, data: data.map((text) => Buffer.from(text)) };
  const elements = kind === 'FP16' ? new Uint16Array(buffer, byteOffset, length) : data;
  return { datatype: /** @type {string} */ (kind), shape: sizes, data: /** @type {any} */ (elements) };
}

/**
 * @param {Record<string, Value>} values
 * @returns {Map<string, import('../protocol/tensors.js').Tensor>}
 */
export function tensorsOf(values) {
  return new Map(Object.entries(values).map(([name, value]) => [name, tensorOf(name, value)]));
}

/**
 * @param {import('../models/tensor-model.js').InferResult} result
 * @returns {Record<string, Output>}
 */
export function valuesOf(result) {
  const read = (/** @type {import('../protocol/tensors.js').Tensor} */ { datatype, shape, data }) => ({
    datatype,
    shape,
    data: datatype === 'BYTES' ? /** @type {Uint8Array[]} */ (data).map((text) => Buffer.from(text).toString()) : data,
  });
  return Object.fromEntries([...result].map(([name, tensor]) => [name, read(tensor)]));
}
