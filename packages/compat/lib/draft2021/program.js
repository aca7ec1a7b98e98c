'use strict';

/**
 * Records the calls of a builder of the draft of 2021, to replay them on today's builder: for a second `build()`, for a
 * set of outputs, and for shapes that are known only at compute time.
 */

const { amount } = require('webnn-node/internal/webidl');
const { MLGraphBuilder } = require('webnn-node');
const { operators } = require('./idl.js');
const { lowerings } = require('./lowering.js');

const isOperand = (/** @type {string} */ type) => type === 'MLOperand';
const isOperands = (/** @type {string} */ type) => type === 'sequence<MLOperand>';

/** Which arguments of each operator are operands. OPERAND_OPTIONS lists all options that are. */
const OPERAND_ARGUMENTS = new Map(
  operators.map(({ name, arguments: parameters }) => [name, parameters.map(({ type }) => isOperand(type) || isOperands(type))]),
);

/**
 * Whether each argument of an operator is an operand or a list of them.
 *
 * @param {string} name
 */
const operandArguments = (name) => /** @type {boolean[]} */ (OPERAND_ARGUMENTS.get(name));

/** Options that hold an operand. */
const OPERAND_OPTIONS = new Set(['bias', 'c', 'initialHiddenState', 'maxValue', 'minValue', 'recurrentBias', 'scale']);

/** Constants with at most this number of elements keep their values, which may be the padding of `pad`. */
const MAX_KEPT_VALUES = 64;

/**
 * Typed arrays by the draft's types. Not all engines have one for float16, which cannot be a padding.
 *
 * @type {Record<string, { readonly BYTES_PER_ELEMENT: number, new (buffer: ArrayBuffer): ArrayLike<number> }>}
 */
const ARRAYS = { float32: Float32Array, int32: Int32Array, uint32: Uint32Array, int8: Int8Array, uint8: Uint8Array };

/**
 * Maximum number of results of today's split(). More must be rejected before a list of that number of ids is created.
 */
const MAX_OUTPUTS = 8192;

/**
 * Returns the number of results of an operator whose shapes are unknown.
 *
 * @param {string} name
 * @param {unknown[]} args
 * @param {Record<string, unknown>} options
 */
function countOutputs(name, args, options) {
  if (name === 'split') {
    const [, splits] = args;
    const count = Array.isArray(splits) ? splits.length : /** @type {number} */ (splits);
    if (count < 1 || count > MAX_OUTPUTS) {
      throw new TypeError(`split: splits asks for ${amount(count, 'output')}, expected 1 to ${MAX_OUTPUTS}`);
    }
    return count;
  }
  return name === 'gru' && options.returnSequence ? 2 : 1;
}

/**
 * Returns the ids of the operands of an operator.
 *
 * @param {{ name: string, args: unknown[], options: Record<string, unknown> }} node
 */
function operandIds({ name, args, options }) {
  const places = operandArguments(name);
  const members = Object.keys(options).filter((key) => OPERAND_OPTIONS.has(key));
  const ids = [...args.filter((_, i) => places[i]), ...members.map((key) => options[key])];
  return /** @type {number[]} */ (ids.flat());
}

/**
 * Returns the shape of an input for all sizes: each unknown size gets a name of its own.
 *
 * @param {number[]} shape
 * @param {number} id of the input
 * @returns {number[]} with names, which only builders of contexts with the extension accept
 */
const namedShape = (shape, id) => shape.map((size, axis) => (size < 0 ? /** @type {any} */ (`${id}:${axis}`) : size));

/** The operands of the nodes on one of today's builders. */
class Session {
  /**
   * Today's operands by id.
   *
   * @type {Map<number, import('webnn-node').MLOperand>}
   */
  operands = new Map();

  /**
   * @param {import('webnn-node').MLContext} context
   * @param {Map<number, number[]>} shapes of inputs that were unknown before, by id; others get names for unknown sizes
   */
  constructor(context, shapes) {
    this.builder = new MLGraphBuilder(context);
    this.shapes = shapes;
  }
}

/** A list of nodes in dependency order, whose results have ids. */
class Program {
  #context;
  /**
   * Nodes by the id of their first result.
   *
   * @type {Map<number, import('../internal.js').ProgramNode>}
   */
  #nodes = new Map();
  /**
   * For each result, by its id: the id of the first result of its node.
   *
   * @type {number[]}
   */
  #firsts = [];
  /**
   * Constant tensors, which all graphs of the program share.
   *
   * @type {import('webnn-node').MLTensor[]}
   */
  #tensors = [];
  /**
   * Values of small constants by id.
   *
   * @type {Map<unknown, number[]>}
   */
  #values = new Map();
  /**
   * Checks appended nodes, and is built if no shape is unknown; undefined after that.
   *
   * @type {Session | undefined}
   */
  #session;
  /** Number of users: the builder, and the graphs that may still be compiled again. */
  #users = 1;

  /** @param {import('webnn-node').MLContext} context today's, with the extension "dynamic-shapes" */
  constructor(context) {
    this.#context = context;
  }

  /**
   * @param {import('webnn-node').MLOperandDataType} dataType
   * @param {number[]} shape
   * @returns {number} the id of an input; sizes below 0 are unknown
   */
  input(dataType, shape) {
    const isOpen = shape.some((size) => size < 0);
    return this.#append({ kind: 'input', dataType, shape, needs: [], isOpen })[0];
  }

  /**
   * @param {import('webnn-node').MLOperandDataType} dataType
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

  /**
   * @param {import('webnn-node').MLOperandDataType} dataType
   * @param {number} value
   * @returns {number} the id of a constant without dimensions
   */
  scalar(dataType, value) {
    return this.#append({ kind: 'scalar', dataType, value, needs: [], isOpen: false })[0];
  }

  /**
   * Appends an operator. If the shapes of its operands are known, it is checked now, otherwise later.
   *
   * @param {string} name
   * @param {unknown[]} args with ids in place of operands
   * @param {Record<string, unknown>} options with ids in place of operands
   * @returns {number[]} the ids of its results
   */
  operator(name, args, options) {
    const needs = operandIds({ name, args, options });
    const isOpen = needs.some((id) => this.#nodeOf(id).isOpen);
    return this.#append({ kind: 'operator', name, args, options, needs, isOpen });
  }

  /**
   * @param {number} first id of its first result
   * @returns {import('../internal.js').ProgramNode}
   */
  #node(first) {
    return /** @type {import('../internal.js').ProgramNode} */ (this.#nodes.get(first));
  }

  /** @param {number} id */
  #nodeOf(id) {
    return this.#node(this.#firsts[id]);
  }

  /** @param {import('../internal.js').ProgramNode} node */
  #append(node) {
    const first = this.#firsts.length;
    const count = node.isOpen ? this.#countOf(node) : this.#check(node, first);
    this.#nodes.set(first, node);
    const ids = Array.from({ length: count }, (_, i) => first + i);
    ids.forEach(() => this.#firsts.push(first));
    return ids;
  }

  /** @param {import('../internal.js').ProgramNode} node */
  #countOf(node) {
    return node.kind === 'operator' ? countOutputs(node.name, node.args, node.options) : 1;
  }

  /**
   * Adds a node to the builder that checks it, and returns the number of its results.
   *
   * @param {import('../internal.js').ProgramNode} node
   * @param {number} first
   */
  #check(node, first) {
    const session = (this.#session ??= new Session(this.#context, new Map()));
    this.#tell(session, node.needs);
    const results = this.#emit(session, node, first);
    results.forEach((operand, i) => session.operands.set(first + i, operand));
    return results.length;
  }

  /**
   * Returns the ids of the first results of all nodes that the given results depend on, in dependency order.
   *
   * @param {number[]} ids
   * @param {(id: number) => boolean} [isKnown]
   */
  #closure(ids, isKnown = (_) => false) {
    /** @type {Set<number>} */
    const found = new Set();
    const open = ids.map((id) => this.#firsts[id]);
    while (open.length > 0) {
      const first = /** @type {number} */ (open.pop());
      if (!found.has(first) && !isKnown(first)) {
        found.add(first);
        open.push(...this.#node(first).needs.map((id) => this.#firsts[id]));
      }
    }
    return [...found].sort((a, b) => a - b);
  }

  /**
   * Adds all nodes that the given results depend on to a builder.
   *
   * @param {Session} session
   * @param {number[]} ids
   */
  #tell(session, ids) {
    for (const first of this.#closure(ids, (id) => session.operands.has(id))) {
      const results = this.#emit(session, this.#node(first), first);
      results.forEach((operand, i) => session.operands.set(first + i, operand));
    }
  }

  /**
   * @param {Session} session
   * @param {import('../internal.js').ProgramNode} node
   * @param {number} first
   */
  #emit({ builder, operands, shapes }, node, first) {
    switch (node.kind) {
      case 'input':
        return [builder.input(`${first}`, { dataType: node.dataType, shape: shapes.get(first) ?? namedShape(node.shape, first) })];
      case 'constant':
        return [builder.constant(node.tensor)];
      case 'scalar':
        return [builder.constant(node.dataType, node.value)];
      default:
        return this.#lower(builder, operands, node);
    }
  }

  /**
   * @param {import('webnn-node').MLGraphBuilder} builder
   * @param {Map<number, import('webnn-node').MLOperand>} operands
   * @param {{ name: string, args: unknown[], options: Record<string, unknown> }} node
   * @returns {import('webnn-node').MLOperand[]}
   */
  #lower(builder, operands, { name, args, options }) {
    /** @type {(id: unknown) => unknown} */
    const operandOf = (id) => (Array.isArray(id) ? id.map(operandOf) : operands.get(/** @type {number} */ (id)));
    const places = operandArguments(name);
    const todays = args.map((value, i) => (places[i] ? operandOf(value) : value));
    const members = Object.entries(options);
    const todaysOptions = Object.fromEntries(members.map(([key, value]) => [key, OPERAND_OPTIONS.has(key) ? operandOf(value) : value]));
    const values = new Map(args.map((id, i) => [todays[i], this.#values.get(id)]));
    const results = lowerings[name](builder, todays, todaysOptions, (operand) => values.get(operand));
    return Array.isArray(results) ? results : [results];
  }

  /**
   * Returns the inputs that the given results depend on.
   *
   * @param {number[]} ids
   * @returns {{id: number, isOpen: boolean}[]} with whether some of their sizes are unknown
   */
  inputsOf(ids) {
    const inputs = this.#closure(ids).filter((first) => this.#node(first).kind === 'input');
    return inputs.map((id) => ({ id, isOpen: this.#node(id).isOpen }));
  }

  /**
   * Compiles the nodes that the given results depend on.
   *
   * @param {number[]} ids
   * @param {Map<number, number[]>} shapes of the inputs by id; those without one are compiled for all sizes
   * @returns {Promise<import('../internal.js').CompiledProgram>} inputs by id, outputs by index
   * @throws {TypeError} if a lowering needs an unknown size
   */
  async compile(ids, shapes) {
    const isFixed = !ids.some((id) => this.#nodeOf(id).isOpen);
    const session = isFixed && this.#session !== undefined ? this.#session : new Session(this.#context, shapes);
    if (session === this.#session) {
      this.#session = undefined; // today's builders build once
    }
    this.#tell(session, ids);
    const described = (/** @type {string} */ name, /** @type {import('webnn-node').MLOperand} */ { dataType, shape }) => ({
      name,
      dataType,
      shape: [...shape],
    });
    const outputs = ids.map((id, i) => /** @type {[string, import('webnn-node').MLOperand]} */ ([`${i}`, this.#computed(session, id)]));
    const graph = await session.builder.build(Object.fromEntries(outputs));
    return {
      graph: /** @type {import('webnn-node').MLDynamicGraph} */ (graph),
      inputs: this.inputsOf(ids).map(({ id }) => described(`${id}`, /** @type {import('webnn-node').MLOperand} */ (session.operands.get(id)))),
      outputs: outputs.map(([name, operand]) => described(name, operand)),
    };
  }

  /**
   * Today's graphs cannot have inputs and constants as outputs.
   *
   * @param {Session} session
   * @param {number} id
   */
  #computed({ builder, operands }, id) {
    const operand = /** @type {import('webnn-node').MLOperand} */ (operands.get(id));
    return this.#nodeOf(id).kind === 'operator' ? operand : builder.identity(operand);
  }

  /** Adds a user of the program. */
  retain() {
    this.#users++;
  }

  /** Removes a user of the program. */
  release() {
    this.#users--;
    if (this.#users === 0) {
      this.#tensors.forEach((tensor) => tensor.destroy());
      this.#session = undefined;
    }
  }
}

module.exports = { Program };
