'use strict';

/** The shapes of a model's inputs for the feeds of one run. */

const { quote } = require('../errors.js');

/** @returns {string} as in messages: `[1, sequence=12, width]` */
function shownShape(dimensions, sizes) {
  const shown = (dimension) => {
    const size = sizes.get(dimension);
    return typeof dimension === 'number' || size === undefined ? dimension : `${dimension}=${size}`;
  };
  return `[${dimensions.map(shown).join(', ')}]`;
}

/** Whether two shapes are equal. */
function sameShape(a, b) {
  return a.length === b.length && a.every((size, axis) => size === b[axis]);
}

/** Takes the sizes of free dimensions from a shape that was given. */
function bind(operation, name, dimensions, shape, sizes) {
  const fits =
    shape.length === dimensions.length &&
    dimensions.every((dimension, axis) => {
      if (typeof dimension === 'number') {
        return dimension === shape[axis];
      }
      if (!sizes.has(dimension)) {
        sizes.set(dimension, shape[axis]);
      }
      return sizes.get(dimension) === shape[axis];
    });
  if (!fits) {
    const expected = shownShape(dimensions, sizes);
    throw new TypeError(`${operation}: ${quote(name)} has shape [${shape.join(', ')}], expected ${expected}`);
  }
}

/** @returns {(number | string)[]} the dimensions with the sizes that are known */
function resolved(dimensions, sizes) {
  return dimensions.map((dimension) => sizes.get(dimension) ?? dimension);
}

/**
 * The size of the only free dimension that is left, which follows from the number of elements.
 *
 * @returns {boolean} whether one was found
 */
function solve({ name, dataType, shape }, feed, sizes) {
  const free = resolved(shape, sizes).filter((dimension) => typeof dimension === 'string');
  if (free.length !== 1) {
    return false;
  }
  const known = resolved(shape, sizes).reduce((product, size) => (typeof size === 'number' ? product * size : product), 1);
  const size = known === 0 ? 0 : feed.elements(dataType) / known;
  if (!Number.isInteger(size)) {
    const elements = feed.elements(dataType);
    throw new TypeError(
      `run: feed ${quote(name)} has ${elements} elements, which do not fill the shape ${shownShape(shape, sizes)}`,
    );
  }
  sizes.set(free[0], size);
  return true;
}

/**
 * @param {{name: string, dataType: string, shape: (number | string)[] | null}[]} inputs
 * @param {Map<string, object>} feeds by name
 * @param {Record<string, number>} freeDimensions sizes that are fixed for the model
 * @returns {Record<string, number[]>} the shape of each input
 * @throws {TypeError} if a feed does not fit, or leaves a size open
 */
function shapesOf(inputs, feeds, freeDimensions) {
  const sizes = new Map(Object.entries(freeDimensions));
  const open = [];
  for (const input of inputs) {
    const feed = feeds.get(input.name);
    if (input.shape === null) {
      if (feed.shape === undefined) {
        throw new TypeError(`run: the model does not say what shape ${quote(input.name)} has: give {data, shape}`);
      }
    } else if (feed.shape !== undefined) {
      bind('run', input.name, input.shape, feed.shape, sizes);
    } else {
      open.push(input);
    }
  }
  // Each size that is found can leave only one open elsewhere.
  while (open.some((input) => solve(input, feeds.get(input.name), sizes)));
  const shapes = Object.create(null); // an input may be called __proto__
  for (const { name, shape } of inputs) {
    const feed = feeds.get(name);
    shapes[name] = feed.shape === undefined ? resolved(shape, sizes) : [...feed.shape];
    if (shapes[name].some((dimension) => typeof dimension === 'string')) {
      const shown = shownShape(shape, sizes);
      throw new TypeError(`run: the sizes of feed ${quote(name)} are not known: ${shown}; give {data, shape} or freeDimensions`);
    }
  }
  return shapes;
}

/**
 * @param {{name: string, shape: (number | string)[] | null}[]} inputs
 * @param {Map<string, {shape: number[]}>} given shapes of some of them
 * @param {Record<string, number>} freeDimensions sizes that are fixed for the model
 * @returns {Record<string, number[]>} the shape of each input
 * @throws {TypeError} if one does not fit, or a size is not known
 */
function completeShapes(inputs, given, freeDimensions) {
  const sizes = new Map(Object.entries(freeDimensions));
  for (const { name, shape } of inputs) {
    if (given.has(name) && shape !== null) {
      bind('compile', name, shape, given.get(name).shape, sizes);
    }
  }
  return Object.fromEntries(
    inputs.map(({ name, shape }) => {
      const complete = given.get(name)?.shape ?? (shape && resolved(shape, sizes));
      if (complete === null || complete.some((dimension) => typeof dimension === 'string')) {
        const shown = shape === null ? 'unknown' : shownShape(shape, sizes);
        throw new TypeError(`compile: the shape of ${quote(name)} is ${shown}; give it, or freeDimensions`);
      }
      return [name, [...complete]];
    }),
  );
}

module.exports = { completeShapes, sameShape, shapesOf };
