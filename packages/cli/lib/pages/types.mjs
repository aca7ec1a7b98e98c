// Shapes and types of values as the pages write them: short, because they stand in boxes and beside edges.

/**
 * `1×3×224×224`, or `scalar` for the empty shape.
 * @param {readonly number[]} shape
 */
export function shapeText(shape) {
  return shape.length === 0 ? 'scalar' : shape.join('×');
}

/**
 * Data type and shape of a value of a graph listing: `float32 1×3×224×224`.
 * @param {{ dataType: string, shape: readonly number[] }} value
 */
export function typeText({ dataType, shape }) {
  return `${dataType} ${shapeText(shape)}`;
}
