'use strict';

/** @type {FinalizationRegistry<{references: Set<WeakRef<object>>, reference: WeakRef<object>}>} */
const finalizers = new FinalizationRegistry(({ references, reference }) => references.delete(reference));

/**
 * A set of objects that can be iterated, and does not keep its members alive.
 *
 * @template {object} T
 */
class WeakCollection {
  /** @type {Set<WeakRef<T>>} */
  #references = new Set();

  /** @param {T} member not in the collection yet */
  add(member) {
    const references = this.#references;
    const reference = new WeakRef(member);
    references.add(reference);
    finalizers.register(member, { references, reference }, reference);
  }

  /** Empties the collection. @returns {T[]} the members that are still alive, oldest first */
  drain() {
    const members = [];
    for (const reference of this.#references) {
      const member = reference.deref();
      if (member !== undefined) {
        members.push(member);
        finalizers.unregister(reference);
      }
    }
    this.#references.clear();
    return members;
  }
}

module.exports = { WeakCollection };
