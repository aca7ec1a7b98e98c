// Checks command lines.

import { Failure } from '../scripts/process.mjs';

/** Maximum number of threads of a context. */
export const MAX_THREADS = 1024;

/**
 * Creates checks whose errors end with a program's usage.
 *
 * @param {string} usage
 */
export function checksOf(usage) {
  const wrong = (/** @type {string} */ message) => new Failure(`${message}\n\n${usage}`, 2);

  /**
   * @template {{ help?: boolean }} Values
   * @param {() => Values} parse a command line
   * @returns {Values}
   * @throws {Failure} with exit status 2 when it is invalid, 0 when help was requested
   */
  function parsed(parse) {
    let values;
    try {
      values = parse();
    } catch (error) {
      throw wrong(/** @type {Error} */ (error).message);
    }
    if (values.help) {
      throw new Failure(usage, 0);
    }
    return values;
  }

  /**
   * @param {string} name of an option
   * @param {string} text
   * @param {number} max
   */
  function integer(name, text, max) {
    const value = Number(text);
    if (!Number.isInteger(value) || value < 1 || value > max) {
      throw wrong(`--${name} has ${text}, expected integers from 1 to ${max}`);
    }
    return value;
  }

  /**
   * @param {string} name of an option
   * @param {string} text with commas
   * @param {number} max
   */
  const integers = (name, text, max) => [...new Set(text.split(',').map((one) => integer(name, one, max)))];

  /**
   * @template {string} Name
   * @param {string} name of an option
   * @param {string} text with commas
   * @param {readonly Name[]} all
   * @param {string} [others] other allowed values, for the error
   */
  function someOf(name, text, all, others = '') {
    const names = text.split(',');
    const unknown = names.find((one) => !(/** @type {readonly string[]} */ (all).includes(one)));
    if (unknown !== undefined) {
      throw wrong(`--${name} names ${unknown}, expected some of ${all.join(', ')}${others}`);
    }
    return /** @type {Name[]} */ ([...new Set(names)]);
  }

  /**
   * @param {string} name of an option
   * @param {string} text
   */
  function pattern(name, text) {
    try {
      return new RegExp(text);
    } catch (error) {
      throw wrong(`--${name}: ${/** @type {Error} */ (error).message}`);
    }
  }

  return { wrong, parsed, integer, integers, someOf, pattern };
}
