'use strict';

/**
 * The operators of the draft of 2021 in terms of today's.
 *
 * A function of the table takes today's MLGraphBuilder, the arguments in order with today's MLOperands, the options
 * with their defaults, and `valuesOf(operand)`, which returns the numbers of a small constant, and undefined for
 * anything else. It returns an MLOperand, or a list of them where the draft has a sequence. Ranks are known at that
 * point; sizes can be names, which `sizesOf` rejects.
 */

const { convolve, convolveTransposed, pool } = require('./spatial.js');
const { resample } = require('./resample.js');
const { sizeAt, sizesOf } = require('./sizes.js');
const { closedShape } = require('../operands.js');
const { symmetricPad } = require('../spatial.js');

const { DOMException } = globalThis;

const shown = (/** @type {readonly (number | string)[]} */ shape) => `[${shape.join(', ')}]`;

/**
 * Converts an axis to an index; negative ones count from the end.
 *
 * @param {number} axis
 * @param {number} rank
 * @param {string} what for messages
 * @returns {number}
 * @throws {TypeError} if there is no such axis
 */
function axisOf(axis, rank, what) {
  const index = axis < 0 ? axis + rank : axis;
  if (index < 0 || index >= rank) {
    throw new TypeError(`${what} is ${axis}, expected ${-rank} to ${rank - 1} for an operand of rank ${rank}`);
  }
  return index;
}

/**
 * Converts axes to indices.
 *
 * @param {number[]} axes
 * @param {number} rank
 * @param {string} what
 * @throws {TypeError} if there is no such axis, or the same one twice
 */
function axesOf(axes, rank, what) {
  const indices = axes.map((axis, i) => axisOf(axis, rank, `${what}[${i}]`));
  if (new Set(indices).size < indices.length) {
    throw new TypeError(`${what} is ${shown(axes)}, expected no axis twice`);
  }
  return indices;
}

/**
 * Operators that take the same operands today.
 *
 * @type {(name: string) => import('../internal.js').Lower<unknown[]>}
 */
const same = (name) => (builder, operands) => /** @type {any} */ (builder)[name](...operands);

/**
 * Operators that take the same operands and options today.
 *
 * @type {(name: string) => import('../internal.js').Lower<unknown[]>}
 */
const sameOptions = (name) => (builder, operands, options) => /** @type {any} */ (builder)[name](...operands, options);

/** @type {import('../internal.js').Lower<[import('webnn-node').MLOperand, import('webnn-node').MLOperand, import('webnn-node').MLOperand], import('webnn-node').MLBatchNormalizationOptions & { axis: number }>} */
function batchNormalization(builder, [input, mean, variance], options) {
  const axis = axisOf(options.axis, input.shape.length, 'batchNormalization: options.axis');
  return builder.batchNormalization(input, mean, variance, { ...options, axis });
}

/**
 * min(max(x, minValue), maxValue). Today's clamp() takes numbers instead of operands.
 *
 * @type {import('../internal.js').Lower<[import('webnn-node').MLOperand], { minValue?: import('webnn-node').MLOperand, maxValue?: import('webnn-node').MLOperand }>}
 */
function clamp(builder, [x], { minValue, maxValue }) {
  const raised = minValue === undefined ? x : builder.max(x, minValue);
  const clamped = maxValue === undefined ? raised : builder.min(raised, maxValue);
  if (clamped === x) {
    return builder.identity(x);
  }
  // Equal sizes can have different names.
  if (shown(clamped.shape) !== shown(x.shape) && shown(sizesOf(clamped)) !== shown(sizesOf(x))) {
    throw new TypeError(`clamp: the limits broadcast ${shown(x.shape)} to ${shown(clamped.shape)}, expected the shape of x`);
  }
  return clamped;
}

/** @type {import('../internal.js').Lower<[import('webnn-node').MLOperand[], number]>} */
function concat(builder, [inputs, axis]) {
  if (inputs.length === 0) {
    throw new TypeError('concat: inputs is empty');
  }
  return builder.concat(inputs, axisOf(axis, inputs[0].shape.length, 'concat: axis'));
}

/**
 * In this draft, the sequence has backward steps in the order of computation; today, in the order of the input.
 *
 * @type {import('../internal.js').Lower<[import('webnn-node').MLOperand, import('webnn-node').MLOperand, import('webnn-node').MLOperand, number, number], import('webnn-node').MLGruOptions>}
 */
function gru(builder, operands, options) {
  const [last, sequence] = builder.gru(...operands, options);
  if (sequence === undefined) {
    return [last];
  }
  const turned = (/** @type {import('webnn-node').MLOperand} */ steps) => builder.reverse(steps, { axes: [0] });
  switch (options.direction) {
    case 'backward':
      return [last, turned(sequence)];
    case 'both': {
      const [forward, backward] = builder.split(sequence, 2, { axis: 1 });
      return [last, builder.concat([forward, turned(backward)], 1)];
    }
    default:
      return [last, sequence];
  }
}

/**
 * Vectors count as matrices with one row or column; the product of two vectors is a scalar.
 *
 * @type {import('../internal.js').Lower<[import('webnn-node').MLOperand, import('webnn-node').MLOperand]>}
 */
function matmul(builder, [a, b]) {
  const isVector = (/** @type {import('webnn-node').MLOperand} */ { shape }) => shape.length === 1;
  const left = isVector(a) ? builder.reshape(a, [1, sizeAt(a, 0)]) : a;
  const right = isVector(b) ? builder.reshape(b, [sizeAt(b, 0), 1]) : b;
  const product = builder.matmul(left, right);
  return isVector(a) && isVector(b) ? builder.reshape(product, []) : product;
}

/**
 * @param {import('webnn-node').MLOperand} padding
 * @param {number} rank
 * @param {(operand: import('webnn-node').MLOperand) => number[] | undefined} valuesOf
 * @returns {[number[], number[]]} the elements to add at the beginning and at the end, from an operand of shape [rank,
 *   2]
 */
function paddingOf(padding, rank, valuesOf) {
  if (shown(padding.shape) !== shown([rank, 2])) {
    throw new TypeError(`pad: padding has shape ${shown(padding.shape)}, expected ${shown([rank, 2])}`);
  }
  const values = valuesOf(padding);
  if (values === undefined) {
    const message = 'pad: padding is not a constant of the builder, but shapes must be known when a graph is compiled';
    throw new DOMException(message, 'NotSupportedError');
  }
  const wrong = values.find((value) => !Number.isInteger(value) || value < 0);
  if (wrong !== undefined) {
    throw new TypeError(`pad: padding holds ${wrong}, expected integers of at least 0`);
  }
  return [values.filter((_, i) => i % 2 === 0), values.filter((_, i) => i % 2 === 1)];
}

/** @type {import('../internal.js').Lower<[import('webnn-node').MLOperand, import('webnn-node').MLOperand], { mode: import('webnn-node').MLPaddingMode | 'symmetric', value: number }>} */
function pad(builder, [input, padding], { mode, value }, valuesOf) {
  const [beginning, ending] = paddingOf(padding, input.shape.length, valuesOf);
  if (mode !== 'symmetric') {
    return builder.pad(input, beginning, ending, { mode, value });
  }
  sizesOf(input); // mirror images are sliced by size
  return symmetricPad(builder, input, beginning, ending);
}

/** @type {(name: string) => import('../internal.js').Lower<[import('webnn-node').MLOperand], { axes?: number[] | null, keepDimensions: boolean }>} */
const reduce =
  (name) =>
  (builder, [input], { axes, keepDimensions }) => {
    const rank = input.shape.length;
    // An undefined member is absent, which means all axes.
    const indices = axes === undefined || axes === null ? undefined : axesOf(axes, rank, `${name}: options.axes`);
    return /** @type {any} */ (builder)[name](input, { axes: indices, keepDimensions });
  };

/**
 * A size of null or -1 is computed from the number of elements.
 *
 * @type {import('../internal.js').Lower<[import('webnn-node').MLOperand, (number | null)[]]>}
 */
function reshape(builder, [input, newShape]) {
  return builder.reshape(
    input,
    closedShape(newShape, [-1, null], () => sizesOf(input)),
  );
}

/**
 * Negative starts count from the end, a size of -1 means all remaining elements, and axes name the dimensions to slice.
 *
 * @type {import('../internal.js').Lower<[import('webnn-node').MLOperand, number[], number[]], { axes?: number[] }>}
 */
function slice(builder, [input, starts, sizes], { axes }) {
  const shape = sizesOf(input);
  const indices = axes === undefined ? shape.map((_, axis) => axis) : axesOf(axes, shape.length, 'slice: options.axes');
  if (starts.length !== indices.length || sizes.length !== indices.length) {
    throw new TypeError(`slice: ${starts.length} starts and ${sizes.length} sizes, expected ${indices.length} of each`);
  }
  const from = shape.map(() => 0);
  const lengths = [...shape];
  indices.forEach((axis, i) => {
    from[axis] = starts[i] < 0 ? starts[i] + shape[axis] : starts[i];
    lengths[axis] = sizes[i] === -1 ? shape[axis] - from[axis] : sizes[i];
    if (from[axis] < 0 || lengths[axis] < 1 || from[axis] + lengths[axis] > shape[axis]) {
      throw new TypeError(`slice: start ${starts[i]} and size ${sizes[i]} do not fit dimension ${axis} of ${shown(shape)}`);
    }
  });
  return builder.slice(input, from, lengths);
}

/** @type {import('../internal.js').Lower<[import('webnn-node').MLOperand]>} */
function softmax(builder, [x]) {
  if (x.shape.length !== 2) {
    throw new TypeError(`softmax: x has shape ${shown(x.shape)}, expected a matrix (rank 2)`);
  }
  return builder.softmax(x, 1);
}

/** @type {import('../internal.js').Lower<[import('webnn-node').MLOperand, number | number[]], { axis: number }>} */
function split(builder, [input, splits], { axis }) {
  return builder.split(input, splits, { axis: axisOf(axis, input.shape.length, 'split: options.axis') });
}

/** @type {import('../internal.js').Lower<[import('webnn-node').MLOperand], { axes?: number[] }>} */
function squeeze(builder, [input], { axes }) {
  const shape = sizesOf(input);
  const dropped = new Set(axes === undefined ? shape.flatMap((size, axis) => (size === 1 ? [axis] : [])) : axesOf(axes, shape.length, 'squeeze: options.axes'));
  for (const axis of dropped) {
    if (shape[axis] !== 1) {
      throw new TypeError(`squeeze: dimension ${axis} of ${shown(shape)} has size ${shape[axis]}, expected 1`);
    }
  }
  return builder.reshape(
    input,
    shape.filter((_, axis) => !dropped.has(axis)),
  );
}

/** @type {import('../internal.js').Lower<[import('webnn-node').MLOperand], { permutation?: number[] }>} */
function transpose(builder, [input], { permutation }) {
  return permutation === undefined
    ? builder.transpose(input)
    : builder.transpose(input, {
        permutation: axesOf(permutation, input.shape.length, 'transpose: options.permutation'),
      });
}

/**
 * @param {string[]} names
 * @param {(name: string) => import('../internal.js').Lower<any, any>} lower
 */
const named = (names, lower) => Object.fromEntries(names.map((name) => [name, lower(name)]));

/**
 * By method name in the draft.
 *
 * @type {Record<string, import('../internal.js').Lower<any, any>>}
 */
const lowerings = {
  ...named(['add', 'sub', 'mul', 'div', 'max', 'min', 'pow'], same),
  ...named(['abs', 'ceil', 'cos', 'exp', 'floor', 'hardSwish', 'log', 'neg', 'relu', 'sigmoid', 'sin', 'tan', 'tanh'], same),
  ...named(['gemm', 'gruCell', 'instanceNormalization', 'leakyRelu', 'resample2d'], sameOptions),
  ...named(['averagePool2d', 'l2Pool2d', 'maxPool2d'], pool),
  ...named(['reduceL1', 'reduceL2', 'reduceLogSum', 'reduceLogSumExp', 'reduceMax'], reduce),
  ...named(['reduceMean', 'reduceMin', 'reduceProduct', 'reduceSum', 'reduceSumSquare'], reduce),
  batchNormalization,
  clamp,
  concat,
  conv2d: convolve,
  convTranspose2d: convolveTransposed,
  gru,
  matmul,
  pad,
  resample,
  reshape,
  slice,
  softmax,
  split,
  squeeze,
  transpose,
};

module.exports = { lowerings };
