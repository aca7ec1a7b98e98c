'use strict';

/**
 * The interfaces of the editor's draft of 2024 on top of today's API: `MLContext.compute()` in place of tensors, and
 * the earlier names of types and options.
 */

const webnn = require('webnn-node');
const webidl = require('webnn-node/internal/webidl');
const { isOneOf } = require('../foreign.js');
const { closedShape, dataTypeOf, shapeOf } = require('../operands.js');
const { symmetricPad } = require('../spatial.js');
const { DATA_TYPES, arrayBufferView, requireHolding } = require('../views.js');
const { MLActivation, activationMethods, withMembers } = require('./activations.js');
const { ComputableGraph } = require('./compute.js');
const { InputNames } = require('./names.js');

const { defineSlots, illegalConstructor, illegalInvocation, isObject, notSupportedError, quote } = webidl;
const { Promise, WeakMap } = globalThis;
const reject = Promise.reject.bind(Promise);
const { getPrototypeOf, setPrototypeOf } = Reflect;
const { MLGraph } = webnn;

/** @type {import('webnn-node/internal/webidl').Slots<object, import('../../index.js').draft2024.ML>} */
const mlSlots = defineSlots();
/** @type {import('webnn-node/internal/webidl').Slots<import('webnn-node').MLContext, import('../../index.js').draft2024.MLContext>} */
const contextSlots = defineSlots();

/**
 * The state of `compute()`, by today's MLGraph.
 *
 * @type {WeakMap<object, InstanceType<typeof ComputableGraph>>}
 */
const graphs = new WeakMap();

const toContext = webidl.interfaceType('MLContext', contextSlots);
/** @type {import('webnn-node/internal/webidl').Converter<{ deviceType: string, powerPreference: import('webnn-node').MLPowerPreference }>} */
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
const toOpenSizes = webidl.sequence((value, what, key) => (value === null ? null : webidl.enforcedUnsignedLong(value, what, key)));

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

/** A value of a graph under construction: one of today's operands, whose attributes were methods until October 2024. */
class MLOperand {
  constructor() {
    throw illegalConstructor('MLOperand');
  }

  dataType() {
    return dataTypeOf(this);
  }

  /** @returns {number[]} a new list */
  shape() {
    return [...shapeOf(this)];
  }
}

/**
 * Gives the operands that one of today's methods returned the interface of the draft: their state, by which today's methods
 * know them, does not depend on it.
 *
 * @param {any} result
 * @returns {any}
 */
function ofDraft(result) {
  if (Array.isArray(result)) {
    return result.map(ofDraft);
  }
  if (isObject(result) && getPrototypeOf(result) === webnn.MLOperand.prototype) {
    setPrototypeOf(result, MLOperand.prototype);
  }
  return result;
}

/**
 * Converts a descriptor of any draft of 2023 or 2024 to today's member names. Until September 2024, one without
 * dimensions was that of a scalar.
 *
 * @param {unknown} descriptor
 * @returns {any}
 */
function todaysDescriptor(descriptor) {
  if (!isObject(descriptor)) {
    return descriptor;
  }
  const earlier = /** @type {Record<string, unknown>} */ (descriptor);
  const { dataType = earlier.type, dimensions = [], shape = dimensions } = earlier;
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

/**
 * Checks the contents of a constant: until October 2024, only a view of its data type would do.
 *
 * @param {unknown} buffer
 * @param {unknown} dataType as the caller gives it
 * @returns {ArrayBufferView}
 * @throws {TypeError} if it is not a view of that type
 */
function constantView(buffer, dataType) {
  const { view, kind } = arrayBufferView(buffer, 'constant: buffer');
  const known = DATA_TYPES.find((name) => name === dataType);
  if (known !== undefined) {
    requireHolding(kind, known, 'constant: buffer');
  }
  return view;
}

const base = /** @type {Record<string, Function>} */ (/** @type {unknown} */ (webnn.MLGraphBuilder.prototype));

/** Builds graphs: today's builder, with earlier forms of its methods, that may build more than once. */
class MLGraphBuilder extends webnn.MLGraphBuilder {
  #context;
  #names = new InputNames();

  /** @param {unknown} context */
  constructor(context) {
    webidl.requireArguments('MLGraphBuilder', arguments.length, 1);
    const owner = toContext(context, 'MLGraphBuilder: context');
    super(owner);
    webidl.letBuildAgain(this);
    this.#context = owner;
  }

  /**
   * @param {any} name
   * @param {unknown} descriptor
   */
  input(name, descriptor) {
    webidl.requireArguments('input', arguments.length, 2);
    const given = webidl.usvString(name, 'input: name');
    return ofDraft(this.#names.add(given, (free) => super.input(free, todaysDescriptor(descriptor))));
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
      return ofDraft(super.constant(second === undefined ? 'float32' : second, first));
    }
    webidl.requireArguments('constant', arguments.length, 2);
    const descriptor = todaysDescriptor(first);
    return ofDraft(super.constant(descriptor, isObject(first) ? constantView(second, descriptor.dataType) : second));
  }

  /** @param {any} outputs */
  async build(outputs) {
    webidl.requireArguments('build', arguments.length, 1);
    const graph = await super.build(outputs);
    const computable = new ComputableGraph(this.#context, graph, this.#names);
    if (this.#names.hasTwins) {
      computable.requireDistinctInputs();
    }
    graphs.set(graph, computable);
    return graph;
  }
}

/**
 * Returns today's methods of a builder, for code that builds with them.
 *
 * @param {object} builder
 * @returns {any}
 */
function todaysMethods(builder) {
  const method =
    (/** @type {string} */ name) =>
    (/** @type {unknown[]} */ ...args) =>
      base[name].apply(builder, args);
  return Object.fromEntries(['concat', 'identity', 'reverse', 'slice'].map((name) => [name, method(name)]));
}

/** The padding mode `symmetric`. @type {import('../internal.js').BuilderMethod} */
function pad(builder, args) {
  const [input, beginningPadding, endingPadding, options] = args;
  if (args.length < 3 || !isObject(options) || options.mode !== 'symmetric') {
    return base.pad.apply(builder, args);
  }
  const beginning = toSizes(beginningPadding, 'pad: beginningPadding');
  const ending = toSizes(endingPadding, 'pad: endingPadding');
  const operand = /** @type {any} */ (requireOperand(input, 'pad: input'));
  return symmetricPad(todaysMethods(builder), operand, beginning, ending);
}

/** Without an axis, `softmax` applies to the rows of a matrix, as until spring 2024. @type {import('../internal.js').BuilderMethod} */
function softmax(builder, args) {
  const [input, axis, ...rest] = args;
  if (axis !== undefined && !isObject(axis)) {
    return base.softmax.apply(builder, args);
  }
  const shape = shapeOf(requireOperand(input, 'softmax: input'));
  if (shape.length !== 2) {
    throw new TypeError(`softmax: input has shape [${shape.join(', ')}], expected rank 2 where no axis is given`);
  }
  return base.softmax.call(builder, input, 1, axis, ...rest);
}

/** A new shape whose size is null where it is computed, as until January 2024. @type {import('../internal.js').BuilderMethod} */
function reshape(builder, args) {
  const [input, newShape, ...rest] = args;
  if (args.length < 2) {
    return base.reshape.apply(builder, args);
  }
  const operand = requireOperand(input, 'reshape: input');
  const closed = closedShape(toOpenSizes(newShape, 'reshape: newShape'), [null], () => shapeOf(operand));
  return base.reshape.call(builder, operand, closed, ...rest);
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

/**
 * `softplus` with the option `steepness` of the drafts until spring 2024: softplus(steepness * x) / steepness.
 *
 * @this {object} builder
 * @param {unknown[]} args
 */
function softplus(...args) {
  const [input, options] = args;
  if (!isObject(options) || options.steepness === undefined) {
    return base.softplus.apply(this, args);
  }
  const steepness = webidl.float(options.steepness, 'softplus: options.steepness');
  const steeper = base.linear.call(this, input, { alpha: steepness });
  return base.linear.call(this, base.softplus.call(this, steeper, options), { alpha: 1 / steepness });
}

/** Methods that took other forms. @type {Record<string, import('../internal.js').BuilderMethod>} */
const earlierMethods = {
  ...activationMethods(Object.assign(Object.create(base), { softplus })),
  ...Object.fromEntries(['averagePool2d', 'l2Pool2d', 'maxPool2d'].map((name) => [name, poolMethod(name)])),
  ...Object.fromEntries(['argMin', 'argMax'].map((name) => [name, argMethod(name)])),
  pad,
  reshape,
  softmax,
};

for (const name of Object.keys(base).filter((member) => !['input', 'constant', 'build'].includes(member))) {
  const method = earlierMethods[name] ?? ((builder, args) => base[name].apply(builder, args));
  const value = {
    [name](/** @type {unknown[]} */ ...args) {
      return ofDraft(method(this, args));
    },
  }[name];
  Object.defineProperty(MLGraphBuilder.prototype, name, { value, writable: true, configurable: true });
}

[ML, MLContext, MLGraphBuilder, MLOperand].forEach(webidl.defineInterface);

/** The only object of its interface. */
const ml = mlSlots.create(ML, Object.freeze({}));

module.exports = { ml, ML, MLActivation, MLContext, MLGraph, MLGraphBuilder, MLOperand };
