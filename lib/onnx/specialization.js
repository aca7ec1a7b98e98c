'use strict';

const { slots: contextSlots } = require('../context.js');
const { quote } = require('../errors.js');
const { slots: graphSlots } = require('../graph.js');
const { slots: tensorSlots } = require('../tensor.js');
const { DataFeed, typedArray } = require('./data.js');

const { ArrayBuffer, Promise } = globalThis;

/** @returns {MLOperandDescriptor} */
const descriptorOf = ({ dataType, shape }) => ({ dataType, shape });

/** Values by name as an object of descriptors. */
const descriptors = (values) => Object.fromEntries(values.map((value) => [value.name, descriptorOf(value)]));

/**
 * An input that a graph reads, or an output that it computes.
 *
 * @typedef {object} Port
 * @property {string} name
 * @property {string} dataType
 * @property {number[]} shape
 * @property {boolean} isUsed false for an input that is not read (what only tells its shape, for example) and for an
 *   output without elements
 * @property {object} [own] state of the MLTensor of runs that are given none
 */

/**
 * A model compiled for one set of input shapes, and the tensors of its runs. What a run does stands between its caller
 * and the computation: it goes to the states of the objects directly, past the conversions of the public API.
 */
class Specialization {
  #context;
  #graph;
  /** @type {Port[]} */
  #inputs;
  /** @type {Port[]} */
  #outputs;
  #running = 0;
  #isRetired = false;

  /**
   * @param {MLContext} context
   * @param {MLGraph | null} graph null if no output has elements
   * @param {{name: string, dataType: string, shape: number[]}[]} inputs
   * @param {{name: string, dataType: string, shape: number[]}[]} outputs
   */
  constructor(context, graph, inputs, outputs) {
    this.#context = contextSlots.get(context);
    this.#graph = graph;
    const read = new Set(graph === null ? [] : graphSlots.get(graph).inputs.map(({ name }) => name));
    const port = ({ name, dataType, shape }, isUsed) => ({ name, dataType, shape, isUsed, own: undefined });
    this.#inputs = inputs.map((input) => port(input, read.has(input.name)));
    this.#outputs = outputs.map((output) => port(output, !output.shape.includes(0)));
  }

  /** What `OnnxModel.compile()` gives. */
  describe() {
    return Object.freeze({
      graph: this.#graph,
      inputs: descriptors(this.#inputs),
      outputs: descriptors(this.#outputs),
    });
  }

  /**
   * Runs the graph.
   *
   * @param {Map<string, TensorFeed | DataFeed>} feeds
   * @param {Map<string, MLTensor | null>} fetches null for an output that is not read
   * @returns {Promise<Record<string, TypedArray | MLTensor>>}
   */
  async run(feeds, fetches) {
    this.#running++;
    try {
      const bytes = this.#bytesOf(feeds);
      const missing = this.#missing(bytes, fetches);
      if (missing.length > 0) {
        // Only then is there anything to wait for, and a reason to copy the data: the caller goes on.
        bytes.forEach((view, port) => bytes.set(port, view.slice()));
        await Promise.all(missing.map((port) => this.#allocate(port, bytes.has(port))));
      }
      this.#dispatch(feeds, bytes, fetches);
      return await this.#results(fetches);
    } finally {
      this.#running--;
      this.#destroyIfUnused();
    }
  }

  /** @returns {Map<Port, Uint8Array>} the data to write; all are checked before anything is done */
  #bytesOf(feeds) {
    const bytes = new Map();
    for (const port of this.#inputs) {
      const feed = feeds.get(port.name);
      if (feed instanceof DataFeed) {
        const view = feed.bytes(port);
        if (port.isUsed) {
          bytes.set(port, view);
        }
      }
    }
    return bytes;
  }

  /** @returns {Port[]} those that need a tensor of their own in this run, and have none yet */
  #missing(bytes, fetches) {
    const isFetched = ({ name }) => Boolean(fetches.get(name));
    return [
      ...this.#inputs.filter((port) => port.own === undefined && bytes.has(port)),
      ...this.#outputs.filter((port) => port.own === undefined && port.isUsed && !isFetched(port)),
    ];
  }

  async #allocate(port, isInput) {
    const access = isInput ? { writable: true } : { readable: true };
    const descriptor = { dataType: port.dataType, shape: [...port.shape], ...access };
    const tensor = tensorSlots.get(await this.#context.createTensor(descriptor));
    if (port.own === undefined) {
      port.own = tensor;
    } else {
      tensor.destroy(); // a run that began at the same time was first
    }
  }

  #dispatch(feeds, bytes, fetches) {
    if (this.#graph === null) {
      return;
    }
    const inputs = new Map();
    for (const port of this.#inputs) {
      if (port.isUsed) {
        inputs.set(port.name, bytes.has(port) ? port.own : feeds.get(port.name).tensor);
      }
    }
    const outputs = new Map();
    for (const port of this.#outputs) {
      if (port.isUsed) {
        outputs.set(port.name, tensorSlots.get(fetches.get(port.name)) ?? port.own);
      }
    }
    for (const [port, view] of bytes) {
      this.#context.writeTensor(port.own, view, 'Uint8Array');
    }
    this.#context.dispatch(graphSlots.get(this.#graph), inputs, outputs);
  }

  /** The outputs by name: the tensors that were given for them, the data of the others. */
  async #results(fetches) {
    const read = this.#outputs.filter(({ name }) => !fetches.has(name));
    const buffers = await Promise.all(
      read.map(({ isUsed, own }) => (isUsed ? this.#context.readTensor(own) : new ArrayBuffer(0))),
    );
    const data = new Map(read.map(({ name, dataType }, i) => [name, typedArray(dataType, buffers[i])]));
    const results = this.#outputs.map(({ name }) => [name, data.get(name) ?? fetches.get(name)]);
    return Object.fromEntries(results.filter(([, result]) => result !== null));
  }

  /** Frees everything as soon as no run needs it. */
  retire() {
    this.#isRetired = true;
    this.#destroyIfUnused();
  }

  #destroyIfUnused() {
    if (this.#isRetired && this.#running === 0) {
      this.#graph?.destroy();
      for (const port of [...this.#inputs, ...this.#outputs]) {
        port.own?.destroy();
      }
    }
  }
}

/** @throws {TypeError} for a fetch of something that the model does not compute */
function requireOutputs(fetches, outputs) {
  for (const name of fetches.keys()) {
    if (!outputs.some((output) => output.name === name)) {
      const names = outputs.map((output) => quote(output.name)).join(', ');
      throw new TypeError(`run: there is no output ${quote(name)}, the model has ${names}`);
    }
  }
}

module.exports = { Specialization, requireOutputs };
