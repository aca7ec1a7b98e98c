'use strict';

/** `MLContext.compute()` of the draft of 2024, implemented with today's tensors. */

const { describeGraph } = require('webnn-node/inspect');
const { amount, byteLength, byteLengthOf, describe, quote } = require('webnn-node/internal/webidl');
const { placeOf, requireHolding } = require('../views.js');

const { ArrayBuffer, Promise, Set, structuredClone } = globalThis;

/**
 * Constructors of views, by kind.
 *
 * @type {Record<string, new (buffer: ArrayBuffer, byteOffset: number, length: number) => ArrayBufferView<ArrayBuffer>>}
 */
const CONSTRUCTORS = {
  BigInt64Array: globalThis.BigInt64Array,
  BigUint64Array: globalThis.BigUint64Array,
  DataView: globalThis.DataView,
  Float16Array: globalThis.Float16Array, // undefined in engines without it, which have no such views either
  Float32Array: globalThis.Float32Array,
  Float64Array: globalThis.Float64Array,
  Int8Array: globalThis.Int8Array,
  Int16Array: globalThis.Int16Array,
  Int32Array: globalThis.Int32Array,
  Uint8Array: globalThis.Uint8Array,
  Uint8ClampedArray: globalThis.Uint8ClampedArray,
  Uint16Array: globalThis.Uint16Array,
  Uint32Array: globalThis.Uint32Array,
};

/** @typedef {Record<'inputs' | 'outputs', Record<string, import('webnn-node').MLTensor>>} TensorSet */

/** Number of tensor sets that a graph keeps for later computations; only concurrent computations need more. */
const MAX_KEPT = 1;

/**
 * The draft's "validate buffer with descriptor".
 *
 * @param {import('../internal.js').View} view
 * @param {import('webnn-node/internal/webidl').Descriptor} descriptor
 * @param {string} what
 * @throws {TypeError} where the draft returns false
 */
function requireMatch({ view, kind }, descriptor, what) {
  const { dataType } = descriptor;
  requireHolding(kind, dataType, what);
  const given = byteLengthOf(view, kind);
  const expected = byteLength(descriptor);
  if (given !== expected) {
    const detached = given === 0 ? ' (or is detached)' : '';
    throw new TypeError(`${what} has ${amount(given, 'byte')}${detached}, expected the ${amount(expected, 'byte')} of ${describe(descriptor)}`);
  }
}

/**
 * Whether the engine refuses to transfer this buffer if it is listed twice, as it must. If it refuses, nothing moves.
 *
 * @param {ArrayBuffer} buffer
 */
function isRefusedTwice(buffer) {
  try {
    structuredClone(undefined, { transfer: [buffer, buffer] });
    return false;
  } catch {
    return true;
  }
}

/** False in Deno, which moves a buffer that is listed twice. */
const refusesTwice = isRefusedTwice(new ArrayBuffer(1));

/**
 * Whether Node would copy a buffer instead of moving it, as it does with the memory of a WebAssembly module: it then
 * does not notice that the buffer is listed twice. Deno and Bun refuse to transfer such memory.
 */
const isCopied = (/** @type {ArrayBuffer} */ buffer) => refusesTwice && !isRefusedTwice(buffer);

/**
 * The draft's "transfer": creates new views of the same memory, and empties the old ones. All buffers move at once: if
 * one of them cannot, nothing moves.
 *
 * @param {Map<string, import('../internal.js').View>[]} groups of views by name
 * @returns {Map<string, ArrayBufferView<ArrayBuffer>>[]}
 * @throws {TypeError} if a buffer cannot be transferred, or has two of the views
 */
function transfer(groups) {
  const views = groups.flatMap((group) => [...group.values()]);
  let buffers = views.map(({ buffer }) => buffer);
  if (new Set(buffers).size < buffers.length) {
    throw new TypeError('compute: two inputs or outputs are views of the same buffer, expected one view of each');
  }
  if (buffers.some(isCopied)) {
    throw new TypeError('compute: the memory of a WebAssembly module cannot be transferred');
  }
  const places = views.map(placeOf);
  try {
    buffers = structuredClone(buffers, { transfer: buffers });
  } catch (error) {
    throw new TypeError(`compute: the buffers of inputs and outputs cannot be transferred: ${/** @type {Error} */ (error).message}`);
  }
  let next = 0;
  const moved = (/** @type {import('../internal.js').View} */ { kind }) => {
    const [byteOffset, length] = places[next];
    return new CONSTRUCTORS[kind](buffers[next++], byteOffset, length);
  };
  return groups.map((group) => new Map([...group].map(([name, view]) => [name, moved(view)])));
}

/** The state of `compute()` for a graph. */
class ComputableGraph {
  #graph;
  #names;
  /**
   * Descriptors by the names that today's graph has; read when they are first needed.
   *
   * @type {Record<'inputs' | 'outputs', Map<string, import('webnn-node/internal/webidl').Descriptor>> | undefined}
   */
  #ports;
  /**
   * Sets of tensors that no computation is using.
   *
   * @type {TensorSet[]}
   */
  #free = [];

  /**
   * @param {import('webnn-node').MLContext} context today's
   * @param {import('webnn-node').MLGraph} graph
   * @param {InstanceType<typeof import('./names.js').InputNames>} names of its inputs
   */
  constructor(context, graph, names) {
    this.context = context;
    this.#graph = graph;
    this.#names = names;
  }

  /** @throws {TypeError} if two inputs of the graph have the same name */
  requireDistinctInputs() {
    const given = [...this.#descriptors.inputs.keys()].map((name) => this.#names.given(name));
    const twice = given.find((name, i) => given.indexOf(name) < i);
    if (twice !== undefined) {
      throw new TypeError(`build: two inputs of the graph have the name ${quote(twice)}`);
    }
  }

  get #descriptors() {
    if (this.#ports === undefined) {
      const { inputs, outputs, values } = describeGraph(this.#graph).source;
      const byId = new Map(values.map(({ id, dataType, shape }) => [id, { dataType, shape }]));
      const byName = (/** @type {{ name: string, value: number }[]} */ ports) =>
        new Map(ports.map(({ name, value }) => [name, /** @type {import('webnn-node/internal/webidl').Descriptor} */ (byId.get(value))]));
      this.#ports = { inputs: byName(inputs), outputs: byName(outputs) };
    }
    return this.#ports;
  }

  /**
   * The draft's compute() steps, beginning with the checks of the inputs.
   *
   * @param {Map<string, import('../internal.js').View>} inputs by name
   * @param {Map<string, import('../internal.js').View>} outputs by name
   * @returns {Promise<Record<'inputs' | 'outputs', Record<string, ArrayBufferView>>>} the transferred views
   */
  async compute(inputs, outputs) {
    const descriptors = this.#descriptors;
    for (const [name, descriptor] of descriptors.inputs) {
      const given = this.#names.given(name);
      const view = inputs.get(given);
      if (view === undefined) {
        throw new TypeError(`compute: input ${quote(given)} is missing`);
      }
      requireMatch(view, descriptor, `compute: input ${quote(given)}`);
    }
    for (const [name, view] of outputs) {
      const descriptor = descriptors.outputs.get(name);
      if (descriptor === undefined) {
        const known = [...descriptors.outputs.keys()].map(quote).join(', ');
        throw new TypeError(`compute: output ${quote(name)} is not in the graph, which has ${known}`);
      }
      requireMatch(view, descriptor, `compute: output ${quote(name)}`);
    }
    const [movedInputs, movedOutputs] = transfer([inputs, outputs]);
    await this.#execute(movedInputs, movedOutputs);
    return { inputs: Object.fromEntries(movedInputs), outputs: Object.fromEntries(movedOutputs) };
  }

  /**
   * @param {Map<string, ArrayBufferView<ArrayBuffer>>} inputs
   * @param {Map<string, ArrayBufferView<ArrayBuffer>>} outputs
   */
  async #execute(inputs, outputs) {
    const tensors = this.#free.pop() ?? (await this.#allocate());
    try {
      for (const [name, tensor] of Object.entries(tensors.inputs)) {
        this.context.writeTensor(tensor, /** @type {ArrayBufferView<ArrayBuffer>} */ (inputs.get(this.#names.given(name))));
      }
      this.context.dispatch(this.#graph, tensors.inputs, tensors.outputs);
      await Promise.all([...outputs].map(([name, view]) => this.context.readTensor(tensors.outputs[name], view)));
    } finally {
      this.#keep(tensors);
    }
  }

  async #allocate() {
    /** @type {(descriptors: Map<string, import('webnn-node/internal/webidl').Descriptor>, access: { readable?: boolean, writable?: boolean }) => Promise<Record<string, import('webnn-node').MLTensor>>} */
    const make = async (descriptors, access) => {
      const made = [...descriptors].map(async ([name, { dataType, shape }]) => [
        name,
        await this.context.createTensor({ dataType, shape: [...shape], ...access }),
      ]);
      return Object.fromEntries(await Promise.all(made));
    };
    const { inputs, outputs } = this.#descriptors;
    return { inputs: await make(inputs, { writable: true }), outputs: await make(outputs, { readable: true }) };
  }

  /** @param {TensorSet} tensors */
  #keep(tensors) {
    if (this.#free.length < MAX_KEPT) {
      this.#free.push(tensors);
      return;
    }
    [...Object.values(tensors.inputs), ...Object.values(tensors.outputs)].forEach((tensor) => tensor.destroy());
  }
}

module.exports = { ComputableGraph };
