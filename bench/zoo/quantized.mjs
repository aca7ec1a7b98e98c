// Quantized forms of networks, as onnxruntime's quantizers write them.

import { arrayFromNumbers, elementCount } from 'webnn-node-text/elements';
import { Layers } from './layers.mjs';

/** @typedef {import('./network.mjs').Network} Network */
/** @typedef {import('./network.mjs').Tensor} Tensor */
/** @typedef {import('./network.mjs').Node} Node */

/** The range of values that a tensor has. @typedef {[number, number]} Range */

/** Largest levels of 8 bits, without and with a sign. */
const [UNSIGNED, SIGNED] = [255, 127];

const clamp = (/** @type {number} */ value, /** @type {number} */ lowest, /** @type {number} */ highest) => Math.min(highest, Math.max(lowest, value));

/** Rounds half to even, as NumPy does. */
function roundEven(/** @type {number} */ x) {
  const rounded = Math.round(x);
  return rounded - x === 0.5 && rounded % 2 !== 0 ? rounded - 1 : rounded;
}

/** The largest magnitudes of as many equal parts of a list. @param {ArrayLike<number>} numbers @param {number} parts */
function magnitudes(numbers, parts) {
  const largest = new Float64Array(parts);
  for (let i = 0; i < numbers.length; i++) {
    const part = Math.floor((i * parts) / numbers.length);
    largest[part] = Math.max(largest[part], Math.abs(numbers[i]));
  }
  return largest;
}

/** Scale and zero point of unsigned levels. @param {Range} range */
function levelsOf([lowest, highest]) {
  const low = Math.min(lowest, 0);
  const scale = Math.fround((Math.max(highest, 0) - low) / UNSIGNED);
  return { scale, zeroPoint: roundEven(-low / scale) };
}

/** Copies a network node by node. */
class Rewriter {
  /** New tensors by old ones. @type {Map<Tensor, Tensor>} */
  #renewed = new Map();

  /** @param {Network} source */
  constructor(source) {
    this.source = source;
    this.target = new Layers(source.seed);
    this.target.inputs = source.inputs;
    for (const { tensor } of source.inputs) this.#renewed.set(tensor, tensor);
  }

  /** @param {Tensor} old @param {Tensor} renewed */
  set(old, renewed) {
    this.#renewed.set(old, renewed);
  }

  /** The new tensor; a weight is copied when it is first asked for. @param {Tensor | undefined} old */
  get(old) {
    if (old === undefined) return undefined;
    const known = this.#renewed.get(old);
    if (known !== undefined) return known;
    const { dataType, read } = this.weightOf(old);
    const renewed = this.target.stored(dataType, /** @type {number[]} */ (old.shape), read);
    this.set(old, renewed);
    return renewed;
  }

  /** @param {Tensor | undefined} tensor @returns {import('./network.mjs').Weight} */
  weightOf(tensor) {
    const weight = this.source.weights.get(/** @type {Tensor} */ (tensor));
    if (weight === undefined) throw new Error(`${tensor?.name} is not a weight`);
    return weight;
  }

  /** A tensor of 8- or 32-bit integers or floats. @param {string} dataType @param {number[]} shape @param {ArrayLike<number>} numbers */
  stored(dataType, shape, numbers) {
    const data = arrayFromNumbers(dataType, numbers);
    return this.target.stored(dataType, shape, () => data);
  }

  /** @param {Node} node */
  copy({ type, inputs, outputs, attributes }) {
    const shapes = outputs.map((output) => /** @type {Tensor} */ (output).shape);
    const renewed = this.target.nodeOf(
      type,
      inputs.map((input) => this.get(input)),
      attributes,
      shapes,
    );
    outputs.forEach((output, i) => this.set(/** @type {Tensor} */ (output), renewed[i]));
  }

  /** @returns {Network} with the outputs of the source */
  finished() {
    for (const { tensor, dataType } of this.source.outputs) this.target.output(/** @type {Tensor} */ (this.get(tensor)), tensor.name, dataType);
    return this.target;
  }
}

/** The range of values after Clip. @type {Range} */
const CLIPPED = [0, 6];

/**
 * The tensors whose ranges {@link quantizeStatically} needs.
 *
 * @param {Network} source
 */
export function rangedTensors(source) {
  const isClipped = (/** @type {Tensor} */ tensor) => source.nodes.some(({ type, inputs }) => type === 'Clip' && inputs[0] === tensor);
  const results = source.nodes.filter(({ type }) => !['Clip', 'Flatten'].includes(type)).map(({ outputs }) => /** @type {Tensor} */ (outputs[0]));
  return [...source.inputs.map(({ tensor }) => tensor), ...results.filter((tensor) => !isClipped(tensor))];
}

/**
 * A network of convolutions with QuantizeLinear and DequantizeLinear around every operator: activations of uint8, weights of int8 with
 * a scale for each channel of a convolution, biases of int32.
 *
 * @param {Network} source
 * @param {Map<Tensor, Range>} ranges of {@link rangedTensors}
 */
export function quantizeStatically(source, ranges) {
  const rewriter = new Rewriter(source);
  const { target } = rewriter;
  /** Parameters of the quantized tensors. @type {Map<Tensor, { scale: number, parameters: Tensor[] }>} */
  const quantized = new Map();

  const requantize = (/** @type {Tensor} */ old, /** @type {Tensor} */ renewed, /** @type {{ scale: number, parameters: Tensor[] }} */ levels) => {
    const bytes = target.node('QuantizeLinear', [renewed, ...levels.parameters]);
    rewriter.set(old, target.node('DequantizeLinear', [bytes, ...levels.parameters]));
    quantized.set(old, levels);
  };
  const quantize = (/** @type {Tensor} */ old, /** @type {Tensor} */ renewed) => {
    const { scale, zeroPoint } = levelsOf(ranges.get(old) ?? CLIPPED);
    requantize(old, renewed, { scale, parameters: [rewriter.stored('float32', [], [scale]), rewriter.stored('uint8', [], [zeroPoint])] });
  };
  const dequantized = (
    /** @type {string} */ dataType,
    /** @type {Tensor} */ like,
    /** @type {ArrayLike<number>} */ numbers,
    /** @type {Float32Array} */ scales,
    /** @type {boolean} */ byChannel,
  ) => {
    const shape = byChannel ? [scales.length] : [];
    const parameters = [rewriter.stored('float32', shape, scales), rewriter.stored(dataType, shape, new Float64Array(scales.length))];
    const integers = rewriter.stored(dataType, /** @type {number[]} */ (like.shape), numbers);
    return target.node('DequantizeLinear', [integers, ...parameters], byChannel ? { axis: 0 } : {});
  };
  const product = (/** @type {Node} */ { type, inputs: [x, weight, bias], outputs: [y], attributes }) => {
    const { scale } = /** @type {{ scale: number }} */ (quantized.get(/** @type {Tensor} */ (x)));
    const [weights, biases] = [weight, bias].map((tensor) => /** @type {Float32Array} */ (rewriter.weightOf(tensor).read()));
    const byChannel = type === 'Conv';
    const scales = Float32Array.from(magnitudes(weights, byChannel ? biases.length : 1), (largest) => largest / SIGNED);
    const biasScales = scales.map((one) => one * scale);
    const scaleAt = (/** @type {Float32Array} */ all, /** @type {number} */ i, /** @type {number} */ count) => all[Math.floor((i * all.length) / count)];
    const levels = weights.map((one, i) => clamp(roundEven(one / scaleAt(scales, i, weights.length)), -SIGNED, SIGNED));
    const sums = Float64Array.from(biases, (one, i) => roundEven(one / scaleAt(biasScales, i, biases.length)));
    const renewed = [
      rewriter.get(x),
      dequantized('int8', /** @type {Tensor} */ (weight), levels, scales, byChannel),
      dequantized('int32', /** @type {Tensor} */ (bias), sums, biasScales, byChannel),
    ];
    return target.node(type, renewed, attributes, /** @type {Tensor} */ (y).shape);
  };

  for (const { tensor } of source.inputs) quantize(tensor, tensor);
  for (const node of source.nodes) {
    const [x, y] = [/** @type {Tensor} */ (node.inputs[0]), /** @type {Tensor} */ (node.outputs[0])];
    if (node.type === 'Conv' || node.type === 'Gemm') {
      rewriter.set(y, product(node));
    } else {
      rewriter.copy(node);
    }
    const renewed = /** @type {Tensor} */ (rewriter.get(y));
    if (ranges.has(y) || node.type === 'Clip') {
      quantize(y, renewed);
    } else if (node.type === 'Flatten') {
      // The same values, and the same parameters.
      requantize(y, renewed, /** @type {any} */ (quantized.get(x)));
    }
  }
  return rewriter.finished();
}

/**
 * A network whose products with weights quantize their operand by its range in each run: what onnxruntime's quantize_dynamic writes.
 * Weights have one scale, and are of int8, or of uint8 in networks with convolutions: onnxruntime's ConvInteger takes no others. Tables are of uint8.
 *
 * @param {Network} source
 */
export function quantizeDynamically(source) {
  const rewriter = new Rewriter(source);
  const { target } = rewriter;
  const hasConvolutions = source.nodes.some(({ type }) => type === 'Conv');
  /** Quantized operands: the integers, their scale and their zero point. @type {Map<Tensor, Tensor[]>} */
  const operands = new Map();

  const quantized = (/** @type {Tensor} */ tensor, /** @type {boolean} */ isUnsigned) => {
    const floats = /** @type {Float32Array} */ (rewriter.weightOf(tensor).read());
    const [largest] = magnitudes(floats, 1);
    /** @type {Range} */
    const range = isUnsigned ? [floats.reduce((a, b) => Math.min(a, b)), floats.reduce((a, b) => Math.max(a, b))] : [0, 0];
    const { scale, zeroPoint } = isUnsigned ? levelsOf(range) : { scale: Math.fround(largest / SIGNED), zeroPoint: 0 };
    const [lowest, highest] = isUnsigned ? [0, UNSIGNED] : [-SIGNED, SIGNED];
    const levels = floats.map((one) => clamp(roundEven(one / scale) + zeroPoint, lowest, highest));
    const dataType = isUnsigned ? 'uint8' : 'int8';
    const shape = /** @type {number[]} */ (tensor.shape);
    return [rewriter.stored(dataType, shape, levels), rewriter.stored('float32', [], [scale]), rewriter.stored(dataType, [], [zeroPoint])];
  };
  const operand = (/** @type {Tensor} */ tensor) => {
    const renewed = /** @type {Tensor} */ (rewriter.get(tensor));
    const known = operands.get(renewed);
    if (known !== undefined) return known;
    const parts = target.nodeOf('DynamicQuantizeLinear', [renewed], {}, [renewed.shape, [], []]);
    operands.set(renewed, parts);
    return parts;
  };
  const product = (/** @type {Node} */ { type, inputs: [x, w, bias], outputs: [y], attributes }) => {
    const [bytes, scale, zeroPoint] = operand(/** @type {Tensor} */ (x));
    const [weights, weightScale, weightZeroPoint] = quantized(/** @type {Tensor} */ (w), hasConvolutions);
    const { shape } = /** @type {Tensor} */ (y);
    const sums = target.node(`${type}Integer`, [bytes, weights, zeroPoint, weightZeroPoint], attributes, shape);
    const floats = target.multiply(target.node('Cast', [sums], { to: 1 }), target.multiply(scale, weightScale));
    if (bias === undefined) return floats;
    const wide = target.node('Reshape', [rewriter.get(bias), target.integers([1, -1, 1, 1])], {}, [
      1,
      elementCount(/** @type {number[]} */ (bias.shape)),
      1,
      1,
    ]);
    return target.add(floats, wide);
  };

  for (const node of source.nodes) {
    const [first, second] = /** @type {Tensor[]} */ (node.inputs);
    const y = /** @type {Tensor} */ (node.outputs[0]);
    if (node.type === 'Conv' || (node.type === 'MatMul' && source.weights.has(second))) {
      const type = node.type === 'Conv' ? 'Conv' : 'MatMul';
      rewriter.set(y, product({ ...node, type }));
    } else if (node.type === 'Gather' && source.weights.get(first)?.dataType === 'float32') {
      const [table, ...parameters] = quantized(first, true);
      const rows = target.node('Gather', [table, rewriter.get(second)], node.attributes, y.shape);
      rewriter.set(y, target.node('DequantizeLinear', [rows, ...parameters]));
    } else {
      rewriter.copy(node);
    }
  }
  return rewriter.finished();
}
