'use strict';

/**
 * The functions of the native binary, and its completions as promises.
 *
 * The functions of the binary are private and flat: they take handles, numbers and byte views, never a
 * caller's object.
 */

const process = require('node:process');
const { isMainThread } = require('node:worker_threads');

const { loadBinding } = require('./binary.js');
const { Completions, Requests } = require('./completions.js');
const { errorFromCode, withCode } = require('./errors.js');

const binding = loadBinding();

/** A property of the process, which further copies of this module see. */
const LISTENS = Symbol.for('webnn-node listens for the end of the process');

if (isMainThread && !Object.hasOwn(process, LISTENS)) {
  Object.defineProperty(process, LISTENS, { value: true });
  // Also by process.exit(): a driver that another thread is loading meanwhile can crash, and packed weights may not be on disk yet.
  process.on('exit', () => binding.beforeExit());
}

/** The table of error codes. @type {{code: string, exception: string, meaning: string}[]} */
const errorCodes = JSON.parse(binding.errorCodes());

const EXCEPTIONS = new Map(errorCodes.map(({ code, exception }) => [code, exception]));

/**
 * @param {string} tag a code of the table, or the name of an exception
 * @param {string} message
 * @param {string} [nodes] JSON of the unsupported nodes of a model
 * @returns {import('./internal.js').CodedError}
 */
function errorOf(tag, message, nodes) {
  const exception = EXCEPTIONS.get(tag);
  const unsupported = nodes === undefined ? undefined : JSON.parse(nodes);
  return exception === undefined ? errorFromCode(tag, message) : withCode(errorFromCode(exception, message, unsupported), tag);
}

/**
 * @param {any} error
 * @returns {Error} the API's error for one that a native function threw
 */
function translate(error) {
  return errorOf(error.code, error.message);
}

/**
 * Wraps a native function and turns its errors into errors of the API.
 *
 * @template {unknown[]} Parameters
 * @template Result
 * @param {(...args: Parameters) => Result} nativeFunction
 */
function translated(nativeFunction) {
  return (/** @type {Parameters} */ ...args) => {
    try {
      return nativeFunction(...args);
    } catch (error) {
      throw translate(error);
    }
  };
}

/**
 * @param {unknown} result of a native function, which may be a handle
 * @returns {result is import('./internal.js').Refusal}
 */
function isRefusal(result) {
  return typeof result === 'object' && /** @type {Partial<import('./internal.js').Refusal>} */ (result).code !== undefined;
}

/**
 * Like `translated`, for a native function that returns a Refusal for a model that cannot be used.
 *
 * @template {unknown[]} Parameters
 * @template Result
 * @param {(...args: Parameters) => Result | import('./internal.js').Refusal} nativeFunction
 */
function refusing(nativeFunction) {
  const call = translated(nativeFunction);
  return (/** @type {Parameters} */ ...args) => {
    const result = call(...args);
    if (isRefusal(result)) {
      throw errorOf(result.code, result.message, result.unsupported);
    }
    return result;
  };
}

/**
 * Copies lists of the native side, which are arrays of the realm that loaded the binary: these are of this realm.
 *
 * @template T
 * @param {T[]} list
 * @returns {T[]}
 */
function ownList(list) {
  return Array.from(list, (item) => (Array.isArray(item) ? /** @type {T} */ (ownList(item)) : item));
}

/** All copies of this module in one environment share the requests, which are kept on the binary's exports. */
const SHARED = Symbol.for('webnn-node.requests');

const shared = /** @type {typeof binding & {[SHARED]?: InstanceType<typeof Requests>}} */ (binding);
const requests = (shared[SHARED] ??= new Requests(binding));

const { environment } = requests;
const graphDevices = translated(binding.graphDevices);
const dynamicShapes = translated(binding.dynamicShapes);
const valueShape = translated(binding.valueShape);

module.exports = {
  completions: new Completions(requests, errorOf),
  /** For tests: the bytes that the garbage collector was told of. */
  reportedBytes: translated(binding.reportedBytes.bind(undefined, environment)),
  createContext: translated(binding.createContext.bind(undefined, environment)),
  destroyContext: translated(binding.destroyContext),
  /** For tests: loses the GPU of a context as a failing driver would. */
  loseDevice: translated(binding.loseDevice),
  supportLimits: translated(binding.supportLimits),
  createTensor: translated(binding.createTensor),
  createConstantTensor: translated(binding.createConstantTensor),
  readTensor: translated(binding.readTensor),
  takeRead: translated(binding.takeRead),
  writeTensor: translated(binding.writeTensor),
  destroyTensor: translated(binding.destroyTensor),
  createBuilder: translated(binding.createBuilder),
  copyBuilder: translated(binding.copyBuilder),
  input: translated(binding.input),
  constant: translated(binding.constant),
  constantScalar: translated(binding.constantScalar),
  constantTensor: translated(binding.constantTensor),
  operator: translated(binding.operator),
  build: translated(binding.build),
  weighGraph: translated(binding.weighGraph),
  graphDevices: (/** @type {Parameters<typeof graphDevices>} */ ...args) => ownList(graphDevices(...args)),
  dispatch: translated(binding.dispatch),
  destroyGraph: translated(binding.destroyGraph),
  dynamicInput: translated(binding.dynamicInput),
  dynamicBuild: translated(binding.dynamicBuild),
  dynamicShapes: (/** @type {Parameters<typeof dynamicShapes>} */ ...args) => ownList(dynamicShapes(...args)),
  dynamicDispatch: translated(binding.dynamicDispatch),
  describeDynamicGraph: translated(binding.describeDynamicGraph),
  destroyDynamicGraph: translated(binding.destroyDynamicGraph),
  openModel: translated(binding.openModel.bind(undefined, environment)),
  readModel: refusing(binding.readModel.bind(undefined, environment)),
  inspectModel: refusing(binding.inspectModel),
  inputShapes: translated(binding.inputShapes),
  importModel: refusing(binding.importModel),
  supportedOnnxOperators: translated(binding.supportedOnnxOperators),
  absentOnnxOperators: translated(binding.absentOnnxOperators),
  newStop: translated(binding.newStop),
  stop: translated(binding.stop),
  openSession: translated(binding.openSession),
  sessionMemory: translated(binding.sessionMemory),
  whenSaved: translated(binding.whenSaved.bind(undefined, environment)),
  listCache: translated(binding.listCache.bind(undefined, environment)),
  pruneCache: translated(binding.pruneCache.bind(undefined, environment)),
  verifyCache: translated(binding.verifyCache.bind(undefined, environment)),
  sessionWithInputs: translated(binding.sessionWithInputs),
  checkNames: translated(binding.checkNames),
  runSession: translated(binding.runSession),
  profileSession: translated(binding.profileSession),
  valueShape: (/** @type {Parameters<typeof valueShape>} */ ...args) => ownList(valueShape(...args)),
  readValue: translated(binding.readValue),
  releaseValue: translated(binding.releaseValue),
  compileSession: translated(binding.compileSession),
  describeSession: translated(binding.describeSession),
  releaseSession: translated(binding.releaseSession),
  destroySession: translated(binding.destroySession),
  contextDevice: translated(binding.contextDevice),
  contextWarning: translated(binding.contextWarning),
  describeContext: translated(binding.describeContext),
  errorCodes,
  errorOf,
  describeGraph: translated(binding.describeGraph),
  profile: translated(binding.profile),
  systemInfo: translated(binding.systemInfo),
};
