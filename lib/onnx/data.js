'use strict';

/** Feeds and results of `run`. */

const { DATA_TYPES, VIEWS, byteLength, requireKind } = require('../descriptor.js');
const { quote } = require('../errors.js');
const native = require('../native.js');
const { slots: tensorSlots } = require('../tensor.js');
const { byteLengthOf, isObject } = require('../webidl.js');
const { codedError } = require('./errors.js');
const { copyOf, toSource } = require('./source.js');

const { ArrayBuffer, RangeError, Uint8Array } = globalThis;

/** @type {Record<import('../../index.js').MLOperandDataType, new (buffer: ArrayBuffer) => ArrayBufferView>} */
const ARRAYS = {
  float32: Float32Array,
  // Without Float16Array, only the bit patterns can be passed.
  float16: globalThis.Float16Array ?? Uint16Array,
  int32: Int32Array,
  uint32: Uint32Array,
  int64: BigInt64Array,
  uint64: BigUint64Array,
  int8: Int8Array,
  uint8: Uint8Array,
};

/** @typedef {new (source: ArrayBufferLike | Iterable<number>, byteOffset?: number, length?: number) => ArrayBufferView & Iterable<number>} NumberArray */

/**
 * Types of inputs and outputs that WebNN lacks: their arrays outside, and the arrays of the native side.
 *
 * @type {Map<string, {views: string[], outside: NumberArray & {BYTES_PER_ELEMENT: number}, inside: NumberArray}>}
 */
const CONVERTED = new Map([
  ['double', { views: ['Float64Array'], outside: Float64Array, inside: Float32Array }],
  ['int16', { views: ['Int16Array'], outside: Int16Array, inside: Int32Array }],
  ['uint16', { views: ['Uint16Array'], outside: Uint16Array, inside: Int32Array }],
]);

/**
 * Returns the elements of an input in the form that the native side takes.
 *
 * @param {Uint8Array} bytes from the caller
 * @param {string} dataType of the input
 * @param {string} what for messages
 * @returns {Uint8Array}
 */
function nativeBytes(bytes, dataType, what) {
  const types = CONVERTED.get(dataType);
  if (types === undefined) {
    return bytes;
  }
  const { outside, inside } = types;
  const count = bytes.byteLength / outside.BYTES_PER_ELEMENT;
  if (!Number.isInteger(count)) {
    throw codedError('ERR_WEBNN_SHAPE', `${what} has ${bytes.byteLength} bytes, not a whole number of elements of ${dataType}`);
  }
  const aligned = bytes.byteOffset % outside.BYTES_PER_ELEMENT === 0 ? bytes : copyOf(bytes);
  const { buffer } = new inside(new outside(aligned.buffer, aligned.byteOffset, count));
  return new Uint8Array(buffer);
}

/**
 * @param {ArrayBuffer} buffer of the native side
 * @param {import('../../index.js').MLOperandDataType} made its data type
 * @param {string} dataType of the output
 * @returns {ArrayBufferView} a typed array of its elements
 */
function elementsOf(buffer, made, dataType) {
  const elements = new ARRAYS[made](buffer);
  const types = CONVERTED.get(dataType);
  return types === undefined ? elements : new types.outside(/** @type {Float32Array | Int32Array} */ (elements));
}

/**
 * Returns the name of a feed in messages.
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
 * @property {unknown} [dataType] from the caller
 * @property {undefined} [held]
 * @property {undefined} [place]
 */

/**
 * @typedef {object} FeedOfResult a result whose data are unread
 * @property {undefined} [tensor]
 * @property {import('../internal.js').Handle<'values'>} held
 * @property {number} place index of the result in its group of results
 * @property {readonly number[]} shape
 * @property {unknown} dataType
 */

/** @typedef {FeedOfData | FeedOfResult | {tensor: import('../internal.js').TensorState, shape?: undefined, place?: undefined}} Feed data, or the state of an MLTensor */

/**
 * The hidden state of a result whose data have not been read.
 *
 * @typedef {object} Unread
 * @property {import('../internal.js').Handle<'values'>} handle
 * @property {number} place index in its group of results
 * @property {readonly number[]} shape
 * @property {string} dataType
 */

const INSPECT = Symbol.for('nodejs.util.inspect.custom');

/** @type {WeakMap<object, Unread>} by the results */
const unread = new WeakMap();

/**
 * @param {string} what from `feedName`
 * @param {unknown} value an MLTensor, a view, a buffer, or `{data, shape, dataType}`, such as a result
 * @returns {Feed}
 * @throws {TypeError} for anything else
 */
function toFeed(what, value) {
  const tensor = tensorSlots.get(value);
  if (tensor !== undefined) {
    return { tensor };
  }
  const result = isObject(value) ? unread.get(value) : undefined;
  if (isObject(value) && result !== undefined && value.dataType === result.dataType && isSame(result.shape, value.shape)) {
    return { held: result.handle, place: result.place, shape: result.shape, dataType: result.dataType };
  }
  return toFeedOfData(what, value);
}

/**
 * @param {string} what from `feedName`
 * @param {unknown} value a view, a buffer, or `{data, shape, dataType}`
 * @returns {FeedOfData}
 * @throws {TypeError} for anything else
 */
function toFeedOfData(what, value) {
  if (!isObject(value)) {
    const expected = 'an MLTensor, a typed array, a buffer or {data, shape, dataType}';
    throw new TypeError(`${what} is ${String(value)}, expected ${expected}`);
  }
  if (ArrayBuffer.isView(value) || value.data === undefined) {
    return toSource(value, what);
  }
  const { data, shape, dataType } = value;
  if (!Array.isArray(shape)) {
    throw new TypeError(`${what} has data but no shape, expected a list of sizes`);
  }
  return { ...toSource(data, what), shape: requireNumbers(Array.from(shape), `${what}: shape`), dataType };
}

/**
 * @param {readonly number[]} shape
 * @param {unknown} other
 */
function isSame(shape, other) {
  return Array.isArray(other) && other.length === shape.length && shape.every((size, axis) => size === other[axis]);
}

/**
 * @param {unknown[]} list
 * @param {string} what
 * @returns {number[]} the list
 * @throws {TypeError} if an element is not a number; the native side checks for valid sizes
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
 * @param {unknown} given
 * @param {string} dataType of the input
 * @param {string} what
 * @throws {TypeError} if they are not the same
 */
function requireSameType(given, dataType, what) {
  if (given !== dataType) {
    throw new TypeError(`${what} is of type ${typeof given === 'string' ? quote(given) : typeof given}, expected ${dataType}`);
  }
}

/**
 * @param {FeedOfData} feed
 * @param {string} dataType of the input
 * @param {string} what
 * @throws {TypeError} if the data are of another type
 */
function requireType({ kind, dataType: given }, dataType, what) {
  if (given !== undefined) {
    requireSameType(given, dataType, what);
  }
  const known = DATA_TYPES.find((name) => name === dataType);
  const views = known === undefined ? CONVERTED.get(dataType)?.views : VIEWS[known];
  // Any other type makes loading the model fail, with a message about it.
  if (views !== undefined) {
    requireKind(kind, views, dataType, what);
  }
}

/**
 * @param {import('../internal.js').MadeValue} contents
 * @param {import('../internal.js').Handle<'values'> | undefined} caches of the run
 * @param {import('../../index.js').MLOperandDataType} made the data type of the elements
 * @param {number[]} shape
 * @param {import('../../onnx.js').OnnxValueInfo} output
 * @returns {import('../../onnx.js').OnnxResult}
 */
function toResult(contents, caches, made, shape, output) {
  const dataType = /** @type {import('../../onnx.js').OnnxDataType} */ (CONVERTED.has(output.dataType) ? output.dataType : made);
  const isCache = typeof contents === 'number';
  if (!isCache && isBuffer(contents)) {
    return { data: elementsOf(ownBuffer(contents), made, dataType), shape, dataType };
  }
  const handle = /** @type {import('../internal.js').Handle<'values'>} */ (isCache ? caches : contents);
  const place = isCache ? contents : 0;
  return unreadResult({ handle, place, shape: [...shape], dataType }, made, shape, output.name);
}

/** Shows the data of a result when it is printed. */
const SHOWN = {
  /**
   * @this {object}
   * @param {number} depth
   * @param {object} options
   * @param {(value: unknown, options: object) => string} show
   */
  value(depth, options, show) {
    return show({ ...this }, options);
  },
};

/**
 * Creates a result whose data are copied when they are read; until then, feeding it needs no copy.
 *
 * @param {Unread} state
 * @param {import('../../index.js').MLOperandDataType} made the data type of the elements
 * @param {number[]} shape
 * @param {string} name of the output
 * @returns {import('../../onnx.js').OnnxResult}
 */
function unreadResult(state, made, shape, name) {
  /** @type {unknown} */
  let known;
  const keep = (/** @type {unknown} */ data) => {
    known = data;
    unread.delete(result);
    // From now on, it is like any other result, unless it was frozen before.
    if (Object.getOwnPropertyDescriptor(result, 'data')?.configurable) {
      Object.defineProperty(result, 'data', { value: data, writable: true, enumerable: true, configurable: true });
    }
  };
  const result = /** @type {import('../../onnx.js').OnnxResult} */ ({
    get data() {
      if (unread.has(result)) {
        keep(requiringMemory(name, () => dataOf(state, made)));
        native.releaseValue(state.handle, state.place);
      }
      return known;
    },
    set data(data) {
      keep(data);
      native.releaseValue(state.handle, state.place);
    },
    shape,
    dataType: state.dataType,
  });
  Object.defineProperty(result, INSPECT, SHOWN);
  unread.set(result, state);
  return result;
}

/**
 * Whether contents are a buffer of any realm: handles have no properties.
 *
 * @param {ArrayBuffer | import('../internal.js').Handle<'values'>} contents
 * @returns {contents is ArrayBuffer}
 */
function isBuffer(contents) {
  return /** @type {Partial<ArrayBuffer>} */ (contents).byteLength !== undefined;
}

/**
 * @param {ArrayBuffer} buffer that native code made, in the realm that loaded the binary
 * @returns {ArrayBuffer} of this realm, with the same bytes
 */
function ownBuffer(buffer) {
  if (buffer instanceof ArrayBuffer) {
    return buffer;
  }
  const own = new ArrayBuffer(byteLengthOf(buffer, 'ArrayBuffer'));
  new Uint8Array(own).set(new Uint8Array(buffer));
  return own;
}

/**
 * Copies the elements of a result.
 *
 * @param {Unread} state
 * @param {import('../../index.js').MLOperandDataType} made the data type of the elements
 */
function dataOf({ handle, place, shape, dataType }, made) {
  const buffer = new ArrayBuffer(byteLength({ dataType: made, shape }));
  native.readValue(handle, place, new Uint8Array(buffer));
  return elementsOf(buffer, made, dataType);
}

/**
 * @template T
 * @param {string} name of the output
 * @param {() => T} make what needs buffers
 * @returns {T}
 * @throws {DOMException} if there is no memory for a buffer
 */
function requiringMemory(name, make) {
  try {
    return make();
  } catch (cause) {
    if (cause instanceof RangeError) {
      throw codedError('ERR_WEBNN_NO_MEMORY', `run: no memory for an ArrayBuffer with the output ${quote(name)}`);
    }
    throw cause;
  }
}

module.exports = { feedName, nativeBytes, requireNumbers, requireSameType, requireType, toFeed, toFeedOfData, toResult };
