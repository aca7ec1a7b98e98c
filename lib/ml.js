'use strict';

const { Context, createMLContext } = require('./context.js');
const { illegalConstructor, illegalInvocation, notSupportedError } = require('./errors.js');
const native = require('./native.js');
const { defineSlots } = require('./slots.js');
const { dictionaryConverter } = require('./types.js');
const { defineInterface, isObject } = require('./webidl.js');

const { Promise } = globalThis;
const reject = Promise.reject.bind(Promise);
const resolve = Promise.resolve.bind(Promise);
const { apply } = Reflect;
const { isPrototypeOf } = Object.prototype;

const slots = defineSlots();

const toContextOptions = dictionaryConverter('MLContextOptions');

/** Largest number of threads that may be asked for. */
const MAX_THREADS = 1024;

/** Tells the native side to choose the number of threads. */
const DEFAULT_THREADS = 0;

/** Whether a value is an object of the global GPUDevice class, where a WebGPU implementation provides one. */
function isGPUDevice(value) {
  const prototype = typeof globalThis.GPUDevice === 'function' ? globalThis.GPUDevice.prototype : undefined;
  return isObject(prototype) && isObject(value) && apply(isPrototypeOf, prototype, [value]);
}

/** @throws {TypeError} if numThreads, an extension of this package, is out of range */
function requireThreadCount(numThreads) {
  if (numThreads < 1 || numThreads > MAX_THREADS) {
    throw new TypeError(`createContext: options.numThreads is ${numThreads}, expected 1 to ${MAX_THREADS}`);
  }
}

/** The draft's "create a context" for MLContextOptions. */
function contextOf({ accelerated, numThreads, powerPreference }) {
  if (numThreads !== undefined) {
    requireThreadCount(numThreads);
  }
  return new Context(native.createContext(numThreads ?? DEFAULT_THREADS, powerPreference), accelerated);
}

/** https://www.w3.org/TR/webnn/#api-ml */
class ML {
  constructor() {
    throw illegalConstructor('ML');
  }

  createContext(options = undefined) {
    try {
      if (slots.get(this) === undefined) {
        throw illegalInvocation('ML.createContext', 'ML');
      }
      if (isGPUDevice(options)) {
        throw notSupportedError(
          'createContext: contexts of a GPUDevice are not supported, this build computes on the CPU',
        );
      }
      return resolve(createMLContext(contextOf(toContextOptions(options, 'createContext: options'))));
    } catch (error) {
      return reject(error);
    }
  }
}

defineInterface(ML);

/** The only object of the interface. */
const ml = slots.create(ML, Object.freeze({}));

module.exports = { ML, ml };
