// The thread that reads and writes long JSON, see thread.js.

import { parentPort } from 'node:worker_threads';
import { invalid, ServeError, toServeError } from '../errors.js';
import { READERS, WRITERS } from './kinds.js';

/**
 * Objects, lists and texts in JSON. Each takes up to 100 bytes of V8's heap for two or three of JSON, and a heap that is full can
 * end the whole process, not only this thread.
 */
const MAX_PARSED = 2 ** 20;

const [QUOTE, BACKSLASH, BRACE, BRACKET] = Buffer.from('"\\{[');

/**
 * Refuses JSON whose values would take too much memory, before it is parsed.
 * @param {Uint8Array} bytes
 * @param {number} length of the JSON
 * @throws {ServeError} `tooLarge`
 */
function checkParsed(bytes, length) {
  let count = 0;
  for (let i = 0; i < length; i++) {
    const byte = bytes[i];
    if (byte !== QUOTE && byte !== BRACE && byte !== BRACKET) continue;
    count += 1;
    if (byte === QUOTE) {
      for (i += 1; i < length && bytes[i] !== QUOTE; i++) if (bytes[i] === BACKSLASH) i += 1;
    }
  }
  if (count > MAX_PARSED) throw new ServeError('tooLarge', `the JSON has more than ${MAX_PARSED} objects, lists and strings; send tensors as raw bytes`);
}

/** Objects, lists and texts that a request may have: to pass more of them on would stop the server as long as to read them. */
const MAX_VALUES = 2 ** 16;

/** The same for numbers and the like. */
const MAX_NUMBERS = 2 ** 20;

/**
 * Counts the values that a request consists of, and finds the memory of its typed arrays, which is passed on as it is.
 * @param {unknown} result
 * @returns {Set<ArrayBuffer>}
 * @throws {import('../errors.js').ServeError} if there are too many
 */
function buffersOf(result) {
  /** @type {Set<ArrayBuffer>} */
  const buffers = new Set();
  const left = [result];
  let [values, numbers] = [0, 0];
  while (left.length > 0) {
    const value = left.pop();
    if (typeof value !== 'string' && (value === null || typeof value !== 'object')) numbers += 1;
    else values += 1;
    if (values > MAX_VALUES || numbers > MAX_NUMBERS) throw invalid('the request consists of too many values; send tensors as raw bytes');
    if (ArrayBuffer.isView(value)) {
      // Those of small texts share their memory with others, and are copied.
      if (!(value instanceof Buffer)) buffers.add(/** @type {ArrayBuffer} */ (value.buffer));
    } else if (value instanceof Map) for (const entry of value) left.push(...entry);
    else if (Array.isArray(value)) for (const entry of value) left.push(entry);
    else if (value !== null && typeof value === 'object') for (const entry of Object.values(value)) left.push(entry);
  }
  return buffers;
}

/** @type {Record<'read' | 'write', (kind: string, args: any[]) => { value: unknown, transfer: ArrayBuffer[] }>} */
const ACTIONS = {
  read(kind, [bytes, headLength]) {
    checkParsed(bytes, headLength === undefined ? bytes.length : Number(headLength));
    const value = READERS[kind](Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength), headLength);
    return { value, transfer: [...buffersOf(value)] };
  },
  write(kind, args) {
    const value = new TextEncoder().encode(WRITERS[kind](...args));
    return { value, transfer: [value.buffer] };
  },
};

parentPort?.on('message', (/** @type {{ action: 'read' | 'write', kind: string, args: any[] }} */ { action, kind, args }) => {
  try {
    const { value, transfer } = ACTIONS[action](kind, args);
    parentPort?.postMessage({ value }, transfer);
  } catch (error) {
    const { kind, message, param, code, cause } = toServeError(error);
    // An error that is not the caller's ends the thread, so that the server logs it.
    if (kind === 'internal') throw cause ?? error;
    parentPort?.postMessage({ error: { kind, message, param, code } });
  }
});
