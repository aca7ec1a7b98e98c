'use strict';

/** Results of `run`. */

const { DATA_TYPES } = require('../descriptor.js');
const { byteLengthOf } = require('../webidl.js');
const { CONVERTED, elementsOf } = require('./converted.js');
const { Group, PRESENT } = require('./groups.js');
const { Attach } = require('../slots.js');
const { Held, INSPECT, SHOWN, plainObjects } = require('./unread.js');

const { ArrayBuffer, Object, TypeError, Uint32Array, Uint8Array } = globalThis;
const { defineProperty } = Object;

const PlainResults = plainObjects();

/** How the native side delivers an output. */
const [ABSENT, ALONE, CACHE] = [0, 2, 3];

/**
 * @typedef {{object: import('../../index.js').MLTensor, state: import('../internal.js').TensorState} | 'tensor'} Target
 *   of an output: an MLTensor and its state, or `'tensor'` for a new one
 */

/**
 * @typedef {Record<string, import('../../onnx.js').OnnxResult | import('../../index.js').MLTensor>} Results of a run,
 *   by output name
 */

/** What holds the caches among the results of a run, a private field of these results. */
class Caches extends Attach {
  #held;
  /** @type {import('../internal.js').ResultGroup | undefined} */
  #group;

  /**
   * @param {Results} results
   * @param {import('../internal.js').HeldResults} held
   */
  constructor(results, held) {
    super(results);
    this.#held = held;
  }

  /**
   * @param {object} results
   * @throws {TypeError} for an object that is not the results of a run, but inherits from them
   */
  static heldOf(results) {
    if (!(#held in results)) {
      throw new TypeError('Illegal invocation');
    }
    return results.#held;
  }

  /**
   * @param {object} results
   * @param {import('./groups.js').Members} members
   */
  static groupOf(results, members) {
    const held = Caches.heldOf(results);
    const caches = /** @type {Caches} */ (results);
    caches.#group ??= new Group(members, held);
    return caches.#group;
  }
}

/**
 * Creates a property that makes its value when it is read. Results of all runs of a session share these, and with them a
 * hidden class: results that nobody reads cost nothing.
 *
 * @param {string} name
 * @param {boolean} enumerable
 * @param {(results: object) => unknown} read
 * @returns {PropertyDescriptor & ThisType<object>}
 */
function lazily(name, enumerable, read) {
  return {
    get() {
      return read(this);
    },
    set(value) {
      defineProperty(this, name, { value, writable: true, enumerable, configurable: true });
    },
    enumerable,
    configurable: true,
  };
}

/** Makes the results of the runs of a session. */
class ResultMaker {
  #context;
  #outputs;
  #members;
  /** Whether an output, by index, is one of the members. */
  #isMember;
  /** Properties of caches, by output, and of the group. */
  #caches;
  #group;
  /**
   * What the runs returned, by output. Their results share the list, which is replaced if a run returns something else.
   *
   * @type {readonly import('./unread.js').OutputKind[]}
   */
  #kinds = [];

  /**
   * @param {import('../internal.js').ContextState} context
   * @param {readonly import('../../onnx.js').OnnxValueInfo[]} outputs
   * @param {import('./groups.js').Members | undefined} members of the group among the results
   */
  constructor(context, outputs, members) {
    this.#context = context;
    this.#outputs = outputs;
    this.#members = members;
    this.#isMember = outputs.map((_, place) => members?.places.includes(place) === true);
    this.#caches = outputs.map(({ name }, place) => lazily(name, true, (results) => Caches.heldOf(results).result(place)));
    this.#group = members && lazily(PRESENT, false, (results) => Caches.groupOf(results, members));
  }

  /**
   * @param {import('../internal.js').Made} made
   * @param {Map<string, Target | null>} fetches
   * @returns {Results}
   */
  results(made, fetches) {
    const numbers = new Uint32Array(made[0]);
    const results = /** @type {Results} */ (new PlainResults());
    let at = 0;
    let next = 2;
    let cached = 0;
    for (let place = 0; place < this.#outputs.length; place++) {
      const { name } = this.#outputs[place];
      const delivery = numbers[at];
      const kind = delivery === ABSENT ? undefined : this.#kindOf(place, numbers[at + 1]);
      at += 2;
      if (delivery === CACHE) {
        defineProperty(results, name, this.#caches[place]);
        cached += this.#isMember[place] ? 1 : 0;
      } else if (kind === undefined) {
        const target = fetches.get(name);
        if (target !== undefined && target !== null && target !== 'tensor') {
          put(results, name, target.object);
        }
      } else if (delivery === ALONE) {
        put(results, name, new Held(/** @type {import('../internal.js').Handle<'values'>} */ (made[next++]), [kind]).result(0));
      } else {
        const shape = new Array(numbers[at++]);
        for (let axis = 0; axis < shape.length; axis++) {
          shape[axis] = numbers[at++];
        }
        put(results, name, this.#wholeOf(made[next++], kind, shape, fetches.get(name) === 'tensor'));
      }
    }
    if (made[1] !== undefined) {
      new Caches(results, new Held(made[1], this.#kinds));
      defineProperty(results, INSPECT, SHOWN);
    }
    const members = this.#members;
    if (members !== undefined && this.#group !== undefined) {
      const isWhole = cached === members.keys.length;
      // Not enumerable: it has results that the caller's loops have already seen.
      defineProperty(results, PRESENT, isWhole ? this.#group : { value: partOf(members, results), writable: true, configurable: true });
    }
    return results;
  }

  /**
   * @param {number} place
   * @param {number} type index of the data type
   * @returns {import('./unread.js').OutputKind}
   */
  #kindOf(place, type) {
    const made = DATA_TYPES[type];
    if (this.#kinds[place]?.made !== made) {
      const { name, dataType } = this.#outputs[place];
      const kinds = [...this.#kinds];
      kinds[place] = { name, made, dataType: /** @type {import('../../onnx.js').OnnxDataType} */ (CONVERTED.has(dataType) ? dataType : made) };
      this.#kinds = kinds;
    }
    return this.#kinds[place];
  }

  /**
   * @param {import('../internal.js').Made[number]} value a new tensor, or an ArrayBuffer
   * @param {import('./unread.js').OutputKind} kind
   * @param {number[]} shape
   * @param {boolean} isTensor
   */
  #wholeOf(value, { made, dataType }, shape, isTensor) {
    if (isTensor) {
      const handle = /** @type {import('../internal.js').Handle<'tensor'>} */ (value);
      return this.#context.adoptTensor(handle, { dataType: made, shape, readable: true, writable: true });
    }
    return { data: elementsOf(ownBuffer(/** @type {ArrayBuffer} */ (value)), made, dataType), shape, dataType };
  }
}

/**
 * @param {Results} results
 * @param {string} name
 * @param {Results[string]} value
 */
function put(results, name, value) {
  if (name === '__proto__') {
    defineProperty(results, name, { value, writable: true, enumerable: true, configurable: true });
  } else {
    results[name] = value;
  }
}

/**
 * Returns a group of results that nothing holds together.
 *
 * @param {import('./groups.js').Members} members
 * @param {Results} results
 */
function partOf(members, results) {
  return new Group(
    members,
    undefined,
    members.names.map((name) => results[name]),
  );
}

/**
 * @param {ArrayBuffer} buffer that native code made, in the realm that loaded the binary
 * @returns {ArrayBuffer} of this realm, with the same bytes
 */
function ownBuffer(buffer) {
  if (buffer instanceof ArrayBuffer) {
    return buffer;
  }
  const own = new ArrayBuffer(byteLengthOf(buffer, 'ArrayBuffer'));
  new Uint8Array(own).set(new Uint8Array(buffer));
  return own;
}

module.exports = { ResultMaker };
