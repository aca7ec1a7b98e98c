'use strict';

/** Padding of earlier drafts in terms of today's operators. */

const { amount } = require('webnn-node/internal/webidl');
const { shapeOf } = require('./operands.js');

/**
 * Splits the padding of one spatial dimension for `autoPad`.
 *
 * @param {'same-upper' | 'same-lower'} autoPad selects the end that gets the larger half
 * @param {number} total elements to add
 * @returns {[number, number]} elements at the beginning and at the end
 */
function halves(autoPad, total) {
  const less = Math.floor(total / 2);
  return autoPad === 'same-upper' ? [less, total - less] : [total - less, less];
}

/**
 * Computes the padding of a sliding window for which each output size is the input size divided by the stride, rounded
 * up.
 *
 * @param {'same-upper' | 'same-lower'} autoPad
 * @param {{input: number[], window: number[], strides: number[], dilations: number[]}} sizes of height and width
 * @returns {number[]} [beginning height, ending height, beginning width, ending width]
 */
function samePadding(autoPad, { input, window, strides, dilations }) {
  return input.flatMap((size, i) => {
    const reach = (window[i] - 1) * dilations[i] + 1;
    const output = Math.ceil(size / strides[i]);
    return halves(autoPad, Math.max((output - 1) * strides[i] + reach - size, 0));
  });
}

/**
 * Computes the padding of a transposed convolution for which each output size is the input size times the stride, or
 * the given one.
 *
 * @param {'same-upper' | 'same-lower'} autoPad
 * @param {{input: number[], window: number[], strides: number[], dilations: number[], outputPadding: number[],
 *   outputSizes?: number[]}} sizes of height and width
 * @returns {number[]} [beginning height, ending height, beginning width, ending width]
 */
function sameTransposedPadding(autoPad, { input, window, strides, dilations, outputPadding, outputSizes }) {
  return input.flatMap((size, i) => {
    const reach = (window[i] - 1) * dilations[i] + 1;
    const output = outputSizes?.[i] ?? size * strides[i];
    return halves(autoPad, Math.max((size - 1) * strides[i] + reach + outputPadding[i] - output, 0));
  });
}

/**
 * Pads with the mode "symmetric", which repeats the edges in the mirror image. `pad()` no longer has this mode.
 *
 * @param {Pick<import('webnn-node').MLGraphBuilder, 'concat' | 'identity' | 'reverse' | 'slice'>} builder
 * @param {import('webnn-node').MLOperand} input
 * @param {number[]} beginning elements to add at the beginning of each dimension
 * @param {number[]} ending elements to add at the end of each dimension
 * @returns {import('webnn-node').MLOperand}
 * @throws {TypeError} if there are fewer elements than must be repeated
 */
function symmetricPad(builder, input, beginning, ending) {
  const shape = shapeOf(input);
  const rank = shape.length;
  if (beginning.length !== rank || ending.length !== rank) {
    throw new TypeError(`pad: ${beginning.length} and ${ending.length} paddings, expected one for each of ${amount(rank, 'dimension')}`);
  }
  let padded = input;
  for (let axis = 0; axis < rank; axis++) {
    const before = beginning[axis];
    const after = ending[axis];
    const size = shape[axis];
    if (before > size || after > size) {
      throw new TypeError(`pad: padding of ${before} and ${after} in dimension ${axis} of [${shape.join(', ')}], expected at most ${size}`);
    }
    const current = padded;
    const extents = shapeOf(current);
    const mirrored = (/** @type {number} */ start, /** @type {number} */ length) => {
      const starts = extents.map((_, i) => (i === axis ? start : 0));
      const sizes = extents.map((extent, i) => (i === axis ? length : extent));
      return builder.reverse(builder.slice(current, starts, sizes), { axes: [axis] });
    };
    const parts = [...(before > 0 ? [mirrored(0, before)] : []), current, ...(after > 0 ? [mirrored(size - after, after)] : [])];
    padded = parts.length > 1 ? builder.concat(parts, axis) : current;
  }
  return padded === input ? builder.identity(input) : padded;
}

module.exports = { samePadding, sameTransposedPadding, symmetricPad };
