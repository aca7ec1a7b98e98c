'use strict';

const { quote } = require('../errors.js');
const { slots: graphSlots } = require('../graph.js');
const { TensorFeed, typedArray } = require('./data.js');

const { Promise } = globalThis;

/** @returns {MLOperandDescriptor} */
const descriptorOf = ({ dataType, shape }) => ({ dataType, shape });

const hasElements = ({ shape }) => !shape.includes(0);

/** Values by name as an object of descriptors. */
const descriptors = (values) => Object.fromEntries(values.map((value) => [value.name, descriptorOf(value)]));

/** A model compiled for one set of input shapes, and the tensors of its runs. */
class Specialization {
  #context;
  #graph;
  #inputs;
  #outputs;
  /** Inputs that the graph reads. */
  #bound;
  /** Outputs that have elements. */
  #computed;
  /** Own tensors, where a run is given none. */
  #tensors = new Map();
  #running = 0;
  #isRetired = false;

  /**
   * @param {MLContext} context
   * @param {MLGraph | null} graph null if no output has elements
   * @param {{name: string, dataType: string, shape: number[], operand: MLOperand | null}[]} inputs
   * @param {{name: string, dataType: string, shape: number[], operand: MLOperand | null}[]} outputs
   */
  constructor(context, graph, inputs, outputs) {
    this.#context = context;
    this.#graph = graph;
    this.#inputs = inputs;
    this.#outputs = outputs;
    // What only tells its shape, for example, is not read.
    const read = new Set(graph === null ? [] : graphSlots.get(graph).inputs.map(({ name }) => name));
    this.#bound = inputs.filter(({ name }) => read.has(name));
    this.#computed = outputs.filter(hasElements);
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
   * @param {Map<string, TensorFeed | object>} feeds
   * @param {Map<string, MLTensor | null>} fetches null for an output that is not read
   * @returns {Promise<Record<string, TypedArray | MLTensor>>}
   */
  async run(feeds, fetches) {
    this.#running++;
    try {
      const data = this.#inputs.filter(({ name }) => !(feeds.get(name) instanceof TensorFeed));
      // All are checked before anything is done.
      const bytes = new Map(data.map((input) => [input.name, feeds.get(input.name).bytes(input)]));
      const missing = this.#missing(data.filter((input) => this.#bound.includes(input)), fetches);
      if (missing.length > 0) {
        // Only then is there anything to wait for, and a reason to copy the data: the caller goes on.
        bytes.forEach((view, name) => bytes.set(name, view.slice()));
        await this.#allocate(missing);
      }
      const tensorOf = ({ name }) => feeds.get(name).tensor ?? this.#tensors.get(`input ${name}`);
      for (const input of this.#bound) {
        if (bytes.has(input.name)) {
          this.#context.writeTensor(tensorOf(input), bytes.get(input.name));
        }
      }
      const targetOf = ({ name }) => fetches.get(name) ?? this.#tensors.get(`output ${name}`);
      const bound = (values, tensor) => Object.fromEntries(values.map((value) => [value.name, tensor(value)]));
      if (this.#graph !== null) {
        this.#context.dispatch(this.#graph, bound(this.#bound, tensorOf), bound(this.#computed, targetOf));
      }
      return await this.#results(fetches, targetOf);
    } finally {
      this.#running--;
      this.#destroyIfUnused();
    }
  }

  /** @returns {[string, MLTensorDescriptor][]} the own tensors that a run needs and that do not exist yet */
  #missing(inputs, fetches) {
    const wanted = [
      ...inputs.map((input) => [`input ${input.name}`, { ...descriptorOf(input), writable: true }]),
      ...this.#computed
        .filter(({ name }) => !fetches.get(name))
        .map((output) => [`output ${output.name}`, { ...descriptorOf(output), readable: true }]),
    ];
    return wanted.filter(([key]) => !this.#tensors.has(key));
  }

  async #allocate(missing) {
    const tensors = await Promise.all(missing.map(([, descriptor]) => this.#context.createTensor(descriptor)));
    missing.forEach(([key], index) => {
      if (this.#tensors.has(key)) {
        tensors[index].destroy(); // a run that began at the same time was first
      } else {
        this.#tensors.set(key, tensors[index]);
      }
    });
  }

  async #results(fetches, targetOf) {
    const results = this.#outputs.map(async (output) => {
      const { name, dataType } = output;
      const fetch = fetches.get(name);
      if (fetch !== undefined) {
        return fetch === null ? undefined : [name, fetch];
      }
      const buffer = hasElements(output) ? await this.#context.readTensor(targetOf(output)) : new ArrayBuffer(0);
      return [name, typedArray(dataType, buffer)];
    });
    return Object.fromEntries((await Promise.all(results)).filter((result) => result !== undefined));
  }

  /** Frees everything as soon as no run needs it. */
  retire() {
    this.#isRetired = true;
    this.#destroyIfUnused();
  }

  #destroyIfUnused() {
    if (this.#isRetired && this.#running === 0) {
      this.#graph?.destroy();
      this.#tensors.forEach((tensor) => tensor.destroy());
      this.#tensors.clear();
    }
  }
}

/** @throws {TypeError} for a fetch of something that the model does not compute */
function requireOutputs(fetches, names) {
  for (const name of fetches.keys()) {
    if (!names.includes(name)) {
      throw new TypeError(`run: there is no output ${quote(name)}, the model has ${names.map(quote).join(', ')}`);
    }
  }
}

module.exports = { Specialization, requireOutputs };
