// How the tables of families describe cases: an operator, its operands and its attributes; and the models of cases.
//
//   ['3x3 64-64 56', 'Conv', [x(1, 64, 56, 56), w(64, 64, 3, 3)], { pads: [1, 1, 1, 1] }]

import { arrayFromNumbers, elementCount } from 'webnn-node-text/elements';
import { randomNumbers, randomTensor } from 'webnn-node-text/random';
import * as onnx from '../../__test__/onnx/model-writer.mjs';
import { ELEMENT_TYPES as COMMON_TYPES } from '../zoo/network.mjs';

/** Element types of ONNX by name. @type {Record<string, number>} */
export const ELEMENT_TYPES = {
  ...COMMON_TYPES,
  uint16: onnx.UINT16,
  int16: onnx.INT16,
  bool: onnx.BOOL,
  float64: onnx.DOUBLE,
  uint32: onnx.UINT32,
};

/**
 * Smallest and largest value of random elements, unless a case says others; both included.
 *
 * @type {Record<string, [number, number]>}
 */
const RANGES = {
  float32: [-1, 1],
  float16: [-1, 1],
  float64: [-1, 1],
  int8: [-128, 127],
  uint8: [0, 255],
  bool: [0, 1],
};

/** The range of other integers. */
const INTEGERS = /** @type {[number, number]} */ ([0, 1000]);

/** The newest operator set that all operators without an `opset` of their own take. */
const OPSET = 21;

/** Version of the file format that has all of these types. */
const IR_VERSION = 10;

/**
 * @typedef {[lowest: number, highest: number] | ((random: () => number, count: number) => ArrayLike<number>)} Source of
 *   elements: a range, or a function of random numbers in 0..1
 *
 * @typedef {{ role: 'feed' | 'weight', dataType: string, shape: number[], source?: Source }} Data
 * @typedef {{ operator: string, operands: Operand[], attributes: Attributes, results: number }} Inner another operator
 * @typedef {{ role: 'result', dataType: string, of: Inner, index: number }} Result
 * @typedef {Data | Result | null} Operand null for one that is left out
 *
 * @typedef {Record<string, number | string | number[] | object>} Attributes integers, floats with a fraction, texts, lists
 *   of integers; others, such as whole floats, as the field of AttributeProto: `{ f: 2 }`
 *
 * @typedef {object} Details
 * @property {number} [results] of the operator, 1 when absent
 * @property {number} [opset]
 * @property {number} [steps] by which integers may differ, as engines round differently; 0 when absent
 * @property {number} [tolerance] relative to the root mean square of the result, instead of that of its type
 * @property {boolean} [isUnordered] an engine may give the elements in any order
 * @property {boolean} [isRandom] no engine has the other's numbers
 *
 * @typedef {[name: string, operator: string, operands: Operand[], attributes?: Attributes, details?: Details]} Row
 *
 * @typedef {object} Case
 * @property {string} family
 * @property {string} name with the family
 * @property {Row} row
 */

/** Data that every run is given. @param {string} dataType @param {number[]} shape @param {Source} [source] @returns {Data} */
export const feed = (dataType, shape, source) => ({ role: 'feed', dataType, shape, source });

/** Data in the model. @param {string} dataType @param {number[]} shape @param {Source} [source] @returns {Data} */
export const weight = (dataType, shape, source) => ({ role: 'weight', dataType, shape, source });

/** A feed of float32. @param {number[]} shape */
export const x = (...shape) => feed('float32', shape);

/** Weights of float32. @param {number[]} shape */
export const w = (...shape) => weight('float32', shape);

/** Weights that all have the same value. @param {string} dataType @param {number} value @param {number[]} [shape] */
export const filled = (dataType, value, shape = []) => weight(dataType, shape, (_, count) => Array.from({ length: count }, () => value));

/** A vector of int64. @param {number[]} values */
export const ints = (...values) => weight('int64', [values.length], () => values);

/** A scalar of int64. @param {number} value */
export const int = (value) => filled('int64', value);

/** A vector of float32. @param {number[]} values */
export const floats = (...values) => weight('float32', [values.length], () => values);

/** A scalar of float32. @param {number} value */
export const float = (value) => filled('float32', value);

/** Indices below a limit, in a feed. @param {number[]} shape @param {number} limit */
export const below = (shape, limit) => feed('int64', shape, [0, limit - 1]);

/**
 * The results of another operator, as operands.
 *
 * @param {string} operator
 * @param {Operand[]} operands
 * @param {string[]} dataTypes of the results
 * @param {Attributes} [attributes]
 * @returns {Result[]}
 */
export function resultsOf(operator, operands, dataTypes, attributes = {}) {
  const of = { operator, operands, attributes, results: dataTypes.length };
  return dataTypes.map((dataType, index) => ({ role: 'result', dataType, of, index }));
}

/**
 * The only result of another operator.
 *
 * @param {string} operator
 * @param {Operand[]} operands
 * @param {Attributes} [attributes]
 * @param {string} [dataType] of the result
 */
export const node = (operator, operands, attributes, dataType = operands[0]?.dataType ?? 'float32') => resultsOf(operator, operands, [dataType], attributes)[0];

/**
 * Names the cases of a family.
 *
 * @param {string} family
 * @param {Row[]} rows
 * @returns {Case[]}
 */
export const casesOf = (family, rows) => rows.map((row) => ({ family, name: `${family}: ${row[1].split('.').at(-1)} ${row[0]}`, row }));

/** A number of 32 bits that a text determines: FNV-1a. @param {string} text */
function seedOf(text) {
  let hash = 0x811c9dc5;
  for (const char of text) hash = Math.imul(hash ^ /** @type {number} */ (char.codePointAt(0)), 0x01000193);
  return hash >>> 0;
}

/**
 * @param {Data} operand
 * @param {number} seed
 * @returns {import('../../packages/cli/lib/types.mjs').Tensor}
 */
function tensorOf({ dataType, shape, source = RANGES[dataType] ?? INTEGERS }, seed) {
  if (typeof source !== 'function') return randomTensor(dataType, shape, seed, source);
  return { dataType, shape, data: arrayFromNumbers(dataType, source(randomNumbers(seed), elementCount(shape))) };
}

/** Fields of AttributeProto. @param {Attributes[string]} value */
function fieldsOf(value) {
  if (Array.isArray(value)) return { ints: value };
  if (typeof value === 'string') return { s: Buffer.from(value) };
  if (typeof value === 'number') return Number.isInteger(value) ? { i: value } : { f: value };
  return value;
}

/** @param {Attributes} attributes */
const writtenAttributes = (attributes) => Object.fromEntries(Object.entries(attributes).map(([name, value]) => [name, fieldsOf(value)]));

/** Writes nodes and what they take, each once. */
class ModelWriter {
  /** @type {object[]} */
  nodes = [];
  /** @type {object[]} */
  inputs = [];
  /** @type {object[]} */
  weights = [];
  /** @type {Record<string, import('../../packages/cli/lib/types.mjs').Tensor>} */
  feeds = {};
  /** The names of the tensors written so far. @type {Map<Data | Inner, string[]>} */
  #names = new Map();
  #title;

  /** @param {string} title determines random elements */
  constructor(title) {
    this.#title = title;
  }

  /**
   * Writes an operator, after its operands.
   *
   * @param {Inner} inner
   * @param {string} [prefix] of the names of its results
   */
  node({ operator, operands, attributes, results }, prefix) {
    const inputs = operands.map((operand) => this.#nameOf(operand));
    const name = prefix ?? `n${this.#names.size}_`;
    const outputs = Array.from({ length: results }, (_, i) => `${name}${i}`);
    this.nodes.push(onnx.node(operator, inputs, outputs, writtenAttributes(attributes), name));
    return outputs;
  }

  /** @param {Operand} operand */
  #nameOf(operand) {
    if (operand === null) return '';
    if (operand.role !== 'result') return this.#once(operand, () => this.#data(operand))[0];
    return this.#once(operand.of, () => this.node(operand.of))[operand.index];
  }

  /** @param {Data | Inner} part @param {() => string[]} write */
  #once(part, write) {
    const names = this.#names.get(part) ?? write();
    this.#names.set(part, names);
    return names;
  }

  /** @param {Data} operand */
  #data(operand) {
    const { role, dataType, shape } = operand;
    const name = `${role === 'feed' ? 'x' : 'w'}${this.#names.size}`;
    const tensor = tensorOf(operand, seedOf(`${this.#title} ${name}`));
    if (role === 'feed') {
      this.feeds[name] = tensor;
      this.inputs.push(onnx.value(name, ELEMENT_TYPES[dataType], shape));
    } else {
      this.weights.push(onnx.weight(name, shape, tensor.data, ELEMENT_TYPES[dataType]));
    }
    return [name];
  }
}

/**
 * Writes the model of a case, and draws its feeds.
 *
 * @param {Case} one
 * @returns {{ bytes: Uint8Array, feeds: Record<string, import('../../packages/cli/lib/types.mjs').Tensor>, outputs: string[] }}
 */
export function modelOf({ name, row: [, operator, operands, attributes = {}, { results = 1, opset = OPSET } = {}] }) {
  const writer = new ModelWriter(name);
  const outputs = writer.node({ operator, operands, attributes, results }, 'y');
  const { nodes, inputs, weights, feeds } = writer;
  // Types and shapes of results follow from the operators.
  const described = outputs.map((output) => ({ name: output }));
  const bytes = onnx.writeModel({ nodes, inputs, weights, outputs: described, opset, ir_version: IR_VERSION });
  return { bytes, feeds, outputs };
}
