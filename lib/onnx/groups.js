'use strict';

/**
 * Groups: the caches of a decoder, fed back with one property, `feeds.past = results.present`. A group in which nobody
 * has looked at a result crosses the border as one value.
 */

const { isObject } = require('../webidl.js');

const { Map } = globalThis;

/** The property of the feeds, unless an input has this name. */
const PAST = 'past';

/** The property of the results, unless an output has this name. */
const PRESENT = 'present';

/** What exporters write before the names of caches that have the same name behind it. */
const CACHE = { input: /^past(?:_key_values?)?(?=.)/, output: /^present(?:_key_values?)?(?=.)/ };

/** What exporters add to the name of an input for the output that is its next value. */
const NEXT = [/^(?:new|next|updated|out|output)_/, /_(?:new|next|updated|out|output)$/, /[nN]$/];

/**
 * The outputs of a session that are a group.
 *
 * @typedef {object} Members
 * @property {readonly string[]} keys equal for an input and the output that becomes it
 * @property {readonly string[]} names of the outputs
 * @property {readonly number[]} places their indices among the outputs
 */

/** @typedef {readonly import('../../onnx.js').OnnxValueInfo[]} Values */

/**
 * The key of an output: what follows the prefix of caches, or the input that it is the next value of.
 *
 * @param {import('../../onnx.js').OnnxValueInfo} output
 * @param {Map<string, import('../../onnx.js').OnnxValueInfo>} inputs by name
 */
function keyOfOutput({ name, dataType, shape }, inputs) {
  if (CACHE.output.test(name)) {
    return name.replace(CACHE.output, '');
  }
  const before = NEXT.map((mark) => name.replace(mark, '')).find((before) => before !== name && inputs.has(before));
  const input = before === undefined ? undefined : inputs.get(before);
  return input?.dataType === dataType && input.shape?.length === shape?.length ? input.name : undefined;
}

/** The key of an input. @param {string} name */
const keyOfInput = (name) => name.replace(CACHE.input, '');

/**
 * Finds the members of `results.present`; undefined if there is no such group.
 *
 * @param {Values} inputs
 * @param {Values} outputs
 * @returns {Members | undefined}
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
 * Returns the inputs that `feeds.past` is for, by key; undefined if an input has this name.
 *
 * @param {Values} inputs
 * @returns {Map<string, string> | undefined}
 */
function pastOf(inputs) {
  const names = inputs.map(({ name }) => name);
  return names.includes(PAST) ? undefined : new Map(names.map((name) => [keyOfInput(name), name]));
}

/** The results of a run that are a group. */
class Group {
  #members;
  #held;
  #values;

  /**
   * @param {Members} members
   * @param {import('../internal.js').HeldResults | undefined} held all members, at the places of their outputs
   * @param {unknown[]} [values] the members, if nothing holds all
   */
  constructor(members, held, values) {
    this.#members = members;
    this.#held = held;
    this.#values = values;
  }

  /**
   * @param {unknown} value
   * @returns {value is Group}
   */
  static is(value) {
    return isObject(value) && #held in value;
  }

  /** What holds all members, if nobody has looked at any. @param {Group} group */
  static heldOf(group) {
    return group.#held?.isSeen === false ? group.#held : undefined;
  }

  /** @param {Group} group */
  static membersOf(group) {
    return group.#members;
  }

  /**
   * Returns the members as results, by key.
   *
   * @param {Group} group
   * @returns {[key: string, result: unknown][]}
   */
  static entriesOf(group) {
    const [{ keys, places }, held, values] = [group.#members, group.#held, group.#values];
    return keys.flatMap((key, index) => {
      const result = held === undefined ? values?.[index] : held.result(places[index]);
      return result === undefined ? [] : [[key, result]];
    });
  }
}

module.exports = { Group, PAST, PRESENT, pastOf, presentOf };
