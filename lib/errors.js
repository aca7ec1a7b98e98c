'use strict';

/**
 * Creation of the exceptions that callers see, and cleaning of the caller's own text before it is
 * quoted in one of them.
 */

const { DOMException } = globalThis;
const { apply } = Reflect;
const { toWellFormed } = String.prototype;

/**
 * Control characters, line separators and bidirectional marks, embeddings, overrides and isolates:
 * in a log they could break the line or show text in another order than it is stored (UTR #36).
 */
const UNSAFE_TEXT = /[\p{Cc}\u061C\u200E\u200F\u2028-\u202E\u2066-\u2069]/gu;

/** Longest piece of a caller's text that is quoted in a message, in code points. */
const QUOTED_LENGTH = 100;

/** How much of a caller's text is looked at for that, in code units: texts can fill all memory. */
const EXAMINED_LENGTH = 4096;

/** DOMException names that the native side may report. */
const DOM_EXCEPTION_CODES = new Set(['InvalidStateError', 'NotSupportedError', 'OperationError', 'UnknownError']);

/**
 * Removes what must not reach a terminal or log from a caller's text.
 *
 * @param {string} text
 * @returns {string}
 */
function sanitize(text) {
  return text.replace(UNSAFE_TEXT, '');
}

/**
 * A caller's text in quotation marks, sanitized and cut to a readable length.
 *
 * @param {string} text
 * @returns {string}
 */
function quote(text) {
  const characters = Array.from(sanitize(text.slice(0, EXAMINED_LENGTH)));
  const isCut = characters.length > QUOTED_LENGTH || text.length > EXAMINED_LENGTH;
  return `"${characters.slice(0, QUOTED_LENGTH).join('')}${isCut ? '…' : ''}"`;
}

/**
 * A label as messages show it: sanitized, and cut when it is so long that it could fill all memory.
 *
 * @param {string} label
 * @returns {string}
 */
function shownLabel(label) {
  return label.length > EXAMINED_LENGTH
    ? `${sanitize(apply(toWellFormed, label.slice(0, EXAMINED_LENGTH), []))}…`
    : sanitize(label);
}

/**
 * Start of the messages about one operator: `[label] operator`, or `operator` when the label is empty.
 *
 * @param {string} label from `shownLabel`
 * @param {string} operator
 * @returns {string}
 */
function subject(label, operator) {
  return label === '' ? operator : `[${label}] ${operator}`;
}

/**
 * Lines of a message are kept, what else could confuse a terminal is not.
 *
 * @param {string} text
 */
function sanitizeLines(text) {
  return text.split('\n').map(sanitize).join('\n');
}

/** Why a model cannot be used. */
class OnnxError extends Error {
  /**
   * @param {string} message
   * @param {import('../onnx.js').OnnxUnsupportedNode[]} unsupported
   */
  constructor(message, unsupported = []) {
    super(message);
    this.unsupported = unsupported;
  }
}

Object.defineProperty(OnnxError.prototype, 'name', { value: 'OnnxError', writable: true, configurable: true });

/**
 * @param {string} message
 * @returns {DOMException} with the name `InvalidStateError`
 */
function invalidStateError(message) {
  return new DOMException(message, 'InvalidStateError');
}

/**
 * @param {string} message
 * @returns {DOMException} with the name `NotSupportedError`
 */
function notSupportedError(message) {
  return new DOMException(message, 'NotSupportedError');
}

/**
 * @param {string} message
 * @returns {DOMException} with the name `UnknownError`
 */
function unknownError(message) {
  return new DOMException(message, 'UnknownError');
}

/**
 * @param {string} name of the interface
 * @returns {TypeError} for a constructor that scripts may not call
 */
function illegalConstructor(name) {
  return new TypeError(`Illegal constructor: ${name} objects are not created with new`);
}

/**
 * @param {string} member that was called or read
 * @param {string} name of the interface that the receiver had to implement
 * @returns {TypeError}
 */
function illegalInvocation(member, name) {
  return new TypeError(`${member}: Illegal invocation, the receiver is not an ${name}`);
}

/**
 * The exception for a failure that the native side describes by its name and final message.
 *
 * @param {string} name
 * @param {string} message
 * @param {import('../onnx.js').OnnxUnsupportedNode[]} [unsupported] nodes, for an OnnxError
 * @returns {Error} a TypeError, DOMException or OnnxError; an Error with the name when it is none of
 *   the interface's, which is a defect of this package and must not pass for an API error
 */
function errorFromCode(name, message, unsupported = []) {
  if (name === 'OnnxError') {
    return new OnnxError(sanitizeLines(message), unsupported);
  }
  // Graph input and output names are part of native messages.
  const text = sanitize(message);
  if (name === 'TypeError') {
    return new TypeError(text);
  }
  if (DOM_EXCEPTION_CODES.has(name)) {
    return new DOMException(text, name);
  }
  return new Error(`webnn-node internal error (${name}): ${text}`);
}

/**
 * @template {Error} T
 * @param {T} error
 * @param {string} code
 * @returns {T} the error, with the code
 */
function withCode(error, code) {
  // A DOMException inherits a number of that name.
  Object.defineProperty(error, 'code', { value: code, writable: true, enumerable: true, configurable: true });
  return error;
}

module.exports = {
  OnnxError,
  errorFromCode,
  illegalConstructor,
  illegalInvocation,
  invalidStateError,
  notSupportedError,
  quote,
  sanitize,
  shownLabel,
  subject,
  unknownError,
  withCode,
};
