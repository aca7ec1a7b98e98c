'use strict';

/** Sources of models, and the options of loading and importing. */

const { URL, fileURLToPath } = require('node:url');

const { quote } = require('../errors.js');
const { bufferKind, bufferOf, bufferSource, byteLengthOf, bytesOf, isDetached, isObject } = require('../webidl.js');
const { codedError } = require('./errors.js');

const { Map, Set, Uint8Array, structuredClone } = globalThis;

/** In UTF-16 code units: no operating system accepts longer paths. */
const MAX_PATH = 32767;

/**
 * Returns a buffer or view; a DataView becomes a Uint8Array of its bytes.
 *
 * @param {unknown} value
 * @param {string} what for messages
 * @returns {{data: unknown, kind: string}} with a `kind` for `bytesOf`
 * @throws {TypeError} for anything else
 */
function toBufferSource(value, what) {
  const kind = bufferSource(value, what);
  if (kind !== 'DataView') {
    return { data: value, kind };
  }
  const view = /** @type {DataView} */ (value);
  const data = attached(what, () => new Uint8Array(view.buffer, view.byteOffset, view.byteLength));
  return { data, kind: 'Uint8Array' };
}

/**
 * @param {string} what for messages
 * @param {() => T} read reads a buffer, and throws only if the buffer is detached
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

/**
 * @param {unknown} data
 * @param {string} kind from `bufferSource`
 * @param {string} what for messages
 * @returns {Uint8Array} the bytes, without a copy
 * @throws {TypeError} if they are detached
 */
function attachedBytes(data, kind, what) {
  const bytes = attached(what, () => bytesOf(data, kind));
  if (isDetached(bytes)) {
    throw new TypeError(`${what} is detached`);
  }
  return bytes;
}

/**
 * Copies bytes. (`slice()` of a Buffer shares its memory.)
 *
 * @param {Uint8Array} bytes
 * @returns {Uint8Array} at the start of a buffer of its own
 */
function copyOf(bytes) {
  return new Uint8Array(bytes);
}

/**
 * @param {string} text
 * @param {string} operation for messages
 * @returns {string} the path of a file URL
 */
function pathOfUrl(text, operation) {
  /** @type {<T>(read: () => T) => T} */
  const understood = (read) => {
    try {
      return read();
    } catch (cause) {
      // An exception of Node's own realm.
      throw new TypeError(`${operation}: ${quote(text)} is not the URL of a file: ${/** @type {Error} */ (cause).message}`, { cause });
    }
  };
  const url = understood(() => new URL(text));
  if (url.protocol !== 'file:') {
    throw new TypeError(`${operation}: the model is at ${quote(url.protocol)}, expected a file: models are files`);
  }
  return understood(() => fileURLToPath(url));
}

/**
 * @param {string} path
 * @param {string} operation for messages
 * @returns {string} the path
 * @throws {TypeError} for a path that no file can have, before it fills a message
 */
function requirePath(path, operation) {
  if (path === '' || path.length > MAX_PATH) {
    throw new TypeError(`${operation}: the path has ${path.length} characters, expected 1 to ${MAX_PATH}`);
  }
  return path;
}

/**
 * Returns the source in the form from which the native side opens a model.
 *
 * @param {unknown} source a path, a file URL or the bytes of the file
 * @param {string} operation for messages
 * @returns {string | Uint8Array} a path, or the bytes without a copy
 * @throws {TypeError} for anything else
 */
function toModelSource(source, operation) {
  if (typeof source === 'string') {
    requirePath(source, operation);
    return /^(file|https?):/i.test(source) ? requirePath(pathOfUrl(source, operation), operation) : source;
  }
  if (!isObject(source)) {
    throw new TypeError(`${operation}: the model is ${String(source)}, expected a path, a file URL or bytes`);
  }
  // URLs of any realm.
  if (!ArrayBuffer.isView(source) && typeof source.href === 'string' && typeof source.protocol === 'string') {
    return requirePath(pathOfUrl(source.href, operation), operation);
  }
  const what = `${operation}: the model`;
  const { data, kind } = toBufferSource(source, what);
  return attachedBytes(data, kind, what);
}

/**
 * Takes bytes away from the caller: their buffers are detached, except shared ones.
 *
 * @param {string | Uint8Array} source from `toModelSource`
 * @param {import('../internal.js').ExternalFile[]} files
 * @param {string} operation for messages
 * @returns {{source: string | Uint8Array, files: import('../internal.js').ExternalFile[]}} the same, in buffers that
 *   nobody else has
 * @throws {TypeError} if a buffer cannot be transferred
 */
function transferred(source, files, operation) {
  const views = [source, ...files.map((file) => file.source)].filter((one) => typeof one !== 'string');
  const buffers = [...new Set(views.map(bufferOf))].filter((buffer) => bufferKind(buffer) === 'ArrayBuffer');
  const message = `${operation}: transfer is true, but the bytes are in a buffer that cannot be transferred`;
  /** @type {Uint8Array[]} */
  let moved;
  try {
    // Unlike `ArrayBuffer.prototype.transfer`, it leaves the pool of Node's small Buffers alone.
    moved = structuredClone(views, { transfer: /** @type {ArrayBuffer[]} */ (buffers) });
  } catch (cause) {
    throw new TypeError(message, { cause });
  }
  // Node 20 copies that pool.
  if (buffers.some((buffer) => byteLengthOf(buffer, 'ArrayBuffer') > 0)) {
    throw new TypeError(message);
  }
  /** @type {Map<unknown, Uint8Array>} */
  const own = new Map(views.map((view, index) => [view, moved[index]]));
  return { source: own.get(source) ?? source, files: files.map((file) => ({ location: file.location, source: own.get(file.source) ?? file.source })) };
}

/**
 * @param {unknown} value
 * @param {string} operation
 * @returns {boolean} whether bytes are transferred
 * @throws {TypeError} for anything but a boolean
 */
function transfers(value, operation) {
  if (value !== undefined && typeof value !== 'boolean') {
    throw new TypeError(`${operation}: transfer is of type ${typeof value}, expected a boolean`);
  }
  return value === true;
}

/**
 * @param {unknown} options
 * @param {string[]} names of the options that exist
 * @param {string} operation
 * @returns {Record<string, unknown>} their values
 * @throws {TypeError} for an option that does not exist
 */
function toOptions(options, names, operation) {
  if (!isObject(options)) {
    throw new TypeError(`${operation}: options is ${String(options)}, expected an object`);
  }
  const unknown = Object.keys(options).find((name) => !names.includes(name));
  if (unknown !== undefined) {
    const message = `${operation}: there is no option ${quote(unknown)}, the options are ${names.join(', ')}`;
    throw codedError('ERR_WEBNN_UNKNOWN_OPTION', message);
  }
  return Object.fromEntries(names.map((name) => [name, options[name]]));
}

/**
 * @param {unknown} values
 * @param {string} option
 * @param {string} operation
 * @returns {{names: string[], numbers: number[]}} for the native side, which checks for valid numbers
 * @throws {TypeError} for anything but numbers
 */
function numbersByName(values, option, operation) {
  if (values === undefined) {
    return { names: [], numbers: [] };
  }
  if (!isObject(values)) {
    throw new TypeError(`${operation}: ${option} is not an object`);
  }
  const entries = Object.entries(values);
  const numbers = entries.map(([name, number]) => {
    if (typeof number !== 'number') {
      throw new TypeError(`${operation}: ${option}.${quote(name)} is of type ${typeof number}, expected a number`);
    }
    return number;
  });
  return { names: entries.map(([name]) => name), numbers };
}

/**
 * @param {unknown} dimensions
 * @param {string} operation
 * @returns {import('../internal.js').FreeDimensions}
 * @throws {TypeError} for a size that is not a number
 */
function freeDimensions(dimensions, operation) {
  const { names, numbers } = numbersByName(dimensions, 'freeDimensions', operation);
  return { names, sizes: numbers };
}

/**
 * @param {unknown} value
 * @param {string} operation
 * @returns {boolean | undefined}
 * @throws {TypeError} for anything else
 */
function strictness(value, operation) {
  if (value !== undefined && typeof value !== 'boolean') {
    throw new TypeError(`${operation}: strictDimensions is of type ${typeof value}, expected a boolean`);
  }
  return value;
}

/**
 * @param {unknown} counts
 * @param {string} operation
 * @returns {import('../internal.js').KeptCounts}
 * @throws {TypeError} for a count that is not a number
 */
function keptCounts(counts, operation) {
  const { names, numbers } = numbersByName(counts, 'keepLast', operation);
  return { names, counts: numbers };
}

/**
 * @param {unknown} names
 * @param {string} operation
 * @returns {string[] | undefined} undefined for the model's own outputs
 * @throws {TypeError}
 */
function outputNames(names, operation) {
  if (names === undefined) {
    return undefined;
  }
  if (!Array.isArray(names) || names.length === 0 || names.some((name) => typeof name !== 'string')) {
    throw new TypeError(`${operation}: outputs is not a list of at least one name`);
  }
  if (new Set(names).size < names.length) {
    throw new TypeError(`${operation}: outputs contains a name twice`);
  }
  return [...names];
}

/**
 * @param {unknown} files
 * @param {string} operation
 * @returns {import('../internal.js').ExternalFile[]} replacements for external files of a model
 * @throws {TypeError} for anything but model sources
 */
function externalFiles(files, operation) {
  if (files === undefined) {
    return [];
  }
  if (!isObject(files)) {
    throw new TypeError(`${operation}: externalData is ${String(files)}, expected an object of paths or bytes by location`);
  }
  return Object.entries(files).map(([location, source]) => ({
    location,
    source: toModelSource(source, `${operation}: externalData ${quote(location)}`),
  }));
}

module.exports = {
  attachedBytes,
  copyOf,
  externalFiles,
  freeDimensions,
  keptCounts,
  outputNames,
  strictness,
  toModelSource,
  toOptions,
  toBufferSource,
  transferred,
  transfers,
};
