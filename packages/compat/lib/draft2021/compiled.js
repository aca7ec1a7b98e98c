'use strict';

/** A graph of the draft of 2021, compiled for each set of outputs in use, and for all sizes if possible. */

const { byteLength } = require('webnn-node/internal/webidl');

const { DOMException } = globalThis;

/** How many compiled forms of a graph are kept, the most recently used ones. */
const MAX_SPECIALIZATIONS = 8;

/** For a graph that is compiled for all sizes. @type {Map<number, number[]>} */
const NO_SHAPES = new Map();

/** Alignment of results, in bytes: views of any type can begin there. */
const ALIGNMENT = 8;

/** A graph of today's API for a set of outputs, with the tensors of its last run. */
class Specialization {
  #context;
  #graph;
  #inputPorts;
  #outputPorts;
  /** The input shapes of the current tensors. */
  #bound = '';
  /** @type {{ name: string, tensor: import('webnn-node').MLTensor }[]} */
  #inputs = [];
  /** @type {(import('../internal.js').Port & { tensor: import('webnn-node').MLTensor, byteOffset: number, byteLength: number })[]} */
  #outputs = [];
  #results = new SharedArrayBuffer(0);

  /**
   * @param {import('webnn-node').MLContext} context
   * @param {import('../internal.js').CompiledProgram} compiled by a Program
   */
  constructor(context, { graph, inputs, outputs }) {
    this.#context = context;
    this.#graph = graph;
    this.#inputPorts = inputs;
    this.#outputPorts = outputs;
  }

  /**
   * Creates tensors for these shapes, unless those of the last run fit.
   *
   * @param {Map<number, number[]>} shapes of the inputs by id
   * @throws {TypeError} if they do not fit the graph
   */
  async bind(shapes) {
    const ports = this.#inputPorts.map((port) => ({ ...port, shape: shapes.get(Number(port.name)) ?? port.shape }));
    const bound = JSON.stringify(ports.map(({ shape }) => shape));
    if (bound === this.#bound) {
      return;
    }
    const sizes = this.#graph.computeShapes(Object.fromEntries(ports.map(({ name, shape }) => [name, shape])));
    this.#release();
    for (const { name, dataType, shape } of ports) {
      this.#inputs.push({ name, tensor: await this.#context.createTensor({ dataType, shape, writable: true }) });
    }
    let end = 0;
    for (const { name, dataType } of this.#outputPorts) {
      const shape = sizes[name];
      const tensor = await this.#context.createTensor({ dataType, shape, readable: true });
      const bytes = byteLength({ dataType, shape });
      this.#outputs.push({ name, dataType, shape, tensor, byteOffset: end, byteLength: bytes });
      end += Math.ceil(bytes / ALIGNMENT) * ALIGNMENT;
    }
    this.#results = new SharedArrayBuffer(end);
    this.#bound = bound;
  }

  /**
   * @param {Map<string, Uint8Array>} bytes of the inputs by name
   * @returns {Promise<import('../internal.js').Results>} valid until the next run
   */
  async run(bytes) {
    for (const { name, tensor } of this.#inputs) {
      this.#context.writeTensor(tensor, /** @type {Uint8Array<ArrayBuffer>} */ (bytes.get(name)));
    }
    const byName = (/** @type {{ name: string, tensor: import('webnn-node').MLTensor }[]} */ ports) =>
      Object.fromEntries(ports.map(({ name, tensor }) => [name, tensor]));
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

  /** Destroys the tensors. */
  #release() {
    this.#bound = '';
    [...this.#inputs, ...this.#outputs].forEach(({ tensor }) => tensor.destroy());
    this.#inputs = [];
    this.#outputs = [];
  }

  destroy() {
    this.#graph.destroy();
    this.#release();
  }
}

/** The graph of one `build()`. */
class Compiled {
  #context;
  #program;
  #outputs;
  /**
   * For each output, by its id: the ids of the inputs with unknown dimensions that it needs.
   *
   * @type {Map<string, number[]>}
   */
  #openInputs = new Map();
  /**
   * Keyed by outputs, and by the shapes of their open inputs if one form does not serve all shapes; the most recently
   * used form is last.
   *
   * @type {Map<string, Specialization>}
   */
  #specializations = new Map();
  /** The sets of outputs that are compiled for each set of sizes, because a lowering needs numbers. */
  #sized = new Set();

  /**
   * @param {import('webnn-node').MLContext} context
   * @param {InstanceType<typeof import('./program.js').Program>} program
   * @param {number[]} outputs ids of results
   */
  constructor(context, program, outputs) {
    this.#context = context;
    this.#program = program;
    this.#outputs = outputs;
    program.retain();
  }

  /** Compiles the graph now if all its shapes are known. */
  async prepare() {
    if (this.#openInputsOf(this.#outputs).length > 0) {
      return;
    }
    try {
      await this.#specialization(this.#outputs, NO_SHAPES);
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
   * @param {number[]} places ascending indices of the outputs to compute
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
   * Returns the specialization for these outputs and shapes, with its tensors.
   *
   * @param {number[]} ids
   * @param {Map<number, number[]>} shapes
   * @returns {Promise<Specialization>}
   */
  async #specialization(ids, shapes) {
    const open = this.#openInputsOf(ids);
    const choice = ids.join();
    if (!this.#sized.has(choice)) {
      try {
        return await this.#bound(choice, ids, shapes, NO_SHAPES);
      } catch (error) {
        // Errors about these sizes are reported below.
        if (open.length === 0 || !(error instanceof TypeError)) {
          throw error;
        }
      }
    }
    return this.#bound(JSON.stringify([ids, open.map((id) => shapes.get(id))]), ids, shapes, shapes);
  }

  /**
   * @param {string} key of the specialization
   * @param {number[]} ids
   * @param {Map<number, number[]>} shapes
   * @param {Map<number, number[]>} known shapes to compile for
   */
  async #bound(key, ids, shapes, known) {
    const specialization = this.#specializations.get(key) ?? (await this.#make(ids, known));
    this.#specializations.delete(key);
    this.#specializations.set(key, specialization);
    const [[oldest, unused]] = this.#specializations;
    if (this.#specializations.size > MAX_SPECIALIZATIONS) {
      this.#specializations.delete(oldest);
      unused.destroy();
    }
    await specialization.bind(shapes);
    return specialization;
  }

  /**
   * @param {number[]} ids
   * @param {Map<number, number[]>} known
   */
  async #make(ids, known) {
    try {
      return new Specialization(this.#context, await this.#program.compile(ids, known));
    } catch (error) {
      if (known === NO_SHAPES && error instanceof TypeError) {
        this.#sized.add(ids.join());
      }
      throw error;
    }
  }

  /** Called when the other thread no longer uses the graph. */
  release() {
    this.#specializations.forEach((specialization) => specialization.destroy());
    this.#specializations.clear();
    this.#program.release();
  }
}

module.exports = { Compiled };
