/** Matchers of exceptions for `assert.throws()` and `assert.rejects()`. */

import assert from 'node:assert/strict';

/** Matches exceptions by name (and text); the exception must be a plain TypeError or a DOMException. */
export const exception =
  (/** @type {string} */ name, pattern = /./) =>
  (/** @type {Error} */ error) => {
    assert.equal(error?.name, name, `${error?.stack ?? error}`);
    if (name === 'TypeError') {
      assert.equal(Object.getPrototypeOf(error), TypeError.prototype);
    } else {
      assert.ok(error instanceof DOMException, `${error} is no DOMException`);
    }
    assert.match(error.message, pattern);
    return true;
  };

export const invalidState = exception('InvalidStateError');

/** A matcher of a TypeError by the text of its message. */
export const typeError = (/** @type {RegExp} */ pattern) => exception('TypeError', pattern);

/**
 * Calls an operation that returns a promise; asserts that it does not throw synchronously, and that the promise is
 * rejected.
 *
 * @param {() => unknown} call
 * @param {((error: Error) => boolean) | ErrorConstructor} matcher
 */
export async function rejects(call, matcher) {
  let promise;
  assert.doesNotThrow(() => {
    promise = call();
  });
  assert.ok(promise instanceof Promise);
  await assert.rejects(promise, matcher);
}
