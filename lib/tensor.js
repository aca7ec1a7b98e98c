'use strict';

const { byteLength } = require('./descriptor.js');
const { illegalConstructor, illegalInvocation, invalidStateError } = require('./errors.js');
const native = require('./native.js');
const { defineSlots } = require('./slots.js');
const { defineInterface } = require('./webidl.js');

/** @type {import('./internal.js').Slots<Tensor, import('../index.js').MLTensor>} */
const slots = defineSlots();

/** State of an MLTensor. */
class Tensor {
  /**
   * Ids of reads that have not completed.
   *
   * @type {Set<number>}
   */
  #pendingReads = new Set();

  /** Number of the last dispatch that used the tensor, which reveals tensors that are passed twice. */
  lastDispatch = 0;

  isDestroyed = false;

  /**
   * @param {import('./internal.js').ContextState} context state of the MLContext
   * @param {import('./internal.js').Handle<'tensor'>} handle native tensor
   * @param {import('./internal.js').Descriptor & {readable?: boolean, writable?: boolean}} descriptor its shape is
   *   frozen
   * @param {boolean} constant
   */
  constructor(context, handle, { dataType, shape, readable = false, writable = false }, constant) {
    this.context = context;
    this.handle = handle;
    this.dataType = dataType;
    this.shape = Object.freeze(shape);
    this.readable = readable;
    this.writable = writable;
    this.constant = constant;
    this.byteLength = byteLength(this);
  }

  /**
   * Registers a read that the native side has begun.
   *
   * @template T
   * @param {number} id
   * @param {() => T} take returns the data when the read has succeeded
   * @returns {Promise<T>} rejected as soon as the tensor is destroyed
   */
  pendingRead(id, take) {
    this.#pendingReads.add(id);
    return native.completions.outcome(id, (error) => {
      this.#pendingReads.delete(id);
      if (error !== undefined) {
        throw error;
      }
      return take();
    });
  }

  /** The destroy() steps of the draft. */
  destroy() {
    if (this.isDestroyed) {
      return;
    }
    this.isDestroyed = true;
    for (const id of this.#pendingReads) {
      native.completions.abandon(id, invalidStateError('readTensor: the tensor was destroyed before the read was done'));
    }
    this.#pendingReads.clear();
    native.destroyTensor(this.handle);
    // Nothing uses the handle of a destroyed tensor.
    this.handle = /** @type {never} */ (undefined);
  }
}

/**
 * @param {unknown} tensor
 * @param {string} member
 * @returns {Tensor}
 */
function stateOf(tensor, member) {
  const state = slots.get(tensor);
  if (state === undefined) {
    throw illegalInvocation(`MLTensor.${member}`, 'MLTensor');
  }
  return state;
}

/** https://www.w3.org/TR/webnn/#api-mltensor */
class MLTensor {
  constructor() {
    throw illegalConstructor('MLTensor');
  }

  get dataType() {
    return stateOf(this, 'dataType').dataType;
  }

  get shape() {
    return stateOf(this, 'shape').shape;
  }

  get readable() {
    return stateOf(this, 'readable').readable;
  }

  get writable() {
    return stateOf(this, 'writable').writable;
  }

  get constant() {
    return stateOf(this, 'constant').constant;
  }

  destroy() {
    stateOf(this, 'destroy').destroy();
  }
}

/**
 * @param {Tensor} tensor
 * @returns {import('../index.js').MLTensor}
 */
function createMLTensor(tensor) {
  return slots.create(MLTensor, tensor);
}

module.exports = { MLTensor: defineInterface(MLTensor), Tensor, createMLTensor, slots };
