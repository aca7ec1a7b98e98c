'use strict';

const { fileURLToPath } = require('node:url');

const { bufferSource, bytesOf, isObject } = require('../webidl.js');
const { onnx } = require('./errors.js');

const { URL } = globalThis;

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
    return onnx.open(source);
  }
  if (source instanceof URL) {
    return onnx.open(fileURLToPath(source));
  }
  if (!isObject(source)) {
    throw new TypeError(`${operation}: the model is ${String(source)}, expected a path, a file URL or bytes`);
  }
  return onnx.read(bytesOf(source, bufferSource(source, `${operation}: the model`)));
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
    throw new TypeError(`${operation}: outputs is not a list of names`);
  }
  if (new Set(names).size < names.length) {
    throw new TypeError(`${operation}: outputs has a name twice`);
  }
  return [...names];
}

module.exports = { freeDimensions, openModel, outputNames, requireSize };
