'use strict';

const { sanitize } = require('../errors.js');
const native = require('../native.js');

/** Why a model cannot be used. */
class OnnxError extends Error {
  /**
   * @param {string} message
   * @param {{name: string, operator: string, domain: string, opset: number, reason: string}[]} unsupported
   */
  constructor(message, unsupported = []) {
    super(message);
    this.unsupported = unsupported;
  }
}

Object.defineProperty(OnnxError.prototype, 'name', { value: 'OnnxError', writable: true, configurable: true });

/** Lines of a message are kept, what else could confuse a terminal is not. */
function sanitizeLines(text) {
  return text.split('\n').map(sanitize).join('\n');
}

/** @returns {Function} the native function, whose refusals of a model become OnnxErrors */
function refusing(nativeFunction) {
  return (...args) => {
    try {
      return nativeFunction(...args);
    } catch (error) {
      if (error.code !== 'OnnxError') {
        throw native.translate(error);
      }
      const { message, unsupported } = JSON.parse(error.message);
      throw new OnnxError(sanitizeLines(message), unsupported);
    }
  };
}

const { onnxOpen, onnxRead, onnxInterface, onnxInspect, onnxCheck, onnxOperators, onnxImport } = native.onnx;

module.exports = {
  OnnxError,
  onnx: {
    open: refusing(onnxOpen),
    read: refusing(onnxRead),
    interface: refusing(onnxInterface),
    inspect: refusing(onnxInspect),
    check: refusing(onnxCheck),
    operators: refusing(onnxOperators),
    import: refusing(onnxImport),
  },
};
