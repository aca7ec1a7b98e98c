// Bodies of requests, as bytes, whatever type they claim to be of: some clients say none.

import { promisify } from 'node:util';
import zlib from 'node:zlib';
import { invalid, ServeError } from '../errors.js';
import { HEAD_LENGTH } from '../protocol/v2-json.js';

/** @type {Record<string, (bytes: Buffer, options: { maxOutputLength: number }) => Promise<Buffer>>} */
const DECODERS = { gzip: promisify(zlib.gunzip), deflate: promisify(zlib.inflate) };

/** Typed arrays of any type can begin at multiples of this. */
const ALIGNMENT = 8;

const tooLarge = (/** @type {number} */ limit) => new ServeError('tooLarge', `the body has more than ${limit} bytes`);

/**
 * Undoes the compression of a body.
 * @param {Buffer} bytes
 * @param {string | undefined} encoding
 * @param {number} limit bytes of the result
 */
async function decompressed(bytes, encoding, limit) {
  if (encoding === undefined || encoding === 'identity') return bytes;
  if (!Object.hasOwn(DECODERS, encoding)) throw invalid(`there is no content encoding ${JSON.stringify(encoding)}; expected gzip or deflate`);
  try {
    return await DECODERS[encoding](bytes, { maxOutputLength: limit });
  } catch (cause) {
    if (/** @type {NodeJS.ErrnoException} */ (cause).code === 'ERR_BUFFER_TOO_LARGE') throw tooLarge(limit);
    throw invalid(`the body is not ${encoding}: ${/** @type {Error} */ (cause).message}`, { cause });
  }
}

/**
 * Reads a body to its end. Raw bytes behind a head of JSON begin where typed arrays can, so that they need not be copied again.
 * @param {import('node:http').IncomingHttpHeaders} headers
 * @param {AsyncIterable<Buffer> & import('node:events').EventEmitter} stream
 * @param {number} limit bytes of the body, also after decompression
 * @returns {Promise<Buffer>}
 * @throws {ServeError}
 */
export async function readBody(headers, stream, limit) {
  const length = Number(headers['content-length'] ?? NaN);
  if (length > limit) throw tooLarge(limit);
  const head = Number(headers[HEAD_LENGTH] ?? 0);
  /** @type {Buffer[]} */
  const chunks = [];
  let bytes = 0;
  await new Promise((resolve, reject) => {
    stream.on('data', (/** @type {Buffer} */ chunk) => {
      bytes += chunk.length;
      if (bytes > limit) reject(tooLarge(limit));
      else chunks.push(chunk);
    });
    stream.once('end', resolve).once('error', reject);
  });
  const start = (ALIGNMENT - (head % ALIGNMENT)) % ALIGNMENT;
  const whole = Buffer.allocUnsafeSlow(start + bytes);
  let at = start;
  for (const chunk of chunks) at += chunk.copy(whole, at);
  return decompressed(whole.subarray(start), headers['content-encoding'], limit);
}
