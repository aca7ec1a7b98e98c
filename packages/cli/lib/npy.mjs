// NumPy's .npy and .npz files (https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html). .npy: magic |
// version | header length | a Python dictionary | the elements. .npz: a zip archive of .npy files.
import { readFile } from 'node:fs/promises';
import { unzipSync } from 'fflate';
import { arrayOf, bytesOf, elementCount, elementSize, MAX_BYTES } from 'webnn-node-text/elements';
import { FormatError } from './errors.mjs';

const MAGIC = [0x93, 0x4e, 0x55, 0x4d, 0x50, 0x59]; // "\x93NUMPY"
const VERSION_AT = MAGIC.length;
const HEADER_LENGTH_AT = VERSION_AT + 2;

/** The elements start at a multiple of this number of bytes. */
const ALIGNMENT = 64;

/** @type {Record<string, string>} */
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

const DESCRIPTIONS = Object.fromEntries(Object.entries(TYPES).map(([descr, dataType]) => [dataType, descr]));

/**
 * Reads a .npy file.
 * @param {string | URL} path
 * @returns {Promise<import('./types.mjs').Tensor>}
 * @throws {FormatError} if the content is damaged; errors of the file system pass through
 */
export async function readNpy(path) {
  return parseNpy(await readFile(path), String(path));
}

/**
 * Reads one array of a .npz archive.
 * @param {string} path
 * @param {string} [key] name of the array; optional if there is only one
 * @returns {Promise<import('./types.mjs').Tensor>}
 * @throws {FormatError} if the content is damaged or has no such array; errors of the file system pass through
 */
export async function readNpz(path, key) {
  const bytes = await readFile(path);
  const names = /** @type {string[]} */ ([]);
  const wanted = key === undefined ? undefined : `${key}.npy`;
  const archive = unzip(bytes, path, ({ name, originalSize }) => {
    if (!name.endsWith('.npy')) return false;
    names.push(name.slice(0, -'.npy'.length));
    if (wanted !== undefined && name !== wanted) return false;
    if (originalSize > MAX_BYTES) {
      throw new FormatError(`${path}: ${name} has ${originalSize} bytes, expected at most ${MAX_BYTES}`);
    }
    return true;
  });
  const chosen = wanted ?? `${names[0]}.npy`;
  if (key === undefined && names.length !== 1) {
    throw new FormatError(`${path}: ${names.length} arrays (${names.join(', ')}), expected one, or a name as in ${path}:NAME`);
  }
  if (!Object.hasOwn(archive, chosen)) {
    throw new FormatError(`${path}: no array is named "${key}"; there are: ${names.join(', ')}`);
  }
  return parseNpy(archive[chosen], `${path}:${key ?? names[0]}`);
}

/**
 * @param {Uint8Array} bytes
 * @param {string} source
 * @param {import('fflate').UnzipFileFilter} filter
 */
function unzip(bytes, source, filter) {
  try {
    return unzipSync(bytes, { filter });
  } catch (cause) {
    if (cause instanceof FormatError) throw cause;
    throw new FormatError(`${source}: not a .npz archive: ${/** @type {Error} */ (cause).message}`, { cause });
  }
}

/**
 * Reads the bytes of a .npy file.
 * @param {Uint8Array} bytes
 * @param {string} source its name in messages
 * @returns {import('./types.mjs').Tensor}
 * @throws {FormatError}
 */
export function parseNpy(bytes, source = 'npy') {
  const { text, dataStart } = headerText(bytes, source);
  const { dataType, shape } = parseDictionary(text, source);
  const expected = elementCount(shape) * elementSize(dataType);
  const got = bytes.byteLength - dataStart;
  if (got !== expected) {
    const problem = got < expected ? 'truncated: ' : '';
    throw new FormatError(`${source}: ${problem}${got} bytes of data, expected ${expected} for ${dataType} [${shape.join(', ')}]`);
  }
  // Copied: elements in a file need not be aligned to their size.
  return { dataType, shape, data: arrayOf(dataType, new Uint8Array(bytes.subarray(dataStart)).buffer) };
}

/**
 * Returns the bytes of a .npy file, version 1.0.
 * @param {import('./types.mjs').Tensor} tensor with NumPy's type names
 * @returns {Uint8Array}
 */
export function formatNpy({ dataType, shape, data }) {
  const tuple = shape.length === 1 ? `(${shape[0]},)` : `(${shape.join(', ')})`;
  const dictionary = `{'descr': '${DESCRIPTIONS[dataType]}', 'fortran_order': False, 'shape': ${tuple}, }`;
  const textStart = HEADER_LENGTH_AT + 2;
  const length = Math.ceil((textStart + dictionary.length + 1) / ALIGNMENT) * ALIGNMENT - textStart;
  const header = Buffer.alloc(textStart + length, ' ');
  header.set([...MAGIC, 1, 0]);
  header.writeUInt16LE(length, HEADER_LENGTH_AT);
  header.write(dictionary, textStart, 'latin1');
  header[header.length - 1] = 0x0a;
  return Buffer.concat([header, bytesOf(data)]);
}

/**
 * @param {Uint8Array} bytes
 * @param {string} source
 */
function headerText(bytes, source) {
  if (!MAGIC.every((byte, i) => bytes[i] === byte)) {
    throw new FormatError(`${source}: not a .npy file (the magic bytes are missing)`);
  }
  const major = bytes[VERSION_AT];
  if (![undefined, 1, 2, 3].includes(major)) {
    throw new FormatError(`${source}: .npy version ${major}, expected 1, 2 or 3`);
  }
  // Version 1 has a 16-bit length, later versions one of 32 bits.
  const lengthBytes = major === 1 ? 2 : 4;
  const textStart = HEADER_LENGTH_AT + lengthBytes;
  if (bytes.byteLength < textStart) {
    throw new FormatError(`${source}: truncated: the file ends after ${bytes.byteLength} bytes`);
  }
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const length = lengthBytes === 2 ? view.getUint16(HEADER_LENGTH_AT, true) : view.getUint32(HEADER_LENGTH_AT, true);
  const dataStart = textStart + length;
  if (dataStart > bytes.byteLength) {
    throw new FormatError(`${source}: truncated: the header ends at byte ${dataStart}, the file at ${bytes.byteLength}`);
  }
  return { text: new TextDecoder().decode(bytes.subarray(textStart, dataStart)), dataStart };
}

/**
 * @param {string} text
 * @param {string} source
 */
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
    throw new FormatError(`${source}: the elements are in Fortran order, expected C order (numpy.ascontiguousarray)`);
  }
  const shape = tuple
    .split(',')
    .filter((part) => part.trim() !== '')
    .map(Number);
  return { dataType: TYPES[descr], shape };
}
