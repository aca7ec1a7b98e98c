// Models whose operators take little time.

import { FLOAT, node, value, weight, writeModel } from '../../__test__/onnx/model-writer.mjs';

/**
 * @typedef {object} Call
 * @property {string} name
 * @property {keyof typeof MODELS} model
 * @property {number[]} shape of the feed
 * @property {boolean} [transfers] whether the feed is given up
 */

/** @param {number[]} numbers */
const int64 = (...numbers) => BigInt64Array.from(numbers.map(BigInt));

/** Output, weights and nodes for the shape of a feed. @type {Record<'add' | 'identity' | 'lastRow' | 'product', (shape: number[]) => { output: number[], weights: any[], nodes: any[] }>} */
const MODELS = {
  add: (shape) => ({ output: shape, weights: [weight('one', [], Float32Array.of(1))], nodes: [node('Add', ['x', 'one'], ['y'])] }),
  identity: (shape) => ({ output: shape, weights: [], nodes: [node('Identity', ['x'], ['y'])] }),
  lastRow: ([rows, columns]) => ({
    output: [1, columns],
    weights: [weight('from', [1], int64(-1)), weight('to', [1], int64(rows)), weight('axis', [1], int64(0))],
    nodes: [node('Slice', ['x', 'from', 'to', 'axis'], ['y'])],
  }),
  product: ([rows, columns]) => ({
    output: [rows, columns],
    weights: [weight('w', [columns, columns], new Float32Array(columns ** 2).fill(0.01))],
    nodes: [node('MatMul', ['x', 'w'], ['y'])],
  }),
};

/** @type {Call[]} */
export const CALLS = [
  { name: 'Add, 8 floats', model: 'add', shape: [8] },
  { name: 'last row of 512x768', model: 'lastRow', shape: [512, 768] },
  { name: 'Identity of 4 MB', model: 'identity', shape: [1024, 1024] },
  { name: 'Identity of 4 MB, given up', model: 'identity', shape: [1024, 1024], transfers: true },
  { name: 'MatMul 16x512x512', model: 'product', shape: [16, 512] },
  { name: 'MatMul 128x512x512', model: 'product', shape: [128, 512] },
];

/**
 * Returns an ONNX file.
 *
 * @param {Call['model']} model
 * @param {number[]} shape of the feed
 */
export function modelOf(model, shape) {
  const { output, weights, nodes } = MODELS[model](shape);
  return writeModel({ inputs: [value('x', FLOAT, shape)], outputs: [value('y', FLOAT, output)], weights, nodes });
}
