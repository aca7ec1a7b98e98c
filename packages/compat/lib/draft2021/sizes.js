'use strict';

/**
 * Sizes of operands as numbers. For inputs with unknown dimensions, graphs are first built with names in place of
 * sizes.
 */

/**
 * Returns the size of a dimension.
 *
 * @param {import('webnn-node').MLOperand} operand
 * @param {number} axis
 * @throws {TypeError} if it is a name
 */
function sizeAt({ shape }, axis) {
  const size = /** @type {number | string | undefined} */ (shape[axis]);
  if (typeof size === 'string') {
    throw new TypeError(`dimension ${axis} of [${shape.join(', ')}] must be known`);
  }
  return /** @type {number} */ (size);
}

/**
 * Returns the shape of an operand.
 *
 * @param {import('webnn-node').MLOperand} operand
 * @throws {TypeError} if a dimension is a name
 */
const sizesOf = (operand) => operand.shape.map((_, axis) => sizeAt(operand, axis));

module.exports = { sizeAt, sizesOf };
