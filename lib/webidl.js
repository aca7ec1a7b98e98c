'use strict';

/**
 * Conversions from JavaScript values to Web IDL types, https://webidl.spec.whatwg.org/#js-type-mapping.
 *
 * A converter is a function `(value, what, key)`. `what` says, for messages, where the value came from (`conv2d:
 * options.strides`); `key` is the index or property name below it. The two are joined only for an error. Converters run
 * a caller's code (getters, valueOf, iterators) exactly when, and as often as, Web IDL does, and let its exceptions
 * pass.
 */

const { isPromise } = require('node:util').types;

const { amount, article, quote } = require('./errors.js');

const { apply, getOwnPropertyDescriptor, getPrototypeOf, ownKeys } = Reflect;
const { Uint8Array } = globalThis;
const { isArray } = Array;
const { isView } = ArrayBuffer;
const { propertyIsEnumerable } = Object.prototype;
const { toWellFormed } = String.prototype;

/**
 * @param {object | null} prototype
 * @param {string | symbol} name
 * @returns {Function} the getter of an intrinsic accessor, undefined if the engine lacks it
 */
function getterOf(prototype, name) {
  return /** @type {Function} */ (getOwnPropertyDescriptor(/** @type {object} */ (prototype), name)?.get);
}

// Read at load time: later changes to the prototypes, and properties that shadow them, have no effect.
const typedArrayPrototype = getPrototypeOf(Uint8Array.prototype);
const typedArrayName = getterOf(typedArrayPrototype, Symbol.toStringTag);
const typedArrayBuffer = getterOf(typedArrayPrototype, 'buffer');
const typedArrayByteOffset = getterOf(typedArrayPrototype, 'byteOffset');
const typedArrayByteLength = getterOf(typedArrayPrototype, 'byteLength');
const dataViewBuffer = getterOf(DataView.prototype, 'buffer');
const arrayBufferByteLength = getterOf(ArrayBuffer.prototype, 'byteLength');
/** @type {Function | undefined} */
const arrayBufferResizable = getterOf(ArrayBuffer.prototype, 'resizable');
const sharedByteLength = getterOf(SharedArrayBuffer.prototype, 'byteLength');
/** @type {Function | undefined} */
const sharedGrowable = getterOf(SharedArrayBuffer.prototype, 'growable');

/**
 * @param {unknown} value
 * @returns {value is Record<PropertyKey, unknown>} whether the value has the type Object of ECMAScript
 */
function isObject(value) {
  return (typeof value === 'object' && value !== null) || typeof value === 'function';
}

/** Bigints of at least this magnitude are not printed, which could take unbounded time and memory. */
const UNPRINTED_BIGINT = 2n ** 64n;

/**
 * Describes a received value for messages. Reads nothing that a caller could have replaced.
 *
 * @param {unknown} value
 */
function describeValue(value) {
  switch (typeof value) {
    case 'string':
      return quote(value);
    case 'number':
    case 'boolean':
    case 'undefined':
      return `${value}`;
    case 'bigint':
      return value < UNPRINTED_BIGINT && value > -UNPRINTED_BIGINT ? `${value}n` : 'a bigint of more than 64 bits';
    case 'symbol':
      return 'a symbol';
    case 'function':
      return 'a function';
    default:
      if (value === null) {
        return 'null';
      }
      if (isPromise(value)) {
        return 'a promise';
      }
      return isArray(value) ? 'an array' : 'an object';
  }
}

/**
 * Returns the place of a value for messages.
 *
 * @param {string} what
 * @param {string | number} [key]
 */
function place(what, key) {
  if (key === undefined) {
    return what;
  }
  return typeof key === 'number' ? `${what}[${key}]` : `${what}[${quote(key)}]`;
}

/**
 * @param {string} what
 * @param {string | number | undefined} key
 * @param {string} expected
 * @param {unknown} value
 * @returns {TypeError} with the place of the value, the value, and the expected ones
 */
function conversionError(what, key, expected, value) {
  return new TypeError(`${place(what, key)} is ${describeValue(value)}, expected ${expected}`);
}

/**
 * Checks the number of arguments of a call.
 *
 * @param {string} operation
 * @param {number} given
 * @param {number} required
 * @throws {TypeError} if there are too few
 */
function requireArguments(operation, given, required) {
  if (given < required) {
    throw new TypeError(`${operation}: ${amount(required, 'argument')} required, ${given} given`);
  }
}

/**
 * ECMAScript ToNumber.
 *
 * @param {unknown} value
 * @param {string} what
 * @param {string | number} [key]
 * @returns {number}
 */
function toNumber(value, what, key) {
  if (typeof value === 'number') {
    return value;
  }
  if (typeof value === 'bigint' || typeof value === 'symbol') {
    throw conversionError(what, key, 'a number', value);
  }
  return +(/** @type {any} */ (value));
}

/**
 * Creates the converter of an integer type with [EnforceRange]: fractions are truncated; values out of range throw.
 *
 * @param {number} lower smallest value
 * @param {number} upper largest value
 * @returns {import('./internal.js').Converter<number>}
 */
function enforcedInteger(lower, upper) {
  return (value, what, key) => {
    const number = toNumber(value, what, key);
    const integer = Math.trunc(number);
    // NaN fails both comparisons, an infinity one of them.
    if (integer >= lower && integer <= upper) {
      return integer + 0; // -0 becomes 0
    }
    throw conversionError(what, key, `an integer from ${lower} to ${upper}`, Number.isNaN(number) ? value : number);
  };
}

/** `[EnforceRange] unsigned long` */
const enforcedUnsignedLong = enforcedInteger(0, 2 ** 32 - 1);

/** `[EnforceRange] long` */
const enforcedLong = enforcedInteger(-(2 ** 31), 2 ** 31 - 1);

/** `[EnforceRange] unsigned long long`, limited to the integers that a double represents exactly */
const enforcedUnsignedLongLong = enforcedInteger(0, Number.MAX_SAFE_INTEGER);

/**
 * `unsigned long`, modulo 2^32
 *
 * @param {unknown} value
 * @param {string} what
 * @param {string | number} [key]
 */
function unsignedLong(value, what, key) {
  return toNumber(value, what, key) >>> 0;
}

/**
 * `long`, modulo 2^32 into the signed range
 *
 * @param {unknown} value
 * @param {string} what
 * @param {string | number} [key]
 */
function long(value, what, key) {
  return toNumber(value, what, key) | 0;
}

/**
 * `unsigned long long`, modulo 2^64
 *
 * @param {unknown} value
 * @param {string} what
 * @param {string | number} [key]
 */
function unsignedLongLong(value, what, key) {
  const number = toNumber(value, what, key);
  return Number.isFinite(number) ? Number(BigInt.asUintN(64, BigInt(Math.trunc(number)))) : 0;
}

/** `unrestricted double` */
const unrestrictedDouble = toNumber;

/**
 * `double`: finite
 *
 * @param {unknown} value
 * @param {string} what
 * @param {string | number} [key]
 */
function double(value, what, key) {
  const number = toNumber(value, what, key);
  if (!Number.isFinite(number)) {
    throw conversionError(what, key, 'a finite number', number);
  }
  return number;
}

/**
 * `float`: rounded to single precision and finite after that
 *
 * @param {unknown} value
 * @param {string} what
 * @param {string | number} [key]
 */
function float(value, what, key) {
  const number = toNumber(value, what, key);
  const rounded = Math.fround(number);
  if (!Number.isFinite(rounded)) {
    throw conversionError(what, key, 'a finite single-precision number', number);
  }
  return rounded;
}

/**
 * `boolean`
 *
 * @param {unknown} value
 */
function boolean(value) {
  return !!value;
}

/**
 * `DOMString`
 *
 * @param {unknown} value
 * @param {string} what
 * @param {string | number} [key]
 */
function domString(value, what, key) {
  if (typeof value === 'symbol') {
    throw conversionError(what, key, 'a string', value);
  }
  return `${value}`;
}

/**
 * `USVString`: lone surrogates become U+FFFD
 *
 * @param {unknown} value
 * @param {string} what
 * @param {string | number} [key]
 * @returns {string}
 */
function usvString(value, what, key) {
  return apply(toWellFormed, domString(value, what, key), []);
}

/**
 * `(bigint or unrestricted double)`, the draft's MLNumber
 *
 * @param {unknown} value
 * @param {string} what
 * @param {string | number} [key]
 * @returns {number | bigint}
 */
function bigintOrDouble(value, what, key) {
  if (typeof value === 'symbol') {
    throw conversionError(what, key, 'a number or bigint', value);
  }
  // The postfix operator is the only construct that does exactly what ECMAScript's ToNumeric does.
  let numeric = /** @type {any} */ (value);
  const converted = numeric++;
  return converted;
}

/**
 * Creates the converter of an enumeration.
 *
 * @template {string} T
 * @param {readonly T[]} values
 * @returns {import('./internal.js').Converter<T>}
 */
function enumeration(values) {
  const allowed = /** @type {Set<string>} */ (new Set(values));
  const expected = `one of ${values.map((value) => `"${value}"`).join(', ')}`;
  return (value, what, key) => {
    const string = domString(value, what, key);
    if (!allowed.has(string)) {
      throw conversionError(what, key, expected, string);
    }
    return /** @type {T} */ (string);
  };
}

/**
 * ECMAScript GetMethod for the iterator symbol.
 *
 * @param {object} value
 * @param {string} what
 * @param {string | number} [key]
 * @returns {Function | undefined}
 */
function iteratorMethod(value, what, key) {
  const method = /** @type {{[Symbol.iterator]?: unknown}} */ (value)[Symbol.iterator];
  if (method === undefined || method === null) {
    return undefined;
  }
  if (typeof method !== 'function') {
    throw new TypeError(`${place(what, key)} has an iterator method that is not a function`);
  }
  return method;
}

/** @type {(value: unknown) => value is {done?: unknown, value?: unknown}} */
const isIteratorResult = isObject;

/**
 * Web IDL "create a sequence from an iterable". As specified, the iterator is not closed when a conversion throws.
 *
 * @template T
 * @param {unknown} value
 * @param {Function} method
 * @param {import('./internal.js').Converter<T>} element
 * @param {string} what
 * @param {string | number} [key]
 * @returns {T[]}
 */
function sequenceFrom(value, method, element, what, key) {
  const iterator = apply(method, value, []);
  if (!isObject(iterator)) {
    throw new TypeError(`${place(what, key)} has an iterator that is not an object`);
  }
  const { next } = /** @type {{next?: unknown}} */ (iterator);
  if (typeof next !== 'function') {
    throw new TypeError(`${place(what, key)} has an iterator without a next method`);
  }
  const name = place(what, key);
  const items = /** @type {T[]} */ ([]);
  for (;;) {
    const result = /** @type {unknown} */ (apply(next, iterator, []));
    if (!isIteratorResult(result)) {
      throw new TypeError(`${name} has an iterator whose result is not an object`);
    }
    if (result.done) {
      return items;
    }
    items.push(element(result.value, name, items.length));
  }
}

/**
 * Creates the converter of `sequence<T>`.
 *
 * @template T
 * @param {import('./internal.js').Converter<T>} element converter of T
 * @returns {import('./internal.js').Converter<T[]>}
 */
function sequence(element) {
  return (value, what, key) => {
    const method = isObject(value) ? iteratorMethod(value, what, key) : undefined;
    if (method === undefined) {
      throw conversionError(what, key, 'an iterable object', value);
    }
    return sequenceFrom(value, method, element, what, key);
  };
}

/**
 * Creates the converter of `(T or sequence<T>)` for a numeric type T.
 *
 * @template T
 * @param {import('./internal.js').Converter<T>} element converter of T
 * @returns {import('./internal.js').Converter<T | T[]>}
 */
function elementOrSequence(element) {
  return (value, what, key) => {
    const method = isObject(value) ? iteratorMethod(value, what, key) : undefined;
    return method === undefined ? element(value, what, key) : sequenceFrom(value, method, element, what, key);
  };
}

/**
 * Creates the converter of `record<USVString, T>` to a Map in own-property order. Keys that become equal when lone
 * surrogates are replaced keep the first position and the last value.
 *
 * @template T
 * @param {(value: unknown, what: string, key: string) => T} element converter of T
 * @returns {import('./internal.js').Converter<Map<string, T>>}
 */
function record(element) {
  return (value, what) => {
    if (!isObject(value)) {
      throw conversionError(what, undefined, 'an object', value);
    }
    const result = new Map();
    const keys = ownKeys(value);
    for (let i = 0; i < keys.length; i++) {
      const key = keys[i];
      if (apply(propertyIsEnumerable, value, [key])) {
        const name = usvString(key, `a key of ${what}`);
        result.set(name, element(/** @type {Record<string | symbol, unknown>} */ (value)[key], what, name));
      }
    }
    return result;
  };
}

/**
 * Creates the converter of a dictionary to an object without a prototype. It has the members that are present or have a
 * default.
 *
 * @template {object} T
 * @param {(Omit<import('./internal.js').DictionaryMember, 'type'> & { type?: string, convert: import('./internal.js').Converter<unknown> })[]}
 *   members in the order in which Web IDL reads them: inherited dictionaries first, each in code unit order
 * @returns {import('./internal.js').Converter<T>}
 */
function dictionary(members) {
  return (value, what) => {
    const isEmpty = value === undefined || value === null;
    if (!isEmpty && !isObject(value)) {
      throw conversionError(what, undefined, 'an object', value);
    }
    const result = Object.create(null);
    for (let i = 0; i < members.length; i++) {
      const member = members[i];
      const given = isEmpty ? undefined : /** @type {Record<string, unknown>} */ (value)[member.name];
      if (given !== undefined) {
        result[member.name] = member.convert(given, `${what}.${member.name}`);
      } else if (member.required) {
        throw new TypeError(`${what}.${member.name} is required`);
      } else if (member.default !== undefined) {
        result[member.name] = member.default;
      }
    }
    return result;
  };
}

/**
 * Creates the converter of an interface type to the state of the object.
 *
 * @template {object} State
 * @param {string} name of the interface
 * @param {import('./internal.js').Slots<State, object>} slots of its objects
 * @returns {import('./internal.js').Converter<State>}
 */
function interfaceType(name, slots) {
  return (value, what, key) => {
    const state = slots.get(value);
    if (state === undefined) {
      throw conversionError(what, key, article(name), value);
    }
    return state;
  };
}

/**
 * Whether an intrinsic's internal method accepts the value as its receiver.
 *
 * @param {Function} getter
 * @param {unknown} value
 * @returns {boolean}
 */
function accepts(getter, value) {
  try {
    apply(getter, value, []);
    return true;
  } catch {
    return false;
  }
}

/**
 * @param {unknown} value
 * @returns {'ArrayBuffer' | 'SharedArrayBuffer' | undefined} the kind of a buffer of any realm
 */
function bufferKind(value) {
  if (accepts(arrayBufferByteLength, value)) {
    return 'ArrayBuffer';
  }
  return accepts(sharedByteLength, value) ? 'SharedArrayBuffer' : undefined;
}

/**
 * @param {unknown} buffer
 * @param {string} kind
 * @param {string} what
 * @throws {TypeError} if the buffer can change its length: the type has no [AllowResizable]
 */
function requireFixedLength(buffer, kind, what) {
  const getter = kind === 'ArrayBuffer' ? arrayBufferResizable : sharedGrowable;
  if (getter !== undefined && apply(getter, buffer, [])) {
    throw new TypeError(`${what} is backed by ${article(kind)} that can change its length, expected one of fixed length`);
  }
}

/**
 * Checks that a value is an `AllowSharedBufferSource`: any view or buffer of fixed length, of any realm.
 *
 * @param {unknown} value
 * @param {string} what
 * @param {string} [expected] for the message about anything else
 * @returns {string} the kind: `ArrayBuffer`, `SharedArrayBuffer`, `DataView` or the name of a typed array type
 * @throws {TypeError} if it is none, or its buffer is resizable or growable
 */
function bufferSource(value, what, expected = 'a typed array, an ArrayBuffer, a SharedArrayBuffer or a DataView') {
  if (!isView(value)) {
    const kind = isObject(value) ? bufferKind(value) : undefined;
    if (kind === undefined) {
      throw conversionError(what, undefined, expected, value);
    }
    requireFixedLength(value, kind, what);
    return kind;
  }
  const name = apply(typedArrayName, value, []);
  const buffer = apply(name === undefined ? dataViewBuffer : typedArrayBuffer, value, []);
  requireFixedLength(buffer, /** @type {string} */ (bufferKind(buffer)), what);
  return name ?? 'DataView';
}

/**
 * Returns the bytes of a buffer source other than a DataView, without a copy.
 *
 * @param {unknown} value
 * @param {string} kind from `bufferSource`
 * @returns {Uint8Array}
 */
function bytesOf(value, kind) {
  if (kind === 'Uint8Array') {
    return /** @type {Uint8Array} */ (value);
  }
  if (kind === 'ArrayBuffer' || kind === 'SharedArrayBuffer') {
    return new Uint8Array(/** @type {ArrayBufferLike} */ (value), 0, byteLengthOf(value, kind));
  }
  return new Uint8Array(apply(typedArrayBuffer, value, []), apply(typedArrayByteOffset, value, []), byteLengthOf(value, kind));
}

/**
 * @param {Uint8Array} view
 * @returns {ArrayBufferLike}
 */
function bufferOf(view) {
  return apply(typedArrayBuffer, view, []);
}

/**
 * @param {Uint8Array} view
 * @returns {boolean} whether its buffer is detached
 */
function isDetached(view) {
  if (byteLengthOf(view, 'Uint8Array') > 0) {
    return false;
  }
  try {
    new Uint8Array(bufferOf(view));
    return false;
  } catch {
    return true;
  }
}

/**
 * Length in bytes of a buffer source other than a DataView; 0 if it is detached.
 *
 * @param {unknown} value
 * @param {string} kind from `bufferSource`
 * @returns {number}
 */
function byteLengthOf(value, kind) {
  if (kind === 'ArrayBuffer') {
    return apply(arrayBufferByteLength, value, []);
  }
  return apply(kind === 'SharedArrayBuffer' ? sharedByteLength : typedArrayByteLength, value, []);
}

/**
 * Makes a class look as Web IDL defines interface objects: enumerable members and a class string. (`class` does the
 * rest: read-only `prototype`, methods without [[Construct]], no call without new.)
 *
 * @template {Function} T
 * @param {T} Interface
 * @returns {T}
 */
function defineInterface(Interface) {
  const { prototype } = Interface;
  for (const key of ownKeys(prototype)) {
    if (key !== 'constructor') {
      Object.defineProperty(prototype, key, { enumerable: true });
    }
  }
  Object.defineProperty(prototype, Symbol.toStringTag, { value: Interface.name, configurable: true });
  return Interface;
}

module.exports = {
  bigintOrDouble,
  boolean,
  bufferKind,
  bufferOf,
  bufferSource,
  byteLengthOf,
  bytesOf,
  conversionError,
  defineInterface,
  describeValue,
  dictionary,
  domString,
  double,
  elementOrSequence,
  enforcedLong,
  enforcedUnsignedLong,
  enforcedUnsignedLongLong,
  enumeration,
  float,
  interfaceType,
  isDetached,
  isObject,
  long,
  record,
  requireArguments,
  sequence,
  unrestrictedDouble,
  unsignedLong,
  unsignedLongLong,
  usvString,
};
