'use strict';

/** Operators without their operand, which other operators apply to their results: MLOperator, later MLActivation. */

const { isObject, notSupportedError } = require('webnn-node/internal/webidl');

/** Activations of recurrent networks. */
const RECURRENT_ACTIVATIONS = ['relu', 'sigmoid', 'tanh'];

/**
 * Whether the arguments of a method are those of an operator without its operand.
 *
 * @param {unknown[]} args
 * @param {boolean} hasOptions whether the operator has options
 */
function lackOperand(args, hasOptions) {
  const [first] = args;
  return hasOptions ? first === undefined || isDictionary(first) : args.length === 0;
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

/**
 * Checks that an operator without operand is of this builder.
 *
 * @template {{ builder: object }} State
 * @param {State} state of the operator
 * @param {object} builder
 * @param {string} what
 * @throws {TypeError} if it is of another
 */
function ownActivation(state, builder, what) {
  if (state.builder !== builder) {
    throw new TypeError(`${what} belongs to another builder`);
  }
  return state;
}

/**
 * Returns the name of a recurrent network's activation, for today's API.
 *
 * @param {{ name: string, builder: object }} state of an operator without operand
 * @param {object} builder
 * @param {string} what
 * @throws {DOMException} NotSupportedError if recurrent networks have no such activation
 */
function recurrentName(state, builder, what) {
  const { name } = ownActivation(state, builder, what);
  if (!RECURRENT_ACTIVATIONS.includes(name)) {
    throw notSupportedError(`${what} is ${name}, expected one of ${RECURRENT_ACTIVATIONS.join(', ')}`);
  }
  return name;
}

module.exports = { lackOperand, ownActivation, recurrentName };
