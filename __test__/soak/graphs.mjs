/** Random graphs whose results can be compared: operators are given numbers for which rounding stays rounding. */

import { arrayFromNumbers, arrayOf, bytesOf, elementCount, isFloat, numbersOf } from 'webnn-node-text/elements';
import { operators, validArguments } from '../robustness/support.mjs';

/** @typedef {import('../../index.js').MLGraphBuilder} MLGraphBuilder */
/** @typedef {import('../../index.js').MLOperand} MLOperand */
/** @typedef {import('../../index.js').MLOperandDataType} MLOperandDataType */
/** @typedef {import('../robustness/types.mjs').OperandMaker} OperandMaker */
/** @typedef {import('../robustness/types.mjs').Random} Random */
/** @typedef {{ dataType: MLOperandDataType, shape: readonly number[], positive?: boolean }} Descriptor of an input, for `contents` */

/** Operators with numbers below zero would be NaN or not by a rounding error. */
const OF_POSITIVE = new Set(['log', 'sqrt', 'pow', 'reduceLogSum', 'batchNormalization']);

/**
 * How far a result may be off, as a share of one more than its absolute value.
 *
 * @type {Record<string, number>}
 */
const TOLERANCES = { float32: 1e-4, float16: 2e-2 };

/** Quotients that nearly tie are rounded to either side. */
const QUANTIZATION_STEPS = 1;

/**
 * Contents for a tensor. Numbers with a fraction are multiples of 1/64 with absolute values from 0.25 to 1.25. Integers
 * are from 0 to 2, the same along the last of several axes, different along the one before: indices that scatter
 * operators find once.
 *
 * @param {Random} random
 * @param {Descriptor} descriptor
 * @returns {Uint8Array}
 */
export function contents(random, { dataType, shape, positive = false }) {
  const length = elementCount(shape);
  if (isFloat(dataType)) {
    const fraction = () => (16 + random.below(65)) / (positive || random.chance(0.5) ? 64 : -64);
    return bytesOf(arrayFromNumbers(dataType, Array.from({ length }, fraction)));
  }
  const offset = random.below(3);
  const row = shape.length > 1 ? shape[shape.length - 1] : 1;
  return bytesOf(
    arrayFromNumbers(
      dataType,
      Array.from({ length }, (_, i) => (Math.floor(i / row) + offset) % 3),
    ),
  );
}

/** Makes the operands of calls: inputs, and here and there a constant. */
class Operands {
  #builder;
  #random;
  #float;

  /**
   * Descriptors of the inputs by name.
   *
   * @type {Record<string, Descriptor>}
   */
  inputs = {};

  /**
   * @param {MLGraphBuilder} builder
   * @param {Random} random
   * @param {'float32' | 'float16'} float data type of numbers with a fraction
   */
  constructor(builder, random, float) {
    this.#builder = builder;
    this.#random = random;
    this.#float = float;
    this.positive = false;
  }

  /** @param {...number} shape */
  f(...shape) {
    return this.of(this.#float, ...shape);
  }

  /**
   * @param {MLOperandDataType} dataType
   * @param {...number} shape
   */
  of(dataType, ...shape) {
    const descriptor = { dataType, shape, positive: this.positive };
    if (this.#random.chance(0.2)) {
      return this.#builder.constant({ dataType, shape }, contents(this.#random, descriptor));
    }
    const name = `i${Object.keys(this.inputs).length}`;
    this.inputs[name] = descriptor;
    return this.#builder.input(name, { dataType, shape });
  }
}

/**
 * Calls with shapes of their own, for kernels that do their work in pieces. `size` gives one up to a limit.
 *
 * @type {Record<string, (o: OperandMaker, size: (limit: number) => number) => unknown[]>}
 */
const SIZED = {
  matmul(o, size) {
    const inner = size(70);
    return [o.f(size(3), size(70), inner), o.f(inner, size(70))];
  },
  gemm(o, size) {
    const inner = size(90);
    return [o.f(size(40), inner), o.f(inner, size(40))];
  },
  add(o, size) {
    const rows = size(9);
    return [o.f(size(5), rows, size(60)), o.f(rows, 1)];
  },
  mul(o, size) {
    const columns = size(300);
    return [o.f(size(20), columns), o.f(columns)];
  },
  conv2d(o, size) {
    const channels = size(20);
    return [o.f(1, channels, 2 + size(16), 2 + size(16)), o.f(size(20), channels, 3, 3)];
  },
  softmax: (o, size) => [o.f(size(20), size(400)), 1],
  reduceMean: (o, size) => [o.f(size(30), size(400))],
  transpose: (o, size) => [o.f(size(9), size(40), size(40))],
  sigmoid: (o, size) => [o.f(size(5000))],
  averagePool2d: (o, size) => [o.f(1, size(5), size(20), size(20))],
};

/** Operators behind others that change no number by more than it was off before. */
const TAILS = ['relu', 'sigmoid', 'tanh', 'softsign', 'abs', 'neg', 'hardSwish', 'identity'];

/**
 * The results of the operator of that name.
 *
 * @param {MLGraphBuilder} builder
 * @param {string} name
 * @param {...unknown} args
 */
function call(builder, name, ...args) {
  const methods = /** @type {Record<string, (...args: unknown[]) => MLOperand | MLOperand[]>} */ (/** @type {unknown} */ (builder));
  return [methods[name](...args)].flat();
}

/**
 * One operator on new operands.
 *
 * @param {MLGraphBuilder} builder
 * @param {Random} random
 * @param {Operands} operands
 */
function head(builder, random, operands) {
  if (random.chance(0.4)) {
    const name = random.pick(Object.keys(SIZED));
    operands.positive = false;
    return { name, results: call(builder, name, ...SIZED[name](operands, (limit) => 1 + random.below(limit))) };
  }
  const row = random.pick(operators);
  operands.positive = OF_POSITIVE.has(row.name);
  const [args, options] = validArguments(operands, row);
  return { name: row.name, results: call(builder, row.name, ...args, options) };
}

/**
 * Some element-wise operators behind a result with a fraction, which compilers make one kernel of.
 *
 * @param {MLGraphBuilder} builder
 * @param {Random} random
 * @param {MLOperand} result
 */
function tail(builder, random, result) {
  let value = result;
  for (let length = random.below(5); length > 0 && value.dataType in TOLERANCES; length--) {
    value = random.chance(0.2) ? builder.mul(value, builder.constant(value.dataType, 0.5)) : call(builder, random.pick(TAILS), value)[0];
  }
  return value;
}

/**
 * Puts a random graph together.
 *
 * @param {MLGraphBuilder} builder
 * @param {Random} random gives the same graph in the same state
 * @returns {{ inputs: Record<string, Descriptor>, outputs: Record<string, MLOperand>, steps: Record<string, number> }} the
 *   descriptors of the inputs; how much integer outputs may be off
 */
export function compose(builder, random) {
  const operands = new Operands(builder, random, random.chance(0.3) ? 'float16' : 'float32');
  /** @type {ReturnType<typeof compose>} */
  const { inputs, outputs, steps } = { inputs: operands.inputs, outputs: {}, steps: {} };
  for (let heads = 1 + random.below(3); heads > 0; heads--) {
    const { name, results } = head(builder, random, operands);
    for (const result of results) {
      const output = `${name}${Object.keys(outputs).length}`;
      outputs[output] = tail(builder, random, result);
      steps[output] = name === 'quantizeLinear' ? QUANTIZATION_STEPS : 0;
    }
  }
  return { inputs, outputs, steps };
}

/**
 * Compares an output of the same graph from two contexts.
 *
 * @param {string} dataType
 * @param {ArrayBuffer} got
 * @param {ArrayBuffer} expected
 * @param {number} steps by how much integers may be off
 * @returns {string | undefined} what is wrong; `undefined` if nothing is
 */
export function difference(dataType, got, expected, steps) {
  const [a, b] = [got, expected].map((buffer) => numbersOf({ dataType, data: arrayOf(dataType, buffer) }));
  if (a.length !== b.length) {
    return `${a.length} elements, expected ${b.length}`;
  }
  for (let i = 0; i < b.length; i++) {
    const allowed = dataType in TOLERANCES ? TOLERANCES[dataType] * (1 + Math.abs(b[i])) : steps;
    const isSame = Object.is(a[i], b[i]) || a[i] === b[i];
    if (!isSame && !(Math.abs(a[i] - b[i]) <= allowed)) {
      return `element ${i} is ${a[i]}, expected ${b[i]}`;
    }
  }
  return undefined;
}
