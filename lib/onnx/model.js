'use strict';

const { cacheConverter, warnAboutCache } = require('../cache.js');
const { slots: contextSlots } = require('../context.js');
const { quote } = require('../errors.js');
const { ml, requireThreadCount } = require('../ml.js');
const native = require('../native.js');
const { slots: operandSlots } = require('../operand.js');
const { slots: tensorSlots } = require('../tensor.js');
const { conversionError, enforcedUnsignedLong, interfaceType, isObject, record } = require('../webidl.js');
const { nativeBytes, requireNumbers, requireType, toFeedOfData } = require('./data.js');
const { atCaller, codedError, converting } = require('./errors.js');
const { Session } = require('./session.js');
const {
  attachedBytes,
  copyOf,
  externalFiles,
  freeDimensions,
  keptCounts,
  outputNames,
  strictness,
  toModelSource,
  toOptions,
  transferred,
  transfers,
} = require('./source.js');
const { warnAboutDimensions, warnAboutDoubles } = require('./warnings.js');

const { Promise } = globalThis;

const CONSTRUCT = Symbol('construct');

/**
 * Options of `createContext` for the option `device`.
 *
 * @type {Record<'auto' | 'cpu' | 'gpu', import('../../index.js').MLContextOptions>}
 */
const DEVICES = { auto: {}, cpu: { accelerated: false }, gpu: { powerPreference: 'high-performance' } };

const LOAD_OPTIONS = [
  'context',
  'device',
  'numThreads',
  'freeDimensions',
  'strictDimensions',
  'outputs',
  'keepLast',
  'constants',
  'idle',
  'externalData',
  'transfer',
  'cache',
  'signal',
];

/**
 * Returns the state of a builder. Its module is not loaded before: programs that load models need none.
 *
 * @type {import('../internal.js').Converter<InstanceType<typeof import('../builder.js').Builder>>}
 */
const requireBuilder = (value, what) => interfaceType('MLGraphBuilder', require('../builder.js').slots)(value, what);
const requireContext = interfaceType('MLContext', contextSlots);
const toOperand = interfaceType('MLOperand', operandSlots);
const toBindings = record(toOperand);
const toCache = cacheConverter(['folder', 'verify', 'byContents']);
const toTargets = record((value, what, name) => {
  if (value === null || value === 'tensor') {
    return value;
  }
  const state = tensorSlots.get(value);
  if (state === undefined) {
    throw conversionError(`run: fetch ${quote(name)}`, undefined, 'an MLTensor, "tensor" or null', value);
  }
  return { object: /** @type {import('../../index.js').MLTensor} */ (value), state };
});

/** @type {ReturnType<typeof toTargets>} */
const NO_FETCHES = new Map();

/**
 * @param {unknown} fetches
 * @param {string} what for messages
 * @throws {TypeError} for anything but targets by output name
 */
function toFetches(fetches, what) {
  if (Array.isArray(fetches)) {
    const expected = 'an object by output name: null drops an output, "tensor" keeps it on the device, and others are returned';
    throw conversionError(what, undefined, expected, fetches);
  }
  return toTargets(fetches, what);
}

/**
 * @typedef {object} LoadOptions the options of `loadModel`, checked and converted
 * @property {import('../../index.js').MLContext | undefined} context
 * @property {import('../internal.js').ContextState | undefined} state of the context
 * @property {keyof typeof DEVICES | undefined} device
 * @property {number | undefined} numThreads from the caller; `createContext` checks it
 * @property {import('../../onnx.js').OnnxAbortSignal | undefined} signal
 * @property {import('../internal.js').FreeDimensions} dimensions
 * @property {boolean | undefined} strictDimensions
 * @property {string[] | undefined} outputs
 * @property {import('../internal.js').KeptCounts} keepLast
 * @property {Map<string, Constant>} constants by input name
 * @property {number | undefined} idle milliseconds
 * @property {import('../internal.js').ExternalFile[]} externalFiles
 * @property {import('../internal.js').CacheOptions | undefined} cache
 * @property {boolean} transfers whether the bytes of model and files are transferred
 */

/** @typedef {import('./data.js').FeedOfData & {bytes: Uint8Array}} Constant with a copy of its data */

/**
 * @typedef {object} Facts about a model
 * @property {import('../../onnx.js').OnnxMetadata} metadata
 * @property {import('../../onnx.js').OnnxAsFloat32} computedAsFloat32
 */

/** @typedef {import('../internal.js').Signature & Facts} Description of a model */

/**
 * @template T
 * @param {T} value
 * @returns {T}
 */
function deepFreeze(value) {
  if (isObject(value)) {
    Object.values(value).forEach(deepFreeze);
    Object.freeze(value);
  }
  return value;
}

/** An ONNX model that is ready to run. */
class OnnxModel {
  #session;
  #contextState;
  #ownsContext;
  #isDestroyed = false;

  /**
   * @param {symbol} token `CONSTRUCT`
   * @param {object} parts
   * @param {InstanceType<typeof Session>} parts.session
   * @param {import('../../index.js').MLContext} parts.context
   * @param {boolean} parts.ownsContext
   * @param {Description} parts.description
   */
  constructor(token, parts) {
    if (token !== CONSTRUCT) {
      throw new TypeError('Illegal constructor: OnnxModel objects are made by loadModel()');
    }
    const { session, context, ownsContext, description } = parts;
    this.#session = session;
    this.#contextState = requireContext(context, 'loadModel: context');
    this.#ownsContext = ownsContext;
    session.idle = () => this.#releaseContext();
    this.inputs = deepFreeze(session.inputs);
    this.optionalInputs = deepFreeze(session.optionalInputs);
    this.outputs = deepFreeze(session.outputs);
    this.metadata = deepFreeze(description.metadata);
    this.computedAsFloat32 = deepFreeze(description.computedAsFloat32);
    this.context = context;
    Object.freeze(this);
  }

  /**
   * Runs the model.
   *
   * @param {Record<string, unknown>} feeds
   * @param {Record<string, unknown>} [fetches]
   */
  run(feeds, fetches = undefined) {
    // Without `async`, which would wrap the promise of the session in two more.
    try {
      const [given, targets] = this.#given(feeds, fetches, 'run');
      return Promise.resolve(this.#session.run(given, targets));
    } catch (error) {
      return Promise.reject(atCaller(error, OnnxModel.prototype.run));
    }
  }

  /**
   * Runs the model and measures its steps.
   *
   * @param {Record<string, unknown>} feeds
   * @param {Record<string, unknown>} [fetches]
   */
  async profile(feeds, fetches = undefined) {
    try {
      const [given, targets] = this.#given(feeds, fetches, 'profile');
      return this.#session.profile(given, targets);
    } catch (error) {
      throw atCaller(error, OnnxModel.prototype.profile);
    }
  }

  /**
   * Checks and converts the arguments of a run.
   *
   * @param {unknown} feeds
   * @param {unknown} fetches
   * @param {string} operation
   * @returns {[import('./feeds.js').Feeds, ReturnType<typeof toFetches>]}
   */
  #given(feeds, fetches, operation) {
    const given = converting(() => this.#session.read(feeds, `${operation}: feeds`));
    const targets = fetches === undefined ? NO_FETCHES : converting(() => toFetches(fetches, `${operation}: fetches`));
    // Checked last: reading the arguments can run the caller's code.
    this.#requireAlive(operation);
    return [given, targets];
  }

  /**
   * Returns the graph for these shapes, from the cache or newly compiled.
   *
   * @param {Record<string, readonly number[]>} shapes
   */
  async compile(shapes = {}) {
    const lists = shapeLists(shapes, 'compile');
    this.#requireAlive('compile');
    const compiled = await this.#session.compile(lists);
    this.#requireAlive('compile');
    return compiled;
  }

  /**
   * Describes the computation of `run()` for these shapes, up to the first value that data decide.
   *
   * @param {Record<string, readonly number[]>} shapes
   */
  async describe(shapes = {}) {
    const lists = shapeLists(shapes, 'describe');
    this.#requireAlive('describe');
    return this.#session.describe(lists);
  }

  /** Where the weights are. */
  get memory() {
    return this.#session.memory;
  }

  /** Waits until what was packed is on disk, if it should be. */
  async saved() {
    this.#requireAlive('saved');
    return this.#session.saved();
  }

  /** Frees what the next run makes again, after all runs that have begun. */
  async release() {
    this.#requireAlive('release');
    return this.#session.release();
  }

  /** Frees everything, and the context if the model made it. Runs that have begun finish normally. */
  destroy() {
    this.#isDestroyed = true;
    this.#session.destroy();
    this.#releaseContext();
  }

  /** Destroys the model's own context as soon as nothing needs it. */
  #releaseContext() {
    if (this.#ownsContext && this.#isDestroyed && this.#session.pending === 0) {
      this.context.destroy();
    }
  }

  /**
   * @param {string} operation
   * @throws {DOMException} InvalidStateError with a code if the model is destroyed or its context lost
   */
  #requireAlive(operation) {
    if (this.#isDestroyed) {
      throw codedError('ERR_WEBNN_DESTROYED', `${operation}: the model is destroyed`);
    }
    this.#contextState.requireForModel(operation);
  }
}

/**
 * Returns shapes of inputs by name as the native side takes them; it checks for valid sizes.
 *
 * @param {unknown} shapes
 * @param {string} operation for messages
 * @throws {TypeError} for anything but lists of numbers
 */
function shapeLists(shapes, operation) {
  return converting(() => {
    if (!isObject(shapes)) {
      throw conversionError(`${operation}: shapes`, undefined, 'an object', shapes);
    }
    return Object.entries(shapes).map(([name, shape]) => {
      if (!Array.isArray(shape)) {
        throw conversionError(`${operation}: shapes`, name, 'a list of sizes', shape);
      }
      const sizes = requireNumbers(Array.from(shape), () => `${operation}: shapes[${quote(name)}]`);
      return /** @type {[string, number[]]} */ ([name, sizes]);
    });
  });
}

/** @type {[symbol | undefined, Function][]} */
const METHODS = [
  [
    Symbol.dispose,
    /** @this {OnnxModel} */ function dispose() {
      this.destroy();
    },
  ],
  [
    Symbol.asyncDispose,
    /** @this {OnnxModel} */ async function asyncDispose() {
      this.destroy();
    },
  ],
  [
    Symbol.for('nodejs.util.inspect.custom'),
    /**
     * @this {OnnxModel}
     * @param {number} depth
     * @param {object} options
     * @param {(value: unknown, options: object) => string} show
     */
    function inspect(depth, options, show) {
      const shown = (/** @type {readonly import('../../onnx.js').OnnxValueInfo[]} */ values) =>
        Object.fromEntries(values.map(({ name, dataType, shape }) => [name, `${dataType} ${shape === null ? '?' : `[${shape.join(', ')}]`}`]));
      return `OnnxModel ${show({ inputs: shown(this.inputs), outputs: shown(this.outputs) }, options)}`;
    },
  ],
];

for (const [symbol, value] of METHODS) {
  // Not all runtimes have all symbols.
  if (symbol !== undefined) {
    Object.defineProperty(OnnxModel.prototype, symbol, { value, writable: true, configurable: true });
  }
}

/**
 * Checks and converts the options of `loadModel`, except for names in the model, which the native side checks.
 *
 * @param {unknown} options
 * @returns {LoadOptions}
 * @throws {TypeError}
 */
function toLoadOptions(options) {
  const { context, device, numThreads, constants, idle, signal, ...wanted } = toOptions(options, LOAD_OPTIONS, 'loadModel');
  if (device !== undefined && !Object.hasOwn(DEVICES, /** @type {PropertyKey} */ (device))) {
    throw conversionError('loadModel: device', undefined, '"auto", "cpu" or "gpu"', device);
  }
  if (context !== undefined && (device !== undefined || numThreads !== undefined)) {
    throw new TypeError('loadModel: device and numThreads are for a new context, but context is given');
  }
  if (signal !== undefined && (!isObject(signal) || typeof signal.aborted !== 'boolean' || typeof signal.addEventListener !== 'function')) {
    throw conversionError('loadModel: signal', undefined, 'an AbortSignal', signal);
  }
  const state = context === undefined ? undefined : requireContext(context, 'loadModel: context');
  if (numThreads !== undefined) {
    requireThreadCount(enforcedUnsignedLong(numThreads, 'loadModel: numThreads'), 'loadModel: numThreads');
  }
  return {
    context: /** @type {import('../../index.js').MLContext | undefined} */ (context),
    state,
    device: /** @type {LoadOptions['device']} */ (device),
    numThreads: /** @type {LoadOptions['numThreads']} */ (numThreads),
    signal: /** @type {LoadOptions['signal']} */ (signal),
    dimensions: freeDimensions(wanted.freeDimensions, 'loadModel'),
    strictDimensions: strictness(wanted.strictDimensions, 'loadModel'),
    outputs: outputNames(wanted.outputs, 'loadModel'),
    keepLast: keptCounts(wanted.keepLast, 'loadModel'),
    constants: constants === undefined ? new Map() : toConstants(constants),
    idle: idle === undefined ? undefined : toIdle(idle),
    externalFiles: externalFiles(wanted.externalData, 'loadModel'),
    transfers: transfers(wanted.transfer, 'loadModel'),
    cache: toCache(wanted.cache, 'loadModel: cache'),
  };
}

/**
 * @param {unknown} idle
 * @returns {number} milliseconds without a run after which a model frees what it can make again
 * @throws {TypeError}
 */
function toIdle(idle) {
  const milliseconds = enforcedUnsignedLong(idle, 'loadModel: idle');
  if (milliseconds < 1) {
    throw new TypeError('loadModel: idle is 0, expected at least 1 millisecond');
  }
  return milliseconds;
}

/** Returns the name of a constant in messages. */
const constantName = (/** @type {string} */ name) => `loadModel: constant ${quote(name)}`;

/**
 * Returns feeds for inputs that are fixed when the model is loaded, by name, with copies of their data.
 *
 * @param {unknown} constants
 */
function toConstants(constants) {
  const toConstant = record((value, what, name) => {
    if (tensorSlots.get(value) !== undefined) {
      throw new TypeError(`${constantName(name)} is an MLTensor, expected data`);
    }
    return toFeedOfData(constantName(name), value, name, []);
  });
  /** @type {Map<string, Constant>} */
  const copies = new Map();
  for (const [name, feed] of toConstant(constants, 'loadModel: constants')) {
    copies.set(name, { ...feed, bytes: copyOf(attachedBytes(feed.data, feed.kind, constantName(name))) });
  }
  return copies;
}

/**
 * Creates a context for a model.
 *
 * @param {LoadOptions} options
 */
async function createContext({ device = 'auto', numThreads }) {
  const context = await ml.createContext({ ...DEVICES[device], ...(numThreads === undefined ? {} : { numThreads }) });
  const state = requireContext(context, 'loadModel: context');
  if (device === 'gpu' && state.device !== 'gpu') {
    const { reason } = state.describe('loadModel');
    context.destroy();
    throw codedError('ERR_WEBNN_NOT_SUPPORTED', `loadModel: device is "gpu", but no GPU can be used: ${reason}`);
  }
  return context;
}

/**
 * Starts to open a native model.
 *
 * @param {string | Uint8Array} source from `toModelSource`
 * @param {Pick<LoadOptions, 'externalFiles' | 'transfers'>} options
 * @returns {Promise<{handle: import('../internal.js').Handle<'model'>, description: Description}>} a native model, and
 *   its inputs, outputs and metadata
 */
function openModel(source, { externalFiles, transfers }) {
  const given = transfers ? transferred(source, externalFiles, 'loadModel') : { source, files: externalFiles };
  const id = native.completions.nextId();
  native.openModel(id, given.source, given.files, transfers);
  return native.completions.outcome(id, (error, /** @type {[import('../internal.js').Handle<'model'>, string]} */ made) => {
    if (error !== undefined) {
      throw error;
    }
    const [handle, json] = made;
    return { handle, description: JSON.parse(json) };
  });
}

/**
 * Returns the constants as the native side takes them, for a model with these inputs.
 *
 * @param {Map<string, Constant>} constants
 * @param {import('../../onnx.js').OnnxValueInfo[]} inputs
 */
function constantsFor(constants, inputs) {
  return [...constants].map(([name, feed]) => {
    const input = inputs.find((candidate) => candidate.name === name);
    const { shape, bytes } = feed;
    return converting(() => {
      if (input === undefined) {
        return { name, shape, bytes };
      }
      requireType(feed, input.dataType, constantName(name));
      return { name, shape, bytes: nativeBytes(bytes, input.dataType, constantName(name)) };
    });
  });
}

/**
 * @param {ReturnType<typeof openModel>} opening
 * @param {string | undefined} path of the model, unless it comes as bytes
 * @param {LoadOptions} options
 * @param {import('../internal.js').Handle<'stop'>} stop native; ends the load
 */
async function load(opening, path, options, stop) {
  const creating = options.context === undefined ? createContext(options) : Promise.resolve(options.context);
  const [opened, created] = await Promise.allSettled([opening, creating]);
  const ownsContext = options.context === undefined;
  try {
    if (opened.status === 'rejected') {
      throw opened.reason;
    }
    if (created.status === 'rejected') {
      throw created.reason;
    }
    options.signal?.throwIfAborted();
    const { handle, description } = opened.value;
    const context = created.value;
    const { dimensions, strictDimensions, outputs, keepLast, idle, cache } = options;
    const constants = constantsFor(options.constants, [...description.inputs, ...description.optionalInputs]);
    const warn = strictDimensions === undefined ? warnAboutDimensions : undefined;
    const state = requireContext(context, 'loadModel: context');
    const toSession = (
      /** @type {import('../internal.js').Handle<'session'>} */ native,
      /** @type {import('../internal.js').Signature} */ signature,
      /** @type {string | null} */ problem,
    ) => {
      if (problem !== null) {
        warnAboutCache('loadModel', problem);
      }
      return new Session(state, native, signature, warn);
    };
    state.requireForModel('loadModel');
    const session = await state.openSession(handle, { dimensions, strictDimensions, outputs, keepLast, constants, idle, cache }, stop, toSession);
    warnAboutDoubles(description.computedAsFloat32, path);
    return new OnnxModel(CONSTRUCT, { session, context, ownsContext, description });
  } catch (error) {
    if (ownsContext && created.status === 'fulfilled') {
      created.value.destroy();
    }
    // The native side reports its errors from the event loop, without the frames of the caller. V8 finds them from
    // here.
    if (error instanceof Error && error !== options.signal?.reason) {
      Error.captureStackTrace(error);
    }
    throw error;
  }
}

/**
 * Loads a model. If the shapes of its inputs are known, it is compiled as well.
 *
 * @param {import('../../onnx.js').OnnxSource} source
 * @param {import('../../onnx.js').OnnxLoadOptions} options
 * @returns {Promise<OnnxModel>}
 */
async function loadModel(source, options = {}) {
  const checked = converting(() => toLoadOptions(options), loadModel);
  const from = converting(() => toModelSource(source, 'loadModel'), loadModel);
  const { signal, state } = checked;
  state?.requireForModel('loadModel');
  signal?.throwIfAborted();
  const opening = converting(() => openModel(from, checked));
  const stop = native.newStop();
  const loading = load(opening, typeof from === 'string' ? from : undefined, checked, stop);
  return signal === undefined ? loading : untilAborted(signal, loading, stop);
}

/**
 * Waits for `loading`. If the signal aborts first, rejects with its reason, ends the work, and destroys the model if it
 * still arrives.
 *
 * @param {import('../../onnx.js').OnnxAbortSignal} signal
 * @param {Promise<OnnxModel>} loading
 * @param {import('../internal.js').Handle<'stop'>} stop native
 * @returns {Promise<OnnxModel>}
 */
function untilAborted(signal, loading, stop) {
  return new Promise((resolve, reject) => {
    const abort = () => {
      reject(signal.reason);
      native.stop(stop);
      loading.then(
        (model) => model.destroy(),
        () => {},
      ); // the caller has the signal's reason
    };
    signal.addEventListener('abort', abort, { once: true });
    loading.then(resolve, reject).finally(() => signal.removeEventListener('abort', abort));
  });
}

/**
 * Opens a native model synchronously.
 *
 * @param {import('../../onnx.js').OnnxSource} source
 * @param {unknown} externalData
 * @param {string} operation for messages
 * @param {Function} method that the program called
 */
function readModel(source, externalData, operation, method) {
  const [from, files] = converting(() => [toModelSource(source, operation), externalFiles(externalData, operation)], method);
  return native.readModel(from, files, operation);
}

/**
 * Appends a model to a graph under construction.
 *
 * @param {import('../../index.js').MLGraphBuilder} builder
 * @param {import('../../onnx.js').OnnxSource} source
 * @param {Record<string, import('../../index.js').MLOperand>} bindings
 * @param {import('../../onnx.js').OnnxImportOptions} options
 * @returns {Record<string, import('../../index.js').MLOperand>} the outputs by name
 */
function importModel(builder, source, bindings = {}, options = {}) {
  const { state, operands, dimensions, strictDimensions, wanted, externalData } = converting(() => {
    const { freeDimensions: sizes, outputs, ...others } = toOptions(options, ['freeDimensions', 'strictDimensions', 'outputs', 'externalData'], 'importModel');
    return {
      externalData: others.externalData,
      strictDimensions: strictness(others.strictDimensions, 'importModel') === true,
      state: requireBuilder(builder, 'importModel: builder'),
      operands: toBindings(bindings, 'importModel: bindings'),
      dimensions: freeDimensions(sizes, 'importModel'),
      wanted: outputNames(outputs, 'importModel'),
    };
  }, importModel);
  const model = readModel(source, externalData, 'importModel', importModel);
  const { outputs } = state.append((handle, idOf) => {
    const ids = [...operands].map(([name, operand]) => idOf(operand, `binding ${quote(name)}`));
    const request = { dimensions, strictDimensions, outputs: wanted, inputs: [...operands.keys()], operands: ids };
    return JSON.parse(native.importModel(handle, model, request));
  }, 'importModel');
  const empty = outputs.find(({ operand }) => operand === null);
  if (empty !== undefined) {
    const message = `importModel: the output ${quote(empty.name)} has no elements, and an MLOperand cannot be empty`;
    throw codedError('ERR_WEBNN_SHAPE', message);
  }
  return Object.fromEntries(outputs.map(({ name, operand }) => [name, /** @type {import('../../index.js').MLOperand} */ (operand)]));
}

/**
 * Describes a model without building it.
 *
 * @param {import('../../onnx.js').OnnxSource} source
 * @param {Omit<import('../../onnx.js').OnnxImportOptions, 'outputs'>} options
 * @returns {import('../../onnx.js').OnnxInspection}
 */
function inspectModel(source, options = {}) {
  const { dimensions, externalData } = converting(() => {
    const { freeDimensions: sizes, externalData } = toOptions(options, ['freeDimensions', 'externalData'], 'inspectModel');
    return { dimensions: freeDimensions(sizes, 'inspectModel'), externalData };
  }, inspectModel);
  return JSON.parse(native.inspectModel(readModel(source, externalData, 'inspectModel', inspectModel), dimensions));
}

/**
 * Lists the supported operators.
 *
 * @returns {ReturnType<typeof import('../../onnx.js').supportedOperators>}
 */
function supportedOperators() {
  return JSON.parse(native.supportedOnnxOperators());
}

/**
 * Lists the operators that are known and not supported.
 *
 * @returns {ReturnType<typeof import('../../onnx.js').unsupportedOperators>}
 */
function unsupportedOperators() {
  return JSON.parse(native.absentOnnxOperators());
}

module.exports = { OnnxModel, importModel, inspectModel, loadModel, supportedOperators, unsupportedOperators };
