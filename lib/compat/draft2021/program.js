'use strict';

/**
 * What a builder of the draft of 2021 has been told, kept so that it can be told to today's builder again: for a second
 * `build()`, for a choice of outputs, and for shapes that are known at compute time only.
 */

const { MLGraphBuilder } = require('../../../index.js');
const { operators } = require('./idl.js');
const { lowerings } = require('./lowering.js');

const isOperand = (type) => type === 'MLOperand';
const isOperands = (type) => type === 'sequence<MLOperand>';

/** Where operands stand in the arguments of each operator; of the options every member that holds one is known. */
const OPERAND_ARGUMENTS = new Map(
  operators.map(({ name, arguments: parameters }) => [
    name,
    parameters.map(({ type }) => isOperand(type) || isOperands(type)),
  ]),
);

/** Options that hold an operand. */
const OPERAND_OPTIONS = new Set(['bias', 'c', 'initialHiddenState', 'maxValue', 'minValue', 'recurrentBias', 'scale']);

/** Constants of so few elements keep their values, for the padding of `pad`. */
const MAX_KEPT_VALUES = 64;

/** Typed arrays by the types of the draft; float16 has none that all engines know, and is no padding. */
const ARRAYS = { float32: Float32Array, int32: Int32Array, uint32: Uint32Array, int8: Int8Array, uint8: Uint8Array };

/** Most results of today's split(); what is above must be refused before there is a list of as many ids. */
const MAX_OUTPUTS = 8192;

/** Number of results of an operator whose shapes are not known. */
function countOutputs(name, args, options) {
  if (name === 'split') {
    const [, splits] = args;
    const count = Array.isArray(splits) ? splits.length : splits;
    if (count < 1 || count > MAX_OUTPUTS) {
      throw new TypeError(`split: splits asks for ${count} outputs, expected 1 to ${MAX_OUTPUTS}`);
    }
    return count;
  }
  return name === 'gru' && options.returnSequence ? 2 : 1;
}

/** The ids of the operands of an operator. */
function operandIds({ name, args, options }) {
  const places = OPERAND_ARGUMENTS.get(name);
  const members = Object.keys(options).filter((key) => OPERAND_OPTIONS.has(key));
  return [...args.filter((_, i) => places[i]), ...members.map((key) => options[key])].flat();
}

/** What the nodes become on one of today's builders. */
class Session {
  /** Today's operands by id. */
  operands = new Map();

  /**
   * @param {MLContext} context
   * @param {Map<number, number[]>} shapes of the inputs that are not known before, by id
   */
  constructor(context, shapes) {
    this.builder = new MLGraphBuilder(context);
    this.shapes = shapes;
  }
}

/** A list of nodes, each after those that it needs, whose results have ids. */
class Program {
  #context;
  /** Nodes by the id of their first result. */
  #nodes = new Map();
  /** Ids of first results by the id of any. */
  #firsts = [];
  /** Constant tensors, which all graphs of the program share. */
  #tensors = [];
  /** Values of small constants by id. */
  #values = new Map();
  /** Checks what is appended, and is built if nothing is unknown; undefined after that. */
  #session;
  /** The builder, and the graphs that can still be compiled again. */
  #users = 1;

  /** @param {MLContext} context today's */
  constructor(context) {
    this.#context = context;
  }

  /** @returns {number} the id of an input; sizes below 0 are unknown */
  input(dataType, shape) {
    const isOpen = shape.some((size) => size < 0);
    return this.#append({ kind: 'input', dataType, shape, needs: [], isOpen })[0];
  }

  /**
   * @param {string} dataType
   * @param {number[]} shape
   * @param {ArrayBuffer} buffer
   * @returns {Promise<number>} the id of a constant
   */
  async constant(dataType, shape, buffer) {
    const tensor = await this.#context.createConstantTensor({ dataType, shape }, buffer);
    this.#tensors.push(tensor);
    const [id] = this.#append({ kind: 'constant', tensor, needs: [], isOpen: false });
    if (dataType in ARRAYS && buffer.byteLength / ARRAYS[dataType].BYTES_PER_ELEMENT <= MAX_KEPT_VALUES) {
      this.#values.set(id, Array.from(new ARRAYS[dataType](buffer)));
    }
    return id;
  }

  /** @returns {number} the id of a constant without dimensions */
  scalar(dataType, value) {
    return this.#append({ kind: 'scalar', dataType, value, needs: [], isOpen: false })[0];
  }

  /**
   * Appends an operator. It is checked now if the shapes of its operands are known, else when they are.
   *
   * @param {string} name
   * @param {unknown[]} args with ids in place of operands
   * @param {object} options with ids in place of operands
   * @returns {number[]} the ids of its results
   */
  operator(name, args, options) {
    const needs = operandIds({ name, args, options });
    const isOpen = needs.some((id) => this.#nodeOf(id).isOpen);
    return this.#append({ kind: 'operator', name, args, options, needs, isOpen });
  }

  #nodeOf(id) {
    return this.#nodes.get(this.#firsts[id]);
  }

  #append(node) {
    const first = this.#firsts.length;
    const count = node.isOpen ? this.#countOf(node) : this.#check(node, first);
    this.#nodes.set(first, node);
    const ids = Array.from({ length: count }, (_, i) => first + i);
    ids.forEach(() => this.#firsts.push(first));
    return ids;
  }

  #countOf({ kind, name, args, options }) {
    return kind === 'operator' ? countOutputs(name, args, options) : 1;
  }

  /** Tells the builder of the checks about a node; its number of results. */
  #check(node, first) {
    this.#session ??= new Session(this.#context, new Map());
    this.#tell(this.#session, node.needs);
    const results = this.#emit(this.#session, node, first);
    results.forEach((operand, i) => this.#session.operands.set(first + i, operand));
    return results.length;
  }

  /** Ids of the first results of all nodes that some results need, in an order in which they can be told. */
  #closure(ids, isKnown = () => false) {
    const found = new Set();
    const open = ids.map((id) => this.#firsts[id]);
    while (open.length > 0) {
      const first = open.pop();
      if (!found.has(first) && !isKnown(first)) {
        found.add(first);
        open.push(...this.#nodes.get(first).needs.map((id) => this.#firsts[id]));
      }
    }
    return [...found].sort((a, b) => a - b);
  }

  /** Tells a builder about everything that some results need. */
  #tell(session, ids) {
    for (const first of this.#closure(ids, (id) => session.operands.has(id))) {
      const results = this.#emit(session, this.#nodes.get(first), first);
      results.forEach((operand, i) => session.operands.set(first + i, operand));
    }
  }

  #emit({ builder, operands, shapes }, node, first) {
    switch (node.kind) {
      case 'input':
        return [builder.input(`${first}`, { dataType: node.dataType, shape: shapes.get(first) ?? node.shape })];
      case 'constant':
        return [builder.constant(node.tensor)];
      case 'scalar':
        return [builder.constant(node.dataType, node.value)];
      default:
        return this.#lower(builder, operands, node);
    }
  }

  #lower(builder, operands, { name, args, options }) {
    const operandOf = (id) => (Array.isArray(id) ? id.map(operandOf) : operands.get(id));
    const places = OPERAND_ARGUMENTS.get(name);
    const todays = args.map((value, i) => (places[i] ? operandOf(value) : value));
    const members = Object.entries(options);
    const todaysOptions = Object.fromEntries(
      members.map(([key, value]) => [key, OPERAND_OPTIONS.has(key) ? operandOf(value) : value]),
    );
    const values = new Map(args.map((id, i) => [todays[i], this.#values.get(id)]));
    const results = lowerings[name](builder, todays, todaysOptions, (operand) => values.get(operand));
    return Array.isArray(results) ? results : [results];
  }

  /**
   * The inputs that some results need.
   *
   * @param {number[]} ids
   * @returns {{id: number, isOpen: boolean}[]} with whether some of their sizes are unknown
   */
  inputsOf(ids) {
    const inputs = this.#closure(ids).filter((first) => this.#nodes.get(first).kind === 'input');
    return inputs.map((id) => ({ id, isOpen: this.#nodes.get(id).isOpen }));
  }

  /**
   * Compiles what some results need.
   *
   * @param {number[]} ids
   * @param {Map<number, number[]>} shapes of the inputs by id
   * @returns {Promise<{graph: MLGraph, inputs: {name: string, dataType: string, shape: number[]}[],
   *   outputs: {name: string, dataType: string, shape: number[]}[]}>} inputs by their ids, outputs by their places
   */
  async compile(ids, shapes) {
    const isFixed = !ids.some((id) => this.#nodeOf(id).isOpen);
    const session = isFixed && this.#session !== undefined ? this.#session : new Session(this.#context, shapes);
    if (session === this.#session) {
      this.#session = undefined; // today's builders build once
    }
    this.#tell(session, ids);
    const described = (name, { dataType, shape }) => ({ name, dataType, shape: [...shape] });
    const outputs = ids.map((id, i) => [`${i}`, this.#computed(session, id)]);
    const graph = await session.builder.build(Object.fromEntries(outputs));
    return {
      graph,
      inputs: this.inputsOf(ids).map(({ id }) => described(`${id}`, session.operands.get(id))),
      outputs: outputs.map(([name, operand]) => described(name, operand)),
    };
  }

  /** Today's graphs have no inputs and constants as outputs. */
  #computed({ builder, operands }, id) {
    const operand = operands.get(id);
    return this.#nodeOf(id).kind === 'operator' ? operand : builder.identity(operand);
  }

  /** Something else begins to use the program. */
  retain() {
    this.#users++;
  }

  /** Something that used the program is gone. */
  release() {
    this.#users--;
    if (this.#users === 0) {
      this.#tensors.forEach((tensor) => tensor.destroy());
      this.#session = undefined;
    }
  }
}

module.exports = { Program };
