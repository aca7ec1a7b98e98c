'use strict';

/** Data types, sizes in bytes, and checks of buffers against a data type and shape. */

const { enumerations } = require('./operators.js');
const { amount, article } = require('./errors.js');
const { byteLengthOf, bytesOf } = require('./webidl.js');

/** Names of the data types; the native side uses their indices. */
const DATA_TYPES = /** @type {import('../index.js').MLOperandDataType[]} */ (enumerations.MLOperandDataType);

/** The same, followed by the types that only constants can have, in contexts with the extension "int4". */
const CONSTANT_DATA_TYPES = /** @type {const} */ ([...DATA_TYPES, 'int4', 'uint4']);

const DATA_TYPE_INDEX = new Map(CONSTANT_DATA_TYPES.map((name, index) => [name, index]));

const ELEMENT_SIZES = {
  float32: 4,
  float16: 2,
  int32: 4,
  uint32: 4,
  int64: 8,
  uint64: 8,
  int8: 1,
  uint8: 1,
  // Two elements per byte, the first in the low bits.
  int4: 0.5,
  uint4: 0.5,
};

/**
 * The kinds of views that can hold a data type; a Uint8Array or a buffer can hold any.
 *
 * @type {Record<import('../index.js').MLConstantDataType, string[]>}
 */
const VIEWS = {
  float32: ['Float32Array'],
  // Without Float16Array, only the bit patterns can be passed.
  float16: ['Float16Array', 'Uint16Array'],
  int32: ['Int32Array'],
  uint32: ['Uint32Array'],
  int64: ['BigInt64Array'],
  uint64: ['BigUint64Array'],
  int8: ['Int8Array'],
  uint8: ['Uint8Array'],
  int4: ['Uint8Array', 'Int8Array'],
  uint4: ['Uint8Array', 'Int8Array'],
};

const UNTYPED = ['Uint8Array', 'ArrayBuffer', 'SharedArrayBuffer'];

/**
 * @param {import('../index.js').MLOperandDataType} dataType
 * @returns {number} its index in CONSTANT_DATA_TYPES
 */
function dataTypeIndex(dataType) {
  return /** @type {number} */ (DATA_TYPE_INDEX.get(dataType));
}

/**
 * @param {import('./internal.js').Descriptor} descriptor
 * @returns {number} length in bytes; inexact above 2^53, where no buffer can match anyway
 */
function byteLength({ dataType, shape }) {
  return Math.ceil(shape.reduce((product, dimension) => product * dimension, ELEMENT_SIZES[dataType]));
}

/**
 * @param {import('./internal.js').Described} descriptor
 * @returns {string} as in messages: `float32 [1, 3]`
 */
function describe({ dataType, shape }) {
  return `${dataType} [${shape.join(', ')}]`;
}

/**
 * Whether two descriptors have the same data type and shape.
 *
 * @param {import('./internal.js').Described} a
 * @param {import('./internal.js').Described} b
 */
function sameDescriptor(a, b) {
  const { shape } = a;
  if (a.dataType !== b.dataType || shape.length !== b.shape.length) {
    return false;
  }
  for (let i = 0; i < shape.length; i++) {
    if (shape[i] !== b.shape[i]) {
      return false;
    }
  }
  return true;
}

/**
 * @param {readonly string[]} views of a data type
 * @param {string} dataType
 * @returns {string} what can hold its elements, for messages
 */
function holdersOf(views, dataType) {
  const bytes = views.includes('Uint8Array') ? '' : 'a Uint8Array or ';
  return `${views.map(article).join(' or ')} for ${dataType}, or ${bytes}a buffer of bytes`;
}

/**
 * @param {string} kind from `bufferSource`
 * @param {readonly string[]} views of that data type
 * @param {string} dataType for messages
 * @param {string} what name of the buffer in messages
 * @throws {TypeError} if a buffer of that kind does not hold elements of that type
 */
function requireKind(kind, views, dataType, what) {
  if (!UNTYPED.includes(kind) && !views.includes(kind)) {
    throw new TypeError(`${what} is ${article(kind)}, expected ${holdersOf(views, dataType)}`);
  }
}

/**
 * The draft's "validate buffer with descriptor". Returns the bytes of the buffer without a copy.
 *
 * @param {unknown} buffer
 * @param {string} kind from `bufferSource`
 * @param {import('./internal.js').Descriptor} descriptor
 * @param {string} what name of the buffer in messages
 * @param {number} [expected] length in bytes of the descriptor, if known
 * @returns {Uint8Array}
 * @throws {TypeError} if the length or element type does not match, or the buffer is detached
 */
function matchingBytes(buffer, kind, descriptor, what, expected = byteLength(descriptor)) {
  requireKind(kind, VIEWS[descriptor.dataType], descriptor.dataType, what);
  const given = byteLengthOf(buffer, kind);
  if (given !== expected) {
    const detached = given === 0 ? ' (or is detached)' : '';
    throw new TypeError(`${what} has ${amount(given, 'byte')}${detached}, expected the ${amount(expected, 'byte')} of ${describe(descriptor)}`);
  }
  return bytesOf(buffer, kind);
}

module.exports = {
  CONSTANT_DATA_TYPES,
  DATA_TYPES,
  ELEMENT_SIZES,
  VIEWS,
  byteLength,
  dataTypeIndex,
  describe,
  holdersOf,
  matchingBytes,
  requireKind,
  sameDescriptor,
};
