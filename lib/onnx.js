'use strict';

const { OnnxError } = require('./onnx/errors.js');
const { cacheKey } = require('./onnx/groups.js');
const { OnnxModel, importModel, inspectModel, loadModel, supportedOperators, unsupportedOperators } = require('./onnx/model.js');
const { inputShapes } = require('./onnx/shapes.js');

module.exports = { OnnxError, OnnxModel, cacheKey, importModel, inputShapes, inspectModel, loadModel, supportedOperators, unsupportedOperators };
