/** Random graphs that are built twice: with the sizes of their inputs, and with names in the place of some. */

import assert from 'node:assert/strict';
import { SHAPES, Values } from '../robustness/random.mjs';
import { checkException, operators, SIZES, totalElements } from '../robustness/support.mjs';
import { dynamicBuilder } from './builders.mjs';

const STEPS = 60;
const MAX_ELEMENTS = 5_000;

const bytesOf = (random, { dataType, shape }) => {
  const count = shape.reduce((a, b) => a * b, 1);
  return dataType === 'float32'
    ? Float32Array.from({ length: count }, () => random.next() * 8 - 4)
    : Uint8Array.from({ length: count * SIZES[dataType] }, () => random.below(256));
};

/** A value of the arguments of an operator, with other operands. */
function mapped(value, operandOf) {
  if (Array.isArray(value)) {
    return value.map((item) => mapped(item, operandOf));
  }
  const operand = typeof value === 'object' && value !== null ? operandOf(value) : undefined;
  if (operand !== undefined || typeof value !== 'object' || value === null) {
    return operand ?? value;
  }
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, mapped(item, operandOf)]));
}

/**
 * What builds a graph: inputs, and calls of operators whose operands are numbers of earlier results.
 *
 * @typedef {{inputs: {name: string, dataType: string, shape: (number | string)[]}[], constants: object[], calls: {name: string, args: unknown[]}[]}} Recipe
 */

class Place {
  constructor(at) {
    this.at = at;
  }
}

/**
 * A recipe that is possible with the given sizes of its names.
 *
 * @returns {{recipe: Recipe, sizes: Record<string, number>}}
 */
export function randomRecipe(context, random) {
  const sizes = {};
  const inputs = Array.from({ length: 8 }, (_, index) => {
    const shape = random.pick(SHAPES).map((size, axis) => {
      if (random.chance(0.45)) {
        return size;
      }
      // Names that are shared, and names of their own that may have the size of another.
      const name = random.chance(0.5) ? `of ${size}` : `axis ${axis} of ${index}`;
      sizes[name] = size;
      return name;
    });
    const dataType = random.chance(0.7) ? 'float32' : random.pick(Object.keys(SIZES));
    return { name: `i${index}`, dataType, shape };
  });
  const constants = Array.from({ length: 3 }, () => {
    const descriptor = { dataType: 'float32', shape: random.pick(SHAPES) };
    return { descriptor, bytes: bytesOf(random, descriptor) };
  });
  /** @type {{ inputs: any[], constants: any[], calls: { name: string, args: any[], results: number }[] }} */
  const recipe = { inputs, constants, calls: [] };
  const { builder, pool } = begin(context, recipe, sizes);
  const places = new Map(pool.map((operand, at) => [operand, new Place(at)]));
  const readable = [...pool];
  const values = new Values(random, readable, 0);
  for (let step = 0; step < STEPS; step++) {
    const row = random.pick(operators);
    const args = [...row.arguments.map(({ type }) => values.of(type)), values.options(row.options)];
    let results;
    try {
      results = [builder[row.name](...args)].flat();
    } catch (error) {
      checkException(error, row.name);
      continue;
    }
    if (results.length > 50 || totalElements(results) > MAX_ELEMENTS) {
      continue;
    }
    recipe.calls.push({ name: row.name, args: mapped(args, (value) => places.get(value)), results: results.length });
    for (const operand of results) {
      places.set(operand, new Place(places.size));
      readable.push(operand);
    }
  }
  return { recipe, sizes };
}

/** A builder with the inputs and constants of a recipe; names that have no size stay names. */
function begin(context, recipe, sizes) {
  const builder = dynamicBuilder(context);
  const inputs = recipe.inputs.map(({ name, dataType, shape }) =>
    builder.input(name, { dataType, shape: shape.map((dimension) => sizes[dimension] ?? dimension) }),
  );
  const constants = recipe.constants.map(({ descriptor, bytes }) => builder.constant(descriptor, bytes));
  return { builder, pool: [...inputs, ...constants] };
}

/**
 * Builds a recipe, with names for dimensions that have no size.
 *
 * @returns {{builder: import('../../index.js').MLDynamicGraphBuilder, operands: MLOperand[], computed: MLOperand[]}}
 */
export function follow(context, recipe, sizes) {
  const { builder, pool } = begin(context, recipe, sizes);
  const given = pool.length;
  for (const { name, args } of recipe.calls) {
    const place = (value) => (value instanceof Place ? pool[value.at] : undefined);
    try {
      pool.push(...[builder[name](...mapped(args, place))].flat());
    } catch (caught) {
      const error = /** @type {Error} */ (caught);
      throw Object.assign(error, { message: `${name}: ${error.message}`, isRefused: error instanceof TypeError });
    }
  }
  return { builder, operands: pool, computed: pool.slice(given) };
}

/** Named outputs: the same ones of every build of a recipe. */
export function outputsOf(computed, places) {
  return Object.fromEntries(places.map((at) => [`o${at}`, computed[at]]));
}

/** Runs a graph on inputs of these bytes; `shapes` are those of its inputs and outputs. */
export async function results(context, graph, { inputs, outputs }, bytes) {
  const bound = {};
  for (const [name, descriptor] of Object.entries(inputs)) {
    bound[name] = await context.createTensor({ ...descriptor, writable: true });
    context.writeTensor(bound[name], bytes[name]);
  }
  const written = {};
  for (const [name, descriptor] of Object.entries(outputs)) {
    written[name] = await context.createTensor({ ...descriptor, readable: true });
  }
  context.dispatch(graph, bound, written);
  const read = {};
  for (const [name, tensor] of Object.entries(written)) {
    read[name] = await context.readTensor(tensor);
  }
  [...Object.values(bound), ...Object.values(written)].forEach((tensor) => tensor.destroy());
  return read;
}

/** Random contents for the inputs of a recipe with these sizes. */
export function contents(random, recipe, sizes) {
  const sized = recipe.inputs.map(({ name, dataType, shape }) => [name, { dataType, shape: shape.map((dimension) => sizes[dimension] ?? dimension) }]);
  const descriptors = Object.fromEntries(sized);
  const bytes = Object.fromEntries(sized.map(([name, descriptor]) => [name, bytesOf(random, descriptor)]));
  return { descriptors, bytes };
}

/** Asserts that a shape with names can be the given one, with the sizes of the caller's names. */
export function checkNames(named, shape, sizes, what) {
  assert.equal(named.length, shape.length, what);
  for (const [axis, dimension] of named.entries()) {
    const size = typeof dimension === 'string' ? (sizes[dimension] ?? shape[axis]) : dimension;
    assert.equal(size, shape[axis], `${what}: [${named}] for [${shape}]`);
  }
}
