'use strict';

const { Context } = require('./context.js');
const { illegalConstructor, illegalInvocation, notSupportedError } = require('./errors.js');
const { defineSlots } = require('./slots.js');
const { dictionaryConverter } = require('./types.js');
const { defineInterface, isObject } = require('./webidl.js');

const { Promise } = globalThis;
const reject = Promise.reject.bind(Promise);
const { apply } = Reflect;
const { getOwnPropertyDescriptor, getPrototypeOf } = Object;
const { isPrototypeOf } = Object.prototype;
const { stringify } = JSON;

/** @type {import('./internal.js').Slots<Defaults, import('../index.js').ML>} */
const slots = defineSlots();

/**
 * @typedef {{readonly extensions: readonly import('../index.js').MLContextExtension[]}} Defaults of the contexts that
 * an ML creates
 */

const toContextOptions = dictionaryConverter('MLContextOptions');

/** Largest number of threads that may be requested. */
const MAX_THREADS = 1024;

/** Lets the native side choose the number of threads. */
const DEFAULT_THREADS = 0;

/**
 * Whether a value is an object of a class named GPUDevice: WebGPU implementations need not define that class globally.
 *
 * @param {unknown} value
 * @returns {value is {adapterInfo?: unknown}}
 */
function isGPUDevice(value) {
  if (!isObject(value)) {
    return false;
  }
  const { GPUDevice } = /** @type {{GPUDevice?: unknown}} */ (globalThis);
  const prototype = typeof GPUDevice === 'function' ? GPUDevice.prototype : undefined;
  if (isObject(prototype) && apply(isPrototypeOf, prototype, [value])) {
    return true;
  }
  const own = getPrototypeOf(value);
  const constructor = own === null ? undefined : getOwnPropertyDescriptor(own, 'constructor')?.value;
  return typeof constructor === 'function' && constructor.name === 'GPUDevice';
}

/**
 * Reads a GPUDevice's description of its adapter.
 *
 * @param {{adapterInfo?: unknown}} device
 * @returns {string} JSON of strings and a boolean
 * @throws {DOMException} NotSupportedError if there is none
 */
function adapterOf(device) {
  const info = device.adapterInfo;
  if (!isObject(info)) {
    throw notSupportedError('createContext: the GPUDevice has no adapterInfo, which identifies its adapter');
  }
  const { vendor, device: model, description, isFallbackAdapter } = /** @type {Record<string, unknown>} */ (info);
  return stringify({
    vendor: `${vendor ?? ''}`,
    device: `${model ?? ''}`,
    description: `${description ?? ''}`,
    isFallbackAdapter: isFallbackAdapter === true,
  });
}

/**
 * @param {number} numThreads
 * @param {string} what for messages
 * @throws {TypeError} if numThreads, an extension of this package, is out of range
 */
function requireThreadCount(numThreads, what) {
  if (numThreads < 1 || numThreads > MAX_THREADS) {
    throw new TypeError(`${what} is ${numThreads}, expected 1 to ${MAX_THREADS}`);
  }
}

/**
 * The draft's "create a context" for a GPUDevice.
 *
 * @param {Defaults} defaults
 * @param {{adapterInfo?: unknown}} device
 */
function contextOfDevice({ extensions }, device) {
  const gpuDevice = adapterOf(device);
  return Context.create({ threads: DEFAULT_THREADS, powerPreference: 'default', accelerated: true, gpuDevice }, extensions);
}

/**
 * The draft's "create a context" for MLContextOptions, whose `computePolicy` may replace `powerPreference`.
 *
 * @param {Defaults} defaults
 * @param {import('./internal.js').Dictionaries['MLContextOptions']} options
 */
function contextOf(defaults, { accelerated, cache, computePolicy, extensions = [], numThreads, powerPreference }) {
  if (numThreads !== undefined) {
    requireThreadCount(numThreads, 'createContext: options.numThreads');
  }
  const threads = numThreads ?? DEFAULT_THREADS;
  return Context.create({ threads, powerPreference: computePolicy ?? powerPreference, accelerated, cache }, [...defaults.extensions, ...extensions]);
}

/** https://www.w3.org/TR/webnn/#api-ml */
class ML {
  constructor() {
    throw illegalConstructor('ML');
  }

  /** @param {unknown} [options] */
  createContext(options = undefined) {
    try {
      const defaults = slots.get(this);
      if (defaults === undefined) {
        throw illegalInvocation('ML.createContext', 'ML');
      }
      return isGPUDevice(options) ? contextOfDevice(defaults, options) : contextOf(defaults, toContextOptions(options, 'createContext: options'));
    } catch (error) {
      return reject(error);
    }
  }
}

defineInterface(ML);

/**
 * Creates an object of the interface.
 *
 * @param {readonly import('../index.js').MLContextExtension[]} extensions that its contexts always have
 */
function createML(extensions) {
  return slots.create(ML, Object.freeze({ extensions }));
}

/** Follows the draft; extensions must be requested. */
const ml = createML([]);

module.exports = { ML, createML, ml, requireThreadCount };
