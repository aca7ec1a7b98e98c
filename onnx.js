'use strict';

const { OnnxError, OnnxModel, importModel, inputShapes, inspectModel, loadModel, supportedOperators } = require('./lib/onnx.js');

// A literal of identifiers: import statements find the names of a CommonJS module by reading its text.
module.exports = { OnnxError, OnnxModel, importModel, inputShapes, inspectModel, loadModel, supportedOperators };
