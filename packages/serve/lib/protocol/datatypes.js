// Data types of the Open Inference Protocol, and what they are in ONNX and in memory. BYTES are texts. Float16 are bit patterns
// here, as on the wire.

/**
 * @typedef {object} Datatype
 * @property {string} name in the protocol
 * @property {string} onnx element type in a model file
 * @property {string | null} webnn name of the data type in feeds, null for what cannot be fed
 * @property {new (buffer: ArrayBuffer, byteOffset?: number, length?: number) => import('./tensors.js').Elements} array
 * @property {number} bytes of an element, 0 for BYTES
 * @property {'float' | 'integer' | 'big' | 'bool' | 'text' | 'raw'} json how JSON writes an element; `raw` not at all
 * @property {[number | bigint, number | bigint]} [range] smallest and largest integer
 */

/** @type {Datatype[]} */
const TYPES = [
  { name: 'BOOL', onnx: 'bool', webnn: 'uint8', array: Uint8Array, bytes: 1, json: 'bool' },
  { name: 'UINT8', onnx: 'uint8', webnn: 'uint8', array: Uint8Array, bytes: 1, json: 'integer', range: [0, 255] },
  { name: 'UINT16', onnx: 'uint16', webnn: 'uint16', array: Uint16Array, bytes: 2, json: 'integer', range: [0, 65535] },
  { name: 'UINT32', onnx: 'uint32', webnn: 'uint32', array: Uint32Array, bytes: 4, json: 'integer', range: [0, 2 ** 32 - 1] },
  { name: 'UINT64', onnx: 'uint64', webnn: 'uint64', array: BigUint64Array, bytes: 8, json: 'big', range: [0n, 2n ** 64n - 1n] },
  { name: 'INT8', onnx: 'int8', webnn: 'int8', array: Int8Array, bytes: 1, json: 'integer', range: [-128, 127] },
  { name: 'INT16', onnx: 'int16', webnn: 'int16', array: Int16Array, bytes: 2, json: 'integer', range: [-32768, 32767] },
  { name: 'INT32', onnx: 'int32', webnn: 'int32', array: Int32Array, bytes: 4, json: 'integer', range: [-(2 ** 31), 2 ** 31 - 1] },
  { name: 'INT64', onnx: 'int64', webnn: 'int64', array: BigInt64Array, bytes: 8, json: 'big', range: [-(2n ** 63n), 2n ** 63n - 1n] },
  { name: 'FP16', onnx: 'float16', webnn: 'float16', array: Uint16Array, bytes: 2, json: 'raw' },
  { name: 'BF16', onnx: 'bfloat16', webnn: null, array: Uint16Array, bytes: 2, json: 'raw' },
  { name: 'FP32', onnx: 'float', webnn: 'float32', array: Float32Array, bytes: 4, json: 'float' },
  { name: 'FP64', onnx: 'double', webnn: 'double', array: Float64Array, bytes: 8, json: 'float' },
  { name: 'BYTES', onnx: 'string', webnn: 'string', array: /** @type {any} */ (Array), bytes: 0, json: 'text' },
];

const BY_NAME = new Map(TYPES.map((type) => [type.name, type]));
/** Names in the protocol. */
export const DATATYPES = [...BY_NAME.keys()];

const BY_ONNX = new Map(TYPES.map((type) => [`tensor(${type.onnx})`, type]));

/**
 * @param {string} name in the protocol
 * @returns {Datatype | undefined}
 */
export const datatypeOf = (name) => BY_NAME.get(name);

/**
 * The type of a model's input or output.
 * @param {string} type as ONNX writes it: `tensor(float)`
 * @returns {Datatype | undefined} nothing for types that the protocol does not have
 */
export const datatypeOfModel = (type) => BY_ONNX.get(type);
