// What the tests of earlier drafts share: the API, comparison of numbers, and plain formulas for what graphs compute.

import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';
import { assertClose as numbersAreClose } from '../../../__test__/lib/numbers.mjs';
import { runNode } from '../../../__test__/lib/processes.mjs';
import { randomFloats } from '../../../__test__/lib/random.mjs';

export const require = createRequire(import.meta.url);
export const { draft2021, draft2024, install } = require('../index.js');

/** Rounding of float32 in sums of a few hundred products of numbers around 1. */
export const TOLERANCE = 1e-5;

/** Asserts that numbers are equal up to the tolerance, relative to those above 1. */
export const assertClose = (actual, expected, what) => numbersAreClose(actual, expected, TOLERANCE, what);

/** The same numbers between -1 and 1 each time, of single precision. */
export const numbers = (length, seed) => Array.from(randomFloats(length, seed));

export const product = (shape) => shape.reduce((elements, size) => elements * size, 1);

/** All indices of a shape, in the order of the elements. */
export function* indices(shape) {
  const index = shape.map(() => 0);
  for (let count = product(shape); count > 0; count--) {
    yield [...index];
    for (let axis = shape.length - 1; axis >= 0 && ++index[axis] === shape[axis]; axis--) index[axis] = 0;
  }
}

/** The element of a flat array at an index; `outside` where the index is not in the shape. */
export function at(values, shape, index, outside = /** @type {number | null} */ (0)) {
  if (index.some((i, axis) => i < 0 || i >= shape[axis])) return outside;
  return values[index.reduce((offset, i, axis) => offset * shape[axis] + i, 0)];
}

/** A flat array with its axes in another order. */
export function permuted(values, shape, permutation) {
  const target = permutation.map((axis) => shape[axis]);
  return Array.from(indices(target), (index) =>
    at(
      values,
      shape,
      shape.map((_, axis) => index[permutation.indexOf(axis)]),
    ),
  );
}

/**
 * A convolution of nchw images with oihw filters.
 * @param {number[]} x
 * @param {number[]} xShape
 * @param {number[]} w
 * @param {number[]} wShape
 * @param {object} options
 * @param {number[]} options.begin padding in front
 * @param {number[]} [options.strides]
 * @param {number[]} [options.dilations]
 * @param {number} [options.groups]
 * @param {number[]} options.outputShape
 */
export function convolution(x, xShape, w, wShape, { begin, strides = [1, 1], dilations = [1, 1], groups = 1, outputShape }) {
  const [, channels, height, width] = wShape;
  const perGroup = outputShape[1] / groups;
  return Array.from(indices(outputShape), ([n, o, oy, ox]) => {
    let sum = 0;
    for (const [c, ky, kx] of indices([channels, height, width])) {
      const y = oy * strides[0] - begin[0] + ky * dilations[0];
      const x0 = ox * strides[1] - begin[1] + kx * dilations[1];
      sum += at(x, xShape, [n, Math.floor(o / perGroup) * channels + c, y, x0]) * at(w, wShape, [o, c, ky, kx]);
    }
    return sum;
  });
}

/**
 * A transposed convolution of nchw images with filters [output, input / groups, height, width]: elements spread.
 *
 * @param {number[]} x
 * @param {number[]} xShape
 * @param {number[]} w
 * @param {number[]} wShape
 * @param {{ begin: number[], strides: number[], groups?: number, outputShape: number[] }} options
 */
export function transposedConvolution(x, xShape, w, wShape, { begin, strides, groups = 1, outputShape }) {
  const [outputs, channels, height, width] = wShape;
  const result = new Array(product(outputShape)).fill(0);
  const perGroup = outputs / groups;
  for (const [n, i, y, x0] of indices(xShape)) {
    const group = Math.floor(i / channels);
    for (const [o, ky, kx] of indices([perGroup, height, width])) {
      const [oy, ox] = [y * strides[0] - begin[0] + ky, x0 * strides[1] - begin[1] + kx];
      const channel = group * perGroup + o;
      if (oy >= 0 && oy < outputShape[2] && ox >= 0 && ox < outputShape[3]) {
        const place = ((n * outputs + channel) * outputShape[2] + oy) * outputShape[3] + ox;
        result[place] += at(x, xShape, [n, i, y, x0]) * at(w, wShape, [channel, i % channels, ky, kx]);
      }
    }
  }
  return result;
}

/** Pooling of nchw images; `reduce` gets the elements of a window that are inside. */
export function pooling(x, xShape, { window, begin, strides, outputShape }, reduce) {
  return Array.from(indices(outputShape), ([n, c, oy, ox]) => {
    const inside = Array.from(indices(window), ([ky, kx]) => at(x, xShape, [n, c, oy * strides[0] - begin[0] + ky, ox * strides[1] - begin[1] + kx], null));
    return reduce(inside.filter((value) => value !== null));
  });
}

export const sum = (values) => values.reduce((total, value) => total + value, 0);
export const mean = (values) => sum(values) / values.length;

/** The product of matrices [m, k] and [k, n]. */
export function matrixProduct(a, [m, k], b, [, n]) {
  return Array.from(indices([m, n]), ([i, j]) => sum(Array.from({ length: k }, (_, l) => a[i * k + l] * b[l * n + j])));
}

const sigmoid = (x) => 1 / (1 + Math.exp(-x));

/**
 * One step of a GRU with weights in the order zrn and the reset gate applied after the product: the formulas, one
 * number at a time.
 */
export function gruStep({ x, hidden, weight, recurrent, bias, recurrentBias, size }) {
  const dot = (matrix, row, vector) => sum(vector.map((value, i) => matrix[row * vector.length + i] * value));
  const gate = (g, i) => dot(weight, g * size + i, x) + bias[g * size + i];
  const recurrentGate = (g, i) => dot(recurrent, g * size + i, hidden) + recurrentBias[g * size + i];
  return hidden.map((before, i) => {
    const z = sigmoid(gate(0, i) + recurrentGate(0, i));
    const r = sigmoid(gate(1, i) + recurrentGate(1, i));
    const n = Math.tanh(gate(2, i) + r * recurrentGate(2, i));
    return z * before + (1 - z) * n;
  });
}

const ARRAYS = { float32: Float32Array, int32: Int32Array, uint32: Uint32Array, int8: Int8Array, uint8: Uint8Array };

/**
 * Builds and computes a graph of the draft of 2021.
 *
 * @param {(builder: any, of: any) => any} build gives one or several results;
 *   `of(values, dimensions, type)` makes an input with its data
 * @param {number[]} lengths of the results
 * @param {string} [type] of the results
 * @returns {number[][]} the results; NaN in what was not written
 */
export function evaluate2021(build, lengths, type = 'float32') {
  const builder = new draft2021.MLGraphBuilder(draft2021.ml.createContext());
  const inputs = {};
  const of = (values, dimensions, inputType = 'float32') => {
    const name = `input ${Object.keys(inputs).length}`;
    inputs[name] = ARRAYS[inputType].from(values);
    return builder.input(name, { type: inputType, dimensions });
  };
  const results = [build(builder, of)].flat();
  const named = (values) => Object.fromEntries(values.map((value, i) => [`result ${i}`, value]));
  const views = lengths.map((length) => new ARRAYS[type](length).fill(type === 'float32' ? NaN : 99));
  builder.build(named(results)).compute(inputs, named(views));
  return views.map((view) => Array.from(view));
}

/** Runs a program that has the package in `compat`; its standard output in lines. */
export async function run(program) {
  const compat = fileURLToPath(new URL('../index.js', import.meta.url));
  const source = `(async () => {${program.replaceAll('COMPAT', JSON.stringify(compat))}})();`;
  const { code, signal, stdout, stderr } = await runNode(['--eval', source]);
  assert.equal(code, 0, `${signal} ${stdout}${stderr}`);
  return stdout.trim().split('\n');
}
