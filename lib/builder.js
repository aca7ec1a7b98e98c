'use strict';

const { slots: contextSlots } = require('./context.js');
const { DATA_TYPES, dataTypeIndex, matchingBytes } = require('./descriptor.js');
const { DynamicGraph, createDynamicMLGraph, toInputOperandDescriptor } = require('./dynamic.js');
const { illegalInvocation, invalidStateError, quote, shownLabel, subject } = require('./errors.js');
const { Graph, createMLGraph } = require('./graph.js');
const native = require('./native.js');
const { Operand, createMLOperand, slots: operandSlots } = require('./operand.js');
const { dictionaries, operators } = require('./operators.js');
const { mayBuildAgain } = require('./several-builds.js');
const { defineSlots } = require('./slots.js');
const { slots: tensorSlots } = require('./tensor.js');
const { converterFor, dictionaryConverter } = require('./types.js');
const { bufferSource, defineInterface, interfaceType, isObject, record, requireArguments, usvString } = require('./webidl.js');

const { Promise } = globalThis;
const reject = Promise.reject.bind(Promise);

/** @type {import('./internal.js').Slots<Builder, import('../index.js').MLGraphBuilder>} */
const slots = defineSlots();

/** @type {Record<string, string>} */
const ROLE_NAMES = { input: 'an input', constant: 'a constant' };

const toContext = interfaceType('MLContext', contextSlots);
const toTensor = interfaceType('MLTensor', tensorSlots);
const toNamedOperands = record(interfaceType('MLOperand', operandSlots));
const toOperandDescriptor = dictionaryConverter('MLOperandDescriptor');
const toNumber = converterFor('MLNumber');

/**
 * A value that native code has added to a graph.
 *
 * @typedef {{name: string, dataType: import('../index.js').MLOperandDataType, shape: number[], operand: number | null}} Added
 */

/** State of an MLGraphBuilder. */
class Builder {
  #context;
  #handle;
  #hasBuilt = false;
  /**
   * Input operands by name.
   *
   * @type {Map<string, import('./internal.js').OperandState>}
   */
  #inputs = new Map();
  /** Whether an input has a named dimension. */
  #isDynamic = false;

  /** @param {import('./internal.js').ContextState} context that is not lost */
  constructor(context) {
    this.#context = context;
    this.#handle = context.createBuilder();
  }

  /**
   * @param {string} operation for the message
   * @throws {DOMException} InvalidStateError if the builder cannot build
   */
  requireCanBuild(operation) {
    if (this.#hasBuilt) {
      throw invalidStateError(`${operation}: the builder has already built its graph`);
    }
    this.#context.requireNotLost(operation);
  }

  /**
   * The draft's "validate operand".
   *
   * @param {import('./internal.js').OperandState} operand
   * @param {string} operation
   * @param {string} name of the argument or option
   * @returns {number} the native id
   * @throws {TypeError} if it belongs to another builder
   */
  idOf(operand, operation, name) {
    if (operand.builder !== this) {
      throw new TypeError(`${operation}: ${name} belongs to another builder`);
    }
    return operand.id;
  }

  /**
   * Converts the descriptor of an input.
   *
   * @param {unknown} descriptor
   * @returns {import('./internal.js').Described}
   */
  toInputDescriptor(descriptor) {
    const convert = this.#context.hasDynamicShapes ? toInputOperandDescriptor : toOperandDescriptor;
    return convert(descriptor, 'input: descriptor');
  }

  /**
   * @param {string} name
   * @param {import('./internal.js').Described} descriptor
   * @returns {import('../index.js').MLOperand} a graph input
   */
  input(name, { dataType, shape }) {
    this.requireCanBuild('input');
    if (name === '') {
      throw new TypeError('input: name is empty');
    }
    if (this.#inputs.has(name)) {
      throw new TypeError(`input: there is already an input with the name ${quote(name)}`);
    }
    const hasNames = shape.some((dimension) => typeof dimension === 'string');
    const id = hasNames
      ? native.dynamicInput(this.#handle, name, dataTypeIndex(dataType), shape)
      : native.input(this.#handle, name, dataTypeIndex(dataType), /** @type {readonly number[]} */ (shape));
    this.#isDynamic ||= hasNames;
    const operand = new Operand(this, id, dataType, shape, 'input');
    this.#inputs.set(name, operand);
    return createMLOperand(operand);
  }

  /** Converters for descriptors of constants. */
  get constants() {
    return this.#context.constants;
  }

  /**
   * @param {import('./internal.js').Dictionaries['MLOperandDescriptor']} descriptor
   * @param {unknown} buffer
   * @param {string} kind of the buffer, from `bufferSource`
   * @returns {import('../index.js').MLOperand} a constant with the contents of a buffer
   */
  constant(descriptor, buffer, kind) {
    this.requireCanBuild('constant');
    const { dataType, shape } = descriptor;
    const bytes = matchingBytes(buffer, kind, descriptor, 'constant: buffer');
    const id = native.constant(this.#handle, dataTypeIndex(dataType), shape, bytes);
    return createMLOperand(new Operand(this, id, dataType, shape, 'constant'));
  }

  /**
   * @param {import('../index.js').MLOperandDataType} dataType
   * @param {number | bigint} value
   * @returns {import('../index.js').MLOperand} a scalar constant
   */
  scalar(dataType, value) {
    this.requireCanBuild('constant');
    const id = native.constantScalar(this.#handle, dataTypeIndex(dataType), value);
    return createMLOperand(new Operand(this, id, dataType, [], 'constant'));
  }

  /**
   * @param {import('./internal.js').TensorState} tensor
   * @returns {import('../index.js').MLOperand} a constant with the contents of a constant tensor
   */
  constantTensor(tensor) {
    if (tensor.context !== this.#context) {
      throw new TypeError('constant: tensor belongs to another context');
    }
    if (tensor.isDestroyed) {
      throw new TypeError('constant: tensor is destroyed');
    }
    if (!tensor.constant) {
      throw new TypeError('constant: tensor is not a constant tensor, expected one of createConstantTensor');
    }
    this.requireCanBuild('constant');
    const id = native.constantTensor(this.#handle, tensor.handle);
    return createMLOperand(new Operand(this, id, tensor.dataType, tensor.shape, 'constant'));
  }

  /**
   * Appends an operator.
   *
   * @param {string} name
   * @param {Record<string, import('./internal.js').OperandState | import('./internal.js').OperandState[]>} operands by IDL name
   * @param {Record<string, unknown>} attributes by IDL name
   * @param {string} label
   * @returns {import('../index.js').MLOperand[]} its outputs
   */
  operator(name, operands, attributes, label) {
    const shown = shownLabel(label);
    const operation = subject(shown, name);
    this.requireCanBuild(operation);
    /** @type {Record<string, number | number[]>} */
    const ids = Object.create(null);
    for (const [key, operand] of Object.entries(operands)) {
      ids[key] = Array.isArray(operand) ? operand.map((item, index) => this.idOf(item, operation, `${key}[${index}]`)) : this.idOf(operand, operation, key);
    }
    const outputs = native.operator(this.#handle, name, ids, attributes, shown);
    // A list of this realm: that of the native side is of the one that loaded the binary.
    return Array.from(outputs, ([id, dataType, ...shape]) => createMLOperand(new Operand(this, id, DATA_TYPES[dataType], shape, 'output')));
  }

  /**
   * Appends operators that native code adds on its own, and registers the inputs that come with them.
   *
   * @param {(handle: import('./internal.js').Handle<'builder'>, idOf: (operand: import('./internal.js').OperandState, name: string) => number) => {
   *   inputs: Added[],
   *   outputs: Added[],
   * }} append
   * @param {string} operation for messages
   * @returns {Record<'inputs' | 'outputs', (Omit<Added, 'operand'> & {operand: import('../index.js').MLOperand |
   *   null})[]>} as `append` returned them, with MLOperands in place of ids
   */
  append(append, operation) {
    this.requireCanBuild(operation);
    const { inputs, outputs } = append(this.#handle, (operand, name) => this.idOf(operand, operation, name));
    const objects =
      (/** @type {'input' | 'output'} */ role) =>
      (/** @type {Added} */ { operand: id, ...value }) => {
        if (id === null) {
          return { ...value, operand: null };
        }
        const operand = new Operand(this, id, value.dataType, value.shape, role);
        if (role === 'input') {
          this.#inputs.set(value.name, operand);
        }
        return { ...value, operand: createMLOperand(operand) };
      };
    return { inputs: inputs.map(objects('input')), outputs: outputs.map(objects('output')) };
  }

  /**
   * @param {Map<string, import('./internal.js').OperandState>} outputs
   * @param {boolean} again whether the builder may build another graph after this one
   * @returns {Promise<import('../index.js').MLGraph>}
   */
  build(outputs, again) {
    this.requireCanBuild('build');
    if (outputs.size === 0) {
      throw new TypeError('build: outputs is empty');
    }
    const named = [...outputs];
    const names = named.map(([name]) => name);
    const ids = named.map(([name, operand]) => this.#outputId(name, operand));
    this.#hasBuilt = !again;
    const handle = this.#handle;
    // Where there is no copy, the constants are freed even if the builder lives on.
    this.#handle = again ? native.copyBuilder(handle) : /** @type {never} */ (undefined);
    const context = this.#context;
    const inputsOf = (/** @type {string[]} */ inputNames) =>
      inputNames.map((name) => graphValue(name, /** @type {import('./internal.js').OperandState} */ (this.#inputs.get(name))));
    const outputValues = named.map(([name, operand]) => graphValue(name, operand));
    if (this.#isDynamic) {
      return context.buildDynamic(
        handle,
        names,
        ids,
        (graph, inputNames) => new DynamicGraph(context, graph, inputsOf(inputNames), outputValues),
        createDynamicMLGraph,
      );
    }
    return context.build(
      handle,
      names,
      ids,
      (graph, inputNames) => new Graph(context, graph, inputsOf(inputNames), outputValues),
      (graph) => {
        native.weighGraph(graph.handle);
        return context.hasDynamicShapes ? createDynamicMLGraph(graph) : createMLGraph(graph);
      },
    );
  }

  /**
   * @param {string} name
   * @param {import('./internal.js').OperandState} operand
   */
  #outputId(name, operand) {
    if (name === '') {
      throw new TypeError('build: outputs has an empty name');
    }
    const id = this.idOf(operand, 'build', `output ${quote(name)}`);
    if (operand.role !== 'output') {
      const role = ROLE_NAMES[operand.role];
      throw new TypeError(`build: output ${quote(name)} is ${role}, use identity() to return it`);
    }
    return id;
  }
}

/**
 * Description of a graph input or output.
 *
 * @param {string} name
 * @param {import('./internal.js').Described} descriptor
 * @returns {import('./internal.js').NamedShape}
 */
function graphValue(name, { dataType, shape }) {
  return { name, dataType, shape };
}

/**
 * @param {unknown} builder
 * @param {string} member
 */
function stateOf(builder, member) {
  const state = slots.get(builder);
  if (state === undefined) {
    throw illegalInvocation(`MLGraphBuilder.${member}`, 'MLGraphBuilder');
  }
  return state;
}

/** https://www.w3.org/TR/webnn/#api-mlgraphbuilder; the operator methods are added below. */
class MLGraphBuilder {
  /** @param {unknown} context */
  constructor(context) {
    requireArguments('MLGraphBuilder', arguments.length, 1);
    const owner = toContext(context, 'MLGraphBuilder: context');
    owner.requireNotLost('MLGraphBuilder');
    return slots.create(MLGraphBuilder, new Builder(owner), new.target);
  }

  /**
   * @param {unknown} name
   * @param {unknown} descriptor
   */
  input(name, descriptor) {
    const builder = stateOf(this, 'input');
    requireArguments('input', arguments.length, 2);
    const inputName = usvString(name, 'input: name');
    return builder.input(inputName, builder.toInputDescriptor(descriptor));
  }

  /**
   * @param {unknown} first
   * @param {unknown} [second]
   */
  constant(first, second = undefined) {
    const builder = stateOf(this, 'constant');
    requireArguments('constant', arguments.length, 1);
    if (arguments.length === 1) {
      return builder.constantTensor(toTensor(first, 'constant: tensor'));
    }
    if (isObject(first) || first === undefined || first === null) {
      const descriptor = builder.constants.toDescriptor(first, 'constant: descriptor');
      return builder.constant(descriptor, second, bufferSource(second, 'constant: buffer'));
    }
    const dataType = builder.constants.toDataType(first, 'constant: dataType');
    return builder.scalar(dataType, toNumber(second, 'constant: value'));
  }

  /** @param {unknown} outputs */
  build(outputs) {
    try {
      const builder = stateOf(this, 'build');
      requireArguments('build', arguments.length, 1);
      return builder.build(toNamedOperands(outputs, 'build: outputs'), mayBuildAgain(this));
    } catch (error) {
      return reject(error);
    }
  }
}

const isOperandType = (/** @type {string} */ type) => type === 'MLOperand' || type === 'sequence<MLOperand>';

/** @typedef {{name: string, arguments: {name: string, type: string}[], options: string, result: string}} OperatorRow of the generated table */

/**
 * Returns the conversion of an operator's arguments and options.
 *
 * @param {OperatorRow} row
 */
function operatorConversion({ name, arguments: parameters, options }) {
  const steps = parameters.map((parameter) => ({
    name: parameter.name,
    what: `${name}: ${parameter.name}`,
    convert: converterFor(parameter.type),
    isOperand: isOperandType(parameter.type),
  }));
  /** @type {Record<string, import('./internal.js').DictionaryMember[]>} */
  const known = dictionaries;
  const operandOptions = new Set(known[options].filter(({ type }) => isOperandType(type)).map((member) => member.name));
  return { steps, operandOptions, toOptions: dictionaryConverter(options) };
}

/**
 * Creates the method of one operator.
 *
 * @param {OperatorRow} row
 * @returns {Function}
 */
function operatorMethod(row) {
  const { name } = row;
  const { length } = row.arguments;
  const returnsSequence = row.result !== 'MLOperand';
  /** Made when it is called first: programs use few operators, or none. @type {ReturnType<typeof operatorConversion> | undefined} */
  let conversion;

  const method = {
    [name](/** @type {unknown[]} */ ...args) {
      const builder = stateOf(this, name);
      requireArguments(name, args.length, length);
      conversion ??= operatorConversion(row);
      const { steps, operandOptions, toOptions } = conversion;
      const operands = Object.create(null);
      const attributes = Object.create(null);
      for (let i = 0; i < length; i++) {
        const step = steps[i];
        (step.isOperand ? operands : attributes)[step.name] = step.convert(args[i], step.what);
      }
      const { label, ...members } = toOptions(args[length], `${name}: options`);
      for (const key of Object.keys(members)) {
        (operandOptions.has(key) ? operands : attributes)[key] = members[key];
      }
      const outputs = builder.operator(name, operands, attributes, label);
      return returnsSequence ? outputs : outputs[0];
    },
  }[name];
  Object.defineProperty(method, 'length', { value: length, configurable: true });
  return method;
}

for (const row of operators) {
  Object.defineProperty(MLGraphBuilder.prototype, row.name, {
    value: operatorMethod(row),
    writable: true,
    configurable: true,
  });
}

module.exports = { Builder, MLGraphBuilder: defineInterface(MLGraphBuilder), slots };
