'use strict';

const { MLGraphBuilder } = require('./lib/builder.js');
const { MLContext } = require('./lib/context.js');
const { MLGraph } = require('./lib/graph.js');
const { ML, ml } = require('./lib/ml.js');
const { MLOperand } = require('./lib/operand.js');
const { MLTensor } = require('./lib/tensor.js');

// A literal of identifiers: import statements find the names of a CommonJS module by reading its text.
module.exports = { ml, ML, MLContext, MLGraph, MLGraphBuilder, MLOperand, MLTensor };
