'use strict';

const { MLGraphBuilder, slots: builderSlots } = require('../builder.js');
const { slots: contextSlots } = require('../context.js');
const { DATA_TYPES, dataTypeIndex } = require('../descriptor.js');
const { invalidStateError, quote } = require('../errors.js');
const { ml } = require('../ml.js');
const native = require('../native.js');
const { slots: operandSlots } = require('../operand.js');
const { slots: tensorSlots } = require('../tensor.js');
const { interfaceType, isObject, record } = require('../webidl.js');
const { feedName, toFeed } = require('./data.js');
const { onnx } = require('./errors.js');
const { completeShapes, sameShape, shapesOf } = require('./shapes.js');
const { freeDimensions, openModel, outputNames, requireSize } = require('./source.js');
const { Specialization, requireOutputs } = require('./specialization.js');

const { Promise } = globalThis;

const DEFAULT_SPECIALIZATIONS = 8;

const CONSTRUCT = Symbol('construct');

const requireBuilder = interfaceType('MLGraphBuilder', builderSlots);
const requireContext = interfaceType('MLContext', contextSlots);
const toOperand = interfaceType('MLOperand', operandSlots);
const toBindings = record(toOperand);
const toFetches = record((value, what, name) => {
  if (value !== null && tensorSlots.get(value) === undefined) {
    throw new TypeError(`run: fetch ${quote(name)} is no MLTensor and not null`);
  }
  return value;
});

function deepFreeze(value) {
  if (isObject(value)) {
    Object.values(value).forEach(deepFreeze);
    Object.freeze(value);
  }
  return value;
}

function requireOptions(options, operation) {
  if (!isObject(options)) {
    throw new TypeError(`${operation}: options is ${String(options)}, expected an object`);
  }
  return options;
}

/** @throws {TypeError} that names what is missing and what is too much */
function requireFeeds(feeds, inputs) {
  if (feeds.size === inputs.length && inputs.every(({ name }) => feeds.has(name))) {
    return;
  }
  const known = inputs.map(({ name }) => name);
  const missing = known.filter((name) => !feeds.has(name));
  const unknown = [...feeds.keys()].filter((name) => !known.includes(name));
  const parts = [
    ...missing.map((name) => `${quote(name)} is missing`),
    ...unknown.map((name) => `${quote(name)} is no input`),
  ];
  const has = known.length === 0 ? 'none' : known.map(quote).join(', ');
  throw new TypeError(`run: the feeds do not match the inputs: ${parts.join(', ')}; the model has ${has}`);
}

/** Names, data types, shapes and copies of the values of inputs that are fixed when the model is loaded. */
function toConstants(constants, inputs, sizes) {
  if (constants === undefined) {
    return [];
  }
  const feeds = record((value, what, name) => toFeed(`loadModel: constant ${quote(name)}`, value))(constants, 'loadModel: constants');
  return [...feeds].map(([name, feed]) => {
    const what = `loadModel: constant ${quote(name)}`;
    const input = inputs.find((candidate) => candidate.name === name);
    if (input === undefined) {
      throw new TypeError(`${what} is no input of the model`);
    }
    const shape = feed.shape ?? input.shape?.map((dimension) => sizes[dimension] ?? dimension);
    if (feed.tensor !== undefined || shape === undefined || shape.some((size) => typeof size !== 'number')) {
      throw new TypeError(`${what} is no data of a known shape, expected {data, shape}`);
    }
    if (!DATA_TYPES.includes(input.dataType)) {
      throw new TypeError(`${what} is of type ${input.dataType}, which WebNN does not have`);
    }
    const { dataType } = input;
    return { name, dataType, shape: [...shape], bytes: feed.bytes({ dataType, shape }).slice() };
  });
}

/** @returns {Record<string, number>} ids of the constants in a native builder, by name */
function addConstants(handle, constants) {
  const ids = constants.map(({ name, dataType, shape, bytes }) => [
    name,
    native.constant(handle, dataTypeIndex(dataType), shape, bytes),
  ]);
  return Object.fromEntries(ids);
}

/** A request to the reader as it takes it. */
function requestJson(parts) {
  return JSON.stringify({ freeDimensions: {}, shapes: {}, bindings: {}, outputs: null, ...parts });
}

/**
 * Appends a model to a builder.
 *
 * @param {object} state of the MLGraphBuilder
 * @param {object} model native
 * @param {{freeDimensions?: object, shapes?: object, outputs?: string[] | null}} request
 * @param {(handle: object, idOf: Function) => Record<string, number>} bindings gives the ids of operands by the input
 *   that they replace
 * @param {string} operation for messages
 */
function append(state, model, request, bindings, operation) {
  return state.append((handle, idOf) => {
    const ids = bindings(handle, (name, operand) => idOf(operand, `binding ${quote(name)}`));
    return JSON.parse(onnx.import(handle, model, requestJson({ ...request, bindings: ids })));
  }, operation);
}

/** An ONNX model that is ready to run. */
class OnnxModel {
  #model;
  #context;
  #ownsContext;
  #freeDimensions;
  #wanted;
  #most;
  #constants;
  /** Converter of feeds. */
  #toFeeds;
  /** What `#request` gives where no feed can change it: nothing about the inputs is left open. */
  #fixed;
  /**
   * Specializations by the shapes of the inputs, the one that was used last at the end: the promise, and its value as
   * soon as it has one, for which a run need not wait.
   */
  #specializations = new Map();
  /** Runs and compilations that have not ended. */
  #pending = 0;

  constructor(token, parts) {
    if (token !== CONSTRUCT) {
      throw new TypeError('Illegal constructor: OnnxModel objects are made by loadModel()');
    }
    const { model, context, ownsContext, dimensions, wanted, most, constants } = parts;
    this.#model = model;
    this.#context = context;
    this.#ownsContext = ownsContext;
    this.#freeDimensions = dimensions;
    this.#wanted = wanted;
    this.#most = most;
    this.#constants = constants;
    const { inputs: all, outputs, metadata } = JSON.parse(onnx.interface(model));
    const inputs = all.filter((input) => !constants.some(({ name }) => name === input.name));
    const infoOf = (name) => outputs.find((output) => output.name === name) ?? { name, dataType: 'unknown', shape: null };
    this.inputs = deepFreeze(inputs);
    this.outputs = deepFreeze(wanted === null ? outputs : wanted.map(infoOf));
    this.metadata = deepFreeze(metadata);
    this.context = context;
    const names = new Map(inputs.map(({ name }) => [name, feedName(name)]));
    this.#toFeeds = record((value, what, name) => toFeed(names.get(name) ?? feedName(name), value));
    this.#fixed = isFixed(inputs, dimensions) ? requestOf(inputs, completeShapes(inputs, new Map(), dimensions)) : undefined;
    Object.freeze(this);
  }

  /**
   * Runs the model.
   *
   * @param {Record<string, unknown>} feeds
   * @param {Record<string, unknown>} fetches
   */
  async run(feeds, fetches = {}) {
    const given = this.#toFeeds(feeds, 'run: feeds');
    const targets = toFetches(fetches, 'run: fetches');
    // Only now: reading the arguments can run code of the caller.
    this.#requireAlive('run');
    return this.#pendingUntil(() => this.#run(given, targets));
  }

  async #run(given, targets) {
    requireFeeds(given, this.inputs);
    requireOutputs(targets, this.outputs);
    const request = this.#request(given);
    const { specialization } = this.#specializations.get(request.key) ?? {};
    if (specialization !== undefined) {
      this.#touch(request.key);
      // Without waiting, so that the data are used as they are now.
      return specialization.run(given, targets);
    }
    given.forEach((feed) => feed.keep());
    return (await this.#specialization(request)).run(given, targets);
  }

  /** The graph for these shapes, from the cache or newly compiled. */
  async compile(shapes = {}) {
    this.#requireAlive('compile');
    const given = new Map(Object.entries(requireOptions(shapes, 'compile')).map(([name, shape]) => [name, { shape }]));
    const unknown = [...given.keys()].find((name) => !this.inputs.some((input) => input.name === name));
    if (unknown !== undefined) {
      throw new TypeError(`compile: the model has no input ${quote(unknown)}`);
    }
    for (const [name, { shape }] of given) {
      if (!Array.isArray(shape)) {
        throw new TypeError(`compile: the shape of ${quote(name)} is no list of sizes`);
      }
      shape.forEach((size, axis) => requireSize(size, `compile: ${name}[${axis}]`));
    }
    const complete = completeShapes(this.inputs, given, this.#freeDimensions);
    const specialization = await this.#pendingUntil(() => this.#specialization(requestOf(this.inputs, complete)));
    this.#requireAlive('compile');
    return specialization.describe();
  }

  /** Frees the graphs and tensors, and the context if the model made it. Runs that have begun end as they should. */
  destroy() {
    this.#model = undefined;
    for (const key of [...this.#specializations.keys()]) {
      this.#drop(key);
    }
    this.#releaseContext();
  }

  /** Runs that have begun need the context, also after `destroy()`. */
  async #pendingUntil(operation) {
    this.#pending++;
    try {
      return await operation();
    } finally {
      this.#pending--;
      this.#releaseContext();
    }
  }

  /** Destroys the model's own context as soon as nothing needs it. */
  #releaseContext() {
    if (this.#ownsContext && this.#model === undefined && this.#pending === 0) {
      this.#context.destroy();
    }
  }

  #requireAlive(operation) {
    if (this.#model === undefined) {
      throw invalidStateError(`${operation}: the model is destroyed`);
    }
  }

  /** The shapes of the inputs for these feeds. */
  #request(feeds) {
    const fixed = this.#fixed;
    const isFixed = fixed !== undefined && this.inputs.every(({ name }) => {
      const { shape } = feeds.get(name);
      return shape === undefined || sameShape(shape, fixed.shapes[name]);
    });
    return isFixed ? fixed : requestOf(this.inputs, shapesOf(this.inputs, feeds, this.#freeDimensions));
  }

  #touch(key) {
    if (this.#specializations.size > 1) {
      const entry = this.#specializations.get(key);
      this.#specializations.delete(key);
      this.#specializations.set(key, entry);
    }
  }

  #specialization({ key, shapes }) {
    if (this.#specializations.has(key)) {
      this.#touch(key);
      return this.#specializations.get(key).promise;
    }
    const entry = { promise: this.#build(shapes), specialization: undefined };
    entry.promise.then(
      (specialization) => {
        entry.specialization = specialization;
      },
      () => {
        // Whoever asked for it is told. In its place there may be another one already.
        if (this.#specializations.get(key) === entry) {
          this.#specializations.delete(key);
        }
      },
    );
    this.#specializations.set(key, entry);
    if (this.#specializations.size > this.#most) {
      this.#drop(this.#specializations.keys().next().value);
    }
    return entry.promise;
  }

  async #build(shapes) {
    const builder = new MLGraphBuilder(this.#context);
    const request = { freeDimensions: this.#freeDimensions, shapes, outputs: this.#wanted };
    const state = requireBuilder(builder, 'build');
    const { inputs, outputs } = append(state, this.#model, request, (handle) => addConstants(handle, this.#constants), 'loadModel');
    const computed = outputs.filter(({ operand }) => operand !== null).map(({ name, operand }) => [name, operand]);
    const graph = computed.length === 0 ? null : await builder.build(Object.fromEntries(computed));
    return new Specialization(this.#context, graph, inputs, outputs);
  }

  #drop(key) {
    const { promise } = this.#specializations.get(key);
    this.#specializations.delete(key);
    promise.then(
      (specialization) => specialization.retire(),
      () => {}, // whoever asked for it is told
    );
  }
}

/** The shapes of the inputs, and a key that tells them from others. */
function requestOf(inputs, shapes) {
  return { shapes, key: inputs.map(({ name }) => shapes[name].join(',')).join(';') };
}

/** @throws {TypeError} for the size of a dimension that no input has */
function requireDimensions(inputs, dimensions, operation) {
  const names = new Set(inputs.flatMap(({ shape }) => shape ?? []).filter((dimension) => typeof dimension === 'string'));
  const unknown = Object.keys(dimensions).find((name) => !names.has(name));
  if (unknown !== undefined) {
    const has = names.size === 0 ? 'none' : [...names].map(quote).join(', ');
    throw new TypeError(`${operation}: there is no free dimension ${quote(unknown)}, the model has ${has}`);
  }
}

/** Whether nothing about the inputs is left open. */
function isFixed(inputs, dimensions) {
  const known = (dimension) => typeof dimension === 'number' || Object.hasOwn(dimensions, dimension);
  return inputs.every(({ shape }) => shape !== null && shape.every(known));
}

/**
 * Loads a model. If the shapes of its inputs are known, it is compiled as well.
 *
 * @param {string | URL | BufferSource} source
 * @param {object} options
 * @returns {Promise<OnnxModel>}
 */
async function loadModel(source, options = {}) {
  const { context: given, freeDimensions: sizes, outputs, maxSpecializations, constants: values } = requireOptions(options, 'loadModel');
  const dimensions = freeDimensions(sizes, 'loadModel');
  const wanted = outputNames(outputs, 'loadModel');
  const most = maxSpecializations ?? DEFAULT_SPECIALIZATIONS;
  if (!Number.isInteger(most) || most < 1) {
    throw new TypeError(`loadModel: maxSpecializations is ${String(most)}, expected a positive integer`);
  }
  if (given !== undefined) {
    requireContext(given, 'loadModel: context').requireNotLost('loadModel');
  }
  const model = openModel(source, 'loadModel');
  const { inputs } = JSON.parse(onnx.interface(model));
  requireDimensions(inputs, dimensions, 'loadModel');
  const constants = toConstants(values, inputs, dimensions);
  const trial = native.createBuilder();
  onnx.check(trial, model, requestJson({ freeDimensions: dimensions, outputs: wanted, bindings: addConstants(trial, constants) }));
  const context = given ?? (await ml.createContext());
  const loaded = new OnnxModel(CONSTRUCT, {
    model, context, ownsContext: given === undefined, dimensions, wanted, most, constants,
  });
  if (isFixed(loaded.inputs, dimensions)) {
    try {
      await loaded.compile();
    } catch (error) {
      loaded.destroy();
      throw error;
    }
  }
  return loaded;
}

/**
 * Appends a model to a graph under construction.
 *
 * @param {MLGraphBuilder} builder
 * @param {string | URL | BufferSource} source
 * @param {Record<string, MLOperand>} bindings
 * @param {object} options
 * @returns {Record<string, MLOperand>} the outputs by name
 */
function importModel(builder, source, bindings = {}, options = {}) {
  const state = requireBuilder(builder, 'importModel: builder');
  const operands = toBindings(bindings, 'importModel: bindings');
  const { freeDimensions: sizes, outputs: names } = requireOptions(options, 'importModel');
  const request = { freeDimensions: freeDimensions(sizes, 'importModel'), outputs: outputNames(names, 'importModel') };
  const model = openModel(source, 'importModel');
  const idsOf = (handle, idOf) => Object.fromEntries([...operands].map(([name, operand]) => [name, idOf(name, operand)]));
  const { outputs } = append(state, model, request, idsOf, 'importModel');
  const empty = outputs.find(({ operand }) => operand === null);
  if (empty !== undefined) {
    throw new TypeError(`importModel: the output ${quote(empty.name)} has no elements, which no MLOperand can be`);
  }
  return Object.fromEntries(outputs.map(({ name, operand }) => [name, operand]));
}

/** What can be known of a model without building it. */
function inspectModel(source, options = {}) {
  const sizes = freeDimensions(requireOptions(options, 'inspectModel').freeDimensions, 'inspectModel');
  return JSON.parse(onnx.inspect(openModel(source, 'inspectModel'), JSON.stringify(sizes)));
}

/** The operators that are translated. */
function supportedOperators() {
  return JSON.parse(onnx.operators());
}

module.exports = { OnnxModel, importModel, inspectModel, loadModel, supportedOperators };
