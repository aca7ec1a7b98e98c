/** What the types of tests need. */

import assert from 'node:assert/strict';

/**
 * A value of a type that the declarations do not allow, for tests of what happens then.
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
