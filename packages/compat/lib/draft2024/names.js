'use strict';

/**
 * Names of inputs. A builder that builds several graphs may have inputs of the same name, as long as each graph has one
 * of them; today's builders may not.
 */

const { Map } = globalThis;

/** The inputs of a builder. */
class InputNames {
  /**
   * The caller's names by those that today's builder knows.
   *
   * @type {Map<string, string>}
   */
  #given = new Map();

  /** Whether two inputs have the same name. */
  hasTwins = false;

  /**
   * Adds an input.
   *
   * @param {string} given
   * @param {(name: string) => T} make creates it, with a name that no other has
   * @returns {T}
   * @template T
   */
  add(given, make) {
    let name = given;
    for (let i = 2; this.#given.has(name); i++) {
      name = `${given} (${i})`;
    }
    const made = make(name);
    this.#given.set(name, given);
    this.hasTwins ||= name !== given;
    return made;
  }

  /**
   * @param {string} name that today's builder knows
   * @returns {string} the caller's name; the same for an input that came with a model
   */
  given(name) {
    return this.#given.get(name) ?? name;
  }
}

module.exports = { InputNames };
