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

/** @type {import('./internal.js').Slots<object, import('../index.js').ML>} */
const slots = defineSlots();

const toContextOptions = dictionaryConverter('MLContextOptions');

/** Largest number of threads that may be asked for. */
const MAX_THREADS = 1024;

/** Tells the native side to choose the number of threads. */
const DEFAULT_THREADS = 0;

/**
 * Whether a value is an object of a class named GPUDevice: implementations of WebGPU need not have made it global.
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
 * What a GPUDevice says of its adapter.
 *
 * @param {{adapterInfo?: unknown}} device
 * @returns {string} JSON of strings and a boolean
 * @throws {DOMException} NotSupportedError if it says nothing
 */
function adapterOf(device) {
  const info = device.adapterInfo;
  if (!isObject(info)) {
    throw notSupportedError('createContext: the GPUDevice has no adapterInfo, which tells its adapter');
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
 * @throws {TypeError} if numThreads, an extension of this package, is out of range
 */
function requireThreadCount(numThreads) {
  if (numThreads < 1 || numThreads > MAX_THREADS) {
    throw new TypeError(`createContext: options.numThreads is ${numThreads}, expected 1 to ${MAX_THREADS}`);
  }
}

/**
 * The draft's "create a context" for a GPUDevice.
 *
 * @param {{adapterInfo?: unknown}} device
 */
function contextOfDevice(device) {
  const gpuDevice = adapterOf(device);
  return Context.create({ threads: DEFAULT_THREADS, powerPreference: 'default', accelerated: true, gpuDevice }, []);
}

/**
 * The draft's "create a context" for MLContextOptions.
 *
 * @param {import('./internal.js').Dictionaries['MLContextOptions']} options
 */
function contextOf({ accelerated, extensions = [], numThreads, powerPreference }) {
  if (numThreads !== undefined) {
    requireThreadCount(numThreads);
  }
  return Context.create({ threads: numThreads ?? DEFAULT_THREADS, powerPreference, accelerated }, extensions);
}

/** https://www.w3.org/TR/webnn/#api-ml */
class ML {
  constructor() {
    throw illegalConstructor('ML');
  }

  /** @param {unknown} [options] */
  createContext(options = undefined) {
    try {
      if (slots.get(this) === undefined) {
        throw illegalInvocation('ML.createContext', 'ML');
      }
      return isGPUDevice(options)
        ? contextOfDevice(options)
        : contextOf(toContextOptions(options, 'createContext: options'));
    } catch (error) {
      return reject(error);
    }
  }
}

defineInterface(ML);

/** The only object of the interface. */
const ml = slots.create(ML, Object.freeze({}));

module.exports = { ML, ml };
