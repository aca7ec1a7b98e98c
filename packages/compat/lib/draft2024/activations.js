'use strict';

/** MLActivation of the drafts until summer 2024: an operator without its operand, to be fused into another one. */

const { defineInterface, defineSlots, illegalConstructor, isObject } = require('webnn-node/internal/webidl');
const { lackOperand, ownActivation, recurrentName } = require('../activations.js');

/** @type {import('webnn-node/internal/webidl').Slots<import('../internal.js').Activation, object>} */
const slots = defineSlots();

/**
 * Methods of MLGraphBuilder that create an MLActivation if they are called without an operand: those without and those
 * with options.
 */
const PLAIN = ['gelu', 'hardSwish', 'relu', 'sigmoid', 'softsign', 'tanh'];
const WITH_OPTIONS = ['clamp', 'elu', 'hardSigmoid', 'leakyRelu', 'linear', 'softplus'];

/** Operators with an option `activation`. */
const FUSED = ['batchNormalization', 'conv2d', 'convTranspose2d'];

/** Operators with an option `activations`, with the index of their options argument. */
const RECURRENT = { gru: 5, gruCell: 5, lstm: 5, lstmCell: 6 };

/** An operator without its operand. */
class MLActivation {
  constructor() {
    throw illegalConstructor('MLActivation');
  }
}

defineInterface(MLActivation);

/**
 * @param {unknown} activation
 * @param {string} what
 * @returns {import('../internal.js').Activation}
 */
function stateOf(activation, what) {
  const state = slots.get(activation);
  if (state === undefined) {
    throw new TypeError(`${what} is not an MLActivation`);
  }
  return state;
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
 * @param {Record<string, Function>} base methods of today's MLGraphBuilder
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
  PLAIN.forEach((name) => makes(name, (args) => lackOperand(args, false)));
  WITH_OPTIONS.forEach((name) => makes(name, (args) => lackOperand(args, true)));
  for (const name of FUSED) {
    methods[name] = (builder, args) => {
      const options = args[base[name].length];
      const activation = isObject(options) ? /** @type {{ activation?: unknown }} */ (options).activation : undefined;
      const result = base[name].apply(builder, args);
      const what = `${name}: options.activation`;
      return activation === undefined ? result : ownActivation(stateOf(activation, what), builder, what).apply(result);
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
  const names = Array.from(/** @type {ArrayLike<unknown>} */ (/** @type {unknown} */ (activations)), (activation, i) => {
    const what = `${name}: options.activations[${i}]`;
    return typeof activation === 'string' ? activation : recurrentName(stateOf(activation, what), builder, what);
  });
  return withMembers(/** @type {object} */ (options), { activations: names });
}

module.exports = { MLActivation, activationMethods, withMembers };
