'use strict';

/** Feeds of `run`: from the properties of an object to the arguments of the native side. */

const { quote } = require('../errors.js');
const { conversionError, isObject, usvString } = require('../webidl.js');
const { toFeed } = require('./data.js');
const { codedError } = require('./errors.js');
const { Group, PAST } = require('./groups.js');
const { isUnchanged } = require('./unread.js');

const { ArrayBuffer, Float64Array, Map, Object, Reflect, TypeError } = globalThis;
const { apply } = Reflect;
const { getOwnPropertySymbols, keys: keysOf } = Object;
const { propertyIsEnumerable } = Object.prototype;

/** @typedef {import('./data.js').Feed | import('../internal.js').ResultGroup} FeedOrGroup */

/**
 * The feeds of a run, in the order of their properties.
 *
 * @typedef {object} Feeds
 * @property {readonly string[]} names
 * @property {readonly FeedOrGroup[]} values
 */

/** Reads the feeds of a session's runs. */
class FeedReader {
  /** The names of the last feeds: mostly, the next ones have the same. @type {readonly string[]} */
  #last = [];
  #inputs;
  #nameOf;
  #past;

  /**
   * @param {readonly import('../../onnx.js').OnnxValueInfo[]} inputs
   * @param {(name: string) => string} nameOf returns the name of a feed in messages
   * @param {Map<string, string> | undefined} past the inputs that a group is for, by key
   */
  constructor(inputs, nameOf, past) {
    this.#inputs = inputs;
    this.#nameOf = nameOf;
    this.#past = past;
  }

  /**
   * Reads a `record<USVString, feed>`.
   *
   * @param {unknown} feeds
   * @param {string} what for messages
   * @returns {Feeds} with the same list of names as the last time, if they are equal
   * @throws {TypeError}
   */
  read(feeds, what) {
    if (!isObject(feeds)) {
      throw conversionError(what, undefined, 'an object', feeds);
    }
    if (ArrayBuffer.isView(feeds)) {
      throw new TypeError(`${what} is a typed array, expected an object with one per input: ${this.#inputs.map(({ name }) => quote(name)).join(', ')}`);
    }
    const keys = namesIn(feeds, what);
    const last = this.#last;
    /** @type {(FeedOrGroup | Map<string, FeedOrGroup>)[]} */
    const values = new Array(keys.length);
    let count = 0;
    let hasMembers = false;
    for (; count < keys.length && keys[count] === last[count]; count++) {
      values[count] = this.#toFeed(last[count], feeds[keys[count]]);
      hasMembers ||= values[count] instanceof Map;
    }
    if (count === keys.length && count === last.length && !hasMembers) {
      return { names: last, values: /** @type {FeedOrGroup[]} */ (values) };
    }
    return this.#readOther(feeds, what, new Map(last.slice(0, count).map((name, index) => [name, values[index]])), keys.slice(count));
  }

  /**
   * Reads feeds with other names than those of the last time.
   *
   * @param {Record<PropertyKey, unknown>} feeds
   * @param {string} what for messages
   * @param {Map<string, FeedOrGroup | Map<string, FeedOrGroup>>} entries that have been read
   * @param {string[]} keys that have not
   * @returns {Feeds}
   */
  #readOther(feeds, what, entries, keys) {
    for (const key of keys) {
      const name = usvString(key, `a key of ${what}`);
      entries.set(name, this.#toFeed(name, feeds[key]));
    }
    this.#last = [...entries.keys()];
    const values = [...entries.values()];
    if (!values.some((value) => value instanceof Map)) {
      return { names: this.#last, values: /** @type {FeedOrGroup[]} */ (values) };
    }
    const all = withMembers(entries);
    return { names: [...all.keys()], values: [...all.values()] };
  }

  /**
   * @param {string} name
   * @param {unknown} value
   * @returns {FeedOrGroup | Map<string, FeedOrGroup>} a Map of the members of a group that cannot be fed as a whole
   */
  #toFeed(name, value) {
    if (isUnchanged(value)) {
      return value;
    }
    const what = this.#nameOf(name);
    const past = this.#past;
    if (name !== PAST || past === undefined || !Group.is(value)) {
      return toFeed(what, value);
    }
    if (!Group.membersOf(value).keys.some((key) => past.has(key))) {
      throw codedError('ERR_WEBNN_UNKNOWN_FEED', `${what} is a group of results none of which the model has an input for`);
    }
    if (Group.heldOf(value) !== undefined) {
      return value;
    }
    const members = new Map();
    for (const [key, result] of Group.entriesOf(value)) {
      const input = past.get(key);
      if (input !== undefined) {
        members.set(input, toFeed(this.#nameOf(input), result));
      }
    }
    return members;
  }
}

/**
 * Returns the names of an object's enumerable properties. (`ownKeys` takes ten times as long, and as much memory as all other
 * work for the feeds.)
 *
 * @param {object} object
 * @param {string} what for messages
 * @throws {TypeError} for a symbol
 */
function namesIn(object, what) {
  const symbols = getOwnPropertySymbols(object);
  for (let i = 0; i < symbols.length; i++) {
    if (apply(propertyIsEnumerable, object, [symbols[i]])) {
      usvString(symbols[i], `a key of ${what}`);
    }
  }
  return keysOf(object);
}

/**
 * @param {Map<string, FeedOrGroup | Map<string, FeedOrGroup>>} entries
 * @returns {Map<string, FeedOrGroup>} with the members of a group, as far as they are not fed by their own names
 */
function withMembers(entries) {
  const all = new Map([...entries].filter(([, value]) => !(value instanceof Map)));
  for (const members of entries.values()) {
    if (members instanceof Map) {
      members.forEach((feed, name) => all.has(name) || all.set(name, feed));
    }
  }
  return /** @type {Map<string, FeedOrGroup>} */ (all);
}

/** How the native side calls feeds without a shape, and those that have the shape of the result that they are. */
const [NO_SHAPE, OWN_SHAPE] = [-1, -2];

/** Stands for the input of a group. */
const SEVERAL = -1;

/** Numbers that tell the native side what the feeds of a run are for. */
class FeedNumbers {
  /** The list that the last run has left. @type {FeedNumbers | undefined} */
  static #spare;

  array = new Float64Array(256);
  #length = 0;

  /** Returns an empty list, for one run. */
  static take() {
    const taken = FeedNumbers.#spare ?? new FeedNumbers();
    // A warning of the native side can call the program, which can begin another run.
    FeedNumbers.#spare = undefined;
    taken.#length = 0;
    return taken;
  }

  /** Leaves the list to the next run. */
  leave() {
    FeedNumbers.#spare = this;
  }

  /** @param {number} number */
  #push(number) {
    if (this.#length === this.array.length) {
      const before = this.array;
      this.array = new Float64Array(2 * before.length);
      this.array.set(before);
    }
    this.array[this.#length++] = number;
  }

  /** @param {readonly number[]} numbers */
  #pushAll(numbers) {
    for (let i = 0; i < numbers.length; i++) {
      this.#push(numbers[i]);
    }
  }

  /**
   * Adds a feed for the input at this index.
   *
   * @param {number} input
   * @param {readonly number[] | undefined} shape
   */
  add(input, shape) {
    this.#push(input);
    this.#push(0);
    this.#push(shape === undefined ? NO_SHAPE : shape.length);
    this.#pushAll(shape ?? []);
  }

  /**
   * Adds an unread result.
   *
   * @param {number} input
   * @param {number} place in what holds it
   */
  addHeld(input, place) {
    this.#push(input);
    this.#push(place);
    this.#push(OWN_SHAPE);
  }

  /**
   * Adds a group.
   *
   * @param {readonly number[]} pairs of inputs and the places of their results
   */
  addGroup(pairs) {
    this.#push(SEVERAL);
    this.#push(pairs.length / 2);
    this.#pushAll(pairs);
  }
}

module.exports = { FeedNumbers, FeedReader };
