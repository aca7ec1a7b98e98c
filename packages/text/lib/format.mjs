// Names and shapes from a file as text for messages.

/**
 * Formats a shape with its symbolic names: "[batch, 3, 224, 224]"; null is a shape that the model does not declare.
 * @param {readonly (number | string)[] | null} shape
 */
export function formatShape(shape) {
  return shape === null ? 'unknown' : `[${shape.join(', ')}]`;
}

/**
 * Makes text from a file printable: escapes control characters, which a terminal would obey, and characters that change
 * the writing direction.
 * @param {unknown} text
 */
export function printable(text) {
  return String(text).replace(
    /[\u0000-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}
