// Reads the safetensors container (https://huggingface.co/docs/safetensors):
// u64 length of the header | JSON header | the tensors, without gaps.
import { readFile } from 'node:fs/promises';
import { byteLengthOf, FormatError, TensorData } from './tensor-data.mjs';

const LENGTH_BYTES = 8;

/** The limit of the reference implementation: a longer header is an attack or not a header. */
const MAX_HEADER_BYTES = 100_000_000;

/** @type {Record<string, string>} */
const TYPES = {
  F64: 'float64',
  F32: 'float32',
  F16: 'float16',
  BF16: 'bfloat16',
  I64: 'int64',
  U64: 'uint64',
  I32: 'int32',
  U32: 'uint32',
  I16: 'int16',
  U16: 'uint16',
  I8: 'int8',
  U8: 'uint8',
  BOOL: 'bool',
};

/**
 * @typedef {object} Safetensors
 * @property {Record<string, string>} metadata free text of the writer, {} if there is none
 * @property {Map<string, TensorData>} tensors in the order of their bytes
 */

/**
 * Reads a file.
 * @param {string | URL} path
 * @returns {Promise<Safetensors>}
 * @throws {FormatError} if the content is damaged; errors of the file system pass through
 */
export async function readSafetensors(path) {
  return parseSafetensors(await readFile(path), String(path));
}

/**
 * Reads the bytes of a file; the tensors are views of them.
 * @param {Uint8Array} bytes
 * @param {string} source what messages call it
 * @returns {Safetensors}
 * @throws {FormatError}
 */
export function parseSafetensors(bytes, source = 'safetensors') {
  const { header, dataStart } = parseHeader(bytes, source);
  const { __metadata__: metadata, ...entries } = header;
  const data = new Uint8Array(bytes.buffer, bytes.byteOffset + dataStart, bytes.byteLength - dataStart);
  const inOrder = Object.entries(entries)
    .map(([name, entry]) => checkedEntry(name, entry, source))
    .sort((a, b) => a.begin - b.begin || a.end - b.end);

  const tensors = new Map();
  let covered = 0;
  for (const { name, type, shape, begin, end } of inOrder) {
    if (begin !== covered) {
      throw new FormatError(`${source}: tensor "${name}" starts at byte ${begin}, expected ${covered}`);
    }
    if (end > data.byteLength) {
      throw new FormatError(`${source}: truncated: tensor "${name}" ends at byte ${end}, the file holds ${data.byteLength}`);
    }
    tensors.set(name, new TensorData(type, shape, data.subarray(begin, end)));
    covered = end;
  }
  if (covered !== data.byteLength) {
    throw new FormatError(`${source}: ${data.byteLength - covered} bytes after the last tensor`);
  }
  return { metadata: metadata ?? {}, tensors };
}

/**
 * @param {Uint8Array} bytes
 * @param {string} source
 */
function parseHeader(bytes, source) {
  if (bytes.byteLength < LENGTH_BYTES) {
    throw new FormatError(`${source}: truncated: ${bytes.byteLength} bytes are no safetensors file`);
  }
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const length = view.getBigUint64(0, true);
  if (length > BigInt(MAX_HEADER_BYTES)) {
    throw new FormatError(`${source}: not a safetensors file (a header of ${length} bytes)`);
  }
  const dataStart = LENGTH_BYTES + Number(length);
  if (dataStart > bytes.byteLength) {
    throw new FormatError(`${source}: truncated: the header ends at byte ${dataStart}, the file at ${bytes.byteLength}`);
  }
  const text = new TextDecoder().decode(bytes.subarray(LENGTH_BYTES, dataStart));
  let header;
  try {
    header = JSON.parse(text);
  } catch (cause) {
    throw new FormatError(`${source}: the header is not JSON: ${/** @type {Error} */ (cause).message}`, { cause });
  }
  if (header === null || typeof header !== 'object' || Array.isArray(header)) {
    throw new FormatError(`${source}: the header is not a JSON object`);
  }
  return { header, dataStart };
}

const isCount = (/** @type {any} */ value) => Number.isSafeInteger(value) && value >= 0;

/**
 * @param {string} name
 * @param {any} entry
 * @param {string} source
 */
function checkedEntry(name, entry, source) {
  const fail = (/** @type {string} */ what) => {
    throw new FormatError(`${source}: tensor "${name}": ${what}`);
  };
  const { dtype, shape, data_offsets: offsets } = entry ?? {};
  if (!Object.hasOwn(TYPES, dtype)) {
    fail(`data type ${JSON.stringify(dtype)}, expected one of ${Object.keys(TYPES).join(', ')}`);
  }
  if (!Array.isArray(shape) || !shape.every(isCount)) fail(`shape ${JSON.stringify(shape)} is not a shape`);
  if (!Array.isArray(offsets) || offsets.length !== 2 || !offsets.every(isCount)) {
    fail(`data_offsets ${JSON.stringify(offsets)} are not two byte offsets`);
  }
  const [begin, end] = offsets;
  const expected = byteLengthOf(TYPES[dtype], shape);
  if (end - begin !== expected) {
    fail(`${end - begin} bytes, expected ${expected} for ${dtype} [${shape.join(', ')}]`);
  }
  return { name, type: TYPES[dtype], shape, begin, end };
}
