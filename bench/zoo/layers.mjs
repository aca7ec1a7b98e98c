// What networks are built of. Deviations of weights keep that of activations near 1.

import { Network } from './network.mjs';

/** @typedef {import('./network.mjs').Tensor} Tensor */

/** The gain of weights before ReLU, and before SiLU and hard-swish, which let less through. */
export const RELU_GAIN = Math.SQRT2;
export const SWISH_GAIN = 1.5;

/** @param {Tensor} x @param {number} axis @returns {number} */
export const extentOf = (x, axis) => /** @type {number} */ (x.shape.at(axis));

/** Extents as Reshape takes them, where 0 keeps a free one. @param {import('./network.mjs').Extent[]} extents */
const knownExtents = (extents) => extents.map((extent) => (typeof extent === 'number' ? extent : 0));

const pair = (/** @type {number | number[]} */ given) => (typeof given === 'number' ? [given, given] : given);

/**
 * Numbers of places of a window that slides over `x`.
 *
 * @param {Tensor} x
 * @param {{ size: number[], stride: number[], pad: number[], dilation?: number, ceil?: boolean }} options
 */
function windows(x, { size, stride, pad, dilation = 1, ceil = false }) {
  return size.map((extent, i) => {
    const steps = (extentOf(x, 2 + i) + 2 * pad[i] - dilation * (extent - 1) - 1) / stride[i];
    return (ceil ? Math.ceil(steps) : Math.floor(steps)) + 1;
  });
}

export class Layers extends Network {
  /** @param {Tensor} x */
  relu(x) {
    return this.node('Relu', [x]);
  }

  /** @param {Tensor} x */
  clip6(x) {
    return this.node('Clip', [x, this.constant(0), this.constant(6)]);
  }

  /** @param {Tensor} x */
  sigmoid(x) {
    return this.node('Sigmoid', [x]);
  }

  /** @param {Tensor} x */
  silu(x) {
    return this.multiply(x, this.sigmoid(x));
  }

  /** @param {Tensor} x */
  hardSwish(x) {
    return this.divide(this.multiply(x, this.clip6(this.add(x, this.constant(3)))), this.constant(6));
  }

  /** With the error function, as BERT has it. @param {Tensor} x */
  gelu(x) {
    const erf = this.node('Erf', [this.divide(x, this.constant(Math.SQRT2))]);
    return this.multiply(this.multiply(x, this.add(erf, this.constant(1))), this.constant(0.5));
  }

  /** With the hyperbolic tangent, as GPT-2 has it. @param {Tensor} x */
  geluTanh(x) {
    const cube = this.node('Pow', [x, this.constant(3)]);
    const sum = this.add(x, this.multiply(cube, this.constant(0.044715)));
    const tanh = this.node('Tanh', [this.multiply(sum, this.constant(Math.sqrt(2 / Math.PI)))]);
    return this.multiply(this.multiply(x, this.constant(0.5)), this.add(tanh, this.constant(1)));
  }

  /** @param {Tensor} x */
  softmax(x, axis = -1) {
    return this.node('Softmax', [x], { axis });
  }

  /** @param {Tensor} x */
  layerNorm(x, epsilon = 1e-5) {
    const width = [extentOf(x, -1)];
    return this.node('LayerNormalization', [x, this.weight(width, 0.1, 1), this.weight(width, 0.1)], { axis: -1, epsilon });
  }

  /** As PyTorch exports it. @param {Tensor} x */
  groupNorm(x, groups = 32, epsilon = 1e-5) {
    const [n, channels, ...size] = /** @type {number[]} */ (x.shape);
    const ones = this.constant(new Array(groups).fill(1));
    const zeros = this.constant(new Array(groups).fill(0));
    const normal = this.node('InstanceNormalization', [this.reshape(x, n, groups, -1), ones, zeros], { epsilon });
    const scaled = this.multiply(this.reshape(normal, n, channels, ...size), this.weight([channels, 1, 1], 0.1, 1));
    return this.add(scaled, this.weight([channels, 1, 1], 0.1));
  }

  /** @param {Tensor} x */
  batchNorm(x) {
    const channels = [extentOf(x, 1)];
    const [scale, bias, mean, variance] = [1, 0, 0, 1].map((center) => this.weight(channels, 0.1, center));
    return this.node('BatchNormalization', [x, scale, bias, mean, variance], { epsilon: 1e-5 });
  }

  /**
   * @param {Tensor} x
   * @param {number} channels of the result
   * @param {number | number[]} filter
   * @param {{ stride?: number | number[], pad?: number | number[], groups?: number, gain?: number, bias?: boolean, dilation?: number }} [options]
   */
  conv(x, channels, filter, { stride = 1, pad, groups = 1, gain = RELU_GAIN, bias = true, dilation = 1 } = {}) {
    const size = pair(filter);
    const [strides, pads] = [pair(stride), pad === undefined ? size.map((extent) => Math.floor(extent / 2)) : pair(pad)];
    const shape = [channels, extentOf(x, 1) / groups, ...size];
    const inputs = [x, this.weight(shape, gain / Math.sqrt(shape[1] * size[0] * size[1]))];
    if (bias) inputs.push(this.weight([channels], 0.1));
    const attributes = { kernel_shape: size, strides, pads: [...pads, ...pads], group: groups, dilations: [dilation, dilation] };
    return this.node('Conv', inputs, attributes, [x.shape[0], channels, ...windows(x, { size, stride: strides, pad: pads, dilation })]);
  }

  /** @param {Tensor} x @param {number} extent @param {{ stride: number, pad?: number, ceil?: boolean }} options */
  maxPool(x, extent, { stride, pad, ceil = false }) {
    const size = pair(extent);
    const attributes = {
      kernel_shape: size,
      strides: pair(stride),
      ...(pad !== undefined && { pads: [pad, pad, pad, pad] }),
      ...(ceil && { ceil_mode: 1 }),
    };
    return this.node('MaxPool', [x], attributes, [...x.shape.slice(0, 2), ...windows(x, { size, stride: pair(stride), pad: pair(pad ?? 0), ceil })]);
  }

  /** Means of the channels, [n, channels]. @param {Tensor} x */
  pooled(x) {
    return this.node('Flatten', [this.globalPool(x)], { axis: 1 }, x.shape.slice(0, 2));
  }

  /** @param {Tensor} x */
  globalPool(x) {
    return this.node('GlobalAveragePool', [x], {}, [...x.shape.slice(0, 2), 1, 1]);
  }

  /** Nearest neighbors. @param {Tensor} x @param {number} factor @param {Record<string, any>} [more] attributes */
  enlarge(x, factor, more = {}) {
    const [n, channels, ...size] = /** @type {number[]} */ (x.shape);
    const attributes = { mode: 'nearest', nearest_mode: 'floor', coordinate_transformation_mode: 'asymmetric', ...more };
    const scales = this.constant([1, 1, factor, factor], undefined, 'float32');
    return this.node('Resize', [x, undefined, scales], attributes, [n, channels, ...size.map((extent) => extent * factor)]);
  }

  /** A product and a sum, of any rank. @param {Tensor} x @param {number} width @param {{ gain?: number, bias?: boolean }} [options] */
  linear(x, width, { gain = 1, bias = true } = {}) {
    const depth = extentOf(x, -1);
    const product = this.matmul(x, this.weight([depth, width], gain / Math.sqrt(depth)));
    return bias ? this.add(product, this.weight([width], 0.05)) : product;
  }

  /** @param {Tensor} x @param {number} width @param {{ gain?: number, transB?: boolean }} [options] */
  gemm(x, width, { gain = 1, transB = true } = {}) {
    const depth = extentOf(x, -1);
    const weight = this.weight(transB ? [width, depth] : [depth, width], gain / Math.sqrt(depth));
    return this.node('Gemm', [x, weight, this.weight([width], 0.05)], { alpha: 1, beta: 1, transB: Number(transB) }, [x.shape[0], width]);
  }

  /** @param {Tensor} x [n, length, width] @param {number} heads @param {number[]} [perm] */
  heads(x, heads, perm = [0, 2, 1, 3]) {
    return this.transpose(this.reshape(x, ...knownExtents(x.shape.slice(0, 2)), heads, extentOf(x, 2) / heads), ...perm);
  }

  /** The rows of all heads side by side. @param {Tensor} x [n, heads, length, size] */
  joined(x) {
    const rows = this.transpose(x, 0, 2, 1, 3);
    return this.reshape(rows, ...knownExtents(rows.shape.slice(0, 2)), extentOf(rows, 2) * extentOf(rows, 3));
  }

  /**
   * Attention of several heads, written out.
   *
   * @param {Tensor} x [n, length, width]
   * @param {number} heads
   * @param {{ context?: Tensor, mask?: Tensor, bias?: boolean, keyBias?: boolean }} [options] where keys and values come from
   */
  attention(x, heads, { context = x, mask, bias = true, keyBias = bias } = {}) {
    const width = extentOf(x, -1);
    const q = this.heads(this.linear(x, width, { bias }), heads);
    const k = this.heads(this.linear(context, width, { bias: keyBias }), heads, [0, 2, 3, 1]);
    const v = this.heads(this.linear(context, width, { bias }), heads);
    const scores = this.divide(this.matmul(q, k), this.constant(Math.sqrt(width / heads)));
    const weights = this.softmax(mask === undefined ? scores : this.add(scores, mask));
    return this.linear(this.joined(this.matmul(weights, v)), width);
  }

  /** -10000 where a mask [n, length] is 0, and 0 elsewhere. @param {Tensor} mask */
  masked(mask) {
    const [n, length] = mask.shape;
    const wide = this.node('Unsqueeze', [mask, this.integers([1, 2])], {}, [n, 1, 1, length]);
    const floats = this.node('Cast', [wide], { to: this.dataType === 'float16' ? 10 : 1 });
    return this.multiply(this.subtract(this.constant(1), floats), this.constant(-10000));
  }

  /** A smooth picture with noise, normalized like a photograph. @param {string} name @param {number} side */
  picture(name, side) {
    return this.inputOf(name, this.dataType, [1, 3, side, side], ({ next, normal }) => {
      const pixels = new Float32Array(3 * side * side);
      for (let channel = 0; channel < 3; channel++) {
        const waves = Array.from({ length: 6 }, () => ({ down: 12 * next(), right: 12 * next(), phase: 6.28 * next(), height: normal() }));
        for (let at = 0; at < side * side; at++) {
          const [y, x] = [Math.floor(at / side) / (side - 1), (at % side) / (side - 1)];
          const smooth = waves.reduce((sum, { down, right, phase, height }) => sum + height * Math.sin(6.28 * (down * y + right * x) + phase), 0);
          pixels[channel * side * side + at] = smooth + 0.3 * normal();
        }
      }
      return standardized(pixels);
    });
  }
}

/** With mean 0 and deviation 1. @param {Float32Array} numbers */
export function standardized(numbers) {
  const mean = numbers.reduce((sum, number) => sum + number, 0) / numbers.length;
  const deviation = Math.sqrt(numbers.reduce((sum, number) => sum + (number - mean) ** 2, 0) / numbers.length);
  return numbers.map((number) => (number - mean) / deviation);
}
