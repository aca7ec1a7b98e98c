'use strict';

const { OnnxError, errorFromCode, withCode } = require('../errors.js');
const native = require('../native.js');

const CODES = new Map(native.errorCodes.map(({ code, exception }) => [code, exception]));

/**
 * @param {string} code of the table
 * @param {string} message
 * @returns {Error} the exception of that code
 */
function codedError(code, message) {
  return withCode(errorFromCode(CODES.get(code), message), code);
}

/**
 * Gives errors of conversions, which are about the type of a value, their code.
 *
 * @template T
 * @param {() => T} convert
 * @returns {T}
 */
function converting(convert) {
  try {
    return convert();
  } catch (error) {
    if (error instanceof TypeError && error.code === undefined && Object.isExtensible(error)) {
      withCode(error, 'ERR_WEBNN_TYPE');
    }
    throw error;
  }
}

module.exports = { OnnxError, codedError, converting };
