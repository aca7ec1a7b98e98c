// Bytes of protobuf, also those that no library writes.

/** @param {number | bigint} value negative ones as 64 bits @returns {Buffer} */
export function varint(value) {
  let rest = BigInt.asUintN(64, BigInt(value));
  const bytes = [];
  for (; rest > 127n; rest >>= 7n) bytes.push(Number(rest & 127n) | 128);
  return Buffer.from([...bytes, Number(rest)]);
}

/** A field whose value stands as it is: a varint, or 4 or 8 bytes. */
export const field = (/** @type {number} */ number, /** @type {0 | 1 | 5} */ wire, /** @type {Uint8Array} */ value) =>
  Buffer.concat([varint((number << 3) | wire), value]);

/** A field of bytes: a text, a message, packed numbers. */
export const bytesField = (/** @type {number} */ number, /** @type {string | Uint8Array} */ value) => {
  const bytes = Buffer.from(value);
  return Buffer.concat([varint((number << 3) | 2), varint(bytes.length), bytes]);
};

/** Many times the same bytes, `size` in all. */
export const repeated = (/** @type {Uint8Array} */ bytes, /** @type {number} */ size) => Buffer.alloc(size - (size % bytes.length), bytes);
