// Tensors between a protocol and a model.

import { amount, invalid, shown } from '../errors.js';
import { datatypeOf } from './datatypes.js';

/** @typedef {Uint8Array | Uint16Array | Uint32Array | BigUint64Array | Int8Array | Int16Array | Int32Array | BigInt64Array | Float32Array | Float64Array} Elements */

/**
 * A tensor, whose data are row-major. Texts (BYTES) are arrays of byte strings.
 * @typedef {object} Tensor
 * @property {string} datatype name of the protocol, FP32 for instance
 * @property {readonly number[]} shape
 * @property {Elements | Uint8Array[]} data
 */

/** The most dimensions that a tensor may have; models have fewer. */
export const MAX_RANK = 32;

/** The most elements of a tensor: no context takes more than 2 GiB. */
const MAX_ELEMENTS = 2 ** 31;

/**
 * The number of elements of a shape.
 * @param {unknown} shape
 * @param {string} what names the tensor in errors
 * @returns {number}
 * @throws {import('../errors.js').ServeError} unless it is a list of sizes
 */
export function elementsOf(shape, what) {
  if (!Array.isArray(shape) || shape.length > MAX_RANK) throw invalid(`${what}: its shape is not a list of at most ${MAX_RANK} sizes`);
  let count = 1;
  for (const size of shape) {
    if (!Number.isSafeInteger(size) || size < 0) throw invalid(`${what}: its shape has ${shown(size)}, expected a size from 0`);
    count *= size;
  }
  // A product with 0 is 0, whatever else there is.
  if (!(count <= MAX_ELEMENTS)) throw invalid(`${what}: [${shape.join(', ')}] has more than ${MAX_ELEMENTS} elements`);
  return count;
}

/**
 * The type of a name.
 * @param {unknown} name
 * @param {string} what names the tensor in errors
 */
export function knownDatatype(name, what) {
  const datatype = typeof name === 'string' ? datatypeOf(name) : undefined;
  if (datatype === undefined) throw invalid(`${what}: there is no datatype ${shown(name)}`);
  return datatype;
}

/** The most texts of a tensor: each one is a value of its own, and no model reads more of them. */
const MAX_TEXTS = 2 ** 16;

/**
 * @param {number} count of texts
 * @param {string} what names the tensor in errors
 * @throws {import('../errors.js').ServeError} if there are too many
 */
export function checkTexts(count, what) {
  if (count > MAX_TEXTS) throw invalid(`${what}: ${count} strings, expected at most ${MAX_TEXTS}`);
}

/** Every 4 bytes of length, little-endian, precede the bytes of a text. */
const LENGTH_BYTES = 4;

/**
 * Texts with their lengths before them.
 * @param {Buffer} bytes
 * @param {number} count of texts
 * @param {string} what names the tensor in errors
 */
function textsOf(bytes, count, what) {
  checkTexts(count, what);
  const texts = [];
  let at = 0;
  while (at + LENGTH_BYTES <= bytes.length && texts.length < count) {
    const end = at + LENGTH_BYTES + bytes.readUInt32LE(at);
    if (end > bytes.length) throw invalid(`${what}: string ${texts.length} ends at byte ${end} of ${bytes.length}`);
    texts.push(bytes.subarray(at + LENGTH_BYTES, end));
    at = end;
  }
  if (texts.length !== count || at !== bytes.length) {
    throw invalid(`${what}: expected ${amount(count, 'string')} with a length before each in ${amount(bytes.length, 'byte')}, found ${texts.length} in ${at}`);
  }
  return texts;
}

/**
 * The elements of raw bytes, copied where they do not begin at a multiple of their size: typed arrays must.
 * @param {Buffer} bytes
 * @param {import('./datatypes.js').Datatype} datatype
 * @param {number} count of elements
 * @param {string} what names the tensor in errors
 * @returns {Elements | Uint8Array[]}
 */
export function elementsFromBytes(bytes, datatype, count, what) {
  if (datatype.json === 'text') return textsOf(bytes, count, what);
  if (bytes.length !== count * datatype.bytes) {
    throw invalid(`${what}: ${amount(count, 'element')} of ${datatype.name} take ${amount(count * datatype.bytes, 'byte')}, not ${bytes.length}`);
  }
  const { byteOffset } = bytes;
  const buffer = /** @type {ArrayBuffer} */ (bytes.buffer);
  if (byteOffset % datatype.bytes === 0) return new datatype.array(buffer, byteOffset, count);
  return new datatype.array(buffer.slice(byteOffset, byteOffset + bytes.length));
}

/**
 * The raw bytes of a tensor's elements, without a copy except for texts.
 * @param {Tensor} tensor
 * @returns {Buffer}
 */
export function bytesOfElements({ datatype, data }) {
  if (datatype !== 'BYTES') {
    const { buffer, byteOffset, byteLength } = /** @type {Elements} */ (data);
    return Buffer.from(/** @type {ArrayBuffer} */ (buffer), byteOffset, byteLength);
  }
  const pieces = /** @type {Uint8Array[]} */ (data).flatMap((text) => {
    const length = Buffer.alloc(LENGTH_BYTES);
    length.writeUInt32LE(text.length);
    return [length, text];
  });
  return Buffer.concat(pieces);
}
