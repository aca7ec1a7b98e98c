// The calls of a service, as the server looks them up.

import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import { invalid } from '../errors.js';

/** Bytes of a request without tensors. */
const SMALL_BYTES = 2 ** 16;

/**
 * What a call says beside its messages.
 * @typedef {object} CallOptions
 * @property {import('../departure.js').Signal} signal aborted when the caller is gone
 * @property {number | undefined} deadline in milliseconds of performance.now()
 */

/**
 * A call.
 * @typedef {object} Method
 * @property {boolean} isOpen whether it needs no key, and is answered while the server ends
 * @property {boolean} takesMany whether the caller may send several messages
 * @property {number} limit bytes of all messages of the caller
 * @property {(bytes: Buffer, options: CallOptions) => AsyncIterable<Uint8Array[]>} answer gets a message of the caller, and gives those
 *   for it, each in pieces
 */

/** Gets a message, and returns the answer or, where answers are a stream, an iterator of them. @typedef {(message: any, options: CallOptions) => any} Handler */

/**
 * Runs a function that reads a message.
 * @template T
 * @param {() => T} read
 * @returns {T}
 * @throws {import('../errors.js').ServeError} `invalid` if the bytes are no such message
 */
export function decoded(read) {
  try {
    return read();
  } catch (cause) {
    // What the library says about bytes is for the caller; others are faults of this program.
    const { constructor, code, message } = /** @type {NodeJS.ErrnoException} */ (cause);
    if (constructor !== Error && constructor !== RangeError && code !== 'ERR_ENCODING_INVALID_ENCODED_DATA') throw cause;
    throw invalid(`the message is malformed: ${message}`, { cause });
  }
}

/**
 * Calls whose messages the library reads and writes.
 * @param {import('@bufbuild/protobuf').DescService} service
 * @param {Record<string, Handler>} handlers by the names of the service
 * @param {{ open?: string[] }} [options] names of calls that need no key
 * @returns {[path: string, method: Method][]}
 */
export function methodsOf(service, handlers, { open = [] } = {}) {
  return Object.entries(handlers).map(([called, handle]) => {
    const found = service.methods.find(({ name }) => name === called);
    if (found === undefined) throw new Error(`${service.typeName} has no ${called}`);
    const { methodKind, input, output } = found;
    /** @type {Method} */
    const method = {
      isOpen: open.includes(called),
      takesMany: methodKind === 'bidi_streaming',
      limit: SMALL_BYTES,
      async *answer(bytes, options) {
        const message = decoded(() => fromBinary(input, bytes, { readUnknownFields: false }));
        const encode = (/** @type {any} */ answer) => [toBinary(output, create(output, answer))];
        if (methodKind !== 'server_streaming') yield encode(await handle(message, options));
        else for await (const answer of handle(message, options)) yield encode(answer);
      },
    };
    return [pathOf(service, called), method];
  });
}

/**
 * @param {import('@bufbuild/protobuf').DescService} service
 * @param {string} name of a call
 */
export const pathOf = ({ typeName }, name) => `/${typeName}/${name}`;
