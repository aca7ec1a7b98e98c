// Operators over nothing: sizes of 0 that onnxruntime accepts. The expected shapes and values are those of onnxruntime 1.32.

import assert from 'node:assert/strict';
import test, { after, before } from 'node:test';
import { ml } from '../../index.js';
import { loadModel } from '../../onnx.js';
import { BOOL, FLOAT, INT32, INT64, UINT8, node, value, weight, writeModel } from './model-writer.mjs';

let context;
before(async () => {
  context = await ml.createContext({ accelerated: false });
});
after(() => context.destroy());

const ARRAYS = new Map(
  /** @type {[number, any][]} */ ([
    [FLOAT, Float32Array],
    [INT64, BigInt64Array],
    [INT32, Int32Array],
    [UINT8, Uint8Array],
    [BOOL, Uint8Array],
  ]),
);

/** A tensor of ones; other types than float32 are written as `[type, ...shape]`. */
const tensorOf = (/** @type {number[]} */ shape, elementType = FLOAT) => {
  const data = new (ARRAYS.get(elementType))(shape.reduce((a, b) => a * b, 1));
  return { data: elementType === INT64 ? data.fill(1n) : data.fill(1), shape };
};

const ints = (/** @type {string} */ name, /** @type {number[]} */ ...numbers) => weight(name, [numbers.length], BigInt64Array.from(numbers, BigInt));
const floats = (/** @type {string} */ name, /** @type {number[]} */ ...numbers) => weight(name, [numbers.length], Float32Array.from(numbers));

/**
 * @typedef {object} Case
 * @property {string} op
 * @property {Record<string, object>} [attributes]
 * @property {number[][]} shapes of the inputs a, b, ... with free sizes
 * @property {number} [type] of the inputs
 * @property {{ name: string }[]} [weights] further inputs, in this order
 * @property {string[]} [inputs] names of all inputs, in order
 * @property {[type: number, shape: number[], all?: number][]} outputs with the value of every element
 * @property {number} [opset]
 */

const reduction = (/** @type {string} */ op, /** @type {number} */ nothing) => [
  { op, shapes: [[0, 3]], weights: [ints('axes', 0)], attributes: { keepdims: { i: 0 } }, opset: 18, outputs: [[FLOAT, [3], nothing]] },
  { op, shapes: [[2, 0, 3]], weights: [ints('axes', 1, 2)], opset: 18, outputs: [[FLOAT, [2, 1, 1], nothing]] },
  { op, shapes: [[2, 0, 3]], weights: [ints('axes', 2)], opset: 18, outputs: [[FLOAT, [2, 0, 1]]] },
];

const einsum = (/** @type {string} */ equation, /** @type {number[][]} */ shapes, /** @type {number[]} */ shape, type = FLOAT) => ({
  op: 'Einsum',
  attributes: { equation: { s: Buffer.from(equation) } },
  shapes,
  type,
  outputs: [[type, shape, 0]],
});

const resize = (/** @type {string} */ mode, /** @type {number[]} */ shape, /** @type {number[]} */ scales, /** @type {number[]} */ result) => ({
  op: 'Resize',
  attributes: { mode: { s: Buffer.from(mode) } },
  shapes: [shape],
  weights: [floats('scales', ...scales)],
  inputs: ['a', '', 'scales'],
  outputs: [[FLOAT, result]],
});

/** @type {Case[]} */
const CASES = /** @type {any} */ ([
  ...reduction('ReduceSum', 0),
  ...reduction('ReduceMean', 0),
  ...reduction('ReduceMax', -Infinity),
  ...reduction('ReduceMin', Infinity),
  ...reduction('ReduceProd', 1),
  ...reduction('ReduceL2', 0),
  ...reduction('ReduceLogSumExp', -Infinity),
  einsum(
    'ij,jk->ik',
    [
      [2, 0],
      [0, 4],
    ],
    [2, 4],
  ),
  einsum(
    'ij,jk->ik',
    [
      [0, 3],
      [3, 4],
    ],
    [0, 4],
  ),
  einsum(
    'ij,ik->jk',
    [
      [0, 3],
      [0, 3],
    ],
    [3, 3],
  ),
  einsum(
    'bij,bjk->bik',
    [
      [2, 2, 0],
      [2, 0, 4],
    ],
    [2, 2, 4],
  ),
  einsum('i,i->', [[0], [0]], []),
  einsum(
    'ij,ij->j',
    [
      [0, 3],
      [0, 3],
    ],
    [3],
  ),
  einsum('ij,j->i', [[2, 0], [0]], [2]),
  einsum(
    '...ij,...jk->...ik',
    [
      [2, 0, 3],
      [2, 3, 4],
    ],
    [2, 0, 4],
  ),
  einsum('ij->i', [[2, 0]], [2]),
  einsum('ij->', [[0, 3]], []),
  einsum('ii->', [[0, 0]], []),
  einsum(
    'ij,ij->ij',
    [
      [1, 3],
      [0, 3],
    ],
    [0, 3],
  ),
  einsum(
    'ij,jk,kl->il',
    [
      [2, 3],
      [3, 0],
      [0, 4],
    ],
    [2, 4],
  ),
  einsum(
    'ij,jk->ik',
    [
      [2, 0],
      [0, 4],
    ],
    [2, 4],
    INT64,
  ),
  {
    op: 'MatMul',
    shapes: [
      [5, 2, 0],
      [5, 0, 4],
    ],
    outputs: [[FLOAT, [5, 2, 4], 0]],
  },
  { op: 'MatMul', shapes: [[0], [0]], outputs: [[FLOAT, [], 0]] },
  { op: 'MatMul', shapes: [[0], [0, 3]], outputs: [[FLOAT, [3], 0]] },
  {
    op: 'MatMul',
    shapes: [
      [2, 3],
      [3, 0],
    ],
    outputs: [[FLOAT, [2, 0]]],
  },
  {
    op: 'MatMulInteger',
    type: UINT8,
    shapes: [
      [2, 0],
      [0, 4],
    ],
    outputs: [[INT32, [2, 4], 0]],
  },
  {
    op: 'com.microsoft.FusedMatMul',
    attributes: { alpha: { f: 2 } },
    shapes: [
      [2, 0],
      [0, 4],
    ],
    outputs: [[FLOAT, [2, 4], 0]],
  },
  {
    op: 'Gemm',
    shapes: [
      [2, 0],
      [0, 4],
    ],
    outputs: [[FLOAT, [2, 4], 0]],
  },
  { op: 'Gemm', attributes: { beta: { f: 2 } }, shapes: [[2, 0], [0, 4], [4]], outputs: [[FLOAT, [2, 4], 2]] },
  {
    op: 'Gemm',
    attributes: { transA: { i: 1 }, transB: { i: 1 } },
    shapes: [
      [0, 2],
      [4, 0],
      [2, 1],
    ],
    outputs: [[FLOAT, [2, 4], 1]],
  },
  { op: 'Gemm', shapes: [[0, 3], [3, 4], [4]], outputs: [[FLOAT, [0, 4]]] },
  {
    op: 'Unique',
    shapes: [[0]],
    outputs: [
      [FLOAT, [0]],
      [INT64, [0]],
      [INT64, [0]],
      [INT64, [0]],
    ],
  },
  {
    op: 'Unique',
    attributes: { axis: { i: 0 } },
    shapes: [[0, 3]],
    outputs: [
      [FLOAT, [0, 3]],
      [INT64, [0]],
      [INT64, [0]],
      [INT64, [0]],
    ],
  },
  { op: 'Compress', attributes: { axis: { i: 0 } }, shapes: [[0, 3]], weights: [weight('c', [0], new Uint8Array(0), BOOL)], outputs: [[FLOAT, [0, 3]]] },
  { op: 'Compress', attributes: { axis: { i: 1 } }, shapes: [[0, 3]], weights: [weight('c', [3], Uint8Array.of(1, 0, 1), BOOL)], outputs: [[FLOAT, [0, 2]]] },
  {
    op: 'DynamicQuantizeLinear',
    shapes: [[0, 3]],
    outputs: [
      [UINT8, [0, 3]],
      [FLOAT, [], 1],
      [UINT8, [], 0],
    ],
  },
  {
    op: 'com.microsoft.SkipLayerNormalization',
    shapes: [
      [0, 2, 4],
      [0, 2, 4],
    ],
    weights: [floats('g', 1, 1, 1, 1)],
    outputs: [[FLOAT, [0, 2, 4]]],
  },
  { op: 'AffineGrid', shapes: [[0, 2, 3]], weights: [ints('size', 0, 1, 2, 2)], opset: 20, outputs: [[FLOAT, [0, 2, 2, 2]]] },
  ...['nearest', 'linear', 'cubic'].flatMap((mode) => [
    resize(mode, [1, 3, 4, 4], [1, 1, 0.2, 1], [1, 3, 0, 4]),
    resize(mode, [1, 3, 0, 4], [1, 1, 2, 2], [1, 3, 0, 8]),
    resize(mode, [0, 3, 4, 4], [1, 1, 2, 2], [0, 3, 8, 8]),
  ]),
]);

for (const { op, attributes = {}, shapes, type = FLOAT, weights = [], inputs, outputs, opset = 17 } of CASES) {
  const named = shapes.map((_, at) => 'abcdefgh'[at]);
  const equation = /** @type {any} */ (attributes).equation?.s ?? /** @type {any} */ (attributes).mode?.s ?? '';
  test(`${op} ${equation} of ${JSON.stringify(shapes)}`, async () => {
    const bytes = writeModel({
      // Sizes of 0 come with the feeds: nothing is known of them when the model is loaded.
      inputs: named.map((name, at) =>
        value(
          name,
          type,
          shapes[at].map(() => undefined),
        ),
      ),
      outputs: outputs.map(([elementType], at) => value(`y${at}`, elementType)),
      weights,
      nodes: [
        node(
          op,
          inputs ?? [...named, ...weights.map(({ name }) => name)],
          outputs.map((_, at) => `y${at}`),
          attributes,
        ),
      ],
      opset,
    });
    const model = await loadModel(bytes, { context });
    const feeds = Object.fromEntries(named.map((name, at) => [name, tensorOf(shapes[at], type)]));
    const results = await model.run(feeds);
    outputs.forEach(([elementType, shape, all], at) => {
      const { data } = tensorOf(shape, elementType);
      const expected = all === undefined ? data : data.fill(elementType === INT64 ? BigInt(all) : all);
      assert.deepEqual([results[`y${at}`].shape, results[`y${at}`].data], [shape, expected]);
    });
    model.destroy();
  });
}

test('a loss over no samples is 0', async () => {
  for (const reduction of ['sum', 'mean']) {
    const bytes = writeModel({
      inputs: [value('x', FLOAT, ['n', 3]), value('t', INT64, ['n'])],
      outputs: [value('y', FLOAT)],
      nodes: [node('NegativeLogLikelihoodLoss', ['x', 't'], ['y'], { reduction: { s: Buffer.from(reduction) } })],
    });
    const model = await loadModel(bytes, { context });
    assert.deepEqual((await model.run({ x: tensorOf([0, 3]), t: tensorOf([0], INT64) })).y.data, Float32Array.of(0));
    model.destroy();
  }
});

test('a split sequence of nothing is empty, or has empty pieces', async () => {
  const build = (/** @type {number} */ axis) =>
    writeModel({
      inputs: [value('x', FLOAT, ['n', 'm'])],
      outputs: [value('count', INT64), ...(axis === 1 ? [value('joined', FLOAT)] : [])],
      nodes: [
        node('SplitToSequence', ['x'], ['s'], { axis: { i: axis } }),
        node('SequenceLength', ['s'], ['count']),
        ...(axis === 1 ? [node('ConcatFromSequence', ['s'], ['joined'], { axis: { i: 1 } })] : []),
      ],
    });
  const rows = await loadModel(build(0), { context });
  assert.deepEqual((await rows.run({ x: tensorOf([0, 3]) })).count.data, BigInt64Array.of(0n));
  const columns = await loadModel(build(1), { context });
  const { count, joined } = await columns.run({ x: tensorOf([0, 3]) });
  assert.deepEqual([count.data, joined.shape], [BigInt64Array.of(3n), [0, 3]]);
  rows.destroy();
  columns.destroy();
});

test('a Scan of nothing keeps its state, and collects rows of their shape', async () => {
  const body = {
    name: 'body',
    node: [node('Add', ['state', 'row'], ['next']), node('MatMul', ['next', 'w'], ['out'])],
    input: [value('state', FLOAT, ['a']), value('row', FLOAT, ['a'])],
    output: [value('next', FLOAT, ['a']), value('out', FLOAT)],
  };
  const bytes = writeModel({
    inputs: [value('start', FLOAT, ['a']), value('x', FLOAT, ['t', 'a']), value('w', FLOAT, ['a', 'b'])],
    outputs: [value('last', FLOAT, ['a']), value('rows', FLOAT)],
    nodes: [node('Scan', ['start', 'x'], ['last', 'rows'], { body: { g: body }, num_scan_inputs: { i: 1 } })],
  });
  const model = await loadModel(bytes, { context });
  const run = (/** @type {number} */ rounds) => model.run({ start: tensorOf([3]), x: tensorOf([rounds, 3]), w: tensorOf([3, 5]) });
  assert.deepEqual((await run(2)).rows.data, Float32Array.of(6, 6, 6, 6, 6, 9, 9, 9, 9, 9));
  const { last, rows } = await run(0);
  assert.deepEqual([last.data, rows.shape], [Float32Array.of(1, 1, 1), [0, 5]]);
  model.destroy();
});
