'use strict';

/**
 * The functions of the native binary, and its completions as promises.
 *
 * The functions of the binary are private and flat: they take handles, numbers and byte views, never a
 * caller's object.
 */

const { loadBinding } = require('./binary.js');
const { errorFromCode, withCode } = require('./errors.js');

const { ArrayBuffer, Promise, setImmediate } = globalThis;

const binding = loadBinding();

/** The table of error codes. @type {{code: string, exception: string, meaning: string}[]} */
const errorCodes = JSON.parse(binding.errorCodes());

const EXCEPTIONS = new Map(errorCodes.map(({ code, exception }) => [code, exception]));

/**
 * @param {string} tag a code of the table, or the name of an exception
 * @param {string} message
 * @param {import('../onnx.js').OnnxUnsupportedNode[]} [unsupported] nodes of a model
 * @returns {import('./internal.js').CodedError}
 */
function errorOf(tag, message, unsupported) {
  const exception = EXCEPTIONS.get(tag);
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
 * @param {number} length in bytes
 * @returns {ArrayBuffer | undefined} undefined when there is no memory for it
 */
function allocate(length) {
  try {
    return new ArrayBuffer(length);
  } catch {
    return undefined;
  }
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

/** Work that the native side has begun and will report on. One per environment (main thread or worker). */
class Completions {
  /** The native side of this environment. */
  environment;

  #next = 1;
  /** @type {Map<number, {resolve: (value: any) => void, reject: (error: unknown) => void, finish: (error: Error | undefined, made: any) => unknown}>} */
  #pending = new Map();
  /**
   * Callbacks for events that no promise waits for, by id.
   *
   * @type {Map<number, (error: import('./internal.js').CodedError) => void>}
   */
  #watched = new Map();
  /** Number of completions whose task has not run yet. */
  #waiting = 0;

  /** @param {import('./internal.js').Binding} binding */
  constructor(binding) {
    this.environment = binding.initialize((ids, codes, messages, details) => {
      ids.forEach((id, index) => {
        const complete = () => this.#complete(id, codes[index] ?? '', messages[index], details[index]);
        // One task per completion: reactions to one promise run before the next one is settled and its data are
        // written. Completions that already wait for a task go first: several reports can arrive in one turn of the
        // event loop.
        if (index === 0 && this.#waiting === 0) {
          complete();
          return;
        }
        this.#waiting += 1;
        setImmediate(() => {
          this.#waiting -= 1;
          complete();
        });
      });
    }, allocate);
  }

  /** @returns {number} an id that no other pending work of this environment has */
  nextId() {
    const id = this.#next;
    // Native ids have 32 bits, which a long-running server may exhaust.
    this.#next = (id + 1) >>> 0;
    return id;
  }

  /**
   * Returns the outcome of work that a native call has begun. Must be called right after that call: work never
   * completes in between.
   *
   * @template T
   * @template {unknown[]} [Made=unknown[]]
   * @param {number} id
   * @param {(error: Error | undefined, made: Made) => T} finish called on completion with the failure or undefined, and
   *   the results; its return value or exception settles the promise
   * @returns {Promise<T>}
   */
  outcome(id, finish) {
    return new Promise((resolve, reject) => {
      this.#pending.set(id, { resolve, reject, finish });
    });
  }

  /**
   * Calls `tell` with the error when the event that a native call watches for happens, or can no longer happen.
   *
   * @param {number} id
   * @param {(error: import('./internal.js').CodedError) => void} tell must not keep alive the object whose end stops
   *   the watch
   */
  watch(id, tell) {
    this.#watched.set(id, tell);
  }

  /**
   * Rejects at once; a later completion with the same id has no effect.
   *
   * @param {number} id
   * @param {Error} error
   */
  abandon(id, error) {
    const pending = this.#pending.get(id);
    this.#pending.delete(id);
    pending?.reject(error);
  }

  /**
   * Settles the promise of a native completion; an empty code is a success.
   *
   * @param {number} id
   * @param {string} code
   * @param {string} message
   * @param {any[]} details
   */
  #complete(id, code, message, details) {
    const entry = this.#pending.get(id);
    if (entry === undefined) {
      const tell = this.#watched.get(id);
      this.#watched.delete(id);
      tell?.(errorOf(code, message));
      return; // or it was abandoned before
    }
    this.#pending.delete(id);
    try {
      entry.resolve(entry.finish(code === '' ? undefined : errorOf(code, message, details), details));
    } catch (error) {
      entry.reject(error);
    }
  }
}

/**
 * The native side has one completion handler per environment. Test runners and bundlers may evaluate this module
 * several times in one environment: all copies share the handler that is kept on the binary's exports.
 */
const SHARED = Symbol.for('webnn-node.completions');

const shared = /** @type {typeof binding & {[SHARED]?: Completions}} */ (binding);
const completions = (shared[SHARED] ??= new Completions(binding));

module.exports = {
  completions,
  createContext: translated(binding.createContext.bind(undefined, completions.environment)),
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
  graphDevices: translated(binding.graphDevices),
  dispatch: translated(binding.dispatch),
  destroyGraph: translated(binding.destroyGraph),
  dynamicInput: translated(binding.dynamicInput),
  dynamicBuild: translated(binding.dynamicBuild),
  dynamicShapes: translated(binding.dynamicShapes),
  dynamicDispatch: translated(binding.dynamicDispatch),
  describeDynamicGraph: translated(binding.describeDynamicGraph),
  destroyDynamicGraph: translated(binding.destroyDynamicGraph),
  openModel: translated(binding.openModel.bind(undefined, completions.environment)),
  readModel: refusing(binding.readModel),
  inspectModel: refusing(binding.inspectModel),
  inputShapes: translated(binding.inputShapes),
  importModel: refusing(binding.importModel),
  supportedOnnxOperators: translated(binding.supportedOnnxOperators),
  openSession: translated(binding.openSession),
  sessionWithInputs: translated(binding.sessionWithInputs),
  checkNames: translated(binding.checkNames),
  runSession: translated(binding.runSession),
  profileSession: translated(binding.profileSession),
  readValue: translated(binding.readValue),
  releaseValue: translated(binding.releaseValue),
  compileSession: translated(binding.compileSession),
  describeSession: translated(binding.describeSession),
  destroySession: translated(binding.destroySession),
  contextDevice: translated(binding.contextDevice),
  describeContext: translated(binding.describeContext),
  errorCodes,
  errorOf,
  describeGraph: translated(binding.describeGraph),
  profile: translated(binding.profile),
  systemInfo: translated(binding.systemInfo),
};
