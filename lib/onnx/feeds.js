'use strict';

/** Feeds of `run`: from the properties of an object to the arguments of the native side. */

const { quote } = require('../errors.js');
const { conversionError, isObject, usvString } = require('../webidl.js');
const { toFeed, toFeedOfItems } = require('./data.js');
const { codedError } = require('./errors.js');
const { PAST, groupBehind, inputOf, isHeld, requireNoGroup } = require('./groups.js');
const { isResult, isUnchanged, placeOf } = require('./unread.js');

const { ArrayBuffer, Float64Array, Map, Object, Reflect, Set, TypeError } = globalThis;
const { apply } = Reflect;
const { getOwnPropertySymbols, getPrototypeOf, keys: keysOf } = Object;
const { propertyIsEnumerable } = Object.prototype;

/** @typedef {import('./data.js').Feed | HeldGroup} FeedOrGroup */

/**
 * The feeds of a run, in the order of their properties, followed by members of a group that are fed one by one.
 *
 * @typedef {object} Feeds
 * @property {readonly string[]} names
 * @property {readonly FeedOrGroup[]} values
 */

/**
 * The inputs that a group feeds. The groups of consecutive runs share it, as long as a caller changes the same members.
 *
 * @typedef {object} Coverage
 * @property {import('./groups.js').Members} members
 * @property {readonly string[]} names of the caller's feeds
 * @property {readonly boolean[]} areHeld by member: whether the group feeds it as the native side holds it
 * @property {readonly string[]} inputs of these members
 * @property {readonly number[]} places of these members among the held values
 * @property {readonly {name: string, input: string}[]} others members that are fed one by one
 */

/** The members of a group that are fed together. */
class HeldGroup {
  /**
   * @param {import('../internal.js').HeldValues} held
   * @param {Coverage} coverage
   */
  constructor(held, coverage) {
    this.held = held;
    this.coverage = coverage;
  }
}

/** Reads the feeds of a session's runs. */
class FeedReader {
  /** The names of the caller's last feeds, which are mostly those of the next ones. @type {readonly string[]} */
  #last = [];
  /** The same, if members of a group were fed one by one, with their names. @type {readonly string[]} */
  #lastOfAll = [];
  /** The coverage of the last group. @type {Coverage | undefined} */
  #coverage;
  #inputs;
  #nameOf;
  #past;
  /** What sequences and optionals among the inputs hold, by input; undefined if there are none. @type {Map<string, import('./data.js').Items> | undefined} */
  #items;

  /**
   * @param {readonly import('../../onnx.js').OnnxValueInfo[]} inputs
   * @param {(name: string) => string} nameOf returns the name of a feed in messages
   * @param {Map<string, string[]> | undefined} past the inputs that a group is for, by key
   */
  constructor(inputs, nameOf, past) {
    this.#inputs = inputs;
    this.#nameOf = nameOf;
    this.#past = past;
    const items = inputs.flatMap(({ name, items }) => (items === undefined ? [] : [/** @type {const} */ ([name, items])]));
    this.#items = items.length === 0 ? undefined : new Map(items);
  }

  /**
   * Reads a `record<USVString, feed>`, whose properties may be inherited.
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
    let keys = namesIn(feeds, what);
    if (!areSame(keys, this.#last)) {
      // Names that differ only in lone surrogates become equal: the last one counts.
      const byName = new Map(keys.map((key) => [usvString(key, `a key of ${what}`), key]));
      keys = [...byName.values()];
      this.#last = [...byName.keys()];
    }
    const names = this.#last;
    /** @type {FeedOrGroup[]} */
    const values = new Array(names.length);
    /** @type {Map<string, import('./data.js').Feed> | undefined} */
    let others;
    for (let i = 0; i < names.length; i++) {
      const value = feeds[keys[i]];
      const group = names[i] === PAST && this.#past !== undefined ? groupBehind(value) : undefined;
      if (group === undefined) {
        values[i] = this.#toFeed(names[i], value);
      } else {
        const coverage = this.#coverageOf(group, names);
        values[i] = new HeldGroup(group.held, coverage);
        others = coverage.others.length > 0 || coverage.inputs.length === 0 ? this.#toFeeds(group, coverage) : undefined;
      }
    }
    return others === undefined ? { names, values } : this.#withOthers(names, values, others);
  }

  /**
   * @param {string} name
   * @param {unknown} value
   * @returns {import('./data.js').Feed}
   */
  #toFeed(name, value) {
    const items = this.#items?.get(name);
    if (items !== undefined) {
      return toFeedOfItems(this.#nameOf(name), value, items);
    }
    if (isUnchanged(value)) {
      return value;
    }
    if (name === PAST && this.#past !== undefined) {
      requireNoGroup(this.#nameOf(name), value);
    }
    return toFeed(this.#nameOf(name), value, name, this.#inputs);
  }

  /**
   * Reads the members of a group that are fed one by one.
   *
   * @param {import('./groups.js').Grouped} group
   * @param {Coverage} coverage
   * @returns {Map<string, import('./data.js').Feed>} by input, without those that the results no longer have
   */
  #toFeeds({ results }, { others }) {
    const feeds = new Map();
    for (const { name, input } of others) {
      const value = results[name];
      if (value !== undefined) {
        feeds.set(input, this.#toFeed(input, value));
      }
    }
    return feeds;
  }

  /**
   * Adds the members of a group that are fed one by one, and drops the group if it has no others.
   *
   * @param {readonly string[]} names
   * @param {readonly FeedOrGroup[]} values
   * @param {Map<string, import('./data.js').Feed>} others
   * @returns {Feeds}
   */
  #withOthers(names, values, others) {
    const isFed = (/** @type {number} */ index) => {
      const value = values[index];
      return !(value instanceof HeldGroup) || value.coverage.inputs.length > 0;
    };
    const all = [...names.filter((_, index) => isFed(index)), ...others.keys()];
    if (!areSame(all, this.#lastOfAll)) {
      this.#lastOfAll = all;
    }
    return { names: this.#lastOfAll, values: [...values.filter((_, index) => isFed(index)), ...others.values()] };
  }

  /**
   * Returns the coverage of a group: the last one, if nothing has changed.
   *
   * @param {import('./groups.js').Grouped} group
   * @param {readonly string[]} names of the caller's feeds
   */
  #coverageOf(group, names) {
    const last = this.#coverage;
    if (last?.members === group.members && last.names === names && isFor(last, group)) {
      return last;
    }
    const coverage = this.#newCoverage(group, names);
    this.#coverage = coverage;
    return coverage;
  }

  /**
   * @param {import('./groups.js').Grouped} group
   * @param {readonly string[]} names of the caller's feeds
   * @returns {Coverage}
   */
  #newCoverage(group, names) {
    const { members } = group;
    const past = /** @type {Map<string, string[]>} */ (this.#past);
    const what = this.#nameOf(PAST);
    if (!members.keys.some((key) => past.has(key))) {
      throw codedError('ERR_WEBNN_UNKNOWN_FEED', `${what} is a group of results none of which the model has an input for`);
    }
    /** @type {Omit<Coverage, 'inputs' | 'places' | 'others'> & {inputs: string[], places: number[], others: {name: string, input: string}[]}} */
    const coverage = { members, names, areHeld: members.keys.map((_, index) => isHeld(group, index)), inputs: [], places: [], others: [] };
    members.keys.forEach((key, index) => {
      const input = inputOf(past, key, names, what);
      if (input === undefined) {
        return;
      }
      if (coverage.areHeld[index]) {
        coverage.inputs.push(input);
        coverage.places.push(members.places[index]);
      } else {
        coverage.others.push({ name: members.names[index], input });
      }
    });
    return coverage;
  }
}

/**
 * Whether a coverage holds for a group of the same members. (A function for `every` takes 300 bytes a run.)
 *
 * @param {Coverage} coverage
 * @param {import('./groups.js').Grouped} group
 */
function isFor({ areHeld }, group) {
  let count = 0;
  while (count < areHeld.length && isHeld(group, count) === areHeld[count]) {
    count++;
  }
  return count === areHeld.length;
}

/**
 * @param {readonly string[]} names
 * @param {readonly string[]} others
 */
function areSame(names, others) {
  let count = 0;
  while (count < names.length && names[count] === others[count]) {
    count++;
  }
  return count === names.length && count === others.length;
}

/**
 * Returns the names of an object's enumerable properties, its own ones first. (`ownKeys` takes ten times as long, and
 * as much memory as all other work for the feeds.)
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
  const names = keysOf(object);
  const prototype = getPrototypeOf(object);
  return prototype === Object.prototype || prototype === null ? names : [...new Set([...names, ...inheritedNames(prototype)])];
}

/**
 * @param {object} prototype
 * @returns {string[]} the names of the enumerable properties that an object inherits from it
 */
function inheritedNames(prototype) {
  /** @type {string[]} */
  const names = [];
  for (let from = prototype; from !== null && from !== Object.prototype; from = getPrototypeOf(from)) {
    names.push(...keysOf(from));
  }
  return names;
}

/** How the native side calls feeds without a shape, and those that have the shape of the result that they are. */
const [NO_SHAPE, OWN_SHAPE] = [-1, -2];

/**
 * How the native side reads data: copies them during the call; reads them in place in a run within the call; or, as the
 * caller has given them up, also copies them later.
 */
const [COPIED, IN_PLACE, GIVEN_UP] = [0, 1, 2];

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
   * Adds a feed.
   *
   * @param {number} input its index
   * @param {import('./data.js').Feed} feed
   * @param {number} access of the native side to the data: COPIED, IN_PLACE or GIVEN_UP
   */
  addFeed(input, feed, access) {
    this.#push(input);
    if (isResult(feed)) {
      this.#push(placeOf(feed));
      this.#push(OWN_SHAPE);
      return;
    }
    this.#push(access);
    if ('tensor' in feed || 'items' in feed || feed.shape === undefined) {
      this.#push(NO_SHAPE);
    } else {
      this.#push(feed.shape.length);
      this.#pushAll(feed.shape);
    }
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

module.exports = { COPIED, FeedNumbers, FeedReader, GIVEN_UP, HeldGroup, IN_PLACE };
