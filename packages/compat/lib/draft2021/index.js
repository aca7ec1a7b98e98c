'use strict';

/** The interfaces of the draft of 2021 on top of today's API. */

const {
  amount,
  byteLengthOf,
  defineInterface,
  defineSlots,
  illegalConstructor,
  illegalInvocation,
  interfaceType,
  notSupportedError,
  quote,
  requireArguments,
  usvString,
} = require('webnn-node/internal/webidl');
const { lackOperand, ownActivation, recurrentName } = require('../activations.js');
const { isOneOf } = require('../foreign.js');
const { ELEMENT_SIZES, bytesIn, requireHolding } = require('../views.js');
const { theBridge } = require('./bridge.js');
const { Graph } = require('./graph.js');
const { ACTIVATIONS, operators } = require('./idl.js');
const { FOREIGN_DEVICES, converterFor, dictionaryConverter, slots, toNamedInputs, toNamedOperands, toNamedViews, toView } = require('./types.js');

/** @type {import('webnn-node/internal/webidl').Slots<object, import('../../index.js').draft2021.ML>} */
const mlSlots = defineSlots();

const toContext = interfaceType('MLContext', slots.context);
const toContextOptions = dictionaryConverter('MLContextOptions');
const toOperandDescriptor = dictionaryConverter('MLOperandDescriptor');
const toOperandType = converterFor('MLOperandType');
const toDouble = converterFor('double');

/**
 * Today's options for a device preference: a GPU is used where it is asked for.
 *
 * @type {Record<string, (powerPreference: import('webnn-node').MLPowerPreference) => import('../internal.js').TodaysContextOptions>}
 */
const TODAYS_OPTIONS = {
  default: (powerPreference) => ({ powerPreference }),
  gpu: () => ({ powerPreference: 'high-performance' }),
  cpu: (powerPreference) => ({ powerPreference, accelerated: false }),
};

/** State of an MLContext. */
class Context {
  /** @param {import('../internal.js').TodaysContextOptions} options for today's createContext() */
  constructor(options) {
    this.bridge = theBridge();
    this.id = this.bridge.nextId();
    this.bridge.post('createContext', { id: this.id, options });
    this.bridge.releaseWith(this, 'context', this.id);
  }
}

/** State of an MLGraphBuilder. */
class Builder {
  /**
   * The inputs by id. Two may have the same name, for different graphs.
   *
   * @type {Map<number, import('../internal.js').Input>}
   */
  inputs = new Map();

  /** @param {Context} context */
  constructor(context) {
    this.context = context;
    const { bridge } = context;
    this.id = bridge.nextId();
    bridge.call('createBuilder', { id: this.id, context: context.id });
    bridge.releaseWith(this, 'builder', this.id);
  }

  /**
   * @param {string} type
   * @param {object} request
   * @param {ArrayBuffer[]} [transfer]
   * @returns {any}
   */
  #call(type, request, transfer) {
    return this.context.bridge.call(type, { ...request, builder: this.id }, transfer);
  }

  /** @param {number} id */
  #operand(id) {
    return slots.operand.create(MLOperand, { builder: this, id });
  }

  /**
   * @param {string} name
   * @param {{ type: import('webnn-node').MLOperandDataType, dimensions?: number[] }} desc
   */
  input(name, { type, dimensions = [] }) {
    const id = this.#call('input', { dataType: type, shape: dimensions });
    this.inputs.set(id, { id, name, type, dimensions });
    return this.#operand(id);
  }

  /**
   * @param {{ type: import('webnn-node').MLOperandDataType, dimensions?: number[] }} desc
   * @param {import('../internal.js').View} bufferView
   */
  constant({ type, dimensions = [] }, bufferView) {
    const { view, kind } = bufferView;
    requireHolding(kind, type, 'constant: bufferView');
    const length = byteLengthOf(view, kind) / ELEMENT_SIZES[type];
    const expected = dimensions.reduce((product, size) => product * size, 1);
    if (length !== expected || dimensions.some((size) => size < 0)) {
      throw new TypeError(`constant: bufferView has ${amount(length, 'element')}, expected those of [${dimensions.join(', ')}]`);
    }
    const { buffer } = bytesIn(bufferView).slice();
    return this.#operand(this.#call('constant', { dataType: type, shape: dimensions, buffer }, [buffer]));
  }

  /**
   * @param {number} value
   * @param {import('webnn-node').MLOperandDataType} type
   */
  scalar(value, type) {
    return this.#operand(this.#call('scalar', { dataType: type, value }));
  }

  /**
   * @param {import('../internal.js').OperandState} operand
   * @param {string} what
   */
  #idOf(operand, what) {
    if (operand.builder !== this) {
      throw new TypeError(`${what} belongs to another builder`);
    }
    return operand.id;
  }

  /**
   * Replaces operands by their ids, anywhere in a value.
   *
   * @param {unknown} value
   * @param {string} what
   * @returns {unknown}
   */
  #withIds(value, what) {
    if (Array.isArray(value)) {
      return value.map((item, i) => this.#withIds(item, `${what}[${i}]`));
    }
    return typeof value === 'object' && value !== null ? this.#idOf(/** @type {import('../internal.js').OperandState} */ (value), what) : value;
  }

  /**
   * @param {import('../internal.js').Row} row
   * @param {unknown[]} args converted
   * @param {{ activation?: import('../internal.js').OperatorState }} options converted
   * @returns {import('../../index.js').draft2021.MLOperand[]}
   */
  operator(row, args, { activation, ...options }) {
    const operands = this.#append(row, args, this.#todaysOptions(row, options));
    if (activation === undefined) {
      return operands;
    }
    const { row: applied, options: its } = ownActivation(activation, this, `${row.name}: options.activation`);
    return this.operator(applied, [slots.operand.get(operands[0])], its);
  }

  /**
   * Returns options in which limits of `clamp` are operands, and activations of recurrent networks are names.
   *
   * @param {import('../internal.js').Row} row
   * @param {Record<string, any>} options converted
   */
  #todaysOptions({ name }, options) {
    const { activations } = options;
    const limits = ['minValue', 'maxValue'].filter((key) => typeof options[key] === 'number');
    return {
      ...options,
      ...Object.fromEntries(limits.map((key) => [key, slots.operand.get(this.scalar(options[key], 'float32'))])),
      ...(activations !== undefined && {
        activations: activations.map((/** @type {string | import('../internal.js').OperatorState} */ activation, /** @type {number} */ i) =>
          typeof activation === 'string' ? activation : recurrentName(activation, this, `${name}: options.activations[${i}]`),
        ),
      }),
    };
  }

  /**
   * @param {import('../internal.js').Row} row
   * @param {unknown[]} args converted
   * @param {object} options converted
   * @returns {import('../../index.js').draft2021.MLOperand[]}
   */
  #append({ name, arguments: parameters }, args, options) {
    const ids = this.#call('operator', {
      name,
      args: args.map((value, i) => this.#withIds(value, `${name}: ${parameters[i].name}`)),
      options: Object.fromEntries(Object.entries(options).map(([key, value]) => [key, this.#withIds(value, `${name}: options.${key}`)])),
    });
    return ids.map((/** @type {number} */ id) => this.#operand(id));
  }

  /** @param {Map<string, import('../internal.js').OperandState>} outputs */
  build(outputs) {
    if (outputs.size === 0) {
      throw new TypeError('build: outputs is empty');
    }
    const ids = [...outputs].map(([name, operand]) => this.#idOf(operand, `build: output ${quote(name)}`));
    const { bridge } = this.context;
    const id = bridge.nextId();
    /** @type {number[][]} */
    const needs = this.#call('build', { id, context: this.context.id, outputs: ids });
    const inputOf = (/** @type {number} */ input) => /** @type {import('../internal.js').Input} */ (this.inputs.get(input));
    const places = new Map();
    [...outputs.keys()].forEach((name, place) => {
      places.set(name, { place, needs: needs[place].map((input) => inputOf(input).name) });
    });
    const used = [...new Set(needs.flat())].map(inputOf);
    const graph = new Graph(this.context, id, new Map(used.map((input) => [input.name, input])), places);
    bridge.releaseWith(graph, 'graph', id);
    const twin = used.find(({ name }, i) => used.findIndex((other) => other.name === name) < i);
    if (twin !== undefined) {
      throw new TypeError(`build: two inputs of the graph have the name ${quote(twin.name)}`);
    }
    return slots.graph.create(MLGraph, graph);
  }
}

/**
 * @template {object} State
 * @param {string} name
 * @param {import('webnn-node/internal/webidl').Slots<State, object>} slotsOf
 * @param {unknown} object
 * @param {string} member
 */
function stateOf(name, slotsOf, object, member) {
  const state = slotsOf.get(object);
  if (state === undefined) {
    throw illegalInvocation(`${name}.${member}`, name);
  }
  return state;
}

/**
 * @param {unknown} object
 * @param {string} member
 */
const builderOf = (object, member) => /** @type {Builder} */ (stateOf('MLGraphBuilder', slots.builder, object, member));

/** Entry to the API. */
class ML {
  constructor() {
    throw illegalConstructor('ML');
  }

  /** @param {unknown} [options] */
  createContext(options = undefined) {
    stateOf('ML', mlSlots, this, 'createContext');
    if (isOneOf(FOREIGN_DEVICES, options)) {
      throw notSupportedError('createContext: contexts of a GPUDevice or WebGLRenderingContext are not supported, expected options');
    }
    const { devicePreference, powerPreference } = toContextOptions(options, 'createContext: options');
    return slots.context.create(MLContext, new Context(TODAYS_OPTIONS[devicePreference](powerPreference)));
  }
}

/** The context in which graphs are built and computed. */
class MLContext {
  constructor() {
    throw illegalConstructor('MLContext');
  }
}

/** A value of a graph under construction. */
class MLOperand {
  constructor() {
    throw illegalConstructor('MLOperand');
  }
}

/** An operator without its operand. */
class MLOperator {
  constructor() {
    throw illegalConstructor('MLOperator');
  }
}

/** A compiled graph. */
class MLGraph {
  constructor() {
    throw illegalConstructor('MLGraph');
  }

  /**
   * @param {unknown} inputs
   * @param {unknown} outputs
   * @returns {undefined}
   */
  compute(inputs, outputs) {
    const graph = stateOf('MLGraph', slots.graph, this, 'compute');
    requireArguments('compute', arguments.length, 2);
    graph.compute(toNamedInputs(inputs, 'compute: inputs'), toNamedViews(outputs, 'compute: outputs'));
  }
}

/** Builds graphs; the operator methods are added below. */
class MLGraphBuilder {
  /** @param {unknown} context */
  constructor(context) {
    requireArguments('MLGraphBuilder', arguments.length, 1);
    const owner = toContext(context, 'MLGraphBuilder: context');
    return slots.builder.create(MLGraphBuilder, new Builder(owner), new.target);
  }

  /**
   * @param {unknown} name
   * @param {unknown} desc
   */
  input(name, desc) {
    const builder = builderOf(this, 'input');
    requireArguments('input', arguments.length, 2);
    const inputName = usvString(name, 'input: name');
    return builder.input(inputName, toOperandDescriptor(desc, 'input: desc'));
  }

  /**
   * @param {unknown} first
   * @param {unknown} [second]
   */
  constant(first, second = undefined) {
    const builder = builderOf(this, 'constant');
    requireArguments('constant', arguments.length, 1);
    if ((typeof first === 'object' && first !== null) || typeof first === 'function') {
      requireArguments('constant', arguments.length, 2);
      const descriptor = toOperandDescriptor(first, 'constant: desc');
      return builder.constant(descriptor, toView(second, 'constant: bufferView'));
    }
    const value = toDouble(first, 'constant: value');
    return builder.scalar(value, second === undefined ? 'float32' : toOperandType(second, 'constant: type'));
  }

  /** @param {unknown} outputs */
  build(outputs) {
    const builder = builderOf(this, 'build');
    requireArguments('build', arguments.length, 1);
    return builder.build(toNamedOperands(outputs, 'build: outputs'));
  }
}

/**
 * Creates the method of one operator, from its row.
 *
 * @param {import('../internal.js').Row} row
 */
function operatorMethod(row) {
  const { name, arguments: parameters, options, result } = row;
  const converters = parameters.map(({ type }) => converterFor(type));
  const toOptions = dictionaryConverter(options);
  const isActivation = ACTIVATIONS.includes(name);
  const method = {
    [name](/** @type {unknown[]} */ ...args) {
      const builder = builderOf(this, name);
      if (isActivation && lackOperand(args, options !== undefined)) {
        return slots.operator.create(MLOperator, { builder, name, row, options: toOptions(args[0], `${name}: options`) });
      }
      requireArguments(name, args.length, parameters.length);
      const values = converters.map((convert, i) => convert(args[i], `${name}: ${parameters[i].name}`));
      const outputs = builder.operator(row, values, toOptions(args[parameters.length], `${name}: options`));
      return result === 'MLOperand' ? outputs[0] : outputs;
    },
  }[name];
  Object.defineProperty(method, 'length', { value: isActivation ? 0 : parameters.length, configurable: true });
  return method;
}

for (const row of operators) {
  Object.defineProperty(MLGraphBuilder.prototype, row.name, {
    value: operatorMethod(row),
    writable: true,
    configurable: true,
  });
}

[ML, MLContext, MLGraph, MLGraphBuilder, MLOperand, MLOperator].forEach(defineInterface);

/** The only object of its interface. */
const ml = mlSlots.create(ML, Object.freeze({}));

module.exports = { ml, ML, MLContext, MLGraph, MLGraphBuilder, MLOperand, MLOperator };
