'use strict';

/** Results of `run`. */

const { quote } = require('../errors.js');
const { byteLengthOf } = require('../webidl.js');
const { CONVERTED, NATIVE_DATA_TYPES, elementsOf } = require('./converted.js');
const { codedError } = require('./errors.js');
const { PRESENT, ResultsToken, groupOf } = require('./groups.js');
const { HeldValues, INSPECT, SHOWN, giveHeld, heldBehind, plainObjects } = require('./unread.js');

const { Array, ArrayBuffer, Object, Uint32Array, Uint8Array } = globalThis;
const { defineProperty } = Object;

const PlainResults = plainObjects();

/** How the native side delivers an output. */
const [ABSENT, ALONE, SHARED, LIST, NOTHING] = [0, 2, 3, 4, 5];

/**
 * What the native side returns, and how much of it has been read.
 *
 * @typedef {object} Delivered
 * @property {Uint32Array} numbers
 * @property {number} at the next of them
 * @property {import('../internal.js').Made} made
 * @property {number} next value
 */

/**
 * @typedef {{object: import('../../index.js').MLTensor, state: import('../internal.js').TensorState} | 'tensor'} Target
 *   of an output: an MLTensor and its state, or `'tensor'` for a new one
 */

/**
 * @typedef {Record<string, import('../../onnx.js').OnnxResult | import('../../onnx.js').OnnxResult[] | import('../../index.js').MLTensor | null>} Results of
 *   a run, by output name
 */

/**
 * Creates a property that makes its value when it is read. The results of all runs of a session have the same
 * properties, so they share a hidden class, and an output that is never read allocates nothing.
 *
 * @param {string} name
 * @param {boolean} enumerable
 * @param {(held: import('../internal.js').HeldValues, results: object) => unknown} read
 */
function lazily(name, enumerable, read) {
  return {
    /** @this {object} */
    get() {
      const held = heldBehind(this);
      if (held === undefined) {
        const advice = 'read it from the results of run(), or from a copy made with { ...results }';
        throw codedError('ERR_WEBNN_TYPE', `run: output ${quote(name)} cannot be read from an object that only has its getter: ${advice}`);
      }
      return read(held, this);
    },
    /** @this {object} @param {unknown} value */
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
  /** Properties of results that share a handle, by output, and of the group. */
  #shared;
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
   * @param {import('./groups.js').Pairs | undefined} pairs the outputs that are the group among the results
   */
  constructor(context, outputs, pairs) {
    this.#context = context;
    this.#outputs = outputs;
    this.#shared = outputs.map(({ name }, place) => lazily(name, true, (held) => held.result(place)));
    this.#members = pairs && { ...pairs, getters: pairs.places.map((place) => this.#shared[place].get) };
    // Not enumerable: it has results that the caller's loops have already seen.
    this.#group = lazily(PRESENT, false, (_, results) => groupOf(results));
  }

  /**
   * @param {import('../internal.js').Made} made
   * @param {Map<string, Target | null>} fetches
   * @returns {Results}
   */
  results(made, fetches) {
    const delivered = { numbers: new Uint32Array(made[0]), at: 0, made, next: 2 };
    const results = /** @type {Results} */ (new PlainResults());
    for (let place = 0; place < this.#outputs.length; place++) {
      const { name, labels } = this.#outputs[place];
      const target = fetches.get(name);
      if (delivered.numbers[delivered.at] === SHARED) {
        this.#kindOf(place, delivered.numbers[delivered.at + 1]);
        delivered.at += 2;
        defineProperty(results, name, this.#shared[place]);
        continue;
      }
      const value = this.#next(delivered, place, target === 'tensor');
      if (value !== undefined) {
        put(results, name, labels === undefined || target === 'tensor' ? value : mapsOf(/** @type {import('../../onnx.js').OnnxResult} */ (value), labels));
      } else if (target !== undefined && target !== null && target !== 'tensor') {
        put(results, name, target.object);
      }
    }
    if (made[1] !== undefined || this.#members !== undefined) {
      giveHeld(results, new ResultsToken(new HeldValues(made[1], this.#kinds, this.#members), results));
      defineProperty(results, INSPECT, SHOWN);
    }
    if (this.#members !== undefined) {
      defineProperty(results, PRESENT, this.#group);
    }
    return results;
  }

  /**
   * Returns the next value of the native side; undefined if it went into a tensor of the caller's, or nowhere.
   *
   * @param {Delivered} delivered
   * @param {number} place of its output
   * @param {boolean} isTensor
   * @returns {any}
   */
  #next(delivered, place, isTensor) {
    const delivery = delivered.numbers[delivered.at++];
    const type = delivered.numbers[delivered.at++];
    if (delivery === ABSENT) {
      return undefined;
    }
    if (delivery === NOTHING) {
      return null;
    }
    if (delivery === LIST) {
      return Array.from({ length: type }, () => this.#next(delivered, place, false));
    }
    const kind = this.#kindOf(place, type);
    if (kind.dataType === 'string') {
      return nextTexts(delivered);
    }
    const value = delivered.made[delivered.next++];
    if (delivery === ALONE) {
      return new HeldValues(/** @type {import('../internal.js').Handle<'values'>} */ (value), [kind]).result(0);
    }
    const shape = nextShape(delivered);
    return this.#wholeOf(value, kind, shape, isTensor);
  }

  /**
   * @param {number} place
   * @param {number} type index of the data type
   * @returns {import('./unread.js').OutputKind}
   */
  #kindOf(place, type) {
    const made = NATIVE_DATA_TYPES[type];
    if (this.#kinds[place]?.made !== made) {
      const { name, dataType: own, items } = this.#outputs[place];
      const dataType = items?.dataType ?? own;
      const kinds = [...this.#kinds];
      const isOther = dataType === 'string' || CONVERTED.has(dataType);
      kinds[place] = { name, made, dataType: /** @type {import('../../onnx.js').OnnxDataType} */ (isOther ? dataType : made) };
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
      // The native side refuses tensors of doubles.
      const type = /** @type {import('../../index.js').MLOperandDataType} */ (made);
      return this.#context.adoptTensor(handle, { dataType: type, shape, readable: true, writable: true });
    }
    return { data: elementsOf(ownBuffer(/** @type {ArrayBuffer} */ (value)), made, dataType), shape, dataType };
  }
}

/**
 * @param {Delivered} delivered
 * @returns {number[]} the shape that comes next
 */
function nextShape(delivered) {
  const shape = new Array(delivered.numbers[delivered.at++]);
  for (let axis = 0; axis < shape.length; axis++) {
    shape[axis] = delivered.numbers[delivered.at++];
  }
  return shape;
}

/**
 * @param {Delivered} delivered
 * @returns {import('../../onnx.js').OnnxResult} the strings that come next: one string of all, and their lengths
 */
function nextTexts(delivered) {
  const shape = nextShape(delivered);
  const all = /** @type {string} */ (delivered.made[delivered.next++]);
  const lengths = new Uint32Array(ownBuffer(/** @type {ArrayBuffer} */ (delivered.made[delivered.next++])));
  const data = new Array(lengths.length);
  let start = 0;
  for (let index = 0; index < data.length; index++) {
    const end = start + lengths[index];
    data[index] = all.slice(start, end);
    start = end;
  }
  return { data, shape, dataType: 'string' };
}

/**
 * @param {import('../../onnx.js').OnnxResult} result a row of numbers, or several
 * @param {readonly string[]} labels of its columns
 * @returns {import('../../onnx.js').OnnxResult} an object for each row, with its numbers by label
 */
function mapsOf({ data, shape }, labels) {
  const rows = shape.length === 1 ? 1 : shape[0];
  const mapAt = (/** @type {number} */ row) => Object.fromEntries(labels.map((label, column) => [label, data[row * labels.length + column]]));
  return { data: Array.from({ length: rows }, (_, row) => mapAt(row)), shape: [rows], dataType: 'map' };
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
