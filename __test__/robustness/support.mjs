/** What the tests of bad input share: a table of valid calls, and what may come out of an invalid one. */

import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { MLGraphBuilder, operand } from '../runtime/helpers.mjs';

const require = createRequire(import.meta.url);

/** @typedef {import('../../index.js').MLContext} MLContext */
/** @typedef {import('../../index.js').MLOperand} MLOperand */
/** @typedef {import('../../index.js').MLOperandDataType} MLOperandDataType */
/** @typedef {import('../../index.js').MLNamedTensors} MLNamedTensors */
/** @typedef {import('./types.mjs').OperatorRow} OperatorRow */
/** @typedef {{ dataType: MLOperandDataType, shape: readonly number[] }} Described */

/** The operators, as the IDL has them. */
export const { dictionaries, enumerations, operators } = /** @type {typeof import('../../lib/operators.js')} */ (require('../../lib/operators.js'));

/** Names of the exceptions that the API may throw or reject with. */
const NAMES = ['InvalidStateError', 'NotSupportedError', 'OperationError', 'UnknownError'];

/**
 * Asserts that an exception is one of the API, and that no defect of the package hides in it.
 *
 * @param {unknown} caught
 * @param {string} what
 */
export function checkException(caught, what) {
  const error = /** @type {Error} */ (caught);
  const isTypeError = Object.getPrototypeOf(error ?? 0) === TypeError.prototype;
  const isDOMException = error instanceof DOMException && NAMES.includes(error.name);
  assert.ok(isTypeError || isDOMException, `${what}: ${error?.stack ?? String(error)}`);
  assert.doesNotMatch(error.message, /internal error|panicked|not implemented/, what);
}

/**
 * Asserts that operands of a shape keep the limits of the draft.
 *
 * @param {readonly number[]} shape
 * @param {string} what
 */
export function checkShape(shape, what) {
  assert.ok(shape.length <= 8, `${what} gives [${shape}]`);
  let count = 1;
  for (const dimension of shape) {
    assert.ok(Number.isInteger(dimension) && dimension >= 1 && dimension < 2 ** 31, `${what} gives [${shape}]`);
    count *= dimension;
  }
  assert.ok(count < 2 ** 31, `${what} gives [${shape}]`);
}

const elements = (/** @type {readonly number[]} */ shape) => shape.reduce((a, b) => a * b, 1);

/**
 * Tensors for everything that a graph may be given by name.
 *
 * @param {MLContext} context
 * @param {Record<string, MLOperand>} operands
 * @param {{ readable: true } | { writable: true }} use
 */
async function tensorsOf(context, operands, use) {
  /** @type {MLNamedTensors} */
  const tensors = {};
  for (const [name, { dataType, shape }] of Object.entries(operands)) {
    tensors[name] = await context.createTensor({ dataType, shape, ...use });
  }
  return tensors;
}

/** Bytes of a data type in each element. */
export const SIZES = { float32: 4, float16: 2, int32: 4, uint32: 4, int64: 8, uint64: 8, int8: 1, uint8: 1 };

/**
 * Contents of a tensor: numbers between -4 and 4 for float32, any bytes for the other types.
 *
 * @param {import('./types.mjs').Random} random
 * @param {Described} descriptor
 */
function randomBytes(random, { dataType, shape }) {
  const count = elements(shape);
  if (dataType === 'float32') {
    return Float32Array.from({ length: count }, () => random.next() * 8 - 4);
  }
  return Uint8Array.from({ length: count * SIZES[dataType] }, () => random.below(256));
}

/**
 * Compiles and runs what a builder has, and reads the results.
 *
 * @param {MLContext} context
 * @param {MLGraphBuilder} builder
 * @param {Record<string, MLOperand>} inputs that `outputs` depend on, or may
 * @param {Record<string, MLOperand>} outputs
 * @param {import('./types.mjs').Random} [random] generator of the bytes of the inputs, zeros without it
 * @returns {Promise<Record<string, ArrayBuffer>>}
 */
export async function runGraph(context, builder, inputs, outputs, random = undefined) {
  const graph = await builder.build(outputs);
  const written = await tensorsOf(context, outputs, { readable: true });
  let bound = await tensorsOf(context, inputs, { writable: true });
  if (random !== undefined) {
    for (const tensor of Object.values(bound)) {
      context.writeTensor(tensor, randomBytes(random, tensor));
    }
  }
  try {
    context.dispatch(graph, bound, written);
  } catch (caught) {
    const error = /** @type {Error} */ (caught);
    // Inputs that no output depends on are not inputs of the graph: the message names them.
    const unknown = new Set([...(error.message.match(/.*(?= unknown)/)?.[0] ?? '').matchAll(/"([^"]*)"/g)].map(([, name]) => name));
    if (unknown.size === 0) {
      throw error;
    }
    bound = Object.fromEntries(Object.entries(bound).filter(([name]) => !unknown.has(name)));
    context.dispatch(graph, bound, written);
  }
  /** @type {Record<string, ArrayBuffer>} */
  const results = {};
  for (const [name, tensor] of Object.entries(written)) {
    results[name] = await context.readTensor(tensor);
    tensor.destroy();
  }
  Object.values(bound).forEach((tensor) => tensor.destroy());
  graph.destroy();
  return results;
}

/** Elements of all operands of a list. */
export const totalElements = (/** @type {readonly { shape: readonly number[] }[]} */ operands) => operands.reduce((sum, { shape }) => sum + elements(shape), 0);

/** Makes an input for each operand of a valid call. */
class Operands {
  #builder;
  #count = 0;

  /** @type {Record<string, MLOperand>} */
  inputs = {};

  /** @param {MLGraphBuilder} builder */
  constructor(builder) {
    this.#builder = builder;
  }

  /** @param {...number} shape */
  f(...shape) {
    return this.of('float32', ...shape);
  }

  /**
   * @param {MLOperandDataType} dataType
   * @param {...number} shape
   */
  of(dataType, ...shape) {
    const name = `i${this.#count++}`;
    this.inputs[name] = this.#builder.input(name, { ...operand(...shape), dataType });
    return this.inputs[name];
  }
}

/**
 * Arguments and options for each operator that wants more than float32 operands of any shape.
 *
 * @type {Record<string, (o: import('./types.mjs').OperandMaker) => import('./types.mjs').Arguments>}
 */
const CALLS = {
  argMin: (o) => [[o.f(3, 4), 1], { keepDimensions: true, outputDataType: 'int64' }],
  argMax: (o) => [[o.f(3, 4), 0], { outputDataType: 'int32' }],
  batchNormalization: (o) => [[o.f(1, 2, 3, 3), o.f(2), o.f(2)], { axis: 1, epsilon: 1e-5, scale: o.f(2), bias: o.f(2) }],
  cast: (o) => [[o.f(2, 3), 'int8'], {}],
  clamp: (o) => [[o.f(2, 3)], { minValue: -1, maxValue: 1 }],
  concat: (o) => [[[o.f(2, 3), o.f(2, 4)], 1], {}],
  conv2d: (o) => [[o.f(1, 4, 7, 7), o.f(6, 2, 3, 3)], { padding: [1, 1, 1, 1], strides: [1, 2], dilations: [1, 1], groups: 2, bias: o.f(6) }],
  convTranspose2d: (o) => [
    [o.f(1, 4, 5, 5), o.f(4, 3, 3, 3)],
    { padding: [1, 1, 1, 1], strides: [2, 2], dilations: [1, 1], outputPadding: [1, 0], groups: 2, bias: o.f(6) },
  ],
  cumulativeSum: (o) => [[o.f(3, 4), 1], { exclusive: true, reversed: true }],
  dequantizeLinear: (o) => [[o.of('int8', 2, 4), o.f(2, 2), o.of('int8', 2, 2)], {}],
  elu: (o) => [[o.f(2, 3)], { alpha: 1 }],
  expand: (o) => [[o.f(1, 3), [2, 3]], {}],
  gather: (o) => [[o.f(3, 4), o.of('int32', 2)], { axis: 1 }],
  gatherElements: (o) => [[o.f(3, 4), o.of('int32', 3, 2)], { axis: 1 }],
  gatherND: (o) => [[o.f(3, 4), o.of('int32', 2, 1)], {}],
  gemm: (o) => [[o.f(2, 3), o.f(3, 4)], { alpha: 1, beta: 1, c: o.f(4) }],
  gru: (o) => [
    [o.f(3, 2, 4), o.f(1, 15, 4), o.f(1, 15, 5), 3, 5],
    { bias: o.f(1, 15), recurrentBias: o.f(1, 15), initialHiddenState: o.f(1, 2, 5), returnSequence: true },
  ],
  gruCell: (o) => [[o.f(2, 4), o.f(15, 4), o.f(15, 5), o.f(2, 5), 5], { bias: o.f(15), recurrentBias: o.f(15) }],
  hardSigmoid: (o) => [[o.f(2, 3)], { alpha: 0.2, beta: 0.5 }],
  instanceNormalization: (o) => [[o.f(1, 2, 3, 3)], { epsilon: 1e-5, scale: o.f(2), bias: o.f(2) }],
  layerNormalization: (o) => [[o.f(2, 3, 4)], { axes: [1, 2], epsilon: 1e-5, scale: o.f(3, 4), bias: o.f(3, 4) }],
  leakyRelu: (o) => [[o.f(2, 3)], { alpha: 0.01 }],
  linear: (o) => [[o.f(2, 3)], { alpha: 1, beta: 0 }],
  logicalAnd: (o) => [[o.of('uint8', 2, 3), o.of('uint8', 2, 3)], {}],
  logicalOr: (o) => [[o.of('uint8', 2, 3), o.of('uint8', 2, 3)], {}],
  logicalXor: (o) => [[o.of('uint8', 2, 3), o.of('uint8', 2, 3)], {}],
  logicalNot: (o) => [[o.of('uint8', 2, 3)], {}],
  lstm: (o) => [
    [o.f(3, 2, 4), o.f(1, 20, 4), o.f(1, 20, 5), 3, 5],
    {
      bias: o.f(1, 20),
      recurrentBias: o.f(1, 20),
      peepholeWeight: o.f(1, 15),
      initialHiddenState: o.f(1, 2, 5),
      initialCellState: o.f(1, 2, 5),
      returnSequence: true,
    },
  ],
  lstmCell: (o) => [[o.f(2, 4), o.f(20, 4), o.f(20, 5), o.f(2, 5), o.f(2, 5), 5], { bias: o.f(20), recurrentBias: o.f(20), peepholeWeight: o.f(15) }],
  matmul: (o) => [[o.f(2, 3, 4), o.f(4, 5)], {}],
  pad: (o) => [[o.f(3, 4), [1, 2], [2, 0]], { mode: 'constant', value: 1 }],
  quantizeLinear: (o) => [[o.f(2, 4), o.f(2, 2), o.of('int8', 2, 2)], {}],
  resample2d: (o) => [[o.f(1, 2, 3, 3)], { mode: 'linear', scales: [2, 2], axes: [2, 3] }],
  reshape: (o) => [[o.f(2, 3), [3, 2]], {}],
  reverse: (o) => [[o.f(2, 3)], { axes: [0] }],
  scatterElements: (o) => [[o.f(3, 4), o.of('int32', 2, 4), o.f(2, 4)], { axis: 0 }],
  scatterND: (o) => [[o.f(3, 4), o.of('int32', 2, 1), o.f(2, 4)], {}],
  slice: (o) => [[o.f(5, 6), [1, 2], [3, 4]], { strides: [1, 2] }],
  softmax: (o) => [[o.f(2, 3), 1], {}],
  split: (o) => [[o.f(2, 6), [2, 4]], { axis: 1 }],
  tile: (o) => [[o.f(2, 3), [2, 1]], {}],
  transpose: (o) => [[o.f(2, 3, 4)], { permutation: [2, 0, 1] }],
  triangular: (o) => [[o.f(4, 4)], { diagonal: 0, upper: true }],
  where: (o) => [[o.of('uint8', 2, 3), o.f(2, 3), o.f(2, 3)], {}],
};

/**
 * Options of the operators of a group.
 *
 * @type {Record<string, object>}
 */
const GROUP_OPTIONS = {
  MLPool2dOptions: {
    windowDimensions: [2, 2],
    padding: [1, 1, 0, 0],
    strides: [1, 2],
    dilations: [1, 1],
  },
  MLReduceOptions: { axes: [1], keepDimensions: true },
};

/**
 * Valid arguments of an operator.
 *
 * @param {import('./types.mjs').OperandMaker} operands makes them
 * @param {OperatorRow} row of the operator
 * @returns {import('./types.mjs').Arguments}
 */
export function validArguments(operands, row) {
  const call = CALLS[row.name];
  if (call !== undefined) {
    return call(operands);
  }
  const shape = row.options === 'MLPool2dOptions' ? [1, 2, 5, 6] : [3, 4];
  return [row.arguments.map(() => operands.f(...shape)), { ...GROUP_OPTIONS[row.options] }];
}

/**
 * A valid call of an operator in a builder of its own.
 *
 * @param {MLContext} context
 * @param {OperatorRow} row of the operator
 * @returns {{builder: MLGraphBuilder, inputs: Record<string, MLOperand>, args: unknown[], options: object}}
 */
export function validCall(context, row) {
  const builder = new MLGraphBuilder(context);
  const operands = new Operands(builder);
  const [args, options] = validArguments(operands, row);
  return { builder, inputs: operands.inputs, args, options };
}

/** The outputs of an operator by name. */
export const named = (/** @type {MLOperand | MLOperand[]} */ result) => Object.fromEntries([result].flat().map((output, i) => [`o${i}`, output]));
