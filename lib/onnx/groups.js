'use strict';

/**
 * Groups: the caches of a decoder, fed back with one property, `feeds.past = results.present`. Members in the state in
 * which the run returned them cross the border together, as one value; all others are fed one by one.
 */

const { quote } = require('../errors.js');
const { domString, isObject } = require('../webidl.js');
const { codedError, converting } = require('./errors.js');
const { INSPECT, Token, getterOf, heldBehind, tokenBehind } = require('./unread.js');

const { Map, Object } = globalThis;
const { defineProperty } = Object;

/** The property of the feeds, unless an input has this name. */
const PAST = 'past';

/** The property of the results, unless an output has this name. */
const PRESENT = 'present';

/** The prefixes of caches. The rest of the name is the same for an input and for the output that is its next value. */
const PREFIXES = { input: /^past(?:_key_values?)?(?=.)/, output: /^present(?:_key_values?)?(?=.)/ };

/** What exporters add to the name of an input for the output that is its next value. */
const NEXT = [/^(?:new|next|updated|out|output)_/, /_(?:new|next|updated|out|output)$/, /[nN]$/];

/**
 * The outputs of a session that are a group.
 *
 * @typedef {object} Pairs
 * @property {readonly string[]} keys equal for an input and the output that becomes it
 * @property {readonly string[]} names of the outputs
 * @property {readonly number[]} places their indices among the outputs
 */

/**
 * The members of the groups of a session.
 *
 * @typedef {Pairs & {getters: readonly unknown[]}} Members with the getters that the results of all runs have for them
 */

/** @typedef {readonly import('../../onnx.js').OnnxValueInfo[]} ValueInfos */

/**
 * The key of an output: what follows the prefix of caches, or the input that it is the next value of.
 *
 * @param {import('../../onnx.js').OnnxValueInfo} output
 * @param {Map<string, import('../../onnx.js').OnnxValueInfo>} inputs by name
 */
function keyOfOutput({ name, dataType, shape }, inputs) {
  if (PREFIXES.output.test(name)) {
    return name.replace(PREFIXES.output, '');
  }
  const before = NEXT.map((mark) => name.replace(mark, '')).find((before) => before !== name && inputs.has(before));
  const input = before === undefined ? undefined : inputs.get(before);
  return input?.dataType === dataType && input.shape?.length === shape?.length ? input.name : undefined;
}

/** The key of an input. @param {string} name */
const keyOfInput = (name) => name.replace(PREFIXES.input, '');

/**
 * Returns the part of a cache's name behind the prefix of an input or output; undefined for a name without one.
 *
 * @param {unknown} name
 */
function cacheKey(name) {
  const text = converting(() => domString(name, 'cacheKey: name'));
  const prefix = [PREFIXES.input, PREFIXES.output].find((one) => one.test(text));
  return prefix === undefined ? undefined : text.replace(prefix, '');
}

/**
 * Finds the members of `results.present`; undefined if there is no such group.
 *
 * @param {ValueInfos} inputs
 * @param {ValueInfos} outputs
 * @returns {Pairs | undefined}
 */
function presentOf(inputs, outputs) {
  const byName = new Map(inputs.map((input) => [input.name, input]));
  /** @type {Map<string, {name: string, place: number}>} */
  const found = new Map();
  outputs.forEach((output, place) => {
    const key = keyOfOutput(output, byName);
    // The first one, of several that an input could become.
    if (key !== undefined && !found.has(key)) {
      found.set(key, { name: output.name, place });
    }
  });
  if (found.size === 0 || outputs.some(({ name }) => name === PRESENT)) {
    return undefined;
  }
  const members = [...found.values()];
  return { keys: [...found.keys()], names: members.map(({ name }) => name), places: members.map(({ place }) => place) };
}

/**
 * Returns the inputs that `feeds.past` is for, by key; undefined if an input has this name. A key has several inputs
 * only if their names differ in nothing but the prefix.
 *
 * @param {ValueInfos} inputs
 * @returns {Map<string, string[]> | undefined}
 */
function pastOf(inputs) {
  /** @type {Map<string, string[]>} */
  const byKey = new Map();
  for (const { name } of inputs) {
    const key = keyOfInput(name);
    byKey.set(key, [...(byKey.get(key) ?? []), name]);
  }
  return inputs.some(({ name }) => name === PAST) ? undefined : byKey;
}

/** The token of the results of a run, which knows their group. */
class ResultsToken extends Token {
  #results;
  /** @type {OnnxGroup | undefined} */
  #group;

  /**
   * @param {import('../internal.js').HeldValues} held
   * @param {object} results
   */
  constructor(held, results) {
    super(held);
    this.#results = results;
  }

  /**
   * Returns the group of results: always the same one for those that a run returned.
   *
   * @param {object} results
   * @param {ResultsToken} token of the results
   */
  static groupOf(results, token) {
    if (results !== token.#results) {
      return new OnnxGroup(results, token);
    }
    token.#group ??= new OnnxGroup(results, token);
    return token.#group;
  }
}

/** The caches among the results of a run. */
class OnnxGroup {
  /**
   * @param {object} results of a run, or an object that forwards reads to them
   * @param {ResultsToken} token of the results
   */
  constructor(results, token) {
    // A function: groups cannot be cloned, and are deeply equal only if they are of the same run.
    this.token = token;
    this.results = results;
  }
}

// Printing a group leaves its members unread.
defineProperty(OnnxGroup.prototype, INSPECT, {
  /**
   * @param {number} depth
   * @param {object} options
   * @param {(value: unknown, options: object) => string} show
   */
  value(depth, options, show) {
    const group = groupBehind(this);
    return `OnnxGroup ${show(group === undefined ? {} : described(group), options)}`;
  },
});

/**
 * Returns the group of the results of a run.
 *
 * @param {object} results or an object that forwards reads to them
 */
const groupOf = (results) => ResultsToken.groupOf(results, /** @type {ResultsToken} */ (tokenBehind(results)));

/**
 * What a group stands for.
 *
 * @typedef {object} Grouped
 * @property {Record<string, unknown>} results
 * @property {import('../internal.js').HeldValues} held those that share a handle
 * @property {Members} members
 */

/**
 * Returns what a group, or an object that forwards reads to one, stands for; undefined for anything else.
 *
 * @param {unknown} value
 * @returns {Grouped | undefined}
 */
function groupBehind(value) {
  if (!isObject(value)) {
    return undefined;
  }
  const held = Token.heldOf(value.token);
  const { results } = value;
  return held?.members === undefined || heldBehind(results) !== held ? undefined : { results: /** @type {any} */ (results), held, members: held.members };
}

/**
 * Whether a member of a group is as the run returned it, and need not reach JavaScript.
 *
 * @param {Grouped} group
 * @param {number} index of the member
 */
function isHeld({ results, held, members: { names, places, getters } }, index) {
  return getterOf(results, names[index]) === getters[index] && held.isUnchanged(places[index]);
}

/**
 * What is shown of a group.
 *
 * @param {Grouped} group
 */
function described(group) {
  const { results, held, members } = group;
  const shown = members.names.map((name, index) => {
    const place = members.places[index];
    return [name, isHeld(group, index) ? { dataType: held.kinds[place].dataType, shape: held.sizes(place) } : results[name]];
  });
  return Object.fromEntries(shown.filter(([, value]) => value !== undefined));
}

/**
 * Refuses what is fed in place of a group.
 *
 * @param {string} what from `feedName`
 * @param {unknown} value
 * @throws {TypeError} if the caller must have meant a group
 */
function requireNoGroup(what, value) {
  if (value === undefined) {
    const advice = `pass results.${PRESENT} of the object that run() returned, which copies of it lack`;
    throw codedError('ERR_WEBNN_TYPE', `${what} is undefined, expected a group: ${advice}`);
  }
  if (heldBehind(value)?.members !== undefined) {
    throw codedError('ERR_WEBNN_TYPE', `${what} is the results of a run, expected their group: pass results.${PRESENT}`);
  }
}

/**
 * Returns the input for the member of a group with this key; undefined if there is none, or if it is fed by its own
 * name.
 *
 * @param {Map<string, string[]>} past
 * @param {string} key
 * @param {readonly string[]} names of the feeds
 * @param {string} what of the group, from `feedName`
 * @throws {TypeError} if there are several
 */
function inputOf(past, key, names, what) {
  const inputs = past.get(key)?.filter((input) => !names.includes(input)) ?? [];
  if (inputs.length > 1) {
    const both = inputs.map(quote).join(' and ');
    throw codedError('ERR_WEBNN_TYPE', `${what} is a group with one result for ${both}: feed these inputs by their names`);
  }
  return inputs.at(0);
}

module.exports = { PAST, PRESENT, ResultsToken, cacheKey, groupBehind, groupOf, inputOf, isHeld, pastOf, presentOf, requireNoGroup };
