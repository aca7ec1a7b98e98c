'use strict';

const { describe, sameDescriptor } = require('./descriptor.js');
const { illegalConstructor, illegalInvocation, invalidStateError, quote } = require('./errors.js');
const native = require('./native.js');
const { defineSlots } = require('./slots.js');
const { defineInterface } = require('./webidl.js');

/** @type {import('./internal.js').Slots<Graph, import('../index.js').MLGraph>} */
const slots = defineSlots();

/**
 * Quotes names for messages.
 *
 * @param {string[]} names
 */
function quoteAll(names) {
  return names.map(quote).join(', ');
}

/** State of an MLGraph. */
class Graph {
  isDestroyed = false;

  /**
   * Set when the graph is built.
   *
   * @type {readonly ('cpu' | 'gpu')[]}
   */
  devices = [];

  /**
   * @param {import('./internal.js').ContextState} context state of the MLContext
   * @param {import('./internal.js').Handle<'graph'>} handle native graph
   * @param {import('./internal.js').NamedShape[]} inputs in native order
   * @param {import('./internal.js').NamedShape[]} outputs in native order
   */
  constructor(context, handle, inputs, outputs) {
    this.context = context;
    this.handle = handle;
    this.inputs = inputs;
    this.outputs = outputs;
  }

  /**
   * @param {string} operation
   * @throws {DOMException} InvalidStateError if the graph is destroyed
   */
  requireNotDestroyed(operation) {
    if (this.isDestroyed) {
      throw invalidStateError(`${operation}: the graph is destroyed`);
    }
  }

  /**
   * Whether a tensor can be bound to an input or output.
   *
   * @param {import('./internal.js').Described} tensor
   * @param {import('./internal.js').Described} wanted
   */
  fits(tensor, wanted) {
    return sameDescriptor(tensor, wanted);
  }

  /** @returns {('cpu' | 'gpu')[]} the devices of the built graph */
  nativeDevices() {
    return native.graphDevices(this.handle);
  }

  /**
   * @param {string} _operation for messages
   * @throws {DOMException} if the graph cannot be profiled
   */
  requireProfilable(_operation) {}

  /**
   * @param {string} operation for messages
   * @returns {import('../inspect.js').GraphDescription} a new object
   */
  describe(operation) {
    this.requireNotDestroyed(operation);
    return JSON.parse(native.describeGraph(this.handle));
  }

  /**
   * @param {import('./internal.js').Handle<'context'>} context native
   * @param {import('./internal.js').Handle<'tensor'>[]} inputs in native order
   * @param {import('./internal.js').Handle<'tensor'>[]} outputs in native order
   * @param {number[][]} donations pairs of an output and the input whose memory it takes over
   * @throws {TypeError} if there are any: without named dimensions, nothing grows
   */
  dispatch(context, inputs, outputs, donations) {
    for (const [output, input] of donations) {
      const [to, from] = [quote(this.outputs[output].name), quote(this.inputs[input].name)];
      throw new TypeError(`dispatch: output ${to} cannot take the memory of input ${from}: the graph has no named dimensions along which it could grow`);
    }
    native.dispatch(context, this.handle, inputs, outputs);
  }

  /** The destroy() steps of the draft. */
  destroy() {
    if (this.isDestroyed) {
      return;
    }
    this.isDestroyed = true;
    this.release();
    // Nothing uses the handle of a destroyed graph.
    this.handle = /** @type {never} */ (undefined);
  }

  /** Frees the native graph. */
  release() {
    native.destroyGraph(this.handle);
  }
}

/**
 * @param {string} operation
 * @param {string} kind
 * @param {Map<string, unknown>} given
 * @param {import('./internal.js').NamedShape[]} wanted
 * @returns {never}
 * @throws {TypeError} with the missing and the unknown names
 */
function rejectNames(operation, kind, given, wanted) {
  const known = new Set(wanted.map(({ name }) => name));
  const missing = [...known].filter((name) => !given.has(name));
  const extra = [...given.keys()].filter((name) => !known.has(name));
  const parts = [];
  if (missing.length > 0) {
    parts.push(`${quoteAll(missing)} missing`);
  }
  if (extra.length > 0) {
    parts.push(`${quoteAll(extra)} unknown`);
  }
  const names = known.size > 0 ? quoteAll([...known]) : 'none';
  throw new TypeError(`${operation}: ${kind}s do not match the graph: ${parts.join(', ')}; the graph has ${names}`);
}

/**
 * Matches given values with the inputs or outputs of a graph by name.
 *
 * @template T
 * @param {string} operation for messages
 * @param {'input' | 'output'} kind
 * @param {Map<string, T>} given by name
 * @param {import('./internal.js').NamedShape[]} wanted
 * @returns {T[]} in the order of `wanted`
 * @throws {TypeError} if the names differ
 */
function matchNames(operation, kind, given, wanted) {
  const matched = new Array(wanted.length);
  if (given.size !== wanted.length) {
    rejectNames(operation, kind, given, wanted);
  }
  for (let i = 0; i < wanted.length; i++) {
    const one = given.get(wanted[i].name);
    if (one === undefined) {
      return rejectNames(operation, kind, given, wanted);
    }
    matched[i] = one;
  }
  return matched;
}

/**
 * The draft's "validate tensors with descriptors".
 *
 * @param {string} operation for messages
 * @param {'input' | 'output'} kind
 * @param {Map<string, import('./internal.js').TensorState>} tensors states of MLTensors by name
 * @param {Graph} graph
 * @returns {import('./internal.js').Handle<'tensor'>[]} native tensors in the order of the graph
 * @throws {TypeError} if names, data types or shapes differ or a tensor is a constant
 */
function matchTensors(operation, kind, tensors, graph) {
  const wanted = kind === 'input' ? graph.inputs : graph.outputs;
  const matched = matchNames(operation, kind, tensors, wanted);
  const handles = new Array(matched.length);
  for (let i = 0; i < matched.length; i++) {
    const tensor = matched[i];
    const descriptor = wanted[i];
    if (tensor.constant) {
      throw new TypeError(`${operation}: ${kind} ${quote(descriptor.name)} is a constant tensor, expected one of createTensor`);
    }
    if (!graph.fits(tensor, descriptor)) {
      throw new TypeError(`${operation}: ${kind} ${quote(descriptor.name)} needs ${describe(descriptor)}, the tensor is ${describe(tensor)}`);
    }
    handles[i] = tensor.handle;
  }
  return handles;
}

/** https://www.w3.org/TR/webnn/#api-mlgraph */
class MLGraph {
  constructor() {
    throw illegalConstructor('MLGraph');
  }

  /** The devices that its dispatches use, 'cpu' or 'gpu': an extension that Chromium has as well. */
  get devices() {
    const state = slots.get(this);
    if (state === undefined) {
      throw illegalInvocation('MLGraph.devices', 'MLGraph');
    }
    return state.devices;
  }

  destroy() {
    const state = slots.get(this);
    if (state === undefined) {
      throw illegalInvocation('MLGraph.destroy', 'MLGraph');
    }
    state.destroy();
  }
}

/**
 * @param {Graph} graph whose build has completed
 * @param {Function} [Derived] whose prototype the object has
 * @returns {import('../index.js').MLGraph}
 */
function createMLGraph(graph, Derived = MLGraph) {
  graph.devices = Object.freeze(graph.nativeDevices());
  return slots.create(MLGraph, graph, Derived);
}

module.exports = { Graph, MLGraph: defineInterface(MLGraph), createMLGraph, matchNames, matchTensors, slots };
