'use strict';

/** Views in the earlier drafts: `ArrayBufferView` without [AllowShared]. */

const { article, bufferKind, bufferSource, byteLengthOf, ELEMENT_SIZES, VIEWS } = require('webnn-node/internal/webidl');

const { Uint8Array } = globalThis;
const { isView } = ArrayBuffer;
const { apply, getOwnPropertyDescriptor, getPrototypeOf } = Reflect;

/**
 * @param {object} prototype
 * @param {string} name
 */
const getter = (prototype, name) => /** @type {Function} */ (getOwnPropertyDescriptor(prototype, name)?.get);
const typedArrayPrototype = /** @type {object} */ (getPrototypeOf(Uint8Array.prototype));

/** Getters of a view's buffer, offset and length, for both families of views. Lengths are in elements of the view. */
const TYPED_ARRAY = {
  buffer: getter(typedArrayPrototype, 'buffer'),
  byteOffset: getter(typedArrayPrototype, 'byteOffset'),
  length: getter(typedArrayPrototype, 'length'),
};
const DATA_VIEW = {
  buffer: getter(DataView.prototype, 'buffer'),
  byteOffset: getter(DataView.prototype, 'byteOffset'),
  length: getter(DataView.prototype, 'byteLength'),
};

/**
 * Converts to `ArrayBufferView`.
 *
 * @param {unknown} value
 * @param {string} what name of the value in messages
 * @returns {import('./internal.js').View}
 * @throws {TypeError} if it is not a view, or a view of a shared or resizable buffer
 */
function arrayBufferView(value, what) {
  if (!isView(value)) {
    throw new TypeError(`${what} is not an ArrayBufferView, expected a typed array`);
  }
  const kind = bufferSource(value, what);
  const buffer = apply((kind === 'DataView' ? DATA_VIEW : TYPED_ARRAY).buffer, value, []);
  if (bufferKind(buffer) === 'SharedArrayBuffer') {
    throw new TypeError(`${what} is backed by a SharedArrayBuffer, expected an ArrayBuffer`);
  }
  return { view: value, kind, buffer };
}

/**
 * @param {import('./internal.js').View} view
 * @returns {[number, number]} offset in bytes and length in elements: the arguments for a view of the same kind
 * @throws {TypeError} if the view is a DataView of a detached buffer
 */
function placeOf({ view, kind }) {
  const { byteOffset, length } = kind === 'DataView' ? DATA_VIEW : TYPED_ARRAY;
  return [apply(byteOffset, view, []), apply(length, view, [])];
}

/**
 * Returns the bytes of a view other than a DataView, as an array of this realm: the view itself may override methods (a
 * Buffer does).
 *
 * @param {import('./internal.js').View} view
 * @returns {Uint8Array} on the memory of the view
 */
function bytesIn({ view, kind, buffer }) {
  return new Uint8Array(buffer, apply(TYPED_ARRAY.byteOffset, view, []), byteLengthOf(view, kind));
}

/**
 * Whether the elements of a view match a data type, by the table of the drafts. (That table has no entry for float16.
 * Here, it is a Float16Array, or a Uint16Array of bit patterns.)
 *
 * @param {string} kind from `arrayBufferView`
 * @param {import('webnn-node').MLOperandDataType} dataType
 */
function holds(kind, dataType) {
  return VIEWS[dataType].includes(kind);
}

/**
 * @param {import('webnn-node').MLOperandDataType} dataType
 * @returns {string} the kinds of views for a data type, for messages
 */
function viewsOf(dataType) {
  return VIEWS[dataType].map(article).join(' or ');
}

/**
 * @param {string} kind from `arrayBufferView`
 * @param {import('webnn-node').MLOperandDataType} dataType
 * @param {string} what name of the view in messages
 * @throws {TypeError} if the elements of the view do not match
 */
function requireHolding(kind, dataType, what) {
  if (!holds(kind, dataType)) {
    throw new TypeError(`${what} is ${article(kind)}, expected ${viewsOf(dataType)} for ${dataType}`);
  }
}

/** The names of all data types. */
const DATA_TYPES = /** @type {import('webnn-node').MLOperandDataType[]} */ (Object.keys(VIEWS));

module.exports = { DATA_TYPES, ELEMENT_SIZES, arrayBufferView, bytesIn, holds, placeOf, requireHolding, viewsOf };
