'use strict';

/** A graph of the draft of 2021: compiled for each choice of outputs and shapes that it meets. */

const { byteLength } = require('../../descriptor.js');

const { DOMException } = globalThis;

/** How many compiled forms of a graph are kept: those that were used last. */
const MAX_SPECIALIZATIONS = 8;

/** Results begin at multiples of this, so that views of any type can begin there. */
const ALIGNMENT = 8;

/** A graph of today's API with the tensors of its runs. */
class Specialization {
  #context;
  #graph;
  /** @type {{ name: string, tensor: import('../../../index.js').MLTensor }[]} */
  #inputs = [];
  /** @type {(import('../internal.js').Port & { tensor: import('../../../index.js').MLTensor, byteOffset: number, byteLength: number })[]} */
  #outputs = [];
  #results = new SharedArrayBuffer(0);

  /**
   * @param {import('../../../index.js').MLContext} context
   * @param {import('../../../index.js').MLGraph} graph
   */
  constructor(context, graph) {
    this.#context = context;
    this.#graph = graph;
  }

  /**
   * @param {import('../../../index.js').MLContext} context
   * @param {import('../internal.js').CompiledProgram} compiled by a Program
   * @returns {Promise<Specialization>}
   */
  static async create(context, { graph, inputs, outputs }) {
    const made = new Specialization(context, graph);
    for (const input of inputs) {
      const { name, dataType, shape } = input;
      made.#inputs.push({ name, tensor: await context.createTensor({ dataType, shape, writable: true }) });
    }
    let end = 0;
    for (const { name, dataType, shape } of outputs) {
      const tensor = await context.createTensor({ dataType, shape, readable: true });
      const bytes = byteLength({ dataType, shape });
      made.#outputs.push({ name, dataType, shape, tensor, byteOffset: end, byteLength: bytes });
      end += Math.ceil(bytes / ALIGNMENT) * ALIGNMENT;
    }
    made.#results = new SharedArrayBuffer(end);
    return made;
  }

  /**
   * @param {Map<string, Uint8Array>} bytes of the inputs by name
   * @returns {Promise<import('../internal.js').Results>} valid until the next run
   */
  async run(bytes) {
    for (const { name, tensor } of this.#inputs) {
      this.#context.writeTensor(tensor, /** @type {Uint8Array<ArrayBuffer>} */ (bytes.get(name)));
    }
    const byName = (/** @type {{ name: string, tensor: import('../../../index.js').MLTensor }[]} */ ports) => Object.fromEntries(ports.map(({ name, tensor }) => [name, tensor]));
    this.#context.dispatch(this.#graph, byName(this.#inputs), byName(this.#outputs));
    const reads = this.#outputs.map(({ tensor, byteOffset, byteLength }) =>
      this.#context.readTensor(tensor, new Uint8Array(this.#results, byteOffset, byteLength)),
    );
    await Promise.all(reads);
    return {
      buffer: this.#results,
      outputs: this.#outputs.map(({ dataType, shape, byteOffset, byteLength }) => ({
        dataType,
        shape,
        byteOffset,
        byteLength,
      })),
    };
  }

  destroy() {
    this.#graph.destroy();
    [...this.#inputs, ...this.#outputs].forEach(({ tensor }) => tensor.destroy());
  }
}

/** The graph of one `build()`. */
class Compiled {
  #context;
  #program;
  #outputs;
  /**
   * Ids of the inputs of unknown dimensions that some outputs need, by the ids of these.
   *
   * @type {Map<string, number[]>}
   */
  #openInputs = new Map();
  /**
   * By outputs and shapes, the one that was used last at the end.
   *
   * @type {Map<string, Specialization>}
   */
  #specializations = new Map();

  /**
   * @param {import('../../../index.js').MLContext} context
   * @param {InstanceType<typeof import('./program.js').Program>} program
   * @param {number[]} outputs ids of results
   */
  constructor(context, program, outputs) {
    this.#context = context;
    this.#program = program;
    this.#outputs = outputs;
    program.retain();
  }

  /** Compiles the graph now if nothing about it is unknown. */
  async prepare() {
    if (this.#openInputsOf(this.#outputs).length > 0) {
      return;
    }
    try {
      await this.#specialization(this.#outputs, new Map());
    } catch (error) {
      this.release();
      throw error;
    }
  }

  /** @returns {number[][]} the ids of the inputs that each output needs */
  needs() {
    return this.#outputs.map((id) => this.#program.inputsOf([id]).map((input) => input.id));
  }

  /**
   * @param {[number, number[]][]} shapes of the inputs by id
   * @param {[number, Uint8Array][]} bytes of the inputs by id
   * @param {number[]} places of the outputs to compute, ascending
   * @returns {Promise<import('../internal.js').Results>}
   */
  async compute(shapes, bytes, places) {
    const ids = places.map((place) => this.#outputs[place]);
    const specialization = await this.#fitting(ids, new Map(shapes));
    return specialization.run(new Map(bytes.map(([id, view]) => [`${id}`, view])));
  }

  /**
   * @param {number[]} ids
   * @param {Map<number, number[]>} shapes
   */
  async #fitting(ids, shapes) {
    try {
      return await this.#specialization(ids, shapes);
    } catch (error) {
      const inputs = [...shapes.values()].map((shape) => `[${shape.join(', ')}]`).join(', ');
      throw new DOMException(
        `compute: the graph cannot be compiled for inputs of the shapes ${inputs}: ${/** @type {Error} */ (error).message}`,
        'OperationError',
      );
    }
  }

  /** @param {number[]} ids */
  #openInputsOf(ids) {
    const key = ids.join();
    const known = this.#openInputs.get(key);
    if (known !== undefined) {
      return known;
    }
    const open = this.#program.inputsOf(ids).flatMap(({ id, isOpen }) => (isOpen ? [id] : []));
    this.#openInputs.set(key, open);
    return open;
  }

  /**
   * @param {number[]} ids
   * @param {Map<number, number[]>} shapes
   * @returns {Promise<Specialization>}
   */
  async #specialization(ids, shapes) {
    const key = JSON.stringify([ids, this.#openInputsOf(ids).map((id) => shapes.get(id))]);
    const made = this.#specializations.get(key) ?? (await this.#make(ids, shapes));
    this.#specializations.delete(key);
    this.#specializations.set(key, made);
    const [first] = this.#specializations;
    if (this.#specializations.size > MAX_SPECIALIZATIONS) {
      const [oldest, unused] = first;
      this.#specializations.delete(oldest);
      unused.destroy();
    }
    return made;
  }

  /**
   * @param {number[]} ids
   * @param {Map<number, number[]>} shapes
   */
  async #make(ids, shapes) {
    return Specialization.create(this.#context, await this.#program.compile(ids, shapes));
  }

  /** The other thread has no use for the graph any more. */
  release() {
    this.#specializations.forEach((specialization) => specialization.destroy());
    this.#specializations.clear();
    this.#program.release();
  }
}

module.exports = { Compiled };
