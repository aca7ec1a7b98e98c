// Networks under construction: nodes, weights that are drawn when they are written, and samples of the inputs.

import { createHash } from 'node:crypto';
import { arrayFromNumbers, bytesOf, elementCount, elementSize, numbersOf } from 'webnn-node-text/elements';
import { randomNumbers } from 'webnn-node-text/random';
import { FLOAT, FLOAT16, INT32, INT64, INT8, modelParts, node, UINT8, value } from '../../__test__/onnx/model-writer.mjs';

/** ONNX's numbers of data types. @type {Record<string, number>} */
export const ELEMENT_TYPES = { float32: FLOAT, float16: FLOAT16, int8: INT8, uint8: UINT8, int32: INT32, int64: INT64 };

/** Attributes that are floats; other numbers are integers. */
const FLOAT_ATTRIBUTES = ['alpha', 'beta', 'cubic_coeff_a', 'epsilon', 'scale'];

/** @typedef {number | string} Extent a string is the name of a free dimension */
/** @typedef {{ name: string, shape: Extent[] }} Tensor the name may change until the model is written */
/** @typedef {{ type: string, inputs: (Tensor | undefined)[], outputs: (Tensor | undefined)[], attributes: Record<string, any> }} Node */
/** @typedef {{ tensor: Tensor, dataType: string, read: () => import('webnn-node-text/types').Elements }} Weight */
/** @typedef {{ next: () => number, normal: () => number, below: (limit: number) => number }} Random */

/** Number of normal numbers to draw as many as 16 bits can choose from. */
const CHOICES = 1 << 16;

/** Normal numbers with their opposites, so that their mean is 0. Drawing from a table takes a tenth of the time of logarithms and cosines. */
const NORMAL = (() => {
  const next = randomNumbers(1);
  const numbers = new Float32Array(CHOICES);
  for (let i = 0; i < CHOICES; i += 2) {
    numbers[i] = Math.sqrt(-2 * Math.log(1 - next())) * Math.cos(2 * Math.PI * next());
    numbers[i + 1] = -numbers[i];
  }
  return numbers;
})();

const seedOf = (/** @type {string} */ text) => createHash('sha256').update(text).digest().readUInt32LE();

/**
 * @template {Float32Array | Uint16Array} T
 * @param {number} seed
 * @param {number} count
 * @param {T} choices to draw from
 */
function drawn(seed, count, choices) {
  const next = randomNumbers(seed);
  const elements = /** @type {T} */ (new /** @type {any} */ (choices.constructor)(count));
  for (let i = 0; i < count; i += 2) {
    const bits = next() * 2 ** 32;
    elements[i] = choices[bits & (CHOICES - 1)];
    // A typed array ignores an element behind its end.
    elements[i + 1] = choices[bits >>> 16];
  }
  return elements;
}

/**
 * @param {string} text the same random numbers for the same text
 * @returns {Random}
 */
export function randomOf(text) {
  const next = randomNumbers(seedOf(text));
  const below = (/** @type {number} */ limit) => Math.floor(next() * limit);
  return { next, below, normal: () => NORMAL[below(CHOICES)] };
}

/** The shape of an operation on corresponding elements. */
const broadcast = (/** @type {Extent[]} */ a, /** @type {Extent[]} */ b) => {
  const rank = Math.max(a.length, b.length);
  return Array.from({ length: rank }, (_, i) => {
    const [one, other] = [a.at(i - rank) ?? 1, b.at(i - rank) ?? 1];
    return one === 1 ? other : one;
  });
};

/** @param {string} name @param {any} given */
function attributeOf(name, given) {
  if (typeof given === 'string') return { s: Buffer.from(given) };
  if (Array.isArray(given)) return { ints: given };
  return FLOAT_ATTRIBUTES.includes(name) ? { f: given } : { i: given };
}

export class Network {
  /** @type {Node[]} */
  nodes = [];
  /** @type {Map<Tensor, Weight>} */
  weights = new Map();
  /** @type {{ tensor: Tensor, dataType: string, sample: (random: Random) => any }[]} */
  inputs = [];
  /** @type {{ tensor: Tensor, dataType: string }[]} */
  outputs = [];
  #constants = new Map();
  #normal = new Map();
  #names = new Map();
  #drawn = 0;

  /**
   * @param {string} seed networks of the same seed have the same weights and samples
   * @param {{ dataType?: string, precision?: string }} [types] of the floats of the model, and the type that weights are rounded to
   */
  constructor(seed, { dataType = 'float32', precision = dataType } = {}) {
    this.seed = seed;
    this.dataType = dataType;
    this.precision = precision;
  }

  /** @param {string} hint @param {Extent[]} shape @returns {Tensor} with a name of its own */
  tensor(hint, shape) {
    const count = this.#names.get(hint) ?? 0;
    this.#names.set(hint, count + 1);
    return { name: `${hint}_${count}`, shape };
  }

  /** @param {string} dataType @param {number[]} shape @param {Weight['read']} read @param {string} [hint] */
  stored(dataType, shape, read, hint = 'constant') {
    const tensor = this.tensor(hint, shape);
    this.weights.set(tensor, { tensor, dataType, read });
    return tensor;
  }

  /** Floats as the model has them. @param {Float32Array} floats @returns {any} an array of floats or of halves */
  #rounded(floats) {
    if (this.precision === 'float32') return floats;
    const halves = arrayFromNumbers(this.precision, floats);
    return this.dataType === this.precision ? halves : new Float32Array(numbersOf({ dataType: this.precision, data: halves }));
  }

  /** The numbers that weights of a deviation and a mean are drawn from. @param {number} deviation @param {number} mean */
  #choices(deviation, mean) {
    const key = `${deviation} ${mean}`;
    const known = this.#normal.get(key);
    if (known !== undefined) return known;
    const choices = this.#rounded(NORMAL.map((number) => number * deviation + mean));
    this.#normal.set(key, choices);
    return choices;
  }

  /** Normal numbers. @param {number[]} shape @param {number} deviation */
  weight(shape, deviation, mean = 0) {
    const seed = seedOf(`${this.seed} weight ${this.#drawn++}`);
    return this.stored(this.dataType, shape, () => drawn(seed, elementCount(shape), this.#choices(deviation, mean)), 'weight');
  }

  /**
   * Floats of the model's type: one, or a list.
   *
   * @param {number | ArrayLike<number>} given
   * @param {number[]} [shape]
   */
  constant(given, shape, dataType = this.dataType) {
    const numbers = typeof given === 'number' ? [given] : Array.from(given);
    const extents = shape ?? (typeof given === 'number' ? [] : [numbers.length]);
    const key = JSON.stringify([dataType, extents, numbers]);
    const known = this.#constants.get(key);
    if (known !== undefined) return known;
    const isFloat = dataType === this.dataType;
    const tensor = this.stored(dataType, extents, () => (isFloat ? this.#rounded(Float32Array.from(numbers)) : arrayFromNumbers(dataType, numbers)));
    this.#constants.set(key, tensor);
    return tensor;
  }

  /** @param {number | number[]} given @param {number[]} [shape] */
  integers(given, shape) {
    return this.constant(given, shape, 'int64');
  }

  /**
   * @param {string} name
   * @param {string} dataType
   * @param {Extent[]} shape
   * @param {(random: Random, index: number) => number} sample of each element
   */
  input(name, dataType, shape, sample) {
    return this.inputOf(name, dataType, shape, (random) => Array.from({ length: elementCount(/** @type {number[]} */ (shape)) }, (_, i) => sample(random, i)));
  }

  /** @param {string} name @param {string} dataType @param {Extent[]} shape @param {(random: Random) => ArrayLike<number>} sample of all elements */
  inputOf(name, dataType, shape, sample) {
    const tensor = { name, shape };
    this.inputs.push({ tensor, dataType, sample });
    return tensor;
  }

  /** Gives a tensor its name as an output. @param {Tensor} tensor @param {string} name */
  output(tensor, name, dataType = this.dataType) {
    tensor.name = name;
    this.outputs.push({ tensor, dataType });
  }

  /** @returns {Record<string, import('../../packages/cli/lib/types.mjs').Tensor>} samples of the inputs */
  feeds() {
    return Object.fromEntries(
      this.inputs.map(({ tensor: { name, shape }, dataType, sample }) => {
        const numbers = sample(randomOf(`${this.seed} input ${name}`));
        return [name, { dataType, shape: /** @type {number[]} */ (shape), data: arrayFromNumbers(dataType, numbers) }];
      }),
    );
  }

  /** The bytes of the model's file, in parts. */
  *parts() {
    const inOut = (/** @type {{ tensor: Tensor, dataType: string }} */ { tensor, dataType }) => value(tensor.name, ELEMENT_TYPES[dataType], tensor.shape);
    const nameOf = (/** @type {Tensor | undefined} */ tensor) => tensor?.name ?? '';
    yield* modelParts({
      inputs: this.inputs.map(inOut),
      outputs: this.outputs.map(inOut),
      nodes: this.nodes.map(({ type, inputs, outputs, attributes }, i) => {
        const fields = Object.entries(attributes).map(([name, given]) => [name, attributeOf(name, given)]);
        return node(type, inputs.map(nameOf), outputs.map(nameOf), Object.fromEntries(fields), `${type}_${i}`);
      }),
      weights: Array.from(this.weights.values(), ({ tensor, dataType, read }) => ({
        name: tensor.name,
        dims: /** @type {number[]} */ (tensor.shape),
        data_type: ELEMENT_TYPES[dataType],
        byteLength: elementCount(/** @type {number[]} */ (tensor.shape)) * elementSize(dataType),
        read: () => bytesOf(read()),
      })),
    });
  }

  /**
   * Adds a node with several results.
   *
   * @param {string} type
   * @param {(Tensor | undefined)[]} inputs
   * @param {Record<string, any>} attributes
   * @param {Extent[][]} shapes
   */
  nodeOf(type, inputs, attributes, shapes) {
    const outputs = shapes.map((shape) => this.tensor(type.toLowerCase(), shape));
    this.nodes.push({ type, inputs, outputs: [...outputs], attributes });
    return outputs;
  }

  /**
   * Adds a node with one result, by default of the shape of its first input.
   *
   * @param {string} type
   * @param {(Tensor | undefined)[]} inputs
   * @param {Record<string, any>} [attributes]
   * @param {Extent[]} [shape]
   */
  node(type, inputs, attributes = {}, shape = /** @type {Tensor} */ (inputs[0]).shape) {
    return this.nodeOf(type, inputs, attributes, [shape])[0];
  }

  /** @param {string} type @param {Tensor} a @param {Tensor} b */
  #binary(type, a, b) {
    return this.node(type, [a, b], {}, broadcast(a.shape, b.shape));
  }

  /** @param {Tensor} a @param {Tensor} b */
  add(a, b) {
    return this.#binary('Add', a, b);
  }

  /** @param {Tensor} a @param {Tensor} b */
  subtract(a, b) {
    return this.#binary('Sub', a, b);
  }

  /** @param {Tensor} a @param {Tensor} b */
  multiply(a, b) {
    return this.#binary('Mul', a, b);
  }

  /** @param {Tensor} a @param {Tensor} b */
  divide(a, b) {
    return this.#binary('Div', a, b);
  }

  /** @param {Tensor} a @param {Tensor} b */
  matmul(a, b) {
    return this.node('MatMul', [a, b], {}, [...a.shape.slice(0, -1), /** @type {Extent} */ (b.shape.at(-1))]);
  }

  /** @param {Tensor} x @param {...number} shape 0 keeps an extent, -1 follows from the others */
  reshape(x, ...shape) {
    const kept = shape.map((extent, i) => (extent === 0 ? x.shape[i] : extent));
    const rest = kept.reduce((/** @type {any} */ product, extent) => (extent === -1 ? product : product * /** @type {number} */ (extent)), 1);
    const full = kept.map((extent) => (extent === -1 ? elementCount(/** @type {number[]} */ (x.shape)) / rest : extent));
    return this.node('Reshape', [x, this.integers(shape)], {}, full);
  }

  /** @param {Tensor} x @param {...number} perm */
  transpose(x, ...perm) {
    return this.node(
      'Transpose',
      [x],
      { perm },
      perm.map((from) => x.shape[from]),
    );
  }

  /** @param {Tensor[]} parts @param {number} axis */
  concat(parts, axis) {
    const extent = parts.reduce((sum, { shape }) => sum + /** @type {number} */ (shape[axis]), 0);
    return this.node('Concat', parts, { axis }, parts[0].shape.with(axis, extent));
  }

  /** @param {Tensor} x @param {number[]} extents @param {number} axis */
  split(x, extents, axis) {
    return this.nodeOf(
      'Split',
      [x, this.integers(extents)],
      { axis },
      extents.map((extent) => x.shape.with(axis, extent)),
    );
  }

  /** Rows of a table. @param {Tensor} table @param {Tensor} indices */
  gather(table, indices) {
    return this.node('Gather', [table, indices], { axis: 0 }, [...indices.shape, ...table.shape.slice(1)]);
  }
}
