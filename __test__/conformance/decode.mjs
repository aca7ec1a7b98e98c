// Reads the values of a conformance vector: tensors, numbers that JSON cannot write, arguments of operators.

/** For each data type: the array that holds its elements (float16 as raw bits) and the range of its integers. */
export const DATA_TYPES = {
  float32: { array: Float32Array },
  float16: { array: Uint16Array },
  int32: { array: Int32Array, range: [-(2 ** 31), 2 ** 31 - 1] },
  uint32: { array: Uint32Array, range: [0, 2 ** 32 - 1] },
  int64: { array: BigInt64Array, range: [-(2n ** 63n), 2n ** 63n - 1n] },
  uint64: { array: BigUint64Array, range: [0n, 2n ** 64n - 1n] },
  int8: { array: Int8Array, range: [-128, 127] },
  uint8: { array: Uint8Array, range: [0, 255] },
};

const SPECIAL_NUMBERS = { NaN: NaN, Infinity: Infinity, '-Infinity': -Infinity, '-0': -0 };

const NUMBER_BITS = new DataView(new ArrayBuffer(8));

/** Bits of the float16 number nearest to `value`; ties go to the even one, NaN becomes 0x7e00. */
export function float16Bits(value) {
  if (Number.isNaN(value)) {
    return 0x7e00;
  }
  NUMBER_BITS.setFloat64(0, value);
  const sign = (NUMBER_BITS.getUint8(0) & 0x80) << 8;
  const magnitude = Math.abs(value);
  // 65520 lies halfway between the largest float16 number and the next power of two, which is even.
  if (magnitude >= 65520) {
    return sign | 0x7c00;
  }
  // Numbers are 2^-24 apart below 2^-13; above, each power of two has 1024 of them.
  const exponent = Math.max(((NUMBER_BITS.getUint16(0) >> 4) & 0x7ff) - 1023, -14);
  const units = roundHalfToEven(magnitude * 2 ** (10 - exponent));
  // A subnormal number has fewer than 1024 units and the exponent field 0; a carry moves to the next exponent by itself.
  return sign | (units + (exponent + 14) * 1024);
}

function roundHalfToEven(value) {
  const below = Math.floor(value);
  const rest = value - below;
  return rest > 0.5 || (rest === 0.5 && below % 2 === 1) ? below + 1 : below;
}

/** The number that 16 bits mean as float16. */
export function float16Value(bits) {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 0x1f;
  const fraction = bits & 0x3ff;
  if (exponent === 0x1f) {
    return fraction === 0 ? sign * Infinity : NaN;
  }
  return exponent === 0 ? sign * fraction * 2 ** -24 : sign * (1024 + fraction) * 2 ** (exponent - 25);
}

/** The element `value` of a vector as its typed array stores it. @throws {Error} when the data type has no such value */
export function decodeElement(dataType, value) {
  const { range } = DATA_TYPES[dataType];
  if (range === undefined) {
    const number = typeof value === 'string' && Object.hasOwn(SPECIAL_NUMBERS, value) ? SPECIAL_NUMBERS[value] : value;
    if (typeof number !== 'number') {
      throw new Error(`${JSON.stringify(value)} is no ${dataType} value`);
    }
    return dataType === 'float16' ? exactFloat16(number) : number;
  }
  const wide = typeof range[0] === 'bigint';
  const written = wide ? typeof value === 'string' && /^-?\d+$/.test(value) : Number.isInteger(value);
  const number = written && wide ? BigInt(value) : value;
  if (!written || number < range[0] || number > range[1]) {
    throw new Error(`${JSON.stringify(value)} is no ${dataType} value`);
  }
  return number;
}

/** Vectors hold exact float16 values: one that must be rounded was written for another data type. */
function exactFloat16(number) {
  const bits = float16Bits(number);
  if (!Object.is(float16Value(bits), number)) {
    throw new Error(`${number} is no float16 value`);
  }
  return bits;
}

/**
 * The elements of a tensor of a vector: `data` in row-major order, or `fill` repeated.
 *
 * @param {{ dataType: string, shape: number[], data?: unknown[], fill?: unknown }} tensor
 * @returns a typed array of the data type; float16 as raw bits in a Uint16Array
 * @throws {Error} when the data type is unknown, the number of elements is wrong or an element has no such value
 */
export function decodeTensor({ dataType, shape, data, fill }) {
  if (!Object.hasOwn(DATA_TYPES, dataType)) {
    throw new Error(`unknown data type ${JSON.stringify(dataType)}`);
  }
  if ((data === undefined) === (fill === undefined)) {
    throw new Error('a tensor needs either data or fill');
  }
  const length = shape.reduce((product, dimension) => product * dimension, 1);
  const elements = new DATA_TYPES[dataType].array(length);
  if (data === undefined) {
    return elements.fill(decodeElement(dataType, fill));
  }
  if (data.length !== length) {
    throw new Error(`a tensor of shape [${shape.join(', ')}] has ${length} elements, its data has ${data.length}`);
  }
  data.forEach((value, index) => (elements[index] = decodeElement(dataType, value)));
  return elements;
}

/** Element `index` of a typed array as a number or bigint that can be printed and subtracted. */
export function elementValue(dataType, elements, index) {
  return dataType === 'float16' ? float16Value(elements[index]) : elements[index];
}

/**
 * An argument of an operator, or a member of its options, with all encoded values replaced.
 *
 * @param {unknown} value as it stands in the vector
 * @param {Map<string, MLOperand>} operands the operands that have a name so far
 * @throws {Error} when a name or an encoding is unknown
 */
export function decodeArgument(value, operands) {
  if (Array.isArray(value)) {
    return value.map((item) => decodeArgument(item, operands));
  }
  if (typeof value !== 'object' || value === null) {
    return value;
  }
  const [encoding] = Object.keys(value);
  if (encoding === undefined || !encoding.startsWith('$')) {
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, decodeArgument(item, operands)]));
  }
  const content = value[encoding];
  if (encoding === '$operand' && operands.has(content)) {
    return operands.get(content);
  }
  if (encoding === '$number' && Object.hasOwn(SPECIAL_NUMBERS, content)) {
    return SPECIAL_NUMBERS[content];
  }
  if (encoding === '$bigint' && /^-?\d+$/.test(content)) {
    return BigInt(content);
  }
  throw new Error(`cannot decode ${JSON.stringify(value)}`);
}
