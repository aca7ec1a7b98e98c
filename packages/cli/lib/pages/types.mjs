// Short texts of shapes and types, for boxes and edge labels of the pages.

/**
 * Formats a shape: `1×3×224×224`, or `scalar` for the empty shape.
 * @param {readonly number[]} shape
 */
export function shapeText(shape) {
  return shape.length === 0 ? 'scalar' : shape.join('×');
}

/**
 * Formats data type and shape of a listed value: `float32 1×3×224×224`.
 * @param {{ dataType: string, shape: readonly number[] }} value
 */
export function typeText({ dataType, shape }) {
  return `${dataType} ${shapeText(shape)}`;
}
