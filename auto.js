'use strict';

/**
 * Makes the API available as in browsers: `navigator.ml` and the interfaces as globals. Keeps everything that a runtime
 * already provides.
 */

const { ML, MLContext, MLGraph, MLGraphBuilder, MLOperand, MLTensor } = require('./index.js');
const { illegalConstructor } = require('./lib/errors.js');
const { createML } = require('./lib/ml.js');
const { defineInterface } = require('./lib/webidl.js');

/**
 * The class of the navigator in runtimes without one. Code that finds a navigator often reads its `userAgent` without
 * checking that it has one.
 */
class Navigator {
  constructor() {
    throw illegalConstructor('Navigator');
  }

  /** As in Node 21 and newer: `Node.js/20`. */
  get userAgent() {
    return `Node.js/${process.versions.node.split('.', 1)[0]}`;
  }
}

/**
 * The WebGPU interface whose objects `ML.createContext()` accepts: browser code checks `instanceof GPUDevice` without
 * checking that the interface exists. It has no instances unless a WebGPU implementation replaces it with its own
 * class.
 */
class GPUDevice {
  constructor() {
    throw illegalConstructor('GPUDevice');
  }
}

/**
 * Defines a property of the global object with the attributes that Web IDL gives to interface objects.
 *
 * @param {string} name
 * @param {unknown} value
 */
function defineGlobal(name, value) {
  Object.defineProperty(globalThis, name, { value, writable: true, enumerable: false, configurable: true });
}

/**
 * Defines the interface object of an interface, unless there is one.
 *
 * @param {Function} Interface
 */
function defineMissing(Interface) {
  if (!(Interface.name in globalThis)) {
    defineGlobal(Interface.name, Interface);
  }
}

/**
 * @returns {object} the runtime's navigator, or a new global one, with its class, that has only `userAgent` and `ml`
 */
function ensureNavigator() {
  if (globalThis.navigator === undefined) {
    defineMissing(defineInterface(Navigator));
    defineGlobal('navigator', Object.create(Navigator.prototype));
  }
  return globalThis.navigator;
}

/**
 * The object that holds the accessor: the prototype of the navigator's own class, if it has one.
 *
 * @param {object} navigator
 */
function accessorHolder(navigator) {
  const prototype = Object.getPrototypeOf(navigator);
  return prototype === null || prototype === Object.prototype ? navigator : prototype;
}

/** Libraries for browsers know earlier drafts, and look for 4-bit constants in the limits of a context. */
const ml = createML(['int4']);

/** Defines `navigator.ml`. */
function installNavigatorML() {
  const navigator = ensureNavigator();
  if ('ml' in navigator) {
    return;
  }
  const { get } = /** @type {PropertyDescriptor} */ (
    Object.getOwnPropertyDescriptor(
      {
        get ml() {
          if (this !== navigator) {
            throw new TypeError('Navigator.ml: Illegal invocation, the receiver is not the navigator');
          }
          return ml;
        },
      },
      'ml',
    )
  );
  Object.defineProperty(accessorHolder(navigator), 'ml', { get, set: undefined, enumerable: true, configurable: true });
}

installNavigatorML();
[ML, MLContext, MLGraph, MLGraphBuilder, MLOperand, MLTensor, defineInterface(GPUDevice)].forEach(defineMissing);
