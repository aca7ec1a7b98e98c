'use strict';

/** Element types, and descriptions of inputs and outputs. */

/** Without Float16Array, float16 data are bit patterns. */
const Float16 = /** @type {any} */ (globalThis).Float16Array ?? Uint16Array;

/**
 * Element types by their names in onnxruntime: the name in ONNX, and the class of arrays.
 *
 * @type {Map<string, {onnx: string, array: new (source: any) => ArrayBufferView & ArrayLike<any>}>}
 */
const TYPES = new Map([
  ['float32', { onnx: 'float', array: Float32Array }],
  ['uint8', { onnx: 'uint8', array: Uint8Array }],
  ['int8', { onnx: 'int8', array: Int8Array }],
  ['uint16', { onnx: 'uint16', array: Uint16Array }],
  ['int16', { onnx: 'int16', array: Int16Array }],
  ['int32', { onnx: 'int32', array: Int32Array }],
  ['int64', { onnx: 'int64', array: BigInt64Array }],
  ['string', { onnx: 'string', array: /** @type {any} */ (Array) }],
  ['bool', { onnx: 'bool', array: Uint8Array }],
  ['float16', { onnx: 'float16', array: Float16 }],
  ['float64', { onnx: 'double', array: Float64Array }],
  ['uint32', { onnx: 'uint32', array: Uint32Array }],
  ['uint64', { onnx: 'uint64', array: BigUint64Array }],
  ['uint4', { onnx: 'uint4', array: Uint8Array }],
  ['int4', { onnx: 'int4', array: Uint8Array }],
]);

const NAMES = new Map([...TYPES].map(([name, { onnx }]) => [onnx, name]));

/**
 * Returns an entry of `inputMetadata` or `outputMetadata`.
 *
 * @param {import('webnn-node/onnx').OnnxValueInfo} info
 * @returns {import('onnxruntime-common').InferenceSession.ValueMetadata}
 * @throws {Error} for a tensor of a type that onnxruntime-common does not have
 */
function toMetadata({ name, type, declaredShape }) {
  const [, element] = /^tensor\((.*)\)$/.exec(type) ?? [];
  if (element === undefined) {
    return { name, isTensor: false };
  }
  const known = NAMES.get(element);
  if (known === undefined) {
    throw new Error(`${JSON.stringify(name)} is of type ${type}, which a Tensor cannot be`);
  }
  return { name, isTensor: true, type: /** @type {import('onnxruntime-common').Tensor.Type} */ (known), shape: [...(declaredShape ?? [])] };
}

/**
 * An input or output, prepared for runs.
 *
 * @typedef {object} Port
 * @property {string} name
 * @property {string} type of the elements
 * @property {boolean} isScalar whether the model declares rank 0
 * @property {string} what names its tensors in messages
 * @property {string | undefined} location of tensors without one
 */

/**
 * @param {import('webnn-node/onnx').OnnxValueInfo} info
 * @param {'input' | 'output'} kind
 * @param {string | undefined} location
 * @returns {Port}
 * @throws {Error} unless it is a tensor
 */
function toPort(info, kind, location) {
  const { name } = info;
  const metadata = toMetadata(info);
  if (!metadata.isTensor) {
    throw new Error(`${JSON.stringify(name)} is of type ${info.type}, which is not supported`);
  }
  return { name, type: metadata.type, isScalar: info.declaredShape?.length === 0, what: `run: ${kind} ${JSON.stringify(name)}`, location };
}

module.exports = { TYPES, toMetadata, toPort };
