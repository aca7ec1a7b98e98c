'use strict';

/** `resample` of the draft of 2021, which scales up to four dimensions, by today's `resample2d`, which scales two. */

const { sizeAt } = require('./sizes.js');

/**
 * @param {number[]} values
 * @param {string} what
 * @throws {TypeError} unless there are four numbers above 0
 */
function requireFour(values, what) {
  if (values.length !== 4 || values.some((value) => !(value > 0))) {
    throw new TypeError(`resample: options.${what} is [${values.join(', ')}], expected four numbers above 0`);
  }
}

/**
 * Returns the scaled dimensions in pairs. Scaling is separable: pairs are scaled one after another. Height and width,
 * which programs usually scale, form one pair in either layout.
 *
 * @param {(axis: number) => boolean} isScaled
 * @returns {[number, number][]}
 */
function pairsOf(isScaled) {
  const [first, second, third] = [0, 1, 2, 3].filter(isScaled);
  if (first === undefined) {
    return [];
  }
  if (second === undefined) {
    return [first === 3 ? [2, 3] : [first, first + 1]];
  }
  if (third === undefined) {
    return [[first, second]];
  }
  // If a third dimension is scaled, height and width still form one pair.
  return [
    [first, second],
    [2, 3],
  ];
}

/** @type {import('../internal.js').Lower<[import('webnn-node').MLOperand], { mode: import('webnn-node').MLInterpolationMode, scales?: number[], sizes?: number[] }>} */
function resample(builder, [input], { mode, scales, sizes }) {
  const { shape } = input;
  if (shape.length !== 4) {
    throw new TypeError(`resample: input has shape [${shape.join(', ')}], expected rank 4`);
  }
  // Sizes override scales.
  const what = sizes === undefined ? 'scales' : 'sizes';
  const values = sizes ?? scales ?? [1, 1, 1, 1];
  requireFour(values, what);
  const isScaled = (/** @type {number} */ axis) => values[axis] !== (what === 'sizes' ? sizeAt(input, axis) : 1);
  let scaled = input;
  /** @type {Set<number>} */
  const done = new Set();
  for (const axes of pairsOf(isScaled)) {
    // A dimension that is in two pairs keeps its size in the second.
    const kept = (/** @type {number} */ axis) => (what === 'sizes' ? sizeAt(scaled, axis) : 1);
    scaled = builder.resample2d(scaled, {
      mode,
      axes,
      [what]: axes.map((axis) => (done.has(axis) ? kept(axis) : values[axis])),
    });
    axes.forEach((axis) => done.add(axis));
  }
  return scaled === input ? builder.identity(input) : scaled;
}

module.exports = { resample };
