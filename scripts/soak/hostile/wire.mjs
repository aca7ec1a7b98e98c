// Messages of protobuf and of gRPC, byte by byte: also those that no library would send.

/** Wire types of protobuf. */
export const WIRE = { varint: 0, fixed64: 1, bytes: 2, group: 3, endGroup: 4, fixed32: 5 };

/**
 * @param {number | bigint} value from 0 to 2^64 - 1
 * @returns {Buffer}
 */
export function varint(value) {
  const bytes = [];
  let rest = BigInt(value);
  for (; rest > 127n; rest >>= 7n) bytes.push(Number(rest & 127n) | 128);
  return Buffer.from([...bytes, Number(rest)]);
}

/** The tag of a field. @param {number} number @param {number} wire */
export const tag = (number, wire) => varint(number * 8 + wire);

/** A field of bytes: texts, messages, packed numbers. @param {number} number @param {Uint8Array | string} content */
export const bytesField = (number, content) => {
  const bytes = Buffer.from(content);
  return Buffer.concat([tag(number, WIRE.bytes), varint(bytes.length), bytes]);
};

/**
 * A message as gRPC sends it.
 * @param {Uint8Array} message
 * @param {{ flag?: number, length?: number }} [head] whether it says that it is compressed, and its length, which may lie
 */
export function grpcFrame(message, { flag = 0, length = message.length } = {}) {
  const head = Buffer.alloc(5);
  head[0] = flag;
  head.writeUInt32BE(length, 1);
  return Buffer.concat([head, message]);
}

/**
 * A request for an inference.
 * @param {string} model
 * @param {{ name: string, datatype: string, shape: number[], parts?: Uint8Array[] }[]} inputs `parts` are further fields of the input
 * @param {Uint8Array[]} [raw] bytes of the inputs
 * @param {Uint8Array[]} [parts] further fields of the request
 */
export function inferMessage(model, inputs, raw = [], parts = []) {
  const input = (/** @type {typeof inputs[number]} */ { name, datatype, shape, parts: own = [] }) =>
    Buffer.concat([bytesField(1, name), bytesField(2, datatype), bytesField(3, Buffer.concat(shape.map(varint))), ...own]);
  return Buffer.concat([bytesField(1, model), ...inputs.map((entry) => bytesField(5, input(entry))), ...raw.map((bytes) => bytesField(7, bytes)), ...parts]);
}
