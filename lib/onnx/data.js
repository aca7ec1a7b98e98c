'use strict';

/** What `run` takes as a feed, and what it gives as a result. */

const { DATA_TYPES, requireKind } = require('../descriptor.js');
const { quote } = require('../errors.js');
const { slots: tensorSlots } = require('../tensor.js');
const { isObject } = require('../webidl.js');
const { codedError } = require('./errors.js');
const { toSource } = require('./source.js');

/** @type {Record<import('../../index.js').MLOperandDataType, new (buffer: ArrayBuffer) => ArrayBufferView>} */
const ARRAYS = {
  float32: Float32Array,
  // Engines without Float16Array leave only the bit patterns.
  float16: globalThis.Float16Array ?? Uint16Array,
  int32: Int32Array,
  uint32: Uint32Array,
  int64: BigInt64Array,
  uint64: BigUint64Array,
  int8: Int8Array,
  uint8: Uint8Array,
};

/**
 * @param {import('../../index.js').MLOperandDataType} dataType
 * @param {ArrayBuffer} buffer
 * @returns {ArrayBufferView} a typed array of the elements in `buffer`
 */
function typedArray(dataType, buffer) {
  return new ARRAYS[dataType](buffer);
}

/**
 * What messages call a feed.
 *
 * @param {string} name
 */
function feedName(name) {
  return `run: feed ${quote(name)}`;
}

/**
 * @typedef {object} FeedOfData
 * @property {undefined} [tensor]
 * @property {unknown} data
 * @property {string} kind of the data, from `bufferSource`
 * @property {number[]} [shape]
 * @property {unknown} [dataType] as the caller gave it
 */

/** @typedef {FeedOfData | {tensor: import('../internal.js').TensorState, shape?: undefined}} Feed data, or the state of an MLTensor */

/** @typedef {[buffer: ArrayBuffer | null, dataType: number, ...shape: number[]]} Made an output as the native side gives it */

/**
 * @param {string} what from `feedName`
 * @param {unknown} value an MLTensor, a view, a buffer, or `{data, shape, dataType}`
 * @returns {Feed}
 * @throws {TypeError} for anything else
 */
function toFeed(what, value) {
  const tensor = tensorSlots.get(value);
  if (tensor !== undefined) {
    return { tensor };
  }
  if (!isObject(value)) {
    const expected = 'an MLTensor, a typed array, a buffer or {data, shape, dataType}';
    throw new TypeError(`${what} is ${String(value)}, expected ${expected}`);
  }
  if (ArrayBuffer.isView(value) || value.data === undefined) {
    return toSource(value, what);
  }
  const { data, shape, dataType } = value;
  if (!Array.isArray(shape)) {
    throw new TypeError(`${what} has data and no shape, expected a list of sizes`);
  }
  return { ...toSource(data, what), shape: requireNumbers(Array.from(shape), `${what}: shape`), dataType };
}

/**
 * @param {unknown[]} list
 * @param {string} what
 * @returns {number[]} the list
 * @throws {TypeError} if an element is no number; which numbers are sizes is the native side's to know
 */
function requireNumbers(list, what) {
  list.forEach((item, axis) => {
    if (typeof item !== 'number') {
      throw new TypeError(`${what}[${axis}] is of type ${typeof item}, expected a number`);
    }
  });
  return /** @type {number[]} */ (list);
}

/**
 * @param {FeedOfData} feed
 * @param {string} dataType of the input
 * @param {string} what
 * @throws {TypeError} if the data are of another type
 */
function requireType({ kind, dataType: given }, dataType, what) {
  if (given !== undefined && given !== dataType) {
    throw new TypeError(`${what} is of type ${typeof given === 'string' ? quote(given) : typeof given}, expected ${dataType}`);
  }
  const known = DATA_TYPES.find((name) => name === dataType);
  if (known !== undefined) {
    requireKind(kind, known, what);
  }
}

/**
 * @param {Made} made
 * @param {string} name of the output
 * @returns {import('../../onnx.js').OnnxResult}
 */
function toResult([buffer, type, ...shape], name) {
  if (buffer === null) {
    throw codedError('ERR_WEBNN_NO_MEMORY', `run: no memory for an ArrayBuffer with the output ${quote(name)}`);
  }
  const dataType = DATA_TYPES[type];
  return { data: typedArray(dataType, buffer), shape, dataType };
}

module.exports = { feedName, requireNumbers, requireType, toFeed, toResult, typedArray };
