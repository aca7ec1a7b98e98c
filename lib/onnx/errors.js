'use strict';

const { OnnxError, withCode } = require('../errors.js');
const native = require('../native.js');

/** Creates the exception for a code of the table. @type {(code: string, message: string) => Error} */
const codedError = native.errorOf;

/**
 * Adds the code to TypeErrors of conversions.
 *
 * @template T
 * @param {() => T} convert
 * @returns {T}
 */
function converting(convert) {
  try {
    return convert();
  } catch (error) {
    if (error instanceof TypeError && /** @type {import('../internal.js').CodedError} */ (error).code === undefined && Object.isExtensible(error)) {
      withCode(error, 'ERR_WEBNN_TYPE');
    }
    throw error;
  }
}

module.exports = { OnnxError, codedError, converting };
