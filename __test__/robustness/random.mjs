/** Random arguments, operators and graphs. A seed gives the same ones in every process. */

import { generator } from '../lib/random.mjs';
import { MLGraphBuilder } from '../runtime/helpers.mjs';
import { SIZES, checkException, checkShape, dictionaries, enumerations, named, operators, runGraph, totalElements, validArguments } from './support.mjs';

const INTEGERS = [0, 1, 2, 3, 4, 5, 8, 2 ** 31 - 1, 2 ** 32 - 1];

/** Values of every kind that are seldom right. The functions make a new one each time. */
export const GARBAGE = [
  () => undefined,
  () => null,
  () => true,
  () => -1,
  () => 1.5,
  () => NaN,
  () => -Infinity,
  () => 2 ** 53,
  () => 10n ** 30n,
  () => '',
  () => 'float32',
  () => '\ud800\u202e\0',
  () => Symbol('garbage'),
  () => [],
  () => [[1]],
  () => [undefined],
  () => ({}),
  () => Object.create(null),
  () => ({ length: 3, 0: 1 }),
  () => ({ axis: 1, axes: [0], label: 'x', scales: [], padding: {} }),
  () => () => 1,
  () => new Proxy({}, {}),
  () => new Proxy(() => 1, {}),
  () => new Float32Array(3),
  () => new Map([[1, 2]]),
  () => new Set([2, 1]),
  () => new Date(0),
  () => /x/,
  () => Promise.resolve(1),
  () => new WeakMap(),
  () => new (class extends Array {})(1, 2),
  () => Object.freeze([1, 1]),
  () => [, 1],
  () => new String('nchw'),
  () => Array(1000).fill(1),
  () => globalThis,
];

/** Random values for the types of the IDL. */
export class Values {
  #random;
  #pool;

  /**
   * @param {object} random
   * @param {MLOperand[]} pool
   * @param {number} garbage how often something else is given
   */
  constructor(random, pool, garbage) {
    this.#random = random;
    this.#pool = pool;
    this.garbage = garbage;
  }

  of(type) {
    const { pick, below, chance, next } = this.#random;
    if (chance(this.garbage)) {
      return pick(GARBAGE)();
    }
    const [, single, element] = /^(?:\((.+) or )?sequence<(.+)>\)?$/.exec(type) ?? [];
    if (element !== undefined) {
      return single !== undefined && chance(0.5) ? this.of(single) : Array.from({ length: below(5) }, () => this.of(element));
    }
    switch (type) {
      case 'MLOperand':
        return pick(this.#pool);
      case 'boolean':
        return chance(0.5);
      case 'USVString':
        return pick(['', 'label', '\u202elabel\ud800']);
      case 'MLNumber':
        return pick([0, 1, -1.5, NaN, Infinity, 3n, -(2n ** 70n)]);
      case 'double':
      case 'float':
      case 'unrestricted double':
        return pick([0, 1, -1, 1e-5, 0.5, next() * 4]);
      default:
        return enumerations[type] ? pick(enumerations[type]) : chance(0.85) ? below(5) : pick(INTEGERS);
    }
  }

  options(name) {
    const { chance } = this.#random;
    if (chance(this.garbage)) {
      return this.of('garbage');
    }
    const members = dictionaries[name].filter(() => chance(0.4));
    return Object.fromEntries(members.map((member) => [member.name, this.of(member.type)]));
  }
}

const TYPES = enumerations.MLOperandDataType;

/** A builder with inputs and constants of many types and shapes. */
export function newPool(context, random, shapes) {
  const builder = new MLGraphBuilder(context);
  const inputs = {};
  const pool = shapes.map((shape, i) => {
    const dataType = random.chance(0.6) ? 'float32' : random.pick(TYPES);
    if (random.chance(0.2)) {
      const bytes = new Uint8Array(shape.reduce((a, b) => a * b, SIZES[dataType])).map(() => random.below(256));
      return builder.constant({ dataType, shape }, bytes);
    }
    inputs[`i${i}`] = builder.input(`i${i}`, { dataType, shape });
    return inputs[`i${i}`];
  });
  return { builder, inputs, pool };
}

export const SHAPES = [
  [],
  [1],
  [2],
  [3],
  [4],
  [2, 3],
  [3, 4],
  [4, 4],
  [1, 4],
  [3, 2, 4],
  [2, 3, 3],
  [1, 4, 5, 5],
  [2, 4, 3, 3],
  [4, 4, 1, 1],
  [1, 3, 12],
  [2, 12, 4],
  [1, 2, 1, 2, 1],
  [1, 1, 1, 1, 1, 1, 1, 2],
];

/** An operator's method with random arguments; what comes out is checked. */
export function callRandomly(builder, row, values, what) {
  const args = row.arguments.map(({ type }) => values.of(type));
  let result;
  try {
    result = [builder[row.name](...args, values.options(row.options))].flat();
  } catch (error) {
    checkException(error, what);
    return [];
  }
  result.forEach(({ shape }) => checkShape(shape, what));
  return result;
}

/** Makes the operands of a valid call from those that there are. */
class Derived {
  #builder;
  #random;
  #pool;

  constructor(builder, random, pool) {
    this.#builder = builder;
    this.#random = random;
    this.#pool = pool;
  }

  f(...shape) {
    return this.of('float32', ...shape);
  }

  of(dataType, ...shape) {
    const builder = this.#builder;
    const count = shape.reduce((a, b) => a * b, 1);
    let source = this.#random.pick(this.#pool);
    const size = source.shape.reduce((a, b) => a * b, 1);
    source = builder.reshape(source, [size]);
    if (size < count) {
      const repetitions = Math.ceil(count / size);
      source = builder.tile(source, [repetitions]);
    }
    const begin = this.#random.below(source.shape[0] - count + 1);
    return builder.reshape(builder.cast(builder.slice(source, [begin], [count]), dataType), shape);
  }
}

/** An operator with arguments that fit, some of its options left out; what comes out is checked. */
function callSensibly(builder, row, random, pool, what) {
  const [args, options] = validArguments(new Derived(builder, random, pool), row);
  const chosen = Object.fromEntries(Object.entries(options).filter(() => random.chance(0.8)));
  try {
    const result = [builder[row.name](...args, chosen)].flat();
    result.forEach(({ shape }) => checkShape(shape, what));
    return result;
  } catch (error) {
    checkException(error, what);
    return [];
  }
}

/** Steps at which a random graph calls an operator; many of the calls are refused. */
const STEPS = 80;

/** Operands above this are not read by later operators, and so not computed. */
const MAX_ELEMENTS = 20_000;

/**
 * Builds and runs a graph of random operators.
 *
 * @param {MLContext} context
 * @param {number} seed
 * @returns {Promise<{descriptors: Record<string, MLOperand>, results: Record<string, ArrayBuffer>}>}
 */
export async function runRandomGraph(context, seed) {
  const random = generator(seed * 2654435761);
  const shapes = Array.from({ length: 12 }, () => random.pick(SHAPES));
  const { builder, inputs, pool } = newPool(context, random, shapes);
  const computed = [builder.identity(pool[0])];
  const values = new Values(random, pool, 0.01);
  for (let step = 0; step < STEPS; step++) {
    const row = random.pick(operators);
    const what = `${row.name}, graph ${seed}`;
    const outputs = random.chance(0.5) ? callRandomly(builder, row, values, what) : callSensibly(builder, row, random, pool, what);
    if (outputs.length <= 50 && totalElements(outputs) <= MAX_ELEMENTS) {
      computed.push(...outputs);
      pool.push(...outputs);
    }
  }
  const descriptors = named(Array.from({ length: 1 + random.below(6) }, () => random.pick(computed)));
  try {
    return { descriptors, results: await runGraph(context, builder, inputs, descriptors, random) };
  } catch (error) {
    throw new Error(`graph ${seed}: ${/** @type {Error} */ (error).message}`, { cause: error });
  }
}
