'use strict';

/** What follows for the inputs of a model from what is known of some. The rules are those of the native side. */

const native = require('../native.js');
const { freeDimensions } = require('./source.js');

/**
 * The shapes of inputs as far as they are known.
 *
 * @param {readonly import('../../onnx.js').OnnxValueInfo[]} inputs of a model
 * @param {Record<string, number>} dimensions sizes of free dimensions
 * @param {ReadonlyMap<string, {shape: readonly number[]} | {elements: number}>} given by name, the shape of a value, or the
 *   number of elements of one whose shape is to be found
 * @returns {{shapes: Map<string, (number | string)[] | null>, freeDimensions: Record<string, number>}} by name, with the names of
 *   sizes that are not known, null where nothing is; and all sizes that are known
 * @throws {TypeError} if they do not fit the inputs or each other
 */
function inputShapes(inputs, dimensions, given) {
  const natives = inputs.map(({ name, shape }) => {
    const value = given.get(name);
    return {
      name,
      ...(shape !== null && { shape }),
      ...(value !== undefined && ('shape' in value ? { given: value.shape } : value)),
    };
  });
  /** @type {import('../internal.js').KnownShapes} */
  const known = JSON.parse(native.inputShapes(natives, freeDimensions(dimensions, 'inputShapes')));
  return { ...known, shapes: new Map(inputs.map(({ name }, at) => [name, known.shapes[at]])) };
}

module.exports = { inputShapes };
