/** What the types of tests need. */

import assert from 'node:assert/strict';

/**
 * Passes a value of a wrong type, to test how the callee rejects it.
 *
 * @param {unknown} value
 * @returns {any}
 */
export const wrong = (value) => value;

/**
 * A value that must be there: the test fails for `null` and `undefined`.
 *
 * @template T
 * @param {T} value
 */
export function defined(value) {
  assert.ok(value !== null && value !== undefined, 'there is no such value');
  return value;
}
