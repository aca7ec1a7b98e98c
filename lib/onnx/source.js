'use strict';

/** Sources of models, and the options of loading and importing. */

const { fileURLToPath } = require('node:url');

const { amount, quote } = require('../errors.js');
const { bufferKind, bufferOf, bufferSource, byteLengthOf, bytesOf, conversionError, isDetached, isObject } = require('../webidl.js');
const { codedError } = require('./errors.js');

const { Map, Set, Uint8Array, structuredClone } = globalThis;

/** What a model can be loaded from, for messages. */
const SOURCES = 'a path, a file URL or bytes';

/** The beginning of an address, as opposed to a path, which may begin with a drive. */
const ADDRESS = /^([a-z][a-z\d+.-]+:\/\/|(file|data|blob):)/i;

/** In UTF-16 code units: no operating system accepts longer paths. */
const MAX_PATH = 32767;

/**
 * Returns a buffer or view; a DataView becomes a Uint8Array of its bytes.
 *
 * @param {unknown} value
 * @param {string} what for messages
 * @param {string} expected for the message about anything else
 * @returns {{data: unknown, kind: string}} with a `kind` for `bytesOf`
 * @throws {TypeError} for anything else
 */
function toBufferSource(value, what, expected) {
  const kind = bufferSource(value, what, expected);
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
 * @throws {TypeError} for any other
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
  if (!/^file:/i.test(text)) {
    throw new TypeError(`${operation}: the model is at ${quote(text)}, expected ${SOURCES}: nothing is downloaded; fetch it and pass its bytes`);
  }
  if (!/^file:\//i.test(text)) {
    throw new TypeError(`${operation}: ${quote(text)} is relative, expected an absolute file URL, as in new URL("model.onnx", import.meta.url)`);
  }
  return understood(() => fileURLToPath(text));
}

/**
 * @param {string} path
 * @param {string} operation for messages
 * @returns {string} the path
 * @throws {TypeError} for a path that no file can have, before it fills a message
 */
function requirePath(path, operation) {
  if (path === '' || path.length > MAX_PATH) {
    throw new TypeError(`${operation}: the path has ${amount(path.length, 'character')}, expected 1 to ${MAX_PATH}`);
  }
  return path;
}

/**
 * @param {Record<PropertyKey, unknown>} source that is no source of a model
 * @returns {string} how to get one from it, for messages; empty if that is not known
 */
function hintFor(source) {
  if (typeof source.then === 'function') return ': await it first';
  return typeof source.arrayBuffer === 'function' ? ': pass what its arrayBuffer() resolves with' : '';
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
    return ADDRESS.test(source) ? requirePath(pathOfUrl(source, operation), operation) : source;
  }
  if (!isObject(source)) {
    throw conversionError(`${operation}: the model`, undefined, SOURCES, source);
  }
  // URLs of any realm.
  if (!ArrayBuffer.isView(source) && typeof source.href === 'string' && typeof source.protocol === 'string') {
    return requirePath(pathOfUrl(source.href, operation), operation);
  }
  const what = `${operation}: the model`;
  const { data, kind } = toBufferSource(source, what, `${SOURCES}${hintFor(source)}`);
  return attachedBytes(data, kind, what);
}

/**
 * Takes bytes away from the caller: their buffers are detached, except shared ones.
 *
 * @param {Uint8Array[]} views
 * @param {string} operation for messages
 * @returns {Uint8Array[]} views of the same bytes, in buffers of their own
 * @throws {TypeError} if a buffer cannot be transferred
 */
function moved(views, operation) {
  const buffers = [...new Set(views.map(bufferOf))].filter((buffer) => bufferKind(buffer) === 'ArrayBuffer');
  const message = `${operation}: transfer is true, but the bytes are in a buffer that cannot be transferred`;
  /** @type {Uint8Array[]} */
  let own;
  try {
    // Unlike `ArrayBuffer.prototype.transfer`, it leaves the pool of Node's small Buffers alone.
    own = structuredClone(views, { transfer: /** @type {ArrayBuffer[]} */ (buffers) });
  } catch (cause) {
    throw new TypeError(message, { cause });
  }
  // Node 20 copies that pool.
  if (buffers.some((buffer) => byteLengthOf(buffer, 'ArrayBuffer') > 0)) {
    throw new TypeError(message);
  }
  return own;
}

/**
 * Takes the bytes of a model away from the caller.
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
  /** @type {Map<unknown, Uint8Array>} */
  const own = new Map(moved(views, operation).map((view, index) => [views[index], view]));
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
    throw conversionError(`${operation}: transfer`, undefined, 'a boolean', value);
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
    throw conversionError(`${operation}: options`, undefined, 'an object', options);
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
    throw conversionError(`${operation}: ${option}`, undefined, 'an object of numbers by name', values);
  }
  const entries = Object.entries(values);
  const numbers = entries.map(([name, number]) => {
    if (typeof number !== 'number') {
      throw conversionError(`${operation}: ${option}`, name, 'a number', number);
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
    throw conversionError(`${operation}: strictDimensions`, undefined, 'a boolean', value);
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
  if (!Array.isArray(names)) {
    throw conversionError(`${operation}: outputs`, undefined, 'a list of names', names);
  }
  if (names.length === 0) {
    throw new TypeError(`${operation}: outputs is empty, expected at least one name`);
  }
  const other = names.findIndex((name) => typeof name !== 'string');
  if (other !== -1) {
    throw conversionError(`${operation}: outputs`, other, 'a name', names[other]);
  }
  if (new Set(names).size < names.length) {
    throw new TypeError(`${operation}: outputs has a name twice, expected each once`);
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
    throw conversionError(`${operation}: externalData`, undefined, 'an object of paths or bytes by location', files);
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
  moved,
  outputNames,
  strictness,
  toModelSource,
  toOptions,
  toBufferSource,
  transferred,
  transfers,
};
