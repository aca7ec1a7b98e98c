'use strict';

/**
 * Creates the exceptions that callers see, and sanitizes the caller's own strings before quoting them.
 */

const { DOMException } = globalThis;
const { apply } = Reflect;
const { toWellFormed } = String.prototype;

/**
 * Control characters, line separators and bidirectional marks, embeddings, overrides and isolates: in a log, they could
 * break lines or reorder the displayed text (UTR #36).
 */
const UNSAFE_TEXT = /[\p{Cc}\u061C\u200E\u200F\u2028-\u202E\u2066-\u2069]/gu;

/** Maximum length of a quoted string in a message, in code points. */
const QUOTED_LENGTH = 100;

/** Maximum number of code units examined to find these: a caller's string can fill all memory. */
const EXAMINED_LENGTH = 4096;

/** DOMException names that the native side may report. */
const DOM_EXCEPTION_CODES = new Set(['InvalidStateError', 'NotSupportedError', 'OperationError', 'UnknownError']);

/** The page that explains every code. */
const CATALOGUE = 'https://github.com/webnn-node/webnn-node/blob/main/docs/errors.md';

/**
 * Removes the characters in a caller's string that must not reach a terminal or log.
 *
 * @param {string} text
 * @returns {string}
 */
function sanitize(text) {
  return text.replace(UNSAFE_TEXT, '');
}

/**
 * Returns a caller's string in quotation marks, sanitized and truncated to a readable length.
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
 * Returns a label for messages: sanitized, and truncated, because it could fill all memory.
 *
 * @param {string} label
 * @returns {string}
 */
function shownLabel(label) {
  return label.length > EXAMINED_LENGTH ? `${sanitize(apply(toWellFormed, label.slice(0, EXAMINED_LENGTH), []))}…` : sanitize(label);
}

/**
 * Returns the beginning of messages about an operator: `[label] operator`, or `operator` when the label is empty.
 *
 * @param {string} label from `shownLabel`
 * @param {string} operator
 * @returns {string}
 */
function subject(label, operator) {
  return label === '' ? operator : `[${label}] ${operator}`;
}

/**
 * Sanitizes a message, but keeps its line breaks.
 *
 * @param {string} text
 */
function sanitizeLines(text) {
  return text.split('\n').map(sanitize).join('\n');
}

/**
 * Returns the name of a kind of thing with its article: `a Float32Array`, `an Int32Array`.
 *
 * @param {string} kind
 */
function article(kind) {
  return `${/^([AEIO]|ML)/i.test(kind) ? 'an' : 'a'} ${kind}`;
}

/**
 * Returns a number of things: `1 byte`, `2 bytes`.
 *
 * @param {number} count
 * @param {string} noun in the singular
 */
function amount(count, noun) {
  return `${count} ${noun}${count === 1 ? '' : 's'}`;
}

/** The error for a model that cannot be used. */
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
  return new TypeError(`${member}: Illegal invocation, the receiver is not ${article(name)}`);
}

/**
 * Creates the exception for a failure that the native side reports by name and message.
 *
 * @param {string} name
 * @param {string} message
 * @param {import('../onnx.js').OnnxUnsupportedNode[]} [unsupported] nodes, for an OnnxError
 * @returns {Error} a TypeError, DOMException or OnnxError; an Error with the name for any other name, which is a defect
 *   of this package and must not pass for an API error
 */
function errorFromCode(name, message, unsupported = []) {
  if (name === 'OnnxError') {
    return new OnnxError(sanitizeLines(message), unsupported);
  }
  // Native messages contain the caller's names of graph inputs and outputs.
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
 * @param {string} code
 * @returns {string} the address of its section on the page of codes
 */
function helpOf(code) {
  return `${CATALOGUE}#${code.toLowerCase()}`;
}

/**
 * Adds a code, and `help` with the address that explains it. Both are own enumerable properties: runtimes and loggers
 * print these with an error, and its message stays short.
 *
 * @template {Error} T
 * @param {T} error
 * @param {string} code
 * @returns {T & {code: string, help: string}} the error
 */
function withCode(error, code) {
  for (const [name, value] of Object.entries({ code, help: helpOf(code) })) {
    // Not assigned: DOMException inherits a numeric `code` that is read-only.
    Object.defineProperty(error, name, { value, writable: true, enumerable: true, configurable: true });
  }
  return /** @type {T & {code: string, help: string}} */ (error);
}

module.exports = {
  OnnxError,
  amount,
  article,
  errorFromCode,
  helpOf,
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
