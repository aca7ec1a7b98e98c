'use strict';

/** Memory for results. */

const { Buffer } = require('node:buffer');

const { ArrayBuffer } = globalThis;
const { allocUnsafeSlow } = Buffer;

/** Whether Node's arrays have buffers of this realm, of their own. */
const hasOwnBuffers = (() => {
  const { buffer } = allocUnsafeSlow(1);
  return buffer instanceof ArrayBuffer && buffer.byteLength === 1;
})();

/**
 * Makes a `Uint8Array` with any contents in a buffer of its own, or throws a RangeError; undefined where there are none. The
 * native side calls it while it reads the caller's memory: it must call nothing that programs can replace.
 *
 * @type {((bytes: number) => Uint8Array) | undefined}
 */
const makeRoom = hasOwnBuffers ? allocUnsafeSlow : undefined;

/**
 * Returns memory that the caller overwrites: clearing it takes as long as a copy.
 *
 * @param {number} bytes
 * @returns {ArrayBuffer} of this realm, with any contents
 * @throws {RangeError} if there is no memory
 */
function unclearedBuffer(bytes) {
  return makeRoom === undefined ? new ArrayBuffer(bytes) : /** @type {ArrayBuffer} */ (makeRoom(bytes).buffer);
}

module.exports = { makeRoom, unclearedBuffer };
