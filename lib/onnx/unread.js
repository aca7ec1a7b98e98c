'use strict';

/** Results whose data are copied when they are read; until then, feeding them needs no copy. */

const { byteLength } = require('../descriptor.js');
const { quote } = require('../errors.js');
const native = require('../native.js');
const { Attach } = require('../slots.js');
const { isObject } = require('../webidl.js');
const { elementsOf } = require('./converted.js');
const { codedError } = require('./errors.js');

const { ArrayBuffer, Object, RangeError, TypeError, Uint8Array } = globalThis;
const { defineProperty, getOwnPropertyDescriptor } = Object;

/**
 * An output as runs return it.
 *
 * @typedef {object} OutputKind
 * @property {string} name
 * @property {import('../../index.js').MLOperandDataType} made the data type of its elements on the native side
 * @property {import('../../onnx.js').OnnxDataType} dataType the one that callers see
 */

/** Results of a run that share a native handle. */
class Held {
  /** Whether somebody has looked at one of the results. Until then, they are what the native side holds. */
  isSeen = false;
  /** Those that somebody has asked for, by place. @type {import('../../onnx.js').OnnxResult[] | undefined} */
  #results;

  /**
   * @param {import('../internal.js').Handle<'values'>} handle
   * @param {readonly OutputKind[]} kinds by place in the handle; runs share the list
   */
  constructor(handle, kinds) {
    this.handle = handle;
    this.kinds = kinds;
  }

  /**
   * Returns the result at a place: always the same one.
   *
   * @param {number} place
   */
  result(place) {
    this.#results ??= new Array(this.kinds.length);
    this.#results[place] ??= unreadResult(this, place, this.kinds[place].dataType);
    return this.#results[place];
  }
}

/** The state of a result that somebody has looked at. */
class Seen {
  /**
   * What holds the data; undefined once they are in JavaScript.
   *
   * @type {Held | undefined}
   */
  held;
  /** @type {unknown} */
  data;

  /**
   * @param {Held} held
   * @param {number[]} shape
   */
  constructor(held, shape) {
    this.held = held;
    this.shape = shape;
    /** The list that the caller has. @type {unknown} */
    this.given = [...shape];
  }
}

/**
 * Returns a constructor of plain objects. V8 reserves as many fields in each as it has seen in objects of the same
 * constructor.
 *
 * @returns {new () => object}
 */
function plainObjects() {
  function Plain() {}
  Plain.prototype = Object.prototype;
  return /** @type {any} */ (Plain);
}

const PlainResult = plainObjects();

/** The state of an unread result, a private field of a plain object. */
class Unread extends Attach {
  /** @type {Held | Seen} */
  #state;
  #place;

  /**
   * @param {object} result
   * @param {Held} held
   * @param {number} place index in its handle
   */
  constructor(result, held, place) {
    super(result);
    this.#state = held;
    this.#place = place;
  }

  /**
   * Copies what is known of a result, which its caller can change from now on.
   *
   * @param {object} result
   * @returns {Seen}
   * @throws {TypeError} for an object that is no such result, but inherits from one
   */
  static #see(result) {
    if (!(#state in result)) {
      throw new TypeError('Illegal invocation');
    }
    const [held, place] = [result.#state, result.#place];
    if (held instanceof Seen) {
      return held;
    }
    const seen = new Seen(held, native.valueShape(held.handle, place));
    held.isSeen = true;
    result.#state = seen;
    return seen;
  }

  /**
   * Ends the state of a result that has data of its own.
   *
   * @param {object} result
   * @param {Seen} seen
   * @param {unknown} data
   */
  static #keep(result, seen, data) {
    const { held } = seen;
    seen.data = data;
    seen.held = undefined;
    if (held !== undefined) {
      reveal(result, 'data', data);
      native.releaseValue(held.handle, placeOf(result));
    }
  }

  /** @param {object} result */
  static data(result) {
    const seen = Unread.#see(result);
    if (seen.held !== undefined) {
      Unread.#keep(result, seen, copied(seen.held, placeOf(result), seen.shape));
    }
    return seen.data;
  }

  /**
   * @param {object} result
   * @param {unknown} data
   */
  static setData(result, data) {
    Unread.#keep(result, Unread.#see(result), data);
  }

  /** @param {object} result */
  static shape(result) {
    const { given } = Unread.#see(result);
    reveal(result, 'shape', given);
    return given;
  }

  /**
   * @param {object} result
   * @param {unknown} shape
   */
  static setShape(result, shape) {
    Unread.#see(result).given = shape;
    reveal(result, 'shape', shape);
  }

  /**
   * Whether a value is an unread result with the shape and type that it came with.
   *
   * @param {unknown} value
   * @returns {value is import('../../onnx.js').OnnxResult}
   */
  static isUnchanged(value) {
    if (!isObject(value) || !(#state in value)) {
      return false;
    }
    const state = value.#state;
    const held = state instanceof Seen ? state.held : state;
    if (held === undefined || value.dataType !== held.kinds[value.#place].dataType) {
      return false;
    }
    return state === held || isSame(/** @type {Seen} */ (state).shape, value.shape);
  }

  /**
   * Whether a value is a result that came unread.
   *
   * @param {object} value
   * @returns {value is import('../../onnx.js').OnnxResult}
   */
  static isResult(value) {
    return #state in value;
  }

  /**
   * Returns what holds the data of an unread result, undefined for anything else.
   *
   * @param {object} value
   */
  static heldOf(value) {
    if (!(#state in value)) {
      return undefined;
    }
    const state = value.#state;
    return state instanceof Seen ? state.held : state;
  }

  /**
   * Returns the index of an unread result in its handle.
   *
   * @param {object} result
   */
  static placeOf(result) {
    return /** @type {Unread} */ (result).#place;
  }
}

const { heldOf, isResult, isUnchanged, placeOf } = Unread;

/**
 * Makes a property like that of any other result, unless the result was frozen before.
 *
 * @param {object} result
 * @param {'data' | 'shape'} name
 * @param {unknown} value
 */
function reveal(result, name, value) {
  if (getOwnPropertyDescriptor(result, name)?.configurable) {
    defineProperty(result, name, { value, writable: true, enumerable: true, configurable: true });
  }
}

/**
 * @param {readonly number[]} shape
 * @param {unknown} other
 */
function isSame(shape, other) {
  return Array.isArray(other) && other.length === shape.length && shape.every((size, axis) => size === other[axis]);
}

/**
 * Copies the elements of a result.
 *
 * @param {Held} held
 * @param {number} place
 * @param {readonly number[]} shape
 */
function copied({ handle, kinds }, place, shape) {
  const { name, made, dataType } = kinds[place];
  return requiringMemory(name, () => {
    const buffer = new ArrayBuffer(byteLength({ dataType: made, shape }));
    native.readValue(handle, place, new Uint8Array(buffer));
    return elementsOf(buffer, made, dataType);
  });
}

/**
 * @template T
 * @param {string} name of the output
 * @param {() => T} make what needs buffers
 * @returns {T}
 * @throws {DOMException} if there is no memory for a buffer
 */
function requiringMemory(name, make) {
  try {
    return make();
  } catch (cause) {
    if (cause instanceof RangeError) {
      throw codedError('ERR_WEBNN_NO_MEMORY', `run: no memory for an ArrayBuffer with the output ${quote(name)}`);
    }
    throw cause;
  }
}

/**
 * Properties of unread results. All results share them, and with them one hidden class: closures of their own would take
 * more time and memory than everything else.
 */
const DATA = {
  /** @this {object} */
  get() {
    return Unread.data(this);
  },
  /** @this {object} @param {unknown} data */
  set(data) {
    Unread.setData(this, data);
  },
  enumerable: true,
  configurable: true,
};

const SHAPE = {
  /** @this {object} */
  get() {
    return Unread.shape(this);
  },
  /** @this {object} @param {unknown} shape */
  set(shape) {
    Unread.setShape(this, shape);
  },
  enumerable: true,
  configurable: true,
};

const INSPECT = Symbol.for('nodejs.util.inspect.custom');

/**
 * Shows the values of accessors when an object is printed.
 *
 * @this {object}
 * @param {number} depth
 * @param {object} options
 * @param {(value: unknown, options: object) => string} show
 */
function inspect(depth, options, show) {
  return show({ ...this }, options);
}

/** An accessor needs no field in the objects. */
const SHOWN = { get: () => inspect };

/**
 * Creates a result whose data and shape are copied when they are read.
 *
 * @param {Held} held
 * @param {number} place index in its handle
 * @param {import('../../onnx.js').OnnxDataType} dataType
 * @returns {import('../../onnx.js').OnnxResult}
 */
function unreadResult(held, place, dataType) {
  const result = /** @type {import('../../onnx.js').OnnxResult} */ (new PlainResult());
  defineProperty(result, 'data', DATA);
  defineProperty(result, 'shape', SHAPE);
  result.dataType = dataType;
  defineProperty(result, INSPECT, SHOWN);
  new Unread(result, held, place);
  return result;
}

module.exports = { Held, INSPECT, SHOWN, heldOf, isResult, isUnchanged, placeOf, plainObjects };
