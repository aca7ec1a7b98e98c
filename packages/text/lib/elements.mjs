// Elements of tensors in memory: data types, typed arrays, and conversions between them. Here, a tensor is `{ dataType,
// shape, data }`: the name of a WebNN or NumPy type, the dimensions, and a typed array.

/**
 * The parts of a typed array constructor that this module needs.
 * @typedef {{ readonly BYTES_PER_ELEMENT: number, new (bufferOrLength: ArrayBuffer | number): import('./types.mjs').Elements,
 *   from(numbers: ArrayLike<number | bigint>, map: (value: any) => any): import('./types.mjs').Elements }} ArrayConstructor
 */

/** Arrays of float16: the runtime's own if it has them, otherwise arrays of the 16 bits of each number. */
export const HalfArray = /** @type {ArrayConstructor} */ (/** @type {unknown} */ (globalThis.Float16Array ?? Uint16Array));

/** The typed arrays of all WebNN data types, and of those that NumPy adds. */
const ARRAYS = /** @type {Record<string, ArrayConstructor>} */ ({
  float64: Float64Array,
  float32: Float32Array,
  float16: HalfArray,
  int64: BigInt64Array,
  uint64: BigUint64Array,
  int32: Int32Array,
  uint32: Uint32Array,
  int16: Int16Array,
  uint16: Uint16Array,
  int8: Int8Array,
  uint8: Uint8Array,
  bool: Uint8Array,
});

/** Maximum size of a tensor in bytes; `maxTensorByteLength` of every context. */
export const MAX_BYTES = 2 ** 31 - 1;

const FLOATS = ['float64', 'float32', 'float16'];

/** Smallest and largest value of each integer type. */
const RANGES = /** @type {Record<string, [lowest: number | bigint, highest: number | bigint]>} */ ({
  int64: [-(2n ** 63n), 2n ** 63n - 1n],
  uint64: [0n, 2n ** 64n - 1n],
  int32: [-(2 ** 31), 2 ** 31 - 1],
  uint32: [0, 2 ** 32 - 1],
  int16: [-(2 ** 15), 2 ** 15 - 1],
  uint16: [0, 2 ** 16 - 1],
  int8: [-128, 127],
  uint8: [0, 255],
  bool: [0, 1],
});

/**
 * Whether a data type has a typed array here. Strings and 4-bit integers do not.
 * @param {string} dataType
 */
export function isKnown(dataType) {
  return Object.hasOwn(ARRAYS, dataType);
}

/**
 * Whether numbers of the type can have a fraction.
 * @param {string} dataType
 */
export function isFloat(dataType) {
  return FLOATS.includes(dataType);
}

/**
 * Returns the smallest and largest value of an integer type; bigints for the 64-bit ones.
 * @param {string} dataType
 */
export function rangeOf(dataType) {
  return RANGES[dataType];
}

/**
 * Returns the number of elements of a shape.
 * @param {readonly number[]} shape
 */
export function elementCount(shape) {
  return shape.reduce((product, dimension) => product * dimension, 1);
}

/**
 * Returns the bytes per element.
 * @param {string} dataType
 */
export function elementSize(dataType) {
  return ARRAYS[dataType].BYTES_PER_ELEMENT;
}

/**
 * Creates a typed array of a data type on the start of a buffer, or of `length` zeros.
 * @param {string} dataType
 * @param {ArrayBuffer | number} bufferOrLength
 */
export function arrayOf(dataType, bufferOrLength) {
  return new ARRAYS[dataType](bufferOrLength);
}

/**
 * Returns the bytes of a typed array, without a copy.
 * @param {ArrayBufferView} data
 */
export function bytesOf(data) {
  return new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
}

/**
 * Converts the 16 bits of an IEEE 754 binary16 to a number.
 * @param {number} bits
 */
export function numberFromHalf(bits) {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 0x1f;
  const fraction = bits & 0x3ff;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  if (exponent === 0x1f) return fraction === 0 ? sign * Infinity : NaN;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}

const scratch = new DataView(new ArrayBuffer(8));

/**
 * Returns the unbiased IEEE 754 binary64 exponent of a finite number other than 0.
 * @param {number} value
 */
function exponentOf(value) {
  scratch.setFloat64(0, value);
  return ((scratch.getUint16(0) >> 4) & 0x7ff) - 1023;
}

/** @param {number} value */
function roundToEven(value) {
  const below = Math.floor(value);
  const rest = value - below;
  return rest > 0.5 || (rest === 0.5 && below % 2 === 1) ? below + 1 : below;
}

/**
 * Returns the 16 bits of the IEEE 754 binary16 nearest to a number, ties to even.
 * @param {number} value
 */
export function halfFromNumber(value) {
  if (Number.isNaN(value)) return 0x7e00;
  const sign = value < 0 || Object.is(value, -0) ? 0x8000 : 0;
  const magnitude = Math.abs(value);
  // Halfway between the largest finite half and the next power of two.
  if (magnitude >= 65520) return sign | 0x7c00;
  const exponent = Math.max(exponentOf(magnitude), -14);
  // A significand of 2048 carries into the exponent by itself; below 1024, the number is subnormal.
  const significand = roundToEven(magnitude / 2 ** (exponent - 10));
  return sign | (((exponent + 15) << 10) + significand - 1024);
}

/**
 * Returns the elements as numbers. float16 is widened if the runtime has no float16 arrays; 64-bit integers become the
 * nearest numbers.
 * @param {{ dataType: string, data: import('./types.mjs').Elements }} tensor
 * @returns {Exclude<import('./types.mjs').Elements, BigInt64Array | BigUint64Array>}
 */
export function numbersOf({ dataType, data }) {
  if (dataType === 'float16' && data instanceof Uint16Array) return Float32Array.from(data, numberFromHalf);
  if (data instanceof BigInt64Array || data instanceof BigUint64Array) return Float64Array.from(data, Number);
  return data;
}

/**
 * Creates a typed array from numbers or bigints that the data type can hold; floats are rounded to nearest.
 * @param {string} dataType
 * @param {ArrayLike<number | bigint>} numbers
 */
export function arrayFromNumbers(dataType, numbers) {
  if (dataType === 'float16' && /** @type {unknown} */ (HalfArray) === Uint16Array) return Uint16Array.from(numbers, (value) => halfFromNumber(Number(value)));
  if (dataType === 'int64' || dataType === 'uint64') return ARRAYS[dataType].from(numbers, BigInt);
  return ARRAYS[dataType].from(numbers, Number);
}

/**
 * Converts a tensor to another data type: floats to floats, integers to any type that can hold all of their values.
 * @param {import('./types.mjs').Tensor} tensor
 * @param {string} dataType
 * @returns {import('./types.mjs').Tensor}
 * @throws {RangeError} if a float would become an integer, or an integer is out of the type's range
 */
export function convert(tensor, dataType) {
  if (tensor.dataType === dataType) return tensor;
  const { shape } = tensor;
  if (isFloat(dataType)) return { dataType, shape, data: arrayFromNumbers(dataType, numbersOf(tensor)) };
  if (isFloat(tensor.dataType)) {
    throw new RangeError(`data type ${tensor.dataType}, expected ${dataType}`);
  }
  const [lowest, highest] = RANGES[dataType];
  for (const value of tensor.data) {
    if (value < lowest || value > highest) {
      throw new RangeError(`the ${tensor.dataType} value ${value} is not in the range of ${dataType}, ${lowest} to ${highest}`);
    }
  }
  return { dataType, shape, data: arrayFromNumbers(dataType, tensor.data) };
}

/**
 * Packs tensors by name into a message to another process. They are sent as bytes, because not every runtime can send
 * all of its typed arrays.
 * @param {import('./types.mjs').Tensors} tensors
 * @returns {import('./types.mjs').PackedTensors}
 */
export function packTensors(tensors) {
  const pack = (/** @type {import('./types.mjs').Tensor} */ { dataType, shape, data }) => ({ dataType, shape, bytes: bytesOf(data) });
  return Object.fromEntries(Object.entries(tensors).map(([name, tensor]) => [name, pack(tensor)]));
}

/**
 * Unpacks tensors by name from such a message.
 * @param {import('./types.mjs').PackedTensors} message
 * @returns {import('./types.mjs').Tensors}
 */
export function unpackTensors(message) {
  // Copied: bytes in a message need not be aligned to the element size.
  const unpack = (/** @type {import('./types.mjs').PackedTensors[string]} */ { dataType, shape, bytes }) => ({
    dataType,
    shape,
    data: arrayOf(dataType, new Uint8Array(bytes).buffer),
  });
  return Object.fromEntries(Object.entries(message).map(([name, tensor]) => [name, unpack(tensor)]));
}

/**
 * Returns the shapes of tensors by input name, for `compile()`.
 * @param {import('./types.mjs').Tensors} tensors
 * @returns {Record<string, readonly number[]>}
 */
export function shapesOf(tensors) {
  return Object.fromEntries(Object.entries(tensors).map(([name, { shape }]) => [name, shape]));
}

/**
 * Returns feeds for `run()`, by input name.
 * @param {import('./types.mjs').Tensors} tensors
 */
export function feedsOf(tensors) {
  return Object.fromEntries(Object.entries(tensors).map(([name, { data, shape }]) => [name, { data, shape }]));
}
