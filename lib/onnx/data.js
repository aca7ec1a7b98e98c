'use strict';

/** What `run` takes as a feed, and what it gives as a result. */

const { DATA_TYPES, requireKind } = require('../descriptor.js');
const { quote } = require('../errors.js');
const { slots: tensorSlots } = require('../tensor.js');
const { isObject } = require('../webidl.js');
const { codedError } = require('./errors.js');
const { toSource } = require('./source.js');

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

/** @returns {TypedArray} the elements in `buffer` */
function typedArray(dataType, buffer) {
  return new ARRAYS[dataType](buffer);
}

/** What messages call a feed. */
function feedName(name) {
  return `run: feed ${quote(name)}`;
}

/**
 * @typedef {object} Feed
 * @property {object} [tensor] state of an MLTensor; all else is about data
 * @property {object} [data]
 * @property {string} [kind] of the data, from `bufferSource`
 * @property {unknown[]} [shape]
 * @property {unknown} [dataType] as the caller gave it
 */

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

/** @throws {TypeError} if an element is no number; which numbers are sizes is the native side's to know */
function requireNumbers(list, what) {
  list.forEach((item, axis) => {
    if (typeof item !== 'number') {
      throw new TypeError(`${what}[${axis}] is of type ${typeof item}, expected a number`);
    }
  });
  return list;
}

/**
 * @param {Feed} feed of data
 * @param {string} dataType of the input
 * @param {string} what
 * @throws {TypeError} if the data are of another type
 */
function requireType({ kind, dataType: given }, dataType, what) {
  if (given !== undefined && given !== dataType) {
    throw new TypeError(`${what} is of type ${typeof given === 'string' ? quote(given) : typeof given}, expected ${dataType}`);
  }
  if (DATA_TYPES.includes(dataType)) {
    requireKind(kind, dataType, what);
  }
}

/**
 * @param {[ArrayBuffer | null, number, ...number[]]} made by the native side: the data, the number of their type, the shape
 * @param {string} name of the output
 * @returns {{data: TypedArray, shape: number[], dataType: string}}
 */
function toResult([buffer, type, ...shape], name) {
  if (buffer === null) {
    throw codedError('ERR_WEBNN_NO_MEMORY', `run: no memory for an ArrayBuffer with the output ${quote(name)}`);
  }
  const dataType = DATA_TYPES[type];
  return { data: typedArray(dataType, buffer), shape, dataType };
}

module.exports = { feedName, requireNumbers, requireType, toFeed, toResult, typedArray };
