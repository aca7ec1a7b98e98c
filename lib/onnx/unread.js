'use strict';

/** Results whose data are copied when they are read; until then, feeding them needs no copy. */

const { quote } = require('../errors.js');
const native = require('../native.js');
const { Attach } = require('../slots.js');
const { isObject } = require('../webidl.js');
const { elementsOf, nativeByteLength } = require('./converted.js');
const { codedError } = require('./errors.js');
const { unclearedBuffer } = require('./memory.js');

const { Object, RangeError, Reflect, Uint8Array } = globalThis;
const { apply } = Reflect;
const { defineProperty, getOwnPropertyDescriptor } = Object;
const { __lookupGetter__: lookupGetter } = /** @type {{ __lookupGetter__: Function }} */ (/** @type {unknown} */ (Object.prototype));

/**
 * Properties in which the getters of results find what they read. Unlike private fields, they are also found through a
 * proxy, by an object that inherits from the results, and in a copy of their property descriptors.
 */
const HELD = Symbol('held values');
const PLACE = Symbol('place');

/** Property descriptors of {@link PLACE}, by place. @type {PropertyDescriptor[]} */
const PLACES = [];

/**
 * Stands for held values. It is a function because proxies that wrap every object they return leave functions alone,
 * and because functions cannot be cloned.
 */
class Token extends Attach {
  #held;

  /** @param {HeldValues} held */
  constructor(held) {
    // structuredClone() quotes the source in its error.
    super(() => 'results of run(): copy them with { ...results }');
    this.#held = held;
  }

  /** @param {unknown} token */
  static heldOf(token) {
    return typeof token === 'function' && #held in token ? token.#held : undefined;
  }
}

/**
 * Returns the token of results, of one of them, or of an object that forwards reads to them.
 *
 * @param {unknown} object
 */
const tokenBehind = (object) => (isObject(object) ? object[HELD] : undefined);

/**
 * Returns the values that such an object reads; undefined for any other object.
 *
 * @param {unknown} object
 */
const heldBehind = (object) => Token.heldOf(tokenBehind(object));

/** The descriptor of {@link HELD}, reused so that it leaves no garbage. @type {PropertyDescriptor} */
const HOLDER = { value: undefined, configurable: true };

/**
 * Lets an object read held values.
 *
 * @param {object} object
 * @param {Token} token of the values
 */
function giveHeld(object, token) {
  HOLDER.value = token;
  defineProperty(object, HELD, HOLDER);
  HOLDER.value = undefined;
}

/** The arguments of {@link getterOf}, reused so that it leaves no garbage. */
const NAME = [''];

/**
 * Returns the getter of a property. Reading a property descriptor would allocate one.
 *
 * @param {object} object
 * @param {string} name
 * @returns {unknown} undefined for a property without one
 */
function getterOf(object, name) {
  NAME[0] = name;
  return apply(lookupGetter, object, NAME);
}

/**
 * An output as runs return it.
 *
 * @typedef {object} OutputKind
 * @property {string} name
 * @property {import('./converted.js').NativeDataType} made the data type of its elements on the native side
 * @property {import('../../onnx.js').OnnxDataType} dataType the one that callers see
 */

/** What is known of a result that somebody has looked at. */
class Seen {
  /** The data, if they are in JavaScript but not in the result, which is frozen. @type {unknown} */
  data;
  /** Whether the data are no longer on the native side. */
  isReleased = false;

  /** @param {number[]} shape */
  constructor(shape) {
    this.shape = shape;
    /** The list that the caller has. */
    this.given = [...shape];
  }
}

/** Outputs of a run that share a native handle, and the results that stand for them. */
class HeldValues {
  /** Of the results that somebody has asked for. @type {Token | undefined} */
  #token;
  /** The results that somebody has asked for, by place. @type {import('../../onnx.js').OnnxResult[] | undefined} */
  #results;
  #handle;
  /** What is known of those that somebody has looked at, by place. @type {Seen[] | undefined} */
  #seen;

  /**
   * @param {import('../internal.js').Handle<'values'> | undefined} handle undefined if there are no such outputs
   * @param {readonly OutputKind[]} kinds by place in the handle; runs share the list
   * @param {import('./groups.js').Members} [members] of the group among the results
   */
  constructor(handle, kinds, members) {
    this.#handle = handle;
    this.kinds = kinds;
    this.members = members;
  }

  /**
   * Returns the result at a place: always the same one.
   *
   * @param {number} place
   */
  result(place) {
    this.#results ??= new Array(this.kinds.length);
    this.#results[place] ??= unreadResult(this, place, (this.#token ??= new Token(this)));
    return this.#results[place];
  }

  /**
   * Whether somebody has asked for the result at a place.
   *
   * @param {number} place
   */
  hasResult(place) {
    return Unread.isResult(this.#results?.[place]);
  }

  /**
   * Whether the data at a place are no longer on the native side.
   *
   * @param {number} place
   */
  isReleased(place) {
    return this.#seen?.[place]?.isReleased === true;
  }

  /**
   * Whether the data at one of these places are no longer on the native side.
   *
   * @param {readonly number[]} places
   */
  isAnyReleased(places) {
    return this.#seen !== undefined && places.some((place) => this.isReleased(place));
  }

  /**
   * Whether the value at a place is as the run returned it: nobody has read its data or changed its result.
   *
   * @param {number} place
   */
  isUnchanged(place) {
    const result = this.#results?.[place];
    if (result === undefined) {
      return true;
    }
    if (this.isReleased(place) || result.dataType !== this.kinds[place].dataType || getterOf(result, 'data') !== DATA.get) {
      return false;
    }
    const isShapeUnread = this.#seen?.[place] === undefined && getterOf(result, 'shape') === SHAPE.get;
    return isShapeUnread || isSame(this.#see(place).shape, result.shape);
  }

  /**
   * Returns the shape at a place, as a list of its own.
   *
   * @param {number} place
   */
  sizes(place) {
    return native.valueShape(this.requireHandle(), place);
  }

  /**
   * Returns the data of a result. The first call moves them to JavaScript.
   *
   * @param {number} place
   */
  data(place) {
    const [seen, result] = [this.#see(place), this.result(place)];
    if (seen.isReleased) {
      return seen.data === undefined ? result.data : seen.data;
    }
    const data = copied(this.requireHandle(), place, this.kinds[place], seen.shape);
    if (!reveal(result, 'data', data)) {
      seen.data = data;
    }
    this.#release(place, seen);
    return data;
  }

  /**
   * Returns the list that callers have as the shape of a result.
   *
   * @param {number} place
   */
  shape(place) {
    const { given } = this.#see(place);
    reveal(this.result(place), 'shape', given);
    return given;
  }

  /**
   * Frees the data of a result if its caller has replaced them.
   *
   * @param {number} place
   */
  releaseReplaced(place) {
    const seen = this.#see(place);
    if (!seen.isReleased && getterOf(this.result(place), 'data') !== DATA.get) {
      this.#release(place, seen);
    }
  }

  /**
   * Copies what is known of a result, which its caller can change from now on.
   *
   * @param {number} place
   */
  #see(place) {
    this.#seen ??= new Array(this.kinds.length);
    this.#seen[place] ??= new Seen(this.sizes(place));
    return this.#seen[place];
  }

  /**
   * @param {number} place
   * @param {Seen} seen
   */
  #release(place, seen) {
    seen.isReleased = true;
    native.releaseValue(this.requireHandle(), place);
  }

  /** Returns the handle, which exists if a value is held. */
  requireHandle() {
    return /** @type {import('../internal.js').Handle<'values'>} */ (this.#handle);
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

/** The brand of unread results: a private field, because a lookup of it never calls a proxy's trap. */
class Unread extends Attach {
  #held;

  /**
   * @param {object} result
   * @param {HeldValues} held
   */
  constructor(result, held) {
    super(result);
    this.#held = held;
  }

  /**
   * Whether a value is a result that came unread.
   *
   * @param {unknown} value
   * @returns {value is import('../../onnx.js').OnnxResult}
   */
  static isResult(value) {
    return isObject(value) && #held in value;
  }

  /**
   * Whether a value is an unread result in the state in which the run returned it.
   *
   * @param {unknown} value
   * @returns {value is import('../../onnx.js').OnnxResult}
   */
  static isUnchanged(value) {
    return isObject(value) && #held in value && value.#held.isUnchanged(placeOf(value));
  }

  /**
   * Returns the held values of a result that came unread.
   *
   * @param {object} result
   */
  static holderOf(result) {
    return /** @type {Unread} */ (result).#held;
  }
}

const { holderOf, isResult, isUnchanged } = Unread;

/**
 * Returns the index of a result among the values that hold its data.
 *
 * @param {object} result
 */
const placeOf = (result) => /** @type {Record<symbol, number>} */ (result)[PLACE];

/**
 * Returns the held values from which an object reads a property, and the place among them.
 *
 * @param {object} object a result, or an object that forwards reads to one
 * @param {'data' | 'shape'} name
 * @returns {{held: HeldValues, place: number}}
 * @throws {TypeError} for any other object
 */
function behind(object, name) {
  const held = heldBehind(object);
  const place = held === undefined ? -1 : placeOf(object);
  if (held === undefined || !held.hasResult(place)) {
    const advice = 'read it from the result itself, or from a copy made with { ...result }';
    throw codedError('ERR_WEBNN_TYPE', `run: the ${name} of a result cannot be read from an object that only has its getter: ${advice}`);
  }
  return { held, place };
}

/**
 * Makes a property like that of any other result, unless the caller has replaced it, or frozen the result.
 *
 * @param {object} result
 * @param {'data' | 'shape'} name
 * @param {unknown} value
 * @returns {boolean} whether it did
 */
function reveal(result, name, value) {
  const found = getOwnPropertyDescriptor(result, name);
  const isReplaced = found?.get !== UNREAD[name].get;
  if (isReplaced || !found?.configurable) {
    return false;
  }
  defineProperty(result, name, plain(value));
  return true;
}

/**
 * The descriptor of a property that is like any other.
 *
 * @param {unknown} value
 */
const plain = (value) => ({ value, writable: true, enumerable: true, configurable: true });

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
 * @param {import('../internal.js').Handle<'values'>} handle
 * @param {number} place
 * @param {OutputKind} kind
 * @param {readonly number[]} shape
 */
function copied(handle, place, { name, made, dataType }, shape) {
  return requiringMemory(name, () => {
    const buffer = unclearedBuffer(nativeByteLength(made, shape));
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
 * Properties of unread results. All results share them, and with them one hidden class: closures of their own would
 * take more time and memory than everything else.
 */
const DATA = {
  /** @this {object} */
  get() {
    const { held, place } = behind(this, 'data');
    return held.data(place);
  },
  /** @this {object} @param {unknown} data */
  set(data) {
    replace(this, 'data', data);
  },
  enumerable: true,
  configurable: true,
};

const SHAPE = {
  /** @this {object} */
  get() {
    const { held, place } = behind(this, 'shape');
    return held.shape(place);
  },
  /** @this {object} @param {unknown} shape */
  set(shape) {
    replace(this, 'shape', shape);
  },
  enumerable: true,
  configurable: true,
};

const UNREAD = { data: DATA, shape: SHAPE };

/**
 * Replaces a property of a result, or of an object that forwards reads to one: a proxy writes to its target, any other
 * object gets a property of its own.
 *
 * @param {object} object
 * @param {'data' | 'shape'} name
 * @param {unknown} value
 * @throws {TypeError} if the object is frozen
 */
function replace(object, name, value) {
  const { held, place } = behind(object, name);
  defineProperty(object, name, plain(value));
  held.releaseReplaced(place);
}

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
 * @param {HeldValues} held
 * @param {number} place index in its handle
 * @param {Token} token of the values
 * @returns {import('../../onnx.js').OnnxResult}
 */
function unreadResult(held, place, token) {
  const result = /** @type {import('../../onnx.js').OnnxResult} */ (new PlainResult());
  defineProperty(result, 'data', DATA);
  defineProperty(result, 'shape', SHAPE);
  result.dataType = held.kinds[place].dataType;
  defineProperty(result, INSPECT, SHOWN);
  giveHeld(result, token);
  PLACES[place] ??= { value: place };
  defineProperty(result, PLACE, PLACES[place]);
  new Unread(result, held);
  return result;
}

module.exports = { HeldValues, INSPECT, SHOWN, Token, getterOf, giveHeld, heldBehind, holderOf, isResult, isUnchanged, placeOf, plainObjects, tokenBehind };
