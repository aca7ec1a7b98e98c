'use strict';

const { describe, sameDescriptor } = require('./descriptor.js');
const { illegalConstructor, illegalInvocation, invalidStateError, quote } = require('./errors.js');
const native = require('./native.js');
const { defineSlots } = require('./slots.js');
const { defineInterface } = require('./webidl.js');

/** @type {import('./internal.js').Slots<Graph, import('../index.js').MLGraph>} */
const slots = defineSlots();

/**
 * Names in quotation marks, for messages.
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
   * Known when it is built.
   *
   * @type {readonly ('cpu' | 'gpu')[]}
   */
  devices = [];

  /**
   * @param {import('./internal.js').ContextState} context state of the MLContext
   * @param {import('./internal.js').Handle<'graph'>} handle native graph
   * @param {import('./internal.js').NamedDescriptor[]} inputs in native order
   * @param {import('./internal.js').NamedDescriptor[]} outputs in native order
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
   * @param {string} operation for messages
   * @returns {import('../inspect.js').GraphDescription} a new one
   */
  describe(operation) {
    this.requireNotDestroyed(operation);
    return JSON.parse(native.describeGraph(this.handle));
  }

  /** The destroy() steps of the draft. */
  destroy() {
    if (this.isDestroyed) {
      return;
    }
    this.isDestroyed = true;
    native.destroyGraph(this.handle);
    // What is destroyed is asked for no more.
    this.handle = /** @type {never} */ (undefined);
  }
}

/**
 * @param {string} operation
 * @param {string} kind
 * @param {Map<string, object>} tensors
 * @param {import('./internal.js').NamedDescriptor[]} descriptors
 * @returns {never}
 * @throws {TypeError} that names what is missing and what is too much
 */
function rejectNames(operation, kind, tensors, descriptors) {
  const known = new Set(descriptors.map(({ name }) => name));
  const missing = [...known].filter((name) => !tensors.has(name));
  const extra = [...tensors.keys()].filter((name) => !known.has(name));
  const parts = [];
  if (missing.length > 0) {
    parts.push(`${quoteAll(missing)} missing`);
  }
  if (extra.length > 0) {
    parts.push(`${quoteAll(extra)} unknown`);
  }
  const wanted = known.size > 0 ? quoteAll([...known]) : 'none';
  throw new TypeError(`${operation}: ${kind}s do not match the graph: ${parts.join(', ')}; the graph has ${wanted}`);
}

/**
 * The draft's "validate tensors with descriptors".
 *
 * @param {string} operation for messages
 * @param {'input' | 'output'} kind
 * @param {Map<string, import('./internal.js').TensorState>} tensors states of MLTensors by name
 * @param {import('./internal.js').NamedDescriptor[]} descriptors
 * @returns {import('./internal.js').Handle<'tensor'>[]} native tensors in the order of the descriptors
 * @throws {TypeError} if names, data types or shapes differ or a tensor is a constant
 */
function matchTensors(operation, kind, tensors, descriptors) {
  const handles = new Array(descriptors.length);
  if (tensors.size !== descriptors.length) {
    rejectNames(operation, kind, tensors, descriptors);
  }
  for (let i = 0; i < descriptors.length; i++) {
    const descriptor = descriptors[i];
    const tensor = tensors.get(descriptor.name);
    if (tensor === undefined) {
      return rejectNames(operation, kind, tensors, descriptors);
    }
    if (tensor.constant) {
      throw new TypeError(
        `${operation}: ${kind} ${quote(descriptor.name)} is a constant tensor, expected one of createTensor`,
      );
    }
    if (!sameDescriptor(tensor, descriptor)) {
      throw new TypeError(
        `${operation}: ${kind} ${quote(descriptor.name)} needs ${describe(descriptor)}, the tensor is ${describe(tensor)}`,
      );
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

  /** The devices that its dispatches use, 'cpu' or 'gpu': an extension, as in Chromium. */
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
 * @returns {import('../index.js').MLGraph}
 */
function createMLGraph(graph) {
  graph.devices = Object.freeze(native.graphDevices(graph.handle));
  return slots.create(MLGraph, graph);
}

module.exports = { Graph, MLGraph: defineInterface(MLGraph), createMLGraph, matchTensors, slots };
