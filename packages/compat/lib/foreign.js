'use strict';

/** Objects of other standards that the drafts accept but this package does not. */

const { isObject } = require('webnn-node/internal/webidl');

const { apply } = Reflect;
const { isPrototypeOf } = Object.prototype;

/**
 * Whether a value is an object of one of these interfaces, if the runtime has them.
 *
 * @param {string[]} names of global classes
 * @param {unknown} value
 */
function isOneOf(names, value) {
  return names.some((name) => {
    const Class = /** @type {Record<string, unknown>} */ (/** @type {unknown} */ (globalThis))[name];
    const prototype = typeof Class === 'function' ? Class.prototype : undefined;
    return isObject(prototype) && isObject(value) && apply(isPrototypeOf, prototype, [value]);
  });
}

module.exports = { isOneOf };
