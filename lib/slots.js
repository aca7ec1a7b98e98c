'use strict';

/**
 * Internal slots of interface objects.
 *
 * Every interface has one private field that holds the state of its objects. The field is the brand: `get` accepts
 * nothing else, not even an object with the right prototype.
 *
 * The objects are WeakRef objects with the prototype of the interface. Nothing ever uses the reference, but the
 * structured clone algorithm refuses every object with an internal slot that it does not know. `structuredClone` and
 * `postMessage` therefore throw a DataCloneError, as they must for interfaces without [Serializable]; a plain object
 * would arrive as an empty one.
 */

const { isObject } = require('./webidl.js');

const { construct, setPrototypeOf } = Reflect;
const { WeakRef } = globalThis;

const REFERENT = Object.freeze(Object.create(null));

/** Base class that adds the private field of a derived class to an existing object. */
class Attach {
  /** @param {object} object */
  constructor(object) {
    return object;
  }
}

/**
 * Creates the slots of one interface.
 *
 * @template {object} State
 * @template {object} Interface
 * @returns {import('./internal.js').Slots<State, Interface>} `create` creates an object of the interface (`newTarget`
 *   as in a constructor, for derived classes), `get` returns the state, undefined for anything that `create` did not
 *   create
 */
function defineSlots() {
  class Slots extends Attach {
    #state;

    /**
     * @param {object} object
     * @param {State} state
     */
    constructor(object, state) {
      super(object);
      this.#state = state;
    }

    /** @param {unknown} value */
    static get(value) {
      return isObject(value) && #state in value ? value.#state : undefined;
    }
  }

  return {
    create(Class, state, newTarget = Class) {
      // Read once: it can be an accessor of a derived class or of a proxy.
      const prototype = newTarget === Class ? undefined : newTarget.prototype;
      const object = construct(WeakRef, [REFERENT], Class);
      if (isObject(prototype)) {
        setPrototypeOf(object, prototype);
      }
      new Slots(object, state);
      return /** @type {Interface} */ (object);
    },
    get: Slots.get,
  };
}

module.exports = { Attach, defineSlots };
