'use strict';

/** Feeds of `run`. */

const { DATA_TYPES, VIEWS, requireKind } = require('../descriptor.js');
const { amount, article, quote } = require('../errors.js');
const { slots: tensorSlots } = require('../tensor.js');
const { conversionError, isObject } = require('../webidl.js');
const { CONVERTED } = require('./converted.js');
const { codedError } = require('./errors.js');
const { isUnchanged } = require('./unread.js');
const { attachedBytes, copyOf, toBufferSource, transfers } = require('./source.js');

const { ArrayBuffer, Function, Map, String, Uint32Array, Uint8Array } = globalThis;

/**
 * The names of the views that hold elements of an input, by its data type.
 *
 * @type {Map<string, readonly string[]>}
 */
const VIEWS_BY_TYPE = new Map([
  ...DATA_TYPES.map((name) => /** @type {const} */ ([name, VIEWS[name]])),
  ['double', ['Float64Array']],
  ...[...CONVERTED].map(([name, { views }]) => /** @type {const} */ ([name, views])),
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
  const { outside, enter } = types;
  const count = bytes.byteLength / outside.BYTES_PER_ELEMENT;
  if (!Number.isInteger(count)) {
    throw codedError('ERR_WEBNN_SHAPE', `${what} has ${amount(bytes.byteLength, 'byte')}, expected a whole number of elements of ${dataType}`);
  }
  const aligned = bytes.byteOffset % outside.BYTES_PER_ELEMENT === 0 ? bytes : copyOf(bytes);
  const { buffer } = enter(new outside(aligned.buffer, aligned.byteOffset, count));
  return new Uint8Array(buffer);
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
 * @property {unknown} data
 * @property {string} kind of the data, from `bufferSource`
 * @property {number[]} [shape]
 * @property {unknown} [dataType] from the caller
 * @property {boolean} [transfer] whether the caller gives up the data
 */

/** @typedef {NonNullable<import('../../onnx.js').OnnxValueInfo['items']>} Items */

/**
 * @typedef {object} FeedItem
 * @property {Uint8Array | ReturnType<typeof nativeTexts>} data in the form that the native side takes
 * @property {number[]} shape
 */

/**
 * @typedef {object} FeedOfItems
 * @property {FeedItem[] | null} items null for an optional without a value
 */

/**
 * @typedef {FeedOfData | FeedOfItems | import('../../onnx.js').OnnxResult | {tensor: import('../internal.js').TensorState}} Feed
 *   data, an unread result, or the state of an MLTensor
 */

/**
 * @param {string} what from `feedName`
 * @param {unknown} value of an input that is a sequence or an optional: an array of data, data, null or undefined
 * @param {Items} items of the input
 * @returns {FeedOfItems}
 * @throws {TypeError} for anything else
 */
function toFeedOfItems(what, value, { dataType, isSequence, isOptional }) {
  if (isOptional && (value === null || value === undefined)) {
    return { items: null };
  }
  if (!isSequence) {
    return { items: [toItem(what, value, dataType)] };
  }
  if (!Array.isArray(value)) {
    throw conversionError(what, undefined, `an array of tensors${isOptional ? ' or null' : ''}`, value);
  }
  return { items: Array.from(value, (item, index) => toItem(`${what}[${index}]`, item, dataType)) };
}

/**
 * @param {string} what
 * @param {unknown} value data, of one dimension unless a shape comes with them
 * @param {string} dataType
 * @returns {FeedItem}
 * @throws {TypeError} for anything else
 */
function toItem(what, value, dataType) {
  const info = /** @type {import('../../onnx.js').OnnxValueInfo} */ ({ name: what, dataType });
  const feed = toFeedOfData(what, value, what, [info]);
  requireType(feed, dataType, what);
  const { data, shape, kind } = feed;
  if (shape === undefined && kind.endsWith('ArrayBuffer')) {
    throw new TypeError(`${what} has no shape, expected a typed array or { data, shape }`);
  }
  const native = kind === TEXTS ? nativeTexts(/** @type {string[]} */ (data)) : nativeBytes(attachedBytes(data, kind, what), dataType, what);
  return { data: native, shape: shape ?? [/** @type {{length: number}} */ (data).length] };
}

/**
 * @param {string} what from `feedName`
 * @param {unknown} value an MLTensor, a view, a buffer, or `{data, shape, dataType}`, such as a result
 * @param {string} name of the input
 * @param {readonly import('../../onnx.js').OnnxValueInfo[]} inputs of the model
 * @returns {Feed}
 * @throws {TypeError} for anything else
 */
function toFeed(what, value, name, inputs) {
  if (isUnchanged(value)) {
    return value;
  }
  const tensor = tensorSlots.get(value);
  return tensor === undefined ? toFeedOfData(what, value, name, inputs) : { tensor };
}

/** What can be fed, for messages. */
const FEEDS = 'a typed array, a buffer, an MLTensor or { data, shape }';

/** The kind of data that are arrays of strings. */
const TEXTS = 'texts';

/** @type {(text: string) => boolean} */
const isWellFormed = Function.prototype.call.bind(String.prototype.isWellFormed);

/**
 * @param {string[]} texts
 * @returns {[all: string, lengths: Uint32Array]} in the form that the native side takes
 */
function nativeTexts(texts) {
  const lengths = new Uint32Array(texts.length);
  for (let index = 0; index < texts.length; index++) {
    lengths[index] = texts[index].length;
  }
  return [texts.join(''), lengths];
}

/**
 * @param {string} what from `feedName`
 * @param {unknown[]} list
 * @returns {{data: string[], kind: string}} the elements of an input of strings
 * @throws {TypeError} if an element is no string, or has lone surrogates, which no file of UTF-8 has
 */
function toTexts(what, list) {
  const data = [...list];
  for (let index = 0; index < data.length; index++) {
    const text = data[index];
    if (typeof text !== 'string') {
      throw conversionError(what, index, 'a string', text);
    }
    if (!isWellFormed(text)) {
      throw new TypeError(`${what}[${index}] has a lone surrogate, which UTF-8 cannot represent`);
    }
  }
  return { data: /** @type {string[]} */ (data), kind: TEXTS };
}

/**
 * @param {string} what from `feedName`
 * @param {unknown} data
 * @param {string} name of the input
 * @param {readonly import('../../onnx.js').OnnxValueInfo[]} inputs of the model, as far as they are known
 * @throws {TypeError} for anything but a view or buffer: for plain arrays, which have no data type, with what to pass
 */
function toData(what, data, name, inputs) {
  if (!Array.isArray(data)) {
    return toBufferSource(data, what, FEEDS);
  }
  const dataType = inputs.find((input) => input.name === name)?.dataType;
  if (dataType === 'string') {
    return toTexts(what, data);
  }
  const views = VIEWS_BY_TYPE.get(dataType ?? '');
  if (dataType === undefined || views === undefined) {
    throw conversionError(what, undefined, 'a typed array, as in Float32Array.from(values)', data);
  }
  const [view] = views;
  const from = `${view}.from(values${view.startsWith('Big') ? ', BigInt' : ''})`;
  throw conversionError(what, undefined, `${article(view)} for ${dataType}, as in ${from}`, data);
}

/**
 * @param {string} what from `feedName`
 * @param {unknown} value a view, a buffer, or `{data, shape, dataType}`
 * @param {string} name of the input
 * @param {readonly import('../../onnx.js').OnnxValueInfo[]} inputs of the model, as far as they are known
 * @returns {FeedOfData}
 * @throws {TypeError} for anything else
 */
function toFeedOfData(what, value, name, inputs) {
  if (!isObject(value)) {
    throw conversionError(what, undefined, FEEDS, value);
  }
  if (ArrayBuffer.isView(value) || Array.isArray(value)) {
    return toData(what, value, name, inputs);
  }
  const { data, shape, dataType, transfer } = value;
  if (data === undefined) {
    return toBufferSource(value, what, FEEDS);
  }
  if (shape === undefined) {
    const old = 'dims' in value ? '; its dims are called shape here' : '';
    throw new TypeError(`${what} has data but no shape, expected { data, shape } with a list of sizes${old}`);
  }
  if (!Array.isArray(shape)) {
    throw conversionError(`${what}: shape`, undefined, 'a list of sizes', shape);
  }
  const feed = /** @type {FeedOfData} */ (toData(what, data, name, inputs));
  feed.shape = requireNumbers([...shape], () => `${what}: shape`);
  feed.dataType = dataType;
  // Strings have no buffer.
  feed.transfer = feed.kind !== TEXTS && transfers(transfer, what);
  return feed;
}

/**
 * @param {unknown[]} list
 * @param {() => string} what
 * @returns {number[]} the list
 * @throws {TypeError} if an element is not a number; the native side checks for valid sizes
 */
function requireNumbers(list, what) {
  for (let axis = 0; axis < list.length; axis++) {
    if (typeof list[axis] !== 'number') {
      throw conversionError(what(), axis, 'a number', list[axis]);
    }
  }
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
function requireType({ data, kind, dataType: given }, dataType, what) {
  if (given !== undefined) {
    requireSameType(given, dataType, what);
  }
  if (dataType === 'string' && kind !== TEXTS) {
    throw conversionError(what, undefined, 'an array of strings', data);
  }
  const views = VIEWS_BY_TYPE.get(dataType);
  // Any other type makes loading the model fail, with a message about it.
  if (views !== undefined) {
    requireKind(kind, views, dataType, what);
  }
}

module.exports = { TEXTS, feedName, nativeBytes, nativeTexts, requireNumbers, requireSameType, requireType, toFeed, toFeedOfData, toFeedOfItems };
