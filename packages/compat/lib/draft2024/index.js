'use strict';

/**
 * The interfaces of the editor's draft of 2024 on top of today's API: `MLContext.compute()` in place of tensors, and
 * the earlier names of types and options.
 */

const webnn = require('webnn-node');
const webidl = require('webnn-node/webidl');
const { isOneOf } = require('../foreign.js');
const { symmetricPad } = require('../spatial.js');
const { arrayBufferView } = require('../views.js');
const { MLActivation, activationMethods, withMembers } = require('./activations.js');
const { ComputableGraph } = require('./compute.js');

const { defineSlots, illegalConstructor, illegalInvocation, notSupportedError, quote } = webidl;
const { Promise, WeakMap } = globalThis;
const reject = Promise.reject.bind(Promise);
const { isObject } = webidl;
const { MLGraph, MLOperand } = webnn;

/** @type {import('webnn-node/webidl').Slots<object, import('../../index.js').draft2024.ML>} */
const mlSlots = defineSlots();
/** @type {import('webnn-node/webidl').Slots<import('webnn-node').MLContext, import('../../index.js').draft2024.MLContext>} */
const contextSlots = defineSlots();

/**
 * The state of `compute()`, by today's MLGraph.
 *
 * @type {WeakMap<object, InstanceType<typeof ComputableGraph>>}
 */
const graphs = new WeakMap();

const toContext = webidl.interfaceType('MLContext', contextSlots);
/** @type {import('webnn-node/webidl').Converter<{ deviceType: string, powerPreference: import('webnn-node').MLPowerPreference }>} */
const toContextOptions = webidl.dictionary([
  { name: 'deviceType', type: 'MLDeviceType', convert: webidl.enumeration(['cpu', 'gpu', 'npu']), default: 'cpu' },
  {
    name: 'powerPreference',
    type: 'MLPowerPreference',
    convert: webidl.enumeration(['default', 'high-performance', 'low-power']),
    default: 'default',
  },
]);
const toViews = webidl.record((value, what, key) => arrayBufferView(value, `${what}[${quote(String(key))}]`));
const toSizes = webidl.sequence(webidl.enforcedUnsignedLong);

/** Entry to the API. */
class ML {
  constructor() {
    throw illegalConstructor('ML');
  }

  /** @param {unknown} [options] */
  async createContext(options = undefined) {
    if (mlSlots.get(this) === undefined) {
      throw illegalInvocation('ML.createContext', 'ML');
    }
    if (isOneOf(['GPUDevice'], options)) {
      throw notSupportedError('createContext: contexts of a GPUDevice are not supported, expected options');
    }
    const { deviceType, powerPreference } = toContextOptions(options, 'createContext: options');
    const context = await webnn.ml.createContext(deviceType === 'cpu' ? { powerPreference, accelerated: false } : { powerPreference: 'high-performance' });
    return contextSlots.create(MLContext, context);
  }
}

/** The context in which graphs are built and computed. Its state is today's MLContext. */
class MLContext {
  constructor() {
    throw illegalConstructor('MLContext');
  }

  /**
   * @param {unknown} graph
   * @param {unknown} inputs
   * @param {unknown} outputs
   */
  compute(graph, inputs, outputs) {
    try {
      const context = contextSlots.get(this);
      if (context === undefined) {
        throw illegalInvocation('MLContext.compute', 'MLContext');
      }
      webidl.requireArguments('compute', arguments.length, 3);
      const computable = isObject(graph) ? graphs.get(graph) : undefined;
      if (computable === undefined) {
        throw new TypeError('compute: graph is not an MLGraph of a builder of this draft');
      }
      const given = toViews(inputs, 'compute: inputs');
      const wanted = toViews(outputs, 'compute: outputs');
      if (computable.context !== context) {
        throw new TypeError('compute: graph belongs to another context');
      }
      return computable.compute(given, wanted);
    } catch (error) {
      return reject(error);
    }
  }

  opSupportLimits() {
    const context = contextSlots.get(this);
    if (context === undefined) {
      throw illegalInvocation('MLContext.opSupportLimits', 'MLContext');
    }
    return context.opSupportLimits();
  }
}

/**
 * Converts a descriptor of any draft of 2023 or 2024 to today's member names.
 *
 * @param {unknown} descriptor
 * @returns {any}
 */
function todaysDescriptor(descriptor) {
  if (!isObject(descriptor)) {
    return descriptor;
  }
  const earlier = /** @type {Record<string, unknown>} */ (descriptor);
  const { dataType = earlier.type, shape = earlier.dimensions } = earlier;
  return { dataType, shape };
}

/**
 * @param {unknown} value
 * @param {string} what
 * @throws {TypeError} unless the value is an MLOperand, because its shape is read next
 */
function requireOperand(value, what) {
  if (!(value instanceof MLOperand)) {
    throw new TypeError(`${what} is not an MLOperand`);
  }
  return value;
}

const base = /** @type {Record<string, Function>} */ (/** @type {unknown} */ (webnn.MLGraphBuilder.prototype));

/** Builds graphs: today's builder plus earlier forms of its methods. */
class MLGraphBuilder extends webnn.MLGraphBuilder {
  #context;

  /** @param {unknown} context */
  constructor(context) {
    webidl.requireArguments('MLGraphBuilder', arguments.length, 1);
    const owner = toContext(context, 'MLGraphBuilder: context');
    super(owner);
    this.#context = owner;
  }

  /**
   * @param {any} name
   * @param {unknown} descriptor
   */
  input(name, descriptor) {
    webidl.requireArguments('input', arguments.length, 2);
    return super.input(name, todaysDescriptor(descriptor));
  }

  /**
   * @param {any} first
   * @param {any} [second]
   */
  constant(first, second = undefined) {
    webidl.requireArguments('constant', arguments.length, 1);
    if (arguments.length > 2) {
      throw notSupportedError('constant: ranges of numbers were removed from the drafts in 2024, expected a buffer');
    }
    if (typeof first === 'number' || typeof first === 'bigint') {
      return super.constant(second === undefined ? 'float32' : second, first);
    }
    webidl.requireArguments('constant', arguments.length, 2);
    return super.constant(todaysDescriptor(first), second);
  }

  /** @param {any} outputs */
  async build(outputs) {
    webidl.requireArguments('build', arguments.length, 1);
    const graph = await super.build(outputs);
    graphs.set(graph, new ComputableGraph(this.#context, graph));
    return graph;
  }

  /**
   * @param {any} input
   * @param {any} beginningPadding
   * @param {any} endingPadding
   * @param {any} [options]
   */
  pad(input, beginningPadding, endingPadding, options = undefined) {
    webidl.requireArguments('pad', arguments.length, 3);
    if (!isObject(options) || options.mode !== 'symmetric') {
      return super.pad(input, beginningPadding, endingPadding, options);
    }
    const beginning = toSizes(beginningPadding, 'pad: beginningPadding');
    const ending = toSizes(endingPadding, 'pad: endingPadding');
    return symmetricPad(baseOf(this), requireOperand(input, 'pad: input'), beginning, ending);
  }

  /**
   * @param {any} input
   * @param {[axis?: any, options?: any]} rest
   */
  softmax(input, ...rest) {
    if (rest.length > 0 && rest[0] !== undefined && !isObject(rest[0])) {
      return super.softmax(input, ...rest);
    }
    // Until spring 2024, softmax applied to the rows of a matrix.
    const { shape } = requireOperand(input, 'softmax: input');
    if (shape.length !== 2) {
      throw new TypeError(`softmax: input has shape [${shape.join(', ')}], expected rank 2 where no axis is given`);
    }
    return super.softmax(input, 1, rest[0]);
  }
}

/**
 * Returns a builder's methods in today's form, for code that builds with them.
 *
 * @param {object} builder
 * @returns {any}
 */
function baseOf(builder) {
  const method =
    (/** @type {string} */ name) =>
    (/** @type {unknown[]} */ ...args) =>
      base[name].apply(builder, args);
  return Object.fromEntries(['concat', 'identity', 'reverse', 'slice'].map((name) => [name, method(name)]));
}

/** Pooling with `roundingType`, the name of `outputShapeRounding` until 2025. */
/** @type {(name: string) => import('../internal.js').BuilderMethod} */
const poolMethod =
  (name) =>
  (builder, [input, options, ...rest]) => {
    const isEarlier = isObject(options) && options.roundingType !== undefined && options.outputShapeRounding === undefined;
    const todays = isEarlier ? withMembers(options, { outputShapeRounding: options.roundingType }) : options;
    return base[name].call(builder, input, todays, ...rest);
  };

/** `argMin` and `argMax` with `options.axes`, which became the argument `axis` in 2024. */
/** @type {(name: string) => import('../internal.js').BuilderMethod} */
const argMethod = (name) => (builder, args) => {
  const [input, axis] = args;
  if (axis !== undefined && !isObject(axis)) {
    return base[name].apply(builder, args);
  }
  const { axes, selectLastIndex = false } = /** @type {Record<string, unknown>} */ (axis ?? {});
  if (!isObject(axes) || axes.length !== 1 || selectLastIndex) {
    throw notSupportedError(`${name}: options.axes must hold one axis, without selectLastIndex: that is what today's ${name} computes`);
  }
  return base[name].call(builder, input, axes[0], axis);
};

const methods = {
  ...activationMethods(base),
  ...Object.fromEntries(['averagePool2d', 'l2Pool2d', 'maxPool2d'].map((name) => [name, poolMethod(name)])),
  ...Object.fromEntries(['argMin', 'argMax'].map((name) => [name, argMethod(name)])),
};

for (const [name, method] of Object.entries(methods)) {
  const value = {
    [name](/** @type {unknown[]} */ ...args) {
      return method(this, args);
    },
  }[name];
  Object.defineProperty(MLGraphBuilder.prototype, name, { value, writable: true, configurable: true });
}

[ML, MLContext, MLGraphBuilder].forEach(webidl.defineInterface);

/** The only object of its interface. */
const ml = mlSlots.create(ML, Object.freeze({}));

module.exports = { ml, ML, MLActivation, MLContext, MLGraph, MLGraphBuilder, MLOperand };
