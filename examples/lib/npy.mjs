// Reads NumPy's .npy files (https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html):
// magic | version | length of the header | a Python dictionary | the elements.
import { readFile } from 'node:fs/promises';
import { byteLengthOf, FormatError, TensorData } from './tensor-data.mjs';

const MAGIC = [0x93, 0x4e, 0x55, 0x4d, 0x50, 0x59]; // "\x93NUMPY"
const VERSION_AT = MAGIC.length;
const HEADER_LENGTH_AT = VERSION_AT + 2;

const TYPES = {
  '<f8': 'float64',
  '<f4': 'float32',
  '<f2': 'float16',
  '<i8': 'int64',
  '<u8': 'uint64',
  '<i4': 'int32',
  '<u4': 'uint32',
  '<i2': 'int16',
  '<u2': 'uint16',
  '|i1': 'int8',
  '|u1': 'uint8',
  '|b1': 'bool',
};

/**
 * Reads a file.
 * @param {string | URL} path
 * @returns {Promise<TensorData>}
 * @throws {FormatError} if the content is damaged; errors of the file system pass through
 */
export async function readNpy(path) {
  return parseNpy(await readFile(path), String(path));
}

/**
 * Reads the bytes of a file; the tensor is a view of them.
 * @param {Uint8Array} bytes
 * @param {string} source what messages call it
 * @returns {TensorData}
 * @throws {FormatError}
 */
export function parseNpy(bytes, source = 'npy') {
  const { text, dataStart } = headerText(bytes, source);
  const { type, shape } = parseDictionary(text, source);
  const expected = byteLengthOf(type, shape);
  const got = bytes.byteLength - dataStart;
  if (got !== expected) {
    const problem = got < expected ? 'truncated: ' : '';
    throw new FormatError(
      `${source}: ${problem}${got} bytes of data, expected ${expected} for ${type} [${shape.join(', ')}]`,
    );
  }
  return new TensorData(type, shape, new Uint8Array(bytes.buffer, bytes.byteOffset + dataStart, got));
}

function headerText(bytes, source) {
  if (!MAGIC.every((byte, i) => bytes[i] === byte)) {
    throw new FormatError(`${source}: not a .npy file (the magic bytes are missing)`);
  }
  const major = bytes[VERSION_AT];
  if (![undefined, 1, 2, 3].includes(major)) {
    throw new FormatError(`${source}: .npy version ${major}, expected 1, 2 or 3`);
  }
  // Version 1 has a 16-bit length, the later ones 32 bits.
  const lengthBytes = major === 1 ? 2 : 4;
  const textStart = HEADER_LENGTH_AT + lengthBytes;
  if (bytes.byteLength < textStart) {
    throw new FormatError(`${source}: truncated: the file ends after ${bytes.byteLength} bytes`);
  }
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const length = lengthBytes === 2 ? view.getUint16(HEADER_LENGTH_AT, true) : view.getUint32(HEADER_LENGTH_AT, true);
  const dataStart = textStart + length;
  if (dataStart > bytes.byteLength) {
    throw new FormatError(
      `${source}: truncated: the header ends at byte ${dataStart}, the file at ${bytes.byteLength}`,
    );
  }
  return { text: new TextDecoder().decode(bytes.subarray(textStart, dataStart)), dataStart };
}

function parseDictionary(text, source) {
  const descr = /'descr':\s*'([^']*)'/.exec(text)?.[1];
  const order = /'fortran_order':\s*(True|False)/.exec(text)?.[1];
  const tuple = /'shape':\s*\(([\d\s,]*)\)/.exec(text)?.[1];
  if (descr === undefined || order === undefined || tuple === undefined) {
    throw new FormatError(`${source}: the header lacks descr, fortran_order or shape: ${text.trim()}`);
  }
  if (!Object.hasOwn(TYPES, descr)) {
    throw new FormatError(`${source}: data type ${descr}, expected one of ${Object.keys(TYPES).join(', ')}`);
  }
  if (order === 'True') {
    throw new FormatError(`${source}: the elements are in Fortran order, expected C order`);
  }
  const shape = tuple.split(',').filter((part) => part.trim() !== '').map(Number);
  return { type: TYPES[descr], shape };
}
