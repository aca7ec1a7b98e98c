/** A file that is not what its name promises: wrong magic, truncated, inconsistent. */
export class FormatError extends Error {
  name = 'FormatError';
}

/**
 * IEEE 754 binary16, given as its 16 bits, as a number.
 * @param {number} bits
 */
function halfToNumber(bits) {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 0x1f;
  const fraction = bits & 0x3ff;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  if (exponent === 0x1f) return fraction === 0 ? sign * Infinity : NaN;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}

const halves = (/** @type {ArrayBuffer} */ buffer) => Float32Array.from(new Uint16Array(buffer), halfToNumber);

/** bfloat16 is the upper half of a float32. */
const brainHalves = (/** @type {ArrayBuffer} */ buffer) => new Float32Array(Uint32Array.from(new Uint16Array(buffer), (bits) => bits * 0x10000).buffer);

/**
 * @template T
 * @param {new (buffer: ArrayBuffer) => T} View
 */
const typed = (View) => (/** @type {ArrayBuffer} */ buffer) => new View(buffer);

/**
 * The element types of the file formats: bytes per element, the MLOperandDataType (null where the
 * standard has none), and how an ArrayBuffer of little-endian elements is read.
 * @type {Record<string, { size: number, dataType: import('webnn-node').MLOperandDataType | null,
 *   read: (buffer: ArrayBuffer) => ArrayLike<number | bigint> & ArrayBufferView }>}
 */
const ELEMENTS = {
  float64: { size: 8, dataType: null, read: typed(Float64Array) },
  float32: { size: 4, dataType: 'float32', read: typed(Float32Array) },
  float16: { size: 2, dataType: 'float16', read: halves },
  bfloat16: { size: 2, dataType: null, read: brainHalves },
  int64: { size: 8, dataType: 'int64', read: typed(BigInt64Array) },
  uint64: { size: 8, dataType: 'uint64', read: typed(BigUint64Array) },
  int32: { size: 4, dataType: 'int32', read: typed(Int32Array) },
  uint32: { size: 4, dataType: 'uint32', read: typed(Uint32Array) },
  int16: { size: 2, dataType: null, read: typed(Int16Array) },
  uint16: { size: 2, dataType: null, read: typed(Uint16Array) },
  int8: { size: 1, dataType: 'int8', read: typed(Int8Array) },
  uint8: { size: 1, dataType: 'uint8', read: typed(Uint8Array) },
  bool: { size: 1, dataType: 'uint8', read: typed(Uint8Array) },
};

/**
 * Bytes that `shape` elements of the named type take; 0 dimensions give one element.
 * @param {string} type
 * @param {number[]} shape
 */
export function byteLengthOf(type, shape) {
  return shape.reduce((product, dimension) => product * dimension, ELEMENTS[type].size);
}

/** The content of one tensor in a file. The bytes are a view of the file, not a copy. */
export class TensorData {
  /**
   * @param {string} type element type, in words
   * @param {number[]} shape dimensions, row-major
   * @param {Uint8Array} bytes little-endian elements, exactly as many as the shape says
   */
  constructor(type, shape, bytes) {
    this.type = type;
    this.shape = shape;
    this.bytes = bytes;
  }

  /**
   * What `MLGraphBuilder.constant(descriptor, bytes)` and `createTensor` take.
   * @throws {FormatError} if the standard has no such data type
   */
  get descriptor() {
    const { dataType } = ELEMENTS[this.type];
    if (dataType === null) throw new FormatError(`${this.type} is not a data type of WebNN`);
    return { dataType, shape: this.shape };
  }

  /** The elements as a fresh typed array; float16 and bfloat16 are widened to a Float32Array. */
  get values() {
    // Copied, because elements in a file need not lie on a multiple of their size.
    return ELEMENTS[this.type].read(new Uint8Array(this.bytes).buffer);
  }
}
