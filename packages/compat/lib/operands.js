'use strict';

/** What today's operands say of themselves, whatever the operands of a draft say. */

const { amount } = require('webnn-node/internal/webidl');
const { MLOperand } = require('webnn-node');

const { apply, getOwnPropertyDescriptor } = Reflect;

/** @param {string} name */
const getter = (name) => /** @type {Function} */ (getOwnPropertyDescriptor(MLOperand.prototype, name)?.get);

const dataType = getter('dataType');
const shape = getter('shape');

/** @type {(operand: unknown) => import('webnn-node').MLOperandDataType} */
const dataTypeOf = (operand) => apply(dataType, operand, []);

/** @type {(operand: unknown) => readonly number[]} */
const shapeOf = (operand) => apply(shape, operand, []);

/**
 * Returns a new shape in which the one size that a caller leaves open, if any, is computed from the number of elements.
 *
 * @param {readonly (number | null)[]} newShape
 * @param {readonly (number | null)[]} marks values that leave a size open
 * @param {() => readonly number[]} shapeOfInput as sizes; called if it is needed
 * @returns {number[]}
 * @throws {TypeError} if two sizes are open, or none fits
 */
function closedShape(newShape, marks, shapeOfInput) {
  const shown = (/** @type {readonly (number | null)[]} */ sizes) => `[${sizes.map(String).join(', ')}]`;
  const isKnown = (/** @type {number | null} */ size) => size !== null && !marks.includes(size);
  const known = /** @type {number[]} */ (newShape.filter(isKnown));
  if (known.length === newShape.length) {
    return known;
  }
  if (known.length < newShape.length - 1) {
    throw new TypeError(`reshape: newShape is ${shown(newShape)}, expected at most one ${marks.map(String).join(' or ')}`);
  }
  const product = (/** @type {readonly number[]} */ sizes) => sizes.reduce((elements, size) => elements * size, 1);
  const shape = shapeOfInput();
  const [elements, divisor] = [product(shape), product(known)];
  if (divisor <= 0 || elements % divisor !== 0) {
    throw new TypeError(`reshape: newShape is ${shown(newShape)}, expected one for the ${amount(elements, 'element')} of ${shown(shape)}`);
  }
  return newShape.map((size) => (size !== null && isKnown(size) ? size : elements / divisor));
}

module.exports = { closedShape, dataTypeOf, shapeOf };
