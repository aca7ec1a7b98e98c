'use strict';

/** Convolutions and pooling of the draft of 2021 in terms of today's: computes paddings, and transposes. */

const { samePadding, sameTransposedPadding } = require('../spatial.js');
const { sizeAt, sizesOf } = require('./sizes.js');

/**
 * @typedef {{ autoPad: import('../internal.js').AutoPad, transpose: boolean, outputPadding?: number[], outputSizes?: number[], groups: number,
 *   bias?: import('webnn-node').MLOperand, strides?: number[], dilations?: number[], padding?: number[], inputLayout: import('webnn-node').MLInputOperandLayout,
 *   filterLayout: import('webnn-node').MLConv2dFilterOperandLayout }} ConvolveOptions
 */

/**
 * @typedef {{ autoPad: import('../internal.js').AutoPad, outputPadding?: number[], outputSizes?: number[], groups: number, bias?: import('webnn-node').MLOperand,
 *   strides?: number[], dilations?: number[], padding?: number[], inputLayout: import('webnn-node').MLInputOperandLayout,
 *   filterLayout: import('webnn-node').MLConvTranspose2dFilterOperandLayout }} ConvolveTransposedOptions
 */

/**
 * @typedef {{ autoPad: import('../internal.js').AutoPad, layout: import('webnn-node').MLInputOperandLayout, windowDimensions?: number[], strides?: number[],
 *   dilations?: number[], padding?: number[], outputSizes?: number[], roundingType: import('webnn-node').MLRoundingType }} PoolOptions
 */

/**
 * Axes of height and width by layout.
 *
 * @type {Record<string, number[]>}
 */
const SPATIAL = { nchw: [2, 3], nhwc: [1, 2], oihw: [2, 3], hwio: [0, 1], ohwi: [1, 2], ihwo: [1, 2], iohw: [2, 3], hwoi: [0, 1] };

/**
 * Permutations from a layout of filters to oihw.
 *
 * @type {Record<string, number[]>}
 */
const TO_OIHW = { oihw: [0, 1, 2, 3], hwio: [3, 2, 0, 1], ohwi: [0, 3, 1, 2], ihwo: [3, 0, 1, 2] };

/**
 * @param {import('webnn-node').MLOperand} operand
 * @param {string} what
 * @throws {TypeError} unless the operand has rank 4
 */
function requireRank4({ shape }, what) {
  if (shape.length !== 4) {
    throw new TypeError(`${what} has shape [${shape.join(', ')}], expected rank 4`);
  }
}

const extentOf = (/** @type {import('webnn-node').MLOperand} */ operand, /** @type {string} */ layout) => SPATIAL[layout].map((axis) => sizeAt(operand, axis));

/**
 * @param {number[]} values
 * @param {string} what
 * @throws {TypeError} for strides and dilations from which no size can be computed
 */
function requirePositive(values, what) {
  if (values.length !== 2 || values.some((value) => value < 1)) {
    throw new TypeError(`${what} is [${values.join(', ')}], expected two integers of at least 1`);
  }
  return values;
}

/**
 * The filter of a transposed convolution: [output, input / groups, height, width] in the draft of 2021,
 * [input, output / groups, height, width] today.
 *
 * @param {import('webnn-node').MLGraphBuilder} builder
 * @param {import('webnn-node').MLOperand} filter
 * @param {string} layout
 * @param {number} groups
 */
function transposedFilter(builder, filter, layout, groups) {
  const oihw = layout === 'oihw' ? filter : builder.transpose(filter, { permutation: TO_OIHW[layout] });
  if (groups === 1) {
    return builder.transpose(oihw, { permutation: [1, 0, 2, 3] });
  }
  const [outputs, inputsPerGroup, height, width] = sizesOf(oihw);
  if (groups < 1 || outputs % groups !== 0) {
    throw new TypeError(`conv2d: options.groups is ${groups}, expected a divisor of the ${outputs} output channels of filter`);
  }
  const outputsPerGroup = outputs / groups;
  const grouped = builder.reshape(oihw, [groups, outputsPerGroup, inputsPerGroup, height, width]);
  const swapped = builder.transpose(grouped, { permutation: [0, 2, 1, 3, 4] });
  return builder.reshape(swapped, [groups * inputsPerGroup, outputsPerGroup, height, width]);
}

/**
 * The sizes that paddings of a convolution are computed from.
 *
 * @param {import('webnn-node').MLOperand} input
 * @param {import('webnn-node').MLOperand} filter
 * @param {{ strides?: number[], dilations?: number[], inputLayout: string, filterLayout: string }} options
 * @param {string} name of the operator
 */
function sizesOfConvolution(input, filter, { strides = [1, 1], dilations = [1, 1], inputLayout, filterLayout }, name) {
  return {
    strides: requirePositive(strides, `${name}: options.strides`),
    dilations: requirePositive(dilations, `${name}: options.dilations`),
    input: extentOf(input, inputLayout),
    window: extentOf(filter, filterLayout),
  };
}

/**
 * `convTranspose2d`.
 *
 * @param {import('webnn-node').MLGraphBuilder} builder
 * @param {[import('webnn-node').MLOperand, import('webnn-node').MLOperand]} operands input and filter
 * @param {ConvolveTransposedOptions} options
 */
function convolveTransposed(builder, [input, filter], { autoPad, ...options }) {
  if (autoPad === 'explicit') {
    return builder.convTranspose2d(input, filter, options);
  }
  requireRank4(input, 'convTranspose2d: input');
  requireRank4(filter, 'convTranspose2d: filter');
  const sizes = sizesOfConvolution(input, filter, options, 'convTranspose2d');
  const { outputSizes, outputPadding = [0, 0] } = options;
  return builder.convTranspose2d(input, filter, { ...options, padding: sameTransposedPadding(autoPad, { ...sizes, outputSizes, outputPadding }) });
}

/**
 * `conv2d`, whose option `transpose` is a separate method today.
 *
 * @type {import('../internal.js').Lower<[import('webnn-node').MLOperand, import('webnn-node').MLOperand], ConvolveOptions>}
 */
function convolve(builder, [input, filter], options) {
  const { autoPad, transpose, outputPadding, outputSizes, ...common } = options;
  requireRank4(input, 'conv2d: input');
  requireRank4(filter, 'conv2d: filter');
  if (transpose) {
    const iohw = transposedFilter(builder, filter, common.filterLayout, common.groups);
    return convolveTransposed(builder, [input, iohw], { ...common, autoPad, outputPadding, outputSizes, filterLayout: 'iohw' });
  }
  const padding = autoPad === 'explicit' ? common.padding : samePadding(autoPad, sizesOfConvolution(input, filter, common, 'conv2d'));
  return builder.conv2d(input, filter, { ...common, padding });
}

/**
 * The pooling operators.
 *
 * @type {(name: string) => import('../internal.js').Lower<[import('webnn-node').MLOperand], PoolOptions>}
 */
const pool =
  (name) =>
  (builder, [input], { autoPad, roundingType, ...options }) => {
    const method = /** @type {any} */ (builder)[name].bind(builder);
    if (autoPad === 'explicit') {
      return method(input, { ...options, outputShapeRounding: roundingType });
    }
    requireRank4(input, `${name}: input`);
    const sizes = extentOf(input, options.layout);
    const padding = samePadding(autoPad, {
      input: sizes,
      window: requirePositive(options.windowDimensions ?? sizes, `${name}: options.windowDimensions`),
      strides: requirePositive(options.strides ?? [1, 1], `${name}: options.strides`),
      dilations: requirePositive(options.dilations ?? [1, 1], `${name}: options.dilations`),
    });
    return method(input, { ...options, outputShapeRounding: roundingType, padding });
  };

module.exports = { convolve, convolveTransposed, pool };
