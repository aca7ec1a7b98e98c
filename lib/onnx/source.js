'use strict';

const { fileURLToPath } = require('node:url');

const { bufferSource, bytesOf, isObject } = require('../webidl.js');
const { onnx } = require('./errors.js');

const { DataView, URL, Uint8Array } = globalThis;

/** In UTF-16 units: no operating system takes longer paths. */
const MAX_PATH = 32767;

/**
 * A buffer or view; a DataView as the bytes that it shows.
 *
 * @param {unknown} value
 * @param {string} what for messages
 * @returns {{data: object, kind: string}} with a `kind` for `bytesOf` and `byteLengthOf`
 * @throws {TypeError} for anything else
 */
function toSource(value, what) {
  const kind = bufferSource(value, what);
  if (kind !== 'DataView') {
    return { data: value, kind };
  }
  const data = attached(what, () => new Uint8Array(value.buffer, value.byteOffset, value.byteLength));
  return { data, kind: 'Uint8Array' };
}

/**
 * @param {string} what for messages
 * @param {() => T} read reads a buffer, which throws only where the buffer is detached
 * @returns {T}
 * @template T
 */
function attached(what, read) {
  try {
    return read();
  } catch (cause) {
    throw new TypeError(`${what} is detached`, { cause });
  }
}

/** @throws {TypeError} for a path that no file can have, which would make an endless message */
function requirePath(path, operation) {
  if (path === '' || path.length > MAX_PATH) {
    throw new TypeError(`${operation}: the path has ${path.length} characters, expected 1 to ${MAX_PATH}`);
  }
  return path;
}

/**
 * Opens a model.
 *
 * @param {string | URL | BufferSource} source path, file URL or the bytes of the file, which are copied
 * @param {string} operation for messages
 * @returns {object} native model
 * @throws {OnnxError} if it cannot be read or is no sound model
 * @throws {TypeError} for anything else
 */
function openModel(source, operation) {
  if (typeof source === 'string') {
    return onnx.open(requirePath(source, operation));
  }
  if (source instanceof URL) {
    return onnx.open(requirePath(fileURLToPath(source), operation));
  }
  if (!isObject(source)) {
    throw new TypeError(`${operation}: the model is ${String(source)}, expected a path, a file URL or bytes`);
  }
  const what = `${operation}: the model`;
  const { data, kind } = toSource(source, what);
  return onnx.read(attached(what, () => bytesOf(data, kind)));
}

/**
 * @param {unknown} dimensions
 * @param {string} operation
 * @returns {Record<string, number>} sizes by name
 * @throws {TypeError} for a size that is not an integer from 0 to 2^31 - 1
 */
function freeDimensions(dimensions, operation) {
  if (dimensions === undefined) {
    return {};
  }
  if (!isObject(dimensions)) {
    throw new TypeError(`${operation}: freeDimensions is no object`);
  }
  const entries = Object.entries(dimensions);
  for (const [name, size] of entries) {
    requireSize(size, `${operation}: freeDimensions.${name}`);
  }
  return Object.fromEntries(entries);
}

/** @throws {TypeError} if `size` is no size of a dimension */
function requireSize(size, what) {
  if (!Number.isInteger(size) || size < 0 || size > 0x7fffffff) {
    throw new TypeError(`${what} is ${String(size)}, expected an integer between 0 and 2147483647`);
  }
}

/**
 * @param {unknown} names
 * @param {string} operation
 * @returns {string[] | null} null for the outputs of the model
 * @throws {TypeError}
 */
function outputNames(names, operation) {
  if (names === undefined) {
    return null;
  }
  if (!Array.isArray(names) || names.length === 0 || names.some((name) => typeof name !== 'string')) {
    throw new TypeError(`${operation}: outputs is no list of at least one name`);
  }
  if (new Set(names).size < names.length) {
    throw new TypeError(`${operation}: outputs has a name twice`);
  }
  return [...names];
}

module.exports = { attached, freeDimensions, openModel, outputNames, requireSize, toSource };
