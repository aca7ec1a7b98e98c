'use strict';

/** Builders that build more than one graph, as those of earlier drafts could. */

const { WeakSet } = globalThis;

/** @type {WeakSet<object>} */
const builders = new WeakSet();

/**
 * Lets a builder build several graphs: `build()` leaves it as it is.
 *
 * @param {object} builder an MLGraphBuilder
 */
function letBuildAgain(builder) {
  builders.add(builder);
}

/** @param {object} builder an MLGraphBuilder */
const mayBuildAgain = (builder) => builders.has(builder);

module.exports = { letBuildAgain, mayBuildAgain };
