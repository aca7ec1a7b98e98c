'use strict';

/**
 * Makes the API available as it is in browsers: `navigator.ml` and the interfaces as globals. What a
 * runtime provides already is left alone.
 */

const { ml, ML, MLContext, MLGraph, MLGraphBuilder, MLOperand, MLTensor } = require('./index.js');
const { illegalConstructor } = require('./lib/errors.js');
const { defineInterface } = require('./lib/webidl.js');

/** A class with this name in place of a runtime's own, for runtimes without navigator. */
class Navigator {}

/**
 * The interface of WebGPU that `ML.createContext()` takes objects of: code for browsers asks whether something is one
 * (`instanceof`) without asking first whether there is the interface. No object is, as long as no WebGPU
 * implementation puts its own class in this place.
 */
class GPUDevice {
  constructor() {
    throw illegalConstructor('GPUDevice');
  }
}

/** Defines a property of the global object with the attributes that Web IDL gives to interface objects. */
function defineGlobal(name, value) {
  Object.defineProperty(globalThis, name, { value, writable: true, enumerable: false, configurable: true });
}

/** @returns {object} the runtime's navigator, or a new global one that has nothing but `ml` */
function ensureNavigator() {
  if (globalThis.navigator === undefined) {
    Object.defineProperty(Navigator.prototype, Symbol.toStringTag, { value: 'Navigator', configurable: true });
    defineGlobal('navigator', new Navigator());
  }
  return globalThis.navigator;
}

/** The object that holds the accessor: the prototype of the navigator's own class, if it has one. */
function accessorHolder(navigator) {
  const prototype = Object.getPrototypeOf(navigator);
  return prototype === null || prototype === Object.prototype ? navigator : prototype;
}

/** Defines `navigator.ml`. */
function installNavigatorML() {
  const navigator = ensureNavigator();
  if ('ml' in navigator) {
    return;
  }
  const { get } = Object.getOwnPropertyDescriptor(
    {
      get ml() {
        if (this !== navigator) {
          throw new TypeError('Navigator.ml: Illegal invocation, the receiver is not the navigator');
        }
        return ml;
      },
    },
    'ml',
  );
  Object.defineProperty(accessorHolder(navigator), 'ml', { get, set: undefined, enumerable: true, configurable: true });
}

installNavigatorML();
const interfaces = { ML, MLContext, MLGraph, MLGraphBuilder, MLOperand, MLTensor, GPUDevice: defineInterface(GPUDevice) };
for (const [name, Interface] of Object.entries(interfaces)) {
  if (!(name in globalThis)) {
    defineGlobal(name, Interface);
  }
}
