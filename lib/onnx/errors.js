'use strict';

const path = require('node:path');

const { OnnxError, withCode } = require('../errors.js');
const native = require('../native.js');

/** The folder of this package's own modules, as stacks show it. */
const LIBRARY = path.dirname(__dirname);

/** Creates the exception for a code of the table. @type {(code: string, message: string) => Error} */
const codedError = native.errorOf;

/**
 * Adds the code to TypeErrors of conversions.
 *
 * @template T
 * @param {() => T} convert
 * @param {Function} [method] that the program called, see `atCaller`
 * @returns {T}
 */
function converting(convert, method = undefined) {
  try {
    return convert();
  } catch (error) {
    if (error instanceof TypeError && /** @type {import('../internal.js').CodedError} */ (error).code === undefined && Object.isExtensible(error)) {
      withCode(error, 'ERR_WEBNN_TYPE');
    }
    throw method === undefined ? error : atCaller(error, method);
  }
}

/**
 * Lets the stack of an error begin with the line of the program that called a method: conversions nest so deeply that
 * the stack would end before it. Exceptions of the caller's own getters keep theirs.
 *
 * @template T
 * @param {T} error
 * @param {Function} method
 * @returns {T} the error
 */
function atCaller(error, method) {
  if (error instanceof Error && error.stack?.match(/\n +at .*/)?.[0].includes(LIBRARY)) {
    Error.captureStackTrace(error, method);
  }
  return error;
}

module.exports = { OnnxError, atCaller, codedError, converting };
