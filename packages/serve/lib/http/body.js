// Bodies of requests, as bytes, whatever type they claim to be of: some clients say none.

import { Transform } from 'node:stream';
import zlib from 'node:zlib';
import { invalid, ServeError } from '../errors.js';
import { HEAD_LENGTH } from '../protocol/v2-json.js';

const tooLarge = (/** @type {number} */ limit) => new ServeError('tooLarge', `the body has more than ${limit} bytes`);

/** @type {Record<string, () => import('node:stream').Transform>} */
const DECODERS = { gzip: zlib.createGunzip, deflate: zlib.createInflate };

/** Typed arrays of any type can begin at multiples of this. */
const ALIGNMENT = 8;

/** Smaller bodies are not worth to be kept. */
const SMALLEST_KEPT = 2 ** 16;

/**
 * Memory of bodies that is used again: V8 collects its whole heap after some dozens of large buffers, which took longer than the
 * requests (0.6 ms of 1.8 with 602 KB each).
 */
export class BodyMemory {
  /** Free buffers by the logarithm of their size. @type {Map<number, Buffer[]>} */
  #free = new Map();
  #bytes = 0;
  #limit;

  /** @param {number} limit bytes that wait to be used again */
  constructor(limit) {
    this.#limit = limit;
  }

  /**
   * @param {number} size in bytes
   * @returns {Buffer} of this size or more
   */
  take(size) {
    const exponent = Math.ceil(Math.log2(size));
    const kept = this.#free.get(exponent)?.pop();
    if (kept === undefined) return Buffer.allocUnsafeSlow(size < SMALLEST_KEPT ? size : 2 ** exponent);
    this.#bytes -= kept.length;
    return kept;
  }

  /**
   * Gives a body back, which nobody reads any more.
   * @param {Buffer} body as {@link readBody} returned it
   */
  release({ buffer }) {
    const size = buffer.byteLength;
    if (size < SMALLEST_KEPT || !Number.isInteger(Math.log2(size)) || this.#bytes + size > this.#limit) return;
    const exponent = Math.log2(size);
    const free = this.#free.get(exponent) ?? [];
    free.push(Buffer.from(/** @type {ArrayBuffer} */ (buffer)));
    this.#free.set(exponent, free);
    this.#bytes += size;
  }
}

/**
 * Limits of a body.
 * @typedef {object} BodyLimits
 * @property {number} bytes of the whole body, also after decompression
 * @property {number} headBytes of the JSON before raw bytes
 */

/**
 * Refuses a body by its headers.
 * @param {import('node:http').IncomingHttpHeaders} headers
 * @param {BodyLimits} limits
 * @param {import('./calls.js').Call} call
 * @throws {ServeError}
 */
export function admitBody(headers, { bytes, headBytes }, call) {
  const { 'content-length': announced, 'content-encoding': encoding = 'identity' } = headers;
  if (Number(headers[HEAD_LENGTH] ?? 0) > headBytes) throw new ServeError('tooLarge', `the JSON has more than ${headBytes} bytes`);
  if (encoding !== 'identity' && !Object.hasOwn(DECODERS, encoding)) {
    throw invalid(`there is no content encoding ${JSON.stringify(encoding)}; expected gzip or deflate`);
  }
  if (Number(announced ?? 0) > bytes) throw tooLarge(bytes);
  call.checkRoom(Number(announced ?? 0));
  call.bodyLimit = bytes;
}

/** So many chunks are kept as they come. Of further ones, small ones are copied into blocks: a buffer takes more than a hundred bytes. */
const FEW_CHUNKS = 64;
const BLOCK_BYTES = 2 ** 16;

/** The chunks of a body: their number is in proportion to their bytes, however small callers make them. */
class Chunks {
  /** @type {Buffer[]} */
  #list = [];
  /** Where small chunks go, and how much of it is used. */
  #block = Buffer.alloc(0);
  #used = 0;

  /** @param {Buffer} chunk */
  push(chunk) {
    if (this.#list.length < FEW_CHUNKS || chunk.length >= BLOCK_BYTES / 2) {
      this.#endBlock();
      this.#list.push(chunk);
      return;
    }
    if (this.#used + chunk.length > this.#block.length) {
      this.#endBlock();
      this.#block = Buffer.allocUnsafeSlow(BLOCK_BYTES);
    }
    this.#used += chunk.copy(this.#block, this.#used);
  }

  #endBlock() {
    if (this.#used > 0) this.#list.push(this.#block.subarray(0, this.#used));
    this.#block = Buffer.alloc(0);
    this.#used = 0;
  }

  /** All of them, in their order. */
  end() {
    this.#endBlock();
    return this.#list;
  }
}

/**
 * Collects a stream.
 * @param {import('node:stream').Readable} stream
 * @param {import('./calls.js').Call} call
 * @returns {Promise<{ chunks: Buffer[], bytes: number }>}
 */
function collect(stream, call) {
  const limit = /** @type {number} */ (call.bodyLimit);
  const chunks = new Chunks();
  let bytes = 0;
  /** @type {Promise<{ chunks: Buffer[], bytes: number }>} */
  const collected = new Promise((resolve, reject) => {
    const fail = (/** @type {unknown} */ error) => {
      stream.off('data', take);
      reject(error);
    };
    const take = (/** @type {Buffer} */ chunk) => {
      bytes += chunk.length;
      try {
        if (bytes > limit) throw tooLarge(limit);
        call.holdBody(chunk.length);
      } catch (error) {
        return fail(error);
      }
      chunks.push(chunk);
    };
    call.beginBody(fail);
    stream.on('data', take);
    stream.once('end', () => resolve({ chunks: chunks.end(), bytes })).once('error', fail);
  });
  return collected.finally(() => call.endBody());
}

/**
 * Counts the bytes of a body while others read it.
 * @param {import('node:stream').Readable} stream
 * @param {import('./calls.js').Call} call
 * @returns {import('node:stream').Readable} the same bytes
 */
export function countedBody(stream, call) {
  const counter = new Transform({
    transform(chunk, _, done) {
      try {
        call.came(chunk.length);
        call.holdBody(chunk.length);
        done(null, chunk);
      } catch (error) {
        done(/** @type {Error} */ (error));
      }
    },
  });
  call.beginBody((error) => counter.destroy(error));
  counter.once('end', () => call.endBody());
  // Fastify removes its listener when it refuses a body; an 'error' event without one would end the process.
  counter.on('error', () => undefined);
  stream.once('error', (error) => counter.destroy(error));
  return stream.pipe(counter);
}

/**
 * Undoes the compression of a body while it arrives.
 * @param {import('node:http').IncomingMessage} stream
 * @param {string} encoding
 * @param {import('./calls.js').Call} call
 */
async function collectDecoded(stream, encoding, call) {
  const decoder = DECODERS[encoding]();
  stream.once('error', (error) => decoder.destroy(error));
  try {
    return await collect(stream.pipe(decoder), call);
  } catch (cause) {
    stream.unpipe(decoder);
    decoder.destroy();
    if (cause instanceof ServeError) throw cause;
    throw invalid(`the body is not ${encoding}: ${/** @type {Error} */ (cause).message}`, { cause });
  }
}

/**
 * Reads a body to its end. Raw bytes behind a head of JSON begin where typed arrays can, so that they need not be copied again.
 * @param {import('node:http').IncomingMessage} stream that {@link admitBody} has admitted
 * @param {BodyMemory} memory
 * @param {import('./calls.js').Call} call
 * @returns {Promise<Buffer>}
 * @throws {ServeError}
 */
export async function readBody(stream, memory, call) {
  const { headers } = stream;
  const encoding = headers['content-encoding'] ?? 'identity';
  stream.on('data', (chunk) => call.came(chunk.length));
  const { chunks, bytes } = await (encoding === 'identity' ? collect(stream, call) : collectDecoded(stream, encoding, call));
  // A head length that does not fit the body is refused when the head is read.
  const head = Number.parseInt(String(headers[HEAD_LENGTH] ?? 0), 10) % ALIGNMENT || 0;
  const start = head > 0 ? ALIGNMENT - head : 0;
  const whole = memory.take(start + bytes);
  let at = start;
  // Copied together: a copy of each chunk as it comes takes a fourth longer, because the caller waits for it to send the next.
  for (const chunk of chunks) at += chunk.copy(whole, at);
  return whole.subarray(start, at);
}

/**
 * Discards the rest of an unwanted body. Many clients read the response only after sending everything; closing earlier would reset their
 * connection and lose it.
 * @param {import('node:http').IncomingMessage} stream
 * @param {import('node:http').ServerResponse} response
 * @param {number} limit in bytes; when more come, the connection ends
 * @returns {Promise<void>} settles when nothing is left, or too much came
 */
export function dropBody(stream, response, limit) {
  const until = stream.socket.bytesRead + limit;
  return new Promise((resolve) => {
    stream.on('data', () => {
      if (stream.socket.bytesRead <= until) return;
      resolve();
      stream.pause();
      const end = () => stream.destroy();
      if (response.writableFinished) end();
      else response.once('finish', end);
    });
    stream.once('close', resolve).once('end', resolve).once('error', resolve);
    // Who read it does not read on, and would hold up the rest.
    stream.unpipe().resume();
  });
}
