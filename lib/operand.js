'use strict';

const { illegalConstructor, illegalInvocation } = require('./errors.js');
const { defineSlots } = require('./slots.js');
const { defineInterface } = require('./webidl.js');

/** @type {import('./internal.js').Slots<Operand, import('../index.js').MLOperand>} */
const slots = defineSlots();

/** State of an MLOperand. */
class Operand {
  /**
   * @param {import('./internal.js').BuilderState} builder
   * @param {number} id by which the native builder knows it
   * @param {import('../index.js').MLOperandDataType} dataType
   * @param {readonly import('../index.js').MLDimension[]} shape becomes frozen
   * @param {'input' | 'constant' | 'output'} role `output` is an output of an operator
   */
  constructor(builder, id, dataType, shape, role) {
    this.builder = builder;
    this.id = id;
    this.dataType = dataType;
    this.shape = Object.freeze(shape);
    this.role = role;
  }
}

/**
 * @param {unknown} operand
 * @param {string} member
 * @returns {Operand}
 */
function stateOf(operand, member) {
  const state = slots.get(operand);
  if (state === undefined) {
    throw illegalInvocation(`MLOperand.${member}`, 'MLOperand');
  }
  return state;
}

/** https://www.w3.org/TR/webnn/#api-mloperand */
class MLOperand {
  constructor() {
    throw illegalConstructor('MLOperand');
  }

  get dataType() {
    return stateOf(this, 'dataType').dataType;
  }

  get shape() {
    // There are names only with the extension "dynamic-shapes".
    return /** @type {readonly number[]} */ (stateOf(this, 'shape').shape);
  }
}

/**
 * @param {Operand} operand
 * @returns {import('../index.js').MLOperand}
 */
function createMLOperand(operand) {
  return slots.create(MLOperand, operand);
}

module.exports = { MLOperand: defineInterface(MLOperand), Operand, createMLOperand, slots };
