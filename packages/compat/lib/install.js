'use strict';

/** Replaces today's API by an earlier draft, for programs that look for it in `navigator` and the globals. */

const draft2021 = require('./draft2021/index.js');
const draft2024 = require('./draft2024/index.js');

/** The interfaces that are globals today or with a draft. */
const INTERFACES = ['ML', 'MLActivation', 'MLContext', 'MLGraph', 'MLGraphBuilder', 'MLOperand', 'MLOperator', 'MLTensor'];

/**
 * Defines `navigator.ml` and the interfaces of a draft as globals, replacing existing ones.
 *
 * @param {typeof import('../index.js').draft2021 | typeof import('../index.js').draft2024} draft
 * @throws {TypeError} if it is neither of the two drafts
 */
function install(draft) {
  const drafts = /** @type {unknown[]} */ ([draft2021, draft2024]);
  if (!drafts.includes(draft)) {
    throw new TypeError('install: draft is not an earlier draft, expected draft2021 or draft2024');
  }
  const { ml, ...interfaces } = draft;
  require('webnn-node/auto'); // creates a navigator if there is none
  Object.defineProperty(globalThis.navigator, 'ml', {
    get: () => ml,
    set: undefined,
    enumerable: true,
    configurable: true,
  });
  INTERFACES.filter((name) => !Object.hasOwn(interfaces, name)).forEach((name) => Reflect.deleteProperty(globalThis, name));
  for (const [name, value] of Object.entries(interfaces)) {
    Object.defineProperty(globalThis, name, { value, writable: true, enumerable: false, configurable: true });
  }
}

module.exports = { install };
