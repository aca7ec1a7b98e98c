'use strict';

/** Memory for results. */

const { Buffer } = require('node:buffer');

const { ArrayBuffer, RangeError } = globalThis;
const { allocUnsafeSlow } = Buffer;

/**
 * Returns memory that the caller overwrites: clearing it takes as long as a copy.
 *
 * @param {number} bytes
 * @returns {ArrayBuffer} of this realm, with any contents
 * @throws {RangeError} if there is no memory
 */
function unclearedBuffer(bytes) {
  const { buffer } = allocUnsafeSlow(bytes);
  return buffer instanceof ArrayBuffer && buffer.byteLength === bytes ? buffer : new ArrayBuffer(bytes);
}

/**
 * Returns memory for a result that a run writes.
 *
 * @param {number} bytes
 * @returns {ArrayBuffer | undefined} undefined if there is none
 */
function roomFor(bytes) {
  try {
    return unclearedBuffer(bytes);
  } catch (error) {
    if (error instanceof RangeError) {
      return undefined;
    }
    throw error;
  }
}

module.exports = { roomFor, unclearedBuffer };
