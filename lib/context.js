'use strict';

const process = require('node:process');

const { warnAboutCache } = require('./cache.js');
const { dataTypeIndex, matchingBytes } = require('./descriptor.js');
const { donationsOf, toDispatchOptions } = require('./donation.js');
const { amount, illegalConstructor, illegalInvocation, invalidStateError, quote, unknownError, withCode } = require('./errors.js');
const { matchTensors, slots: graphSlots } = require('./graph.js');
const { draftConstants, int4Constants } = require('./int4.js');
const native = require('./native.js');
const { defineSlots } = require('./slots.js');
const { Tensor, createMLTensor, slots: tensorSlots } = require('./tensor.js');
const { dictionaryConverter } = require('./types.js');
const { WeakCollection } = require('./weak-collection.js');
const { bufferSource, byteLengthOf, defineInterface, interfaceType, record, requireArguments } = require('./webidl.js');

const { ArrayBuffer, Float64Array, Promise, Uint8Array, WeakRef } = globalThis;
const reject = Promise.reject.bind(Promise);

/** @type {import('./internal.js').Slots<Context, import('../index.js').MLContext>} */
const slots = defineSlots();

const toGraph = interfaceType('MLGraph', graphSlots);
const toTensor = interfaceType('MLTensor', tensorSlots);
const toNamedTensors = record(toTensor);
const toTensorDescriptor = dictionaryConverter('MLTensorDescriptor');

/** @typedef {{destroy(): void}} Resource destroyed with its context */

/** Number of the latest dispatch of this environment. */
let dispatches = 0;

/**
 * JSON reviver that sorts members in code unit order, like all dictionaries that leave the API.
 *
 * @param {string} key
 * @param {unknown} value
 */
function inMemberOrder(key, value) {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    return value;
  }
  return Object.fromEntries(
    Object.keys(value)
      .sort()
      .map((name) => [name, /** @type {Record<string, unknown>} */ (value)[name]]),
  );
}

/**
 * Creates the function that loses a context when its GPU is lost. The native context may also end without a loss, in
 * Deno even while the object still exists, at the end of the process: there is then nothing left to lose. The function
 * is created here because it must not keep the context alive. One created in the constructor would, through the scope
 * that it shares with others.
 *
 * @param {WeakRef<Context>} context
 * @returns {(error: import('./internal.js').CodedError) => void}
 */
const losing = (context) => (error) => {
  if (error.code === 'ERR_WEBNN_DEVICE_LOST') {
    context.deref()?.lose(error.message, error.code);
  }
};

/** The warnings that were shown: each is shown once. @type {Set<string>} */
const warnings = new Set();

/** @param {string} message */
function warnOnce(message) {
  if (!warnings.has(message)) {
    warnings.add(message);
    process.emitWarning(message, { type: 'WebnnWarning', code: 'WARN_WEBNN_GPU' });
  }
}

/** @param {Error} problem of packed constants on disk; an InvalidStateError if the context has ended without one */
function warnAboutProblem({ name, message }) {
  if (name !== 'InvalidStateError') {
    warnAboutCache('createContext', message);
  }
}

/** State of an MLContext. */
class Context {
  #handle;
  /** @type {(info: {message: string}) => void} */
  #resolveLost = () => {};
  /**
   * Tensors and graphs.
   *
   * @type {import('./internal.js').WeakMembers<Resource>}
   */
  #resources = new WeakCollection();

  /** The code for errors of models on a lost context; undefined before the loss. @type {string | undefined} */
  #lossCode;

  /**
   * @param {import('./internal.js').Handle<'context'>} handle native context
   * @param {number} lostId id under which the native side reports the loss of the GPU
   * @param {boolean} accelerated the preference at creation
   * @param {readonly string[]} extensions by name
   */
  constructor(handle, lostId, accelerated, extensions) {
    this.#handle = handle;
    this.accelerated = accelerated;
    this.hasDonation = extensions.includes('donation');
    this.hasDynamicShapes = extensions.includes('dynamic-shapes');
    this.hasInt4 = extensions.includes('int4');
    /** @type {Promise<{message: string}>} */
    this.lost = new Promise((resolve) => {
      this.#resolveLost = resolve;
    });
    native.completions.watch(lostId, losing(new WeakRef(this)));
  }

  /**
   * Begins to create a context.
   *
   * @param {import('./internal.js').NativeContextOptions} options
   * @param {readonly string[]} extensions by name
   * @returns {Promise<import('../index.js').MLContext>}
   */
  static create(options, extensions) {
    const [id, lostId, problemId] = Array.from({ length: 3 }, () => native.completions.nextId());
    const context = new Context(native.createContext(id, lostId, problemId, options), lostId, options.accelerated, extensions);
    if (options.cache !== undefined) {
      native.completions.watch(problemId, warnAboutProblem);
    }
    return native.completions.outcome(id, (error) => {
      if (error !== undefined) {
        throw error;
      }
      const warning = native.contextWarning(context.#handle);
      if (warning !== null) {
        warnOnce(warning);
      }
      return createMLContext(context);
    });
  }

  /** @returns {import('./internal.js').Handle<'builder'>} a new native builder */
  createBuilder() {
    return native.createBuilder(this.#handle, this.hasDynamicShapes);
  }

  /** Converters for descriptors of constants. */
  get constants() {
    return this.hasInt4 ? int4Constants : draftConstants;
  }

  /** @returns {'cpu' | 'gpu'} the device of an open context */
  get device() {
    return native.contextDevice(this.#handle);
  }

  /**
   * @param {string} operation for messages
   * @returns {import('../inspect.js').ContextDescription} a new object
   * @throws {DOMException} InvalidStateError if the context is lost
   */
  describe(operation) {
    this.requireNotLost(operation);
    return JSON.parse(native.describeContext(this.#handle));
  }

  /**
   * Begins to open a session.
   *
   * @template {Resource} T
   * @param {import('./internal.js').Handle<'model'>} model native
   * @param {import('./internal.js').SessionOptions} options for the native side
   * @param {import('./internal.js').Handle<'stop'>} stop native; ends the opening
   * @param {(handle: import('./internal.js').Handle<'session'>, signature: import('./internal.js').Signature, problem: string | null) => T}
   *   toResource creates the object that is destroyed with the context
   * @returns {Promise<T>}
   */
  openSession(model, options, stop, toResource) {
    this.requireForModel('loadModel');
    const id = native.completions.nextId();
    native.openSession(this.#handle, model, id, options, stop);
    return native.completions.outcome(id, (error, /** @type {[import('./internal.js').Handle<'session'>, string, string | null]} */ made) => {
      if (error !== undefined) {
        throw error;
      }
      const [handle, signature, problem] = made;
      const resource = toResource(handle, JSON.parse(signature), problem);
      if (this.isLost) {
        resource.destroy();
      }
      this.requireForModel('loadModel');
      this.#resources.add(resource);
      return resource;
    });
  }

  /** Whether the context was destroyed or its GPU lost. */
  get isLost() {
    return this.#lossCode !== undefined;
  }

  /** For tests: loses the GPU, if the context has one, as a failing driver would. */
  loseDevice() {
    native.loseDevice(this.#handle);
  }

  /**
   * @param {string} operation
   * @throws {DOMException} InvalidStateError if the context is lost
   */
  requireNotLost(operation) {
    if (this.isLost) {
      throw invalidStateError(`${operation}: the context is lost`);
    }
  }

  /**
   * Like `requireNotLost`, for functions of models: their errors have codes.
   *
   * @param {string} operation
   * @throws {DOMException} InvalidStateError with a code if the context is lost
   */
  requireForModel(operation) {
    try {
      this.requireNotLost(operation);
    } catch (error) {
      throw withCode(/** @type {Error} */ (error), /** @type {string} */ (this.#lossCode));
    }
  }

  /**
   * The draft's steps to lose a context.
   *
   * @param {string} message for `MLContext.lost`
   * @param {string} code for errors of models
   */
  lose(message, code) {
    if (this.isLost) {
      return;
    }
    this.#lossCode = code;
    this.#resolveLost({ message });
    for (const resource of this.#resources.drain()) {
      resource.destroy();
    }
    native.destroyContext(this.#handle);
  }

  /** @returns {import('../index.js').MLOpSupportLimits} a new object */
  opSupportLimits() {
    return JSON.parse(native.supportLimits(this.#handle, this.hasInt4), inMemberOrder);
  }

  /**
   * @param {import('./internal.js').Dictionaries['MLTensorDescriptor']} descriptor
   * @returns {Promise<import('../index.js').MLTensor>}
   */
  createTensor(descriptor) {
    this.requireNotLost('createTensor');
    const { dataType, shape } = descriptor;
    const id = native.completions.nextId();
    const handle = native.createTensor(this.#handle, id, dataTypeIndex(dataType), shape);
    return this.#outcome('createTensor', id, new Tensor(this, handle, descriptor, false), createMLTensor);
  }

  /**
   * Creates the MLTensor for a native tensor that a run has created.
   *
   * @param {import('./internal.js').Handle<'tensor'>} handle
   * @param {import('./internal.js').Descriptor & {readable: boolean, writable: boolean}} descriptor
   */
  adoptTensor(handle, descriptor) {
    const tensor = new Tensor(this, handle, descriptor, false);
    this.#resources.add(tensor);
    return createMLTensor(tensor);
  }

  /**
   * @param {import('./internal.js').Dictionaries['MLOperandDescriptor']} descriptor
   * @param {unknown} data
   * @param {string} kind of the data, from `bufferSource`
   * @returns {Promise<import('../index.js').MLTensor>}
   */
  createConstantTensor(descriptor, data, kind) {
    this.requireNotLost('createConstantTensor');
    const { dataType, shape } = descriptor;
    const bytes = matchingBytes(data, kind, descriptor, 'createConstantTensor: inputData');
    const id = native.completions.nextId();
    const handle = native.createConstantTensor(this.#handle, id, dataTypeIndex(dataType), shape, bytes);
    return this.#outcome('createConstantTensor', id, new Tensor(this, handle, descriptor, true), createMLTensor);
  }

  /**
   * Compiles the graph of a builder.
   *
   * @param {import('./internal.js').Handle<'builder'>} builder native builder
   * @param {string[]} names of the outputs
   * @param {number[]} ids of the operands that they name
   * @param {(handle: import('./internal.js').Handle<'graph'>, inputs: string[]) => T} toResource creates the state of
   *   the MLGraph from the native graph and the names of its inputs
   * @param {(state: T) => import('../index.js').MLGraph} toObject
   * @returns {Promise<import('../index.js').MLGraph>}
   * @template {Resource} T
   */
  build(builder, names, ids, toResource, toObject) {
    const id = native.completions.nextId();
    const { graph, inputs } = native.build(this.#handle, builder, id, names, ids);
    return this.#outcome('build', id, toResource(graph, inputs), toObject);
  }

  /**
   * Creates a graph from the operators of a builder with named dimensions.
   *
   * @param {import('./internal.js').Handle<'builder'>} builder native builder
   * @param {string[]} names of the outputs
   * @param {number[]} ids of the operands that they name
   * @param {(handle: import('./internal.js').Handle<'dynamicGraph'>, inputs: string[]) => T} toResource as for `build`
   * @param {(state: T) => import('../index.js').MLGraph} toObject
   * @returns {Promise<import('../index.js').MLGraph>}
   * @template {Resource} T
   */
  async buildDynamic(builder, names, ids, toResource, toObject) {
    const { graph, inputs } = native.dynamicBuild(this.#handle, builder, names, ids);
    const resource = toResource(graph, inputs);
    this.#resources.add(resource);
    await undefined;
    this.requireNotLost('build');
    return toObject(resource);
  }

  /**
   * Returns the promise of an object whose creation has begun; the object belongs to the context from now on.
   *
   * @template {Resource} R
   * @template T
   * @param {string} operation
   * @param {number} id
   * @param {R} resource
   * @param {(resource: R) => T} toObject
   * @returns {Promise<T>}
   */
  #outcome(operation, id, resource, toObject) {
    this.#resources.add(resource);
    return native.completions.outcome(id, (error) => {
      if (error !== undefined) {
        throw error;
      }
      // The context may have been lost while the completion was on its way.
      this.requireNotLost(operation);
      return toObject(resource);
    });
  }

  /**
   * Checks a tensor for readTensor or writeTensor.
   *
   * @param {string} operation
   * @param {import('./internal.js').TensorState} tensor
   * @param {'readable' | 'writable'} use
   * @throws {TypeError}
   */
  #requireUsable(operation, tensor, use) {
    if (tensor.context !== this) {
      throw new TypeError(`${operation}: tensor belongs to another context`);
    }
    if (tensor.isDestroyed) {
      throw new TypeError(`${operation}: tensor is destroyed`);
    }
    if (!tensor[use]) {
      throw new TypeError(`${operation}: tensor was created without ${use}: true`);
    }
  }

  /**
   * @param {import('./internal.js').TensorState} tensor
   * @returns {Promise<ArrayBuffer>}
   */
  readTensor(tensor) {
    this.#requireUsable('readTensor', tensor, 'readable');
    return this.#read(tensor, (read) => {
      const result = newBuffer('readTensor', tensor.byteLength);
      native.takeRead(read, new Uint8Array(result));
      return result;
    });
  }

  /**
   * @param {import('./internal.js').TensorState} tensor
   * @param {unknown} output
   * @param {string} kind of the output, from `bufferSource`
   * @returns {Promise<void>}
   */
  readTensorInto(tensor, output, kind) {
    this.#requireUsable('readTensor', tensor, 'readable');
    const bytes = matchingBytes(output, kind, tensor, 'readTensor: outputData', tensor.byteLength);
    return this.#read(tensor, (read) => {
      if (byteLengthOf(bytes, 'Uint8Array') !== tensor.byteLength) {
        throw new TypeError('readTensor: outputData was detached before the read was done');
      }
      native.takeRead(read, bytes);
    });
  }

  /**
   * @template T
   * @param {import('./internal.js').TensorState} tensor
   * @param {(read: import('./internal.js').Handle<'read'>) => T} take
   */
  #read(tensor, take) {
    const id = native.completions.nextId();
    const read = native.readTensor(this.#handle, id, tensor.handle);
    return tensor.pendingRead(id, () => take(read));
  }

  /**
   * @param {import('./internal.js').TensorState} tensor
   * @param {unknown} data
   * @param {string} kind of the data, from `bufferSource`
   */
  writeTensor(tensor, data, kind) {
    this.#requireUsable('writeTensor', tensor, 'writable');
    const bytes = matchingBytes(data, kind, tensor, 'writeTensor: inputData', tensor.byteLength);
    native.writeTensor(this.#handle, tensor.handle, bytes);
  }

  /**
   * @param {import('./internal.js').GraphState} graph
   * @param {Map<string, import('./internal.js').TensorState>} inputs
   * @param {Map<string, import('./internal.js').TensorState>} outputs
   * @param {Map<string, string>} [donate] names of inputs, by the names of the outputs that take over their memory
   */
  dispatch(graph, inputs, outputs, donate = new Map()) {
    const { inputHandles, outputHandles } = this.#bind('dispatch', graph, inputs, outputs);
    graph.dispatch(this.#handle, inputHandles, outputHandles, donationsOf(graph, donate));
  }

  /**
   * Dispatches a graph several times in one request, and measures its steps.
   *
   * @param {import('./internal.js').GraphState} graph
   * @param {Map<string, import('./internal.js').TensorState>} inputs
   * @param {Map<string, import('./internal.js').TensorState>} outputs
   * @param {{runs: number, warmup: number}} counts already checked
   * @returns {Promise<import('../inspect.js').GraphProfile>}
   */
  profile(graph, inputs, outputs, { runs, warmup }) {
    const { inputHandles, outputHandles } = this.#bind('profileGraph', graph, inputs, outputs);
    graph.requireProfilable('profileGraph');
    // Described now: the graph may be destroyed before the profile is complete.
    const description = graph.describe('profileGraph');
    const id = native.completions.nextId();
    const times = native.profile(this.#handle, id, graph.handle, inputHandles, outputHandles, warmup, runs);
    return native.completions.outcome(id, (error) => {
      if (error !== undefined) {
        throw error;
      }
      return { description, runs: runTimes(times, runs, description.steps.length) };
    });
  }

  /**
   * Checks the arguments of an operation that runs a graph.
   *
   * @param {string} operation
   * @param {import('./internal.js').GraphState} graph
   * @param {Map<string, import('./internal.js').TensorState>} inputs
   * @param {Map<string, import('./internal.js').TensorState>} outputs
   * @returns {{inputHandles: import('./internal.js').Handle<'tensor'>[], outputHandles: import('./internal.js').Handle<'tensor'>[]}} native tensors in the order of the graph
   */
  #bind(operation, graph, inputs, outputs) {
    if (graph.context !== this) {
      throw new TypeError(`${operation}: graph belongs to another context`);
    }
    graph.requireNotDestroyed(operation);
    const number = ++dispatches;
    this.#requireDistinct(operation, inputs, 'input', number);
    this.#requireDistinct(operation, outputs, 'output', number);
    this.#requireAlive(operation, inputs, 'input');
    this.#requireAlive(operation, outputs, 'output');
    return {
      inputHandles: matchTensors(operation, 'input', inputs, graph),
      outputHandles: matchTensors(operation, 'output', outputs, graph),
    };
  }

  /**
   * @param {string} operation
   * @param {Map<string, import('./internal.js').TensorState>} tensors
   * @param {string} kind
   * @param {number} number
   * @throws {TypeError} if a tensor was seen in this dispatch before
   */
  #requireDistinct(operation, tensors, kind, number) {
    for (const [name, tensor] of tensors) {
      if (tensor.lastDispatch === number) {
        throw new TypeError(`${operation}: the tensor of ${kind} ${quote(name)} is passed more than once`);
      }
      tensor.lastDispatch = number;
    }
  }

  /**
   * Checks a tensor of a model's run.
   *
   * @param {string} what its name in messages
   * @param {import('./internal.js').TensorState} tensor
   * @throws {TypeError} if it is of another context, destroyed or a constant
   */
  requireBindable(what, tensor) {
    if (tensor.context !== this) {
      throw new TypeError(`${what} belongs to another context`);
    }
    if (tensor.isDestroyed) {
      throw new TypeError(`${what} is destroyed`);
    }
    if (tensor.constant) {
      throw new TypeError(`${what} is a constant tensor, expected one of createTensor`);
    }
  }

  /**
   * @param {string} operation
   * @param {Map<string, import('./internal.js').TensorState>} tensors
   * @param {string} kind
   * @throws {TypeError} if a tensor is of another context or destroyed
   */
  #requireAlive(operation, tensors, kind) {
    for (const [name, tensor] of tensors) {
      if (tensor.context !== this) {
        throw new TypeError(`${operation}: the tensor of ${kind} ${quote(name)} belongs to another context`);
      }
      if (tensor.isDestroyed) {
        throw new TypeError(`${operation}: the tensor of ${kind} ${quote(name)} is destroyed`);
      }
    }
  }
}

/**
 * @param {string} operation
 * @param {number} length
 * @throws {DOMException} UnknownError if there is no memory for the buffer
 */
function newBuffer(operation, length) {
  try {
    return new ArrayBuffer(length);
  } catch {
    throw unknownError(`${operation}: no memory for an ArrayBuffer of ${amount(length, 'byte')}`);
  }
}

/**
 * Reads the times of a finished profile.
 *
 * @param {import('./internal.js').Handle<'read'>} times native snapshot: start and duration of each run, and of each of its steps, as float64
 * @param {number} runs
 * @param {number} steps of the graph
 * @returns {{start: number, duration: number, steps: {start: number, duration: number}[]}[]}
 */
function runTimes(times, runs, steps) {
  const numbers = new Float64Array(newBuffer('profileGraph', runs * (steps + 1) * 2 * Float64Array.BYTES_PER_ELEMENT));
  native.takeRead(times, new Uint8Array(numbers.buffer));
  let at = 0;
  const next = () => ({ start: numbers[at++], duration: numbers[at++] });
  return Array.from({ length: runs }, () => ({ ...next(), steps: Array.from({ length: steps }, next) }));
}

/**
 * @param {unknown} context
 * @param {string} member
 */
function stateOf(context, member) {
  const state = slots.get(context);
  if (state === undefined) {
    throw illegalInvocation(`MLContext.${member}`, 'MLContext');
  }
  return state;
}

/** https://www.w3.org/TR/webnn/#api-mlcontext */
class MLContext {
  constructor() {
    throw illegalConstructor('MLContext');
  }

  /**
   * @param {unknown} graph
   * @param {unknown} inputs
   * @param {unknown} outputs
   * @param {unknown} [options] of the extension "donation"
   */
  dispatch(graph, inputs, outputs, options = undefined) {
    const context = stateOf(this, 'dispatch');
    requireArguments('dispatch', arguments.length, 3);
    context.dispatch(
      toGraph(graph, 'dispatch: graph'),
      toNamedTensors(inputs, 'dispatch: inputs'),
      toNamedTensors(outputs, 'dispatch: outputs'),
      context.hasDonation ? toDispatchOptions(options, 'dispatch: options').donate : undefined,
    );
  }

  /** @param {unknown} descriptor */
  createTensor(descriptor) {
    try {
      const context = stateOf(this, 'createTensor');
      requireArguments('createTensor', arguments.length, 1);
      return context.createTensor(toTensorDescriptor(descriptor, 'createTensor: descriptor'));
    } catch (error) {
      return reject(error);
    }
  }

  /**
   * @param {unknown} descriptor
   * @param {unknown} inputData
   */
  createConstantTensor(descriptor, inputData) {
    try {
      const context = stateOf(this, 'createConstantTensor');
      requireArguments('createConstantTensor', arguments.length, 2);
      return context.createConstantTensor(
        context.constants.toDescriptor(descriptor, 'createConstantTensor: descriptor'),
        inputData,
        bufferSource(inputData, 'createConstantTensor: inputData'),
      );
    } catch (error) {
      return reject(error);
    }
  }

  /**
   * @overload
   * @param {unknown} tensor
   * @returns {Promise<ArrayBuffer>}
   *
   * @overload
   * @param {unknown} tensor
   * @param {unknown} outputData
   * @returns {Promise<void>}
   *
   * @param {unknown} tensor
   * @param {unknown} [outputData]
   */
  readTensor(tensor, outputData = undefined) {
    try {
      const context = stateOf(this, 'readTensor');
      requireArguments('readTensor', arguments.length, 1);
      const source = toTensor(tensor, 'readTensor: tensor');
      if (arguments.length === 1) {
        return context.readTensor(source);
      }
      // The number of arguments selects the overload: an explicit undefined is not a buffer.
      return context.readTensorInto(source, outputData, bufferSource(outputData, 'readTensor: outputData'));
    } catch (error) {
      return reject(error);
    }
  }

  /**
   * @param {unknown} tensor
   * @param {unknown} inputData
   */
  writeTensor(tensor, inputData) {
    const context = stateOf(this, 'writeTensor');
    requireArguments('writeTensor', arguments.length, 2);
    const target = toTensor(tensor, 'writeTensor: tensor');
    context.writeTensor(target, inputData, bufferSource(inputData, 'writeTensor: inputData'));
  }

  opSupportLimits() {
    return stateOf(this, 'opSupportLimits').opSupportLimits();
  }

  destroy() {
    stateOf(this, 'destroy').lose('destroy() was called on the context', 'ERR_WEBNN_DESTROYED');
  }

  get accelerated() {
    return stateOf(this, 'accelerated').accelerated;
  }

  get lost() {
    const context = slots.get(this);
    // Attributes whose type is a promise reject instead of throwing.
    return context === undefined ? reject(illegalInvocation('MLContext.lost', 'MLContext')) : context.lost;
  }
}

/**
 * @param {Context} context
 * @returns {import('../index.js').MLContext}
 */
function createMLContext(context) {
  return slots.create(MLContext, context);
}

module.exports = { Context, MLContext: defineInterface(MLContext), createMLContext, slots };
