'use strict';

/** Infers shapes of a model's inputs from known ones, by rules of the native side. */

const { quote } = require('../errors.js');
const native = require('../native.js');
const { dictionary, domString, enforcedUnsignedLong, enforcedUnsignedLongLong, record, sequence } = require('../webidl.js');
const { codedError, converting } = require('./errors.js');
const { freeDimensions, strictness, toOptions } = require('./source.js');

/** @type {import('../../webidl.js').Converter<number | string>} */
const toDimension = (value, what, key) => (typeof value === 'string' ? value : enforcedUnsignedLong(value, what, key));

const toDimensions = sequence(toDimension);

/** @type {import('../../webidl.js').Converter<{ name: string, shape?: (number | string)[] | null }[]>} */
const toInputs = sequence(
  dictionary([
    { name: 'name', type: 'DOMString', required: true, convert: domString },
    {
      name: 'shape',
      type: 'sequence<MLDimension>?',
      convert: (value, what, key) => (value === null ? null : toDimensions(value, what, key)),
    },
  ]),
);

const toShapes = record(sequence(enforcedUnsignedLong));
const toCounts = record(enforcedUnsignedLongLong);

/**
 * @param {string} option for messages
 * @param {Map<string, unknown>} given by name of an input
 * @param {{ name: string }[]} inputs
 * @throws {TypeError} for a name that is not an input
 */
function requireInputs(option, given, inputs) {
  const unknown = [...given.keys()].find((name) => !inputs.some((input) => input.name === name));
  if (unknown !== undefined) {
    const names = inputs.map(({ name }) => quote(name)).join(', ');
    throw codedError('ERR_WEBNN_UNKNOWN_FEED', `inputShapes: ${option} has ${quote(unknown)}, the inputs are ${names}`);
  }
}

/**
 * Returns the shapes of inputs as far as they are known.
 *
 * @param {Parameters<typeof import('../../onnx.js').inputShapes>[0]} inputs
 * @param {Parameters<typeof import('../../onnx.js').inputShapes>[1]} known
 * @returns {import('../../onnx.js').OnnxInputShapes}
 */
function inputShapes(inputs, known = {}) {
  const { infos, dimensions, strictDimensions, shapes, elements } = converting(() => {
    const options = toOptions(known, ['freeDimensions', 'strictDimensions', 'shapes', 'elements'], 'inputShapes');
    return {
      infos: toInputs(inputs, 'inputShapes: inputs'),
      dimensions: freeDimensions(options.freeDimensions, 'inputShapes'),
      // This function is about names: it refuses what contradicts them unless it is told not to.
      strictDimensions: strictness(options.strictDimensions, 'inputShapes') ?? true,
      shapes: toShapes(options.shapes ?? {}, 'inputShapes: shapes'),
      elements: toCounts(options.elements ?? {}, 'inputShapes: elements'),
    };
  });
  requireInputs('shapes', shapes, infos);
  requireInputs('elements', elements, infos);
  const natives = infos.map(({ name, shape }) => ({
    name,
    shape: shape ?? undefined,
    given: shapes.get(name),
    elements: elements.get(name),
  }));
  /** @type {import('../internal.js').KnownShapes} */
  const result = JSON.parse(native.inputShapes(natives, dimensions, strictDimensions));
  return { ...result, shapes: Object.fromEntries(infos.map(({ name }, at) => [name, result.shapes[at]])) };
}

module.exports = { inputShapes };
