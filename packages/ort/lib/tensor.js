'use strict';

/** Converts Tensors of onnxruntime-common to feeds of webnn-node, and webnn-node's results to Tensors. */

const { MLTensor } = require('webnn-node');

const { shown } = require('./options.js');
const { TYPES } = require('./types.js');

/** @typedef {import('onnxruntime-common').Tensor} Tensor of any copy of onnxruntime-common */
/** @typedef {import('webnn-node/onnx').OnnxResult} Result */
/** @typedef {import('webnn-node').MLTensor} DeviceTensor */

/** The name of a typed array's class, in any realm. @type {(value: unknown) => string | undefined} */
const arrayName = Function.prototype.call.bind(
  /** @type {any} */ (Object.getOwnPropertyDescriptor(Object.getPrototypeOf(Uint8Array.prototype), Symbol.toStringTag)).get,
);

/** The property with a tensor's contents, by location. */
const HOLDERS = new Map([
  ['cpu', 'data'],
  ['cpu-pinned', 'data'],
  ['texture', 'texture'],
  ['gpu-buffer', 'gpuBuffer'],
  ['ml-tensor', 'mlTensor'],
]);

/**
 * Unread results by Tensor, which are not copied when they are fed back.
 *
 * @type {WeakMap<object, Result>}
 */
const unread = new WeakMap();

/**
 * Whether Tensors have a location. Before onnxruntime-common 1.16, they only had data.
 *
 * @param {typeof import('onnxruntime-common').Tensor} Tensor class
 */
function hasLocation(Tensor) {
  return 'location' in Tensor.prototype;
}

/**
 * @param {typeof import('onnxruntime-common').Tensor} Tensor class
 * @param {string} type
 * @param {Result} result
 * @returns {Tensor} reads the data of `result` when its own data are first read
 */
function toTensor(Tensor, type, result) {
  const isRead = Object.getOwnPropertyDescriptor(result, 'data')?.get === undefined;
  if (isRead || !hasLocation(Tensor)) {
    return new Tensor(/** @type {'float32'} */ (type), result.data, result.shape);
  }
  const { array: TypedArray } = /** @type {{array: any}} */ (TYPES.get(type));
  const tensor = /** @type {any} */ (new Tensor(/** @type {'float32'} */ (type), new TypedArray(0), [0]));
  tensor.dims = [...result.shape];
  tensor.size = sizeOf(result.shape);
  const keep = (/** @type {unknown} */ value) => {
    unread.delete(tensor);
    Object.defineProperty(tensor, 'cpuData', { value, writable: true, enumerable: true, configurable: true });
  };
  Object.defineProperty(tensor, 'cpuData', {
    get() {
      const { data } = result;
      // A sealed or frozen tensor keeps its accessor.
      if (!Object.isSealed(tensor)) {
        keep(data);
      }
      return data;
    },
    set(value) {
      result.data = /** @type {any} */ (value);
      keep(value);
    },
    enumerable: true,
    configurable: true,
  });
  unread.set(tensor, result);
  return tensor;
}

/** @param {readonly number[]} shape */
const sizeOf = (shape) => shape.reduce((size, length) => size * length, 1);

/**
 * @typedef {object} Checked a valid Tensor of any class: exactly one of data, device and result is present
 * @property {string} type
 * @property {number[]} dims
 * @property {ArrayBufferView | string[] | undefined} data exactly the elements of `dims`, on the CPU
 * @property {DeviceTensor | undefined} device contents on a device
 * @property {Result | undefined} result the unread result behind the Tensor
 */

/**
 * Validates a Tensor by its properties: its class may be that of another copy of onnxruntime-common.
 *
 * @param {any} tensor
 * @param {import('./types.js').Port} port
 * @returns {Checked}
 * @throws {TypeError | RangeError} where onnxruntime-node does
 */
function checkTensor(tensor, { what, location: usual }) {
  if (typeof tensor !== 'object' || tensor === null) {
    throw new TypeError(`${what} is ${shown(tensor)}, expected a Tensor, which is an object`);
  }
  const dims = checkDims(tensor.dims, what);
  const { location = usual, type } = tensor;
  if (typeof location !== 'string') {
    throw new TypeError(`${what}: location is ${shown(location)}, expected a string`);
  }
  const holder = HOLDERS.get(location);
  if (holder === undefined) {
    throw new RangeError(
      `${what}: location is ${shown(location)}${location === 'none' ? ', because the tensor is disposed' : ''}, expected one of ${[...HOLDERS.keys()].join(', ')}`,
    );
  }
  if (typeof type !== 'string') {
    throw new TypeError(`${what}: type is ${shown(type)}, expected a string`);
  }
  const known = TYPES.get(type);
  if (known === undefined) {
    throw new TypeError(`${what}: type is ${shown(type)}, expected one of ${[...TYPES.keys()].join(', ')}`);
  }
  if (location === 'texture') {
    throw new TypeError(`${what}: location is "texture", which only browsers have`);
  }
  if (holder !== 'data') {
    const device = tensor[holder];
    if (!(device instanceof MLTensor)) {
      throw new TypeError(`${what}: ${holder} is ${shown(device)}, expected an MLTensor`);
    }
    return { type, dims, data: undefined, device, result: undefined };
  }
  const result = unread.get(tensor);
  if (result !== undefined && isSame(result.shape, dims)) {
    return { type, dims, data: undefined, device: undefined, result };
  }
  return { type, dims, data: checkData(tensor.data, type, dims, what), device: undefined, result: undefined };
}

/**
 * @param {readonly number[]} a
 * @param {readonly number[]} b
 */
const isSame = (a, b) => a.length === b.length && a.every((size, axis) => size === b[axis]);

/**
 * @param {unknown} dims
 * @param {string} what
 * @returns {number[]}
 */
function checkDims(dims, what) {
  if (!Array.isArray(dims)) {
    throw new TypeError(`${what}: dims is ${shown(dims)}, expected an array`);
  }
  const copy = Array.from(dims);
  copy.forEach((size, axis) => {
    if (typeof size !== 'number') {
      throw new TypeError(`${what}: dims[${axis}] is ${shown(size)}, expected a number`);
    }
    if (!Number.isInteger(size) || size < 0 || size > 2 ** 32 - 1) {
      throw new RangeError(`${what}: dims[${axis}] is ${size}, expected a whole number from 0 to ${2 ** 32 - 1}`);
    }
  });
  return copy;
}

/**
 * @param {any} data
 * @param {string} type
 * @param {number[]} dims
 * @param {string} what
 * @returns {any} `data`, cut to the elements of `dims`
 */
function checkData(data, type, dims, what) {
  const size = sizeOf(dims);
  if (type === 'string') {
    if (!Array.isArray(data)) {
      throw new TypeError(`${what}: data is ${shown(data)}, expected an array for the type string`);
    }
    const other = data.find((text) => typeof text !== 'string');
    if (other !== undefined) {
      throw new TypeError(`${what}: data has ${shown(other)}, expected strings`);
    }
    return requireLength(data, size, dims, what).slice(0, size);
  }
  const kind = arrayName(data);
  const { array } = /** @type {{array: any}} */ (TYPES.get(type));
  if (kind !== array.name && !(type === 'float16' && (kind === 'Uint16Array' || kind === 'Float16Array'))) {
    const expected = type === 'float16' ? 'Uint16Array or Float16Array' : array.name;
    throw new TypeError(`${what}: data ${kind === undefined ? `is ${shown(data)}` : `has the class ${kind}`}, expected ${expected} for the type ${type}`);
  }
  requireLength(data, size, dims, what);
  return data.length > size ? data.subarray(0, size) : data;
}

/**
 * @template {{length: number}} T
 * @param {T} data
 * @param {number} size
 * @param {number[]} dims
 * @param {string} what
 * @returns {T} the data
 * @throws {Error} if there are fewer elements
 */
function requireLength(data, size, dims, what) {
  if (data.length < size) {
    throw new Error(
      `${what} has ${data.length} ${data.length === 1 ? 'element' : 'elements'}${data.length === 0 ? ' (or is detached)' : ''}, expected ${size} for [${dims.join(', ')}]`,
    );
  }
  return data;
}

/**
 * Returns the value of an input for `OnnxModel.run`.
 *
 * @param {unknown} tensor
 * @param {import('./types.js').Port} port an input
 * @returns {import('webnn-node/onnx').OnnxFeed}
 * @throws {TypeError | RangeError} for an invalid tensor
 * @throws {Error} for a tensor of another type than the input
 */
function toFeed(tensor, port) {
  const { type, isScalar, what } = port;
  const given = checkTensor(tensor, port);
  requireType(given, type, what);
  if (given.device !== undefined) {
    return given.device;
  }
  // Programs feed scalars as lists of one number.
  const isListOfOne = isScalar && given.dims.length > 0 && sizeOf(given.dims) === 1;
  if (given.result !== undefined && !isListOfOne) {
    return given.result;
  }
  const data = given.data ?? /** @type {Result} */ (given.result).data;
  return { data, shape: isListOfOne ? [] : given.dims };
}

/**
 * @param {Checked} tensor
 * @param {string} type
 * @param {string} what
 * @throws {Error} if the tensor is of another type
 */
function requireType(tensor, type, what) {
  if (tensor.type !== type) {
    throw new Error(`${what} is a tensor of ${tensor.type}, expected ${type}`);
  }
}

/**
 * Prepares a preallocated output.
 *
 * @param {unknown} tensor
 * @param {import('./types.js').Port} port an output
 * @returns {{device: DeviceTensor | undefined, write(result: Result): void}}
 */
function toTarget(tensor, port) {
  const { type, what } = port;
  const target = checkTensor(tensor, port);
  requireType(target, type, what);
  return {
    device: target.device,
    write({ data, shape }) {
      if (!isSame(shape, target.dims)) {
        throw new Error(`${what} is [${shape.join(', ')}], but the tensor for it is [${target.dims.join(', ')}]`);
      }
      if (type === 'string') {
        Object.assign(/** @type {any} */ (tensor).data, data);
        return;
      }
      const array = target.data ?? /** @type {any} */ (tensor).data;
      new Uint8Array(array.buffer, array.byteOffset, array.byteLength).set(new Uint8Array(data.buffer, data.byteOffset, data.byteLength));
    },
  };
}

module.exports = { hasLocation, toFeed, toTarget, toTensor };
