'use strict';

const {
  OnnxError,
  OnnxModel,
  cacheKey,
  importModel,
  inputShapes,
  inspectModel,
  loadModel,
  supportedOperators,
  unsupportedOperators,
} = require('./lib/onnx.js');

// A literal of identifiers: import statements find the names of a CommonJS module by reading its text.
module.exports = { OnnxError, OnnxModel, cacheKey, importModel, inputShapes, inspectModel, loadModel, supportedOperators, unsupportedOperators };
