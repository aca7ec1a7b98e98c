'use strict';

/** MLActivation of the drafts until summer 2024: an operator without its operand, to be fused into another one. */

const { defineInterface, defineSlots, illegalConstructor, isObject, notSupportedError } = require('webnn-node/webidl');

/** @type {import('webnn-node/webidl').Slots<import('../internal.js').Activation, object>} */
const slots = defineSlots();

/**
 * Methods of MLGraphBuilder that create an MLActivation if they are called without an operand: those without and those
 * with options.
 */
const PLAIN = ['gelu', 'hardSwish', 'relu', 'sigmoid', 'softplus', 'softsign', 'tanh'];
const WITH_OPTIONS = ['clamp', 'elu', 'hardSigmoid', 'leakyRelu', 'linear'];

/** Operators with an option `activation`. */
const FUSED = ['batchNormalization', 'conv2d', 'convTranspose2d'];

/** Operators with an option `activations`, with the index of their options argument. */
const RECURRENT = { gru: 5, gruCell: 5, lstm: 5, lstmCell: 6 };

/** Activations of recurrent networks. */
const RECURRENT_ACTIVATIONS = ['relu', 'sigmoid', 'tanh'];

/** An operator without its operand. */
class MLActivation {
  constructor() {
    throw illegalConstructor('MLActivation');
  }
}

defineInterface(MLActivation);

/**
 * @param {unknown} activation
 * @param {object} builder
 * @param {string} what
 * @returns {import('../internal.js').Activation} the state of an activation of this builder
 */
function stateOf(activation, builder, what) {
  const state = slots.get(activation);
  if (state === undefined) {
    throw new TypeError(`${what} is not an MLActivation`);
  }
  if (state.builder !== builder) {
    throw new TypeError(`${what} belongs to another builder`);
  }
  return state;
}

/**
 * Returns the name of a recurrent network's activation, for today's API.
 *
 * @param {unknown} activation
 * @param {object} builder
 * @param {string} what
 */
function recurrentName(activation, builder, what) {
  if (typeof activation === 'string') {
    return activation;
  }
  const { name } = stateOf(activation, builder, what);
  if (!RECURRENT_ACTIVATIONS.includes(name)) {
    throw notSupportedError(`${what} is ${name}, expected one of ${RECURRENT_ACTIVATIONS.join(', ')}`);
  }
  return name;
}

/**
 * Overrides members of a caller's dictionary, which may be any object.
 *
 * @param {object} options
 * @param {object} members
 */
const withMembers = (options, members) => Object.assign(Object.create(options), members);

/**
 * Returns the methods that create or accept activations.
 *
 * @param {Record<string, Function>} base prototype of today's MLGraphBuilder
 * @returns {Record<string, import('../internal.js').BuilderMethod>}
 */
function activationMethods(base) {
  /** @type {Record<string, import('../internal.js').BuilderMethod>} */
  const methods = {};
  /** @type {(builder: object, name: string, args: unknown[]) => object} */
  const create = (builder, name, args) => slots.create(MLActivation, { builder, name, apply: (operand) => base[name].call(builder, operand, ...args) });
  /** @type {(name: string, isActivation: (args: unknown[]) => boolean) => void} */
  const makes = (name, isActivation) => {
    methods[name] = (builder, args) => (isActivation(args) ? create(builder, name, args) : base[name].apply(builder, args));
  };
  PLAIN.forEach((name) => makes(name, (args) => args.length === 0));
  WITH_OPTIONS.forEach((name) => makes(name, ([first]) => first === undefined || isDictionary(first)));
  for (const name of FUSED) {
    methods[name] = (builder, args) => {
      const options = args[base[name].length];
      const activation = isObject(options) ? /** @type {{ activation?: unknown }} */ (options).activation : undefined;
      const result = base[name].apply(builder, args);
      return activation === undefined ? result : stateOf(activation, builder, `${name}: options.activation`).apply(result);
    };
  }
  for (const [name, place] of Object.entries(RECURRENT)) {
    methods[name] = (builder, args) =>
      base[name].apply(
        builder,
        args.map((value, i) => (i === place ? withNames(builder, name, value) : value)),
      );
  }
  return methods;
}

/**
 * Replaces activations in the options of a recurrent network by their names.
 *
 * @param {object} builder
 * @param {string} name
 * @param {unknown} options
 */
function withNames(builder, name, options) {
  const activations = isObject(options) ? /** @type {{ activations?: unknown }} */ (options).activations : undefined;
  if (!isObject(activations)) {
    return options;
  }
  const names = Array.from(/** @type {ArrayLike<unknown>} */ (/** @type {unknown} */ (activations)), (activation, i) =>
    recurrentName(activation, builder, `${name}: options.activations[${i}]`),
  );
  return withMembers(/** @type {object} */ (options), { activations: names });
}

/**
 * Whether a first argument is a dictionary in place of the operand.
 *
 * @param {unknown} value
 */
function isDictionary(value) {
  const prototype = isObject(value) ? Object.getPrototypeOf(value) : undefined;
  return prototype === null || prototype === Object.prototype;
}

module.exports = { MLActivation, activationMethods, withMembers };
