'use strict';

const { describe, sameDescriptor } = require('./descriptor.js');
const { illegalConstructor, illegalInvocation, invalidStateError, quote } = require('./errors.js');
const native = require('./native.js');
const { defineSlots } = require('./slots.js');
const { defineInterface } = require('./webidl.js');

const slots = defineSlots();

/** Names in quotation marks, for messages. */
function quoteAll(names) {
  return names.map(quote).join(', ');
}

/** State of an MLGraph. */
class Graph {
  isDestroyed = false;

  /** Known when it is built. */
  devices = [];

  /**
   * @param {object} context state of the MLContext
   * @param {object} handle native graph
   * @param {{name: string, dataType: string, shape: readonly number[]}[]} inputs in native order
   * @param {{name: string, dataType: string, shape: readonly number[]}[]} outputs in native order
   */
  constructor(context, handle, inputs, outputs) {
    this.context = context;
    this.handle = handle;
    this.inputs = inputs;
    this.outputs = outputs;
  }

  /** @throws {DOMException} InvalidStateError if the graph is destroyed */
  requireNotDestroyed(operation) {
    if (this.isDestroyed) {
      throw invalidStateError(`${operation}: the graph is destroyed`);
    }
  }

  /**
   * @param {string} operation for messages
   * @returns {object} a new GraphDescription
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
    this.handle = undefined;
  }
}

/** @throws {TypeError} that names what is missing and what is too much */
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
 * @param {Map<string, object>} tensors states of MLTensors by name
 * @param {{name: string, dataType: string, shape: readonly number[]}[]} descriptors
 * @returns {object[]} native tensors in the order of the descriptors
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
      rejectNames(operation, kind, tensors, descriptors);
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
 * @returns {MLGraph}
 */
function createMLGraph(graph) {
  graph.devices = Object.freeze(native.graphDevices(graph.handle));
  return slots.create(MLGraph, graph);
}

module.exports = { Graph, MLGraph: defineInterface(MLGraph), createMLGraph, matchTensors, slots };
