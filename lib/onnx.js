'use strict';

const { OnnxError } = require('./onnx/errors.js');
const { OnnxModel, importModel, inspectModel, loadModel, supportedOperators } = require('./onnx/model.js');

module.exports = { OnnxError, OnnxModel, importModel, inspectModel, loadModel, supportedOperators };
