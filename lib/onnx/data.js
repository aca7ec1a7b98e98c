'use strict';

/** Typed arrays for data types, and what `run` takes as a feed. */

const { byteLength, matchingBytes } = require('../descriptor.js');
const { quote } = require('../errors.js');
const { slots: tensorSlots } = require('../tensor.js');
const { byteLengthOf, bytesOf, isObject } = require('../webidl.js');
const { attached, requireSize, toSource } = require('./source.js');

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

/** An MLTensor as a feed. */
class TensorFeed {
  /** @param {object} tensor state of the MLTensor */
  constructor(tensor) {
    this.tensor = tensor;
    this.shape = tensor.shape;
  }

  /** Nothing to keep: dispatches and writes are in order. */
  keep() {}
}

/** What messages call a feed. */
function feedName(name) {
  return `run: feed ${quote(name)}`;
}

/** A buffer or view as a feed. */
class DataFeed {
  #what;
  #data;
  #kind;
  #copy;

  /**
   * @param {string} what messages call it
   * @param {object} data
   * @param {number[] | undefined} shape
   */
  constructor(what, data, shape) {
    this.#what = what;
    ({ data: this.#data, kind: this.#kind } = toSource(data, what));
    this.shape = shape;
  }

  /** @returns {number} how many elements of `dataType` it has; a fraction when its last one is cut */
  elements(dataType) {
    return byteLengthOf(this.#data, this.#kind) / byteLength({ dataType, shape: [] });
  }

  /** Copies the data, which the caller may change before they are used. */
  keep() {
    this.#copy = attached(this.#what, () => bytesOf(this.#data, this.#kind)).slice();
  }

  /**
   * @param {{dataType: string, shape: readonly number[]}} descriptor
   * @returns {Uint8Array} the bytes, without a copy
   * @throws {TypeError} if they are of another type or number
   */
  bytes(descriptor) {
    const bytes = matchingBytes(this.#data, this.#kind, descriptor, this.#what);
    return this.#copy ?? bytes;
  }
}

/**
 * @param {string} what from `feedName`
 * @param {unknown} value an MLTensor, a view, a buffer, or `{data, shape}`
 * @returns {TensorFeed | DataFeed}
 * @throws {TypeError} for anything else
 */
function toFeed(what, value) {
  const tensor = tensorSlots.get(value);
  if (tensor !== undefined) {
    return new TensorFeed(tensor);
  }
  if (!isObject(value)) {
    const expected = 'an MLTensor, a typed array, a buffer or {data, shape}';
    throw new TypeError(`${what} is ${String(value)}, expected ${expected}`);
  }
  if (ArrayBuffer.isView(value) || value.data === undefined) {
    return new DataFeed(what, value, undefined);
  }
  if (!Array.isArray(value.shape)) {
    throw new TypeError(`${what} has data and no shape, expected a list of sizes`);
  }
  const shape = [...value.shape];
  shape.forEach((size, axis) => requireSize(size, `${what}: shape[${axis}]`));
  return new DataFeed(what, value.data, shape);
}

module.exports = { DataFeed, feedName, toFeed, typedArray };
