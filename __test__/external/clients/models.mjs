// Small ONNX models, one per group of operators.

import { BOOL, FLOAT, FLOAT16, INT32, INT64, INT8, UINT8, node, value, weight, writeModel } from '../../onnx/model-writer.mjs';
import { ELEMENT_TYPES, bool, float16, float32, floats, int32, int64, int64s, int8, nibbles, scalar, uint8 } from './tensors.mjs';

/**
 * @typedef {object} ClientModel
 * @property {string} name
 * @property {Uint8Array} bytes of the file
 * @property {Record<string, import('./tensors.mjs').TestTensor>} feeds
 * @property {string[]} operators of ONNX
 * @property {number} tolerance of floats: |got - expected| <= tolerance * (1 + |expected|)
 * @property {number} steps by which integers may differ
 */

const i = (number) => ({ i: number });
const f = (number) => ({ f: number });
const s = (text) => ({ s: new TextEncoder().encode(text) });
const ints = (...numbers) => ({ ints: numbers });

/** @type {ClientModel[]} */
export const MODELS = [];

/**
 * @param {string} name
 * @param {object} parts
 * @param {Record<string, import('./tensors.mjs').TestTensor>} parts.feeds
 * @param {Record<string, import('./tensors.mjs').TestTensor>} [parts.weights]
 * @param {ReturnType<typeof node>[]} parts.nodes
 * @param {Record<string, number>} parts.outputs element types
 * @param {number} [parts.opset]
 * @param {number} [parts.tolerance]
 * @param {number} [parts.steps]
 */
function model(name, { feeds, weights = {}, nodes, outputs, opset = 17, tolerance = 1e-5, steps = 0 }) {
  const bytes = writeModel({
    inputs: Object.entries(feeds).map(([key, { type, shape }]) => value(key, ELEMENT_TYPES[type], shape)),
    outputs: Object.entries(outputs).map(([key, type]) => value(key, type)),
    weights: Object.entries(weights).map(([key, { type, shape, data }]) => weight(key, shape, data, ELEMENT_TYPES[type])),
    nodes,
    opset,
  });
  MODELS.push({ name, bytes, feeds, operators: nodes.map(({ op_type: type }) => type), tolerance, steps });
}

/** A model that gives the results of several nodes on the same input `x`: output `y0` of the first and so on. */
function each(name, feeds, nodes, options = {}) {
  const outputs = {};
  const named = nodes.map(([operator, inputs, attributes, type = FLOAT], index) => {
    outputs[`y${index}`] = type;
    return node(operator, inputs, [`y${index}`], attributes);
  });
  model(name, { feeds, nodes: named, outputs, ...options });
}

const x = ['x'];
const image = () => ({ x: float32([2, 4, 9, 9]) });

// Convolutions

model('convolution with padding and a bias, relu', {
  feeds: image(),
  weights: { w: float32([6, 4, 3, 3]), b: float32([6]) },
  nodes: [node('Conv', ['x', 'w', 'b'], ['c'], { pads: ints(1, 1, 1, 1) }), node('Relu', ['c'], ['y'])],
  outputs: { y: FLOAT },
});
model('convolution in groups with strides and dilations', {
  feeds: image(),
  weights: { w: float32([6, 2, 3, 3]) },
  nodes: [
    node('Conv', ['x', 'w'], ['y'], {
      group: i(2),
      strides: ints(2, 1),
      dilations: ints(1, 2),
      pads: ints(1, 0, 2, 1),
    }),
  ],
  outputs: { y: FLOAT },
});
model('depthwise convolution, same padding, clip', {
  feeds: image(),
  weights: { w: float32([4, 1, 3, 3]), b: float32([4]), low: floats([], 0), high: floats([], 6) },
  nodes: [node('Conv', ['x', 'w', 'b'], ['c'], { group: i(4), auto_pad: s('SAME_UPPER'), strides: ints(2, 2) }), node('Clip', ['c', 'low', 'high'], ['y'])],
  outputs: { y: FLOAT },
});
model('convolution of one dimension', {
  feeds: { x: float32([2, 3, 17]) },
  weights: { w: float32([5, 3, 4]), b: float32([5]) },
  nodes: [node('Conv', ['x', 'w', 'b'], ['y'], { strides: ints(2), pads: ints(1, 2) })],
  outputs: { y: FLOAT },
});
model('convolution whose filter is an input', {
  feeds: { x: float32([1, 3, 8, 8]), w: float32([4, 3, 3, 3]) },
  nodes: [node('Conv', ['x', 'w'], ['y'])],
  outputs: { y: FLOAT },
});
model('transposed convolution', {
  feeds: image(),
  weights: { w: float32([4, 3, 3, 3]), b: float32([3]) },
  nodes: [
    node('ConvTranspose', ['x', 'w', 'b'], ['y'], {
      strides: ints(2, 2),
      pads: ints(1, 1, 1, 1),
      output_padding: ints(1, 1),
    }),
  ],
  outputs: { y: FLOAT },
});
model('transposed convolution in groups', {
  feeds: image(),
  weights: { w: float32([4, 2, 2, 2]) },
  nodes: [node('ConvTranspose', ['x', 'w'], ['y'], { strides: ints(2, 2), group: i(2) })],
  outputs: { y: FLOAT },
});
model('convolution of integers', {
  feeds: { x: uint8([1, 2, 6, 6], 0, 256) },
  weights: { w: uint8([3, 2, 3, 3], 0, 256), xz: scalar(uint8([1], 100, 120)), wz: scalar(uint8([1], 120, 130)) },
  nodes: [node('ConvInteger', ['x', 'w', 'xz', 'wz'], ['y'], { pads: ints(1, 1, 1, 1) })],
  outputs: { y: INT32 },
});

// Pooling

model('maximum pooling', {
  feeds: image(),
  nodes: [
    node('MaxPool', x, ['y'], {
      kernel_shape: ints(3, 3),
      strides: ints(2, 2),
      pads: ints(1, 1, 1, 1),
      ceil_mode: i(1),
    }),
  ],
  outputs: { y: FLOAT },
});
model('average pooling', {
  feeds: image(),
  nodes: [node('AveragePool', x, ['y'], { kernel_shape: ints(3, 2), strides: ints(2, 1), pads: ints(1, 0, 1, 1) })],
  outputs: { y: FLOAT },
});
model('l2 pooling', {
  feeds: image(),
  nodes: [node('LpPool', x, ['y'], { kernel_shape: ints(2, 2), strides: ints(2, 2), p: i(2) })],
  outputs: { y: FLOAT },
});
each('global pooling', image(), [
  ['GlobalAveragePool', x],
  ['GlobalMaxPool', x],
  ['GlobalLpPool', x, { p: i(2) }],
]);

// Products

model('matrix product with broadcast batches', {
  feeds: { a: float32([2, 1, 5, 7]), b: float32([3, 7, 4]) },
  nodes: [node('MatMul', ['a', 'b'], ['y'])],
  outputs: { y: FLOAT },
});
model('matrix product of a vector', {
  feeds: { a: float32([7]), b: float32([7, 4]) },
  nodes: [node('MatMul', ['a', 'b'], ['y'])],
  outputs: { y: FLOAT },
});
model('general matrix product', {
  feeds: { a: float32([6, 5]) },
  weights: { b: float32([4, 6]), c: float32([4]) },
  nodes: [node('Gemm', ['a', 'b', 'c'], ['y'], { transA: i(1), transB: i(1), alpha: f(0.5), beta: f(2) })],
  outputs: { y: FLOAT },
});
model('perceptron with three layers', {
  feeds: { x: float32([8, 10]) },
  weights: {
    w1: float32([10, 32], -0.5, 0.5),
    b1: float32([32]),
    w2: float32([32, 32], -0.3, 0.3),
    b2: float32([32]),
    w3: float32([32, 4]),
  },
  nodes: [
    node('Gemm', ['x', 'w1', 'b1'], ['h1']),
    node('Relu', ['h1'], ['r1']),
    node('Gemm', ['r1', 'w2', 'b2'], ['h2']),
    node('Tanh', ['h2'], ['r2']),
    node('MatMul', ['r2', 'w3'], ['h3']),
    node('Softmax', ['h3'], ['y'], { axis: i(-1) }),
  ],
  outputs: { y: FLOAT },
});
model('matrix product of integers', {
  feeds: { a: uint8([3, 8], 0, 256) },
  weights: { b: uint8([8, 5], 0, 256), az: scalar(uint8([1], 120, 130)), bz: scalar(uint8([1], 120, 130)) },
  nodes: [node('MatMulInteger', ['a', 'b', 'az', 'bz'], ['y'])],
  outputs: { y: INT32 },
});
model('matrix product with weights in blocks', {
  feeds: { a: float32([3, 64]) },
  weights: { b: uint8([6, 2, 32], 0, 256), scales: float32([12], 0.01, 0.1), zeros: uint8([12], 100, 150) },
  nodes: [
    node('com.microsoft.MatMulNBits', ['a', 'b', 'scales', 'zeros'], ['y'], {
      K: i(64),
      N: i(6),
      bits: i(8),
      block_size: i(32),
    }),
  ],
  outputs: { y: FLOAT },
});
for (const [name, { depth = 64, more = {} }] of Object.entries({
  'of 4 bits': {},
  'of 4 bits with zero points': { more: { zeros: uint8([6], 0, 256) } },
  'of 4 bits, the last block not full': { depth: 50 },
  'of 4 bits with zero points and a bias': { more: { zeros: uint8([6], 0, 256), bias: float32([6]) } },
})) {
  model(`matrix product with weights in blocks ${name}`, {
    feeds: { a: float32([2, 3, depth]) },
    weights: { b: uint8([6, 2, 16], 0, 256), scales: float32([12], 0.01, 0.1), ...more },
    nodes: [
      node('com.microsoft.MatMulNBits', ['a', 'b', 'scales', 'zeros' in more ? 'zeros' : '', '', 'bias' in more ? 'bias' : ''], ['y'], {
        K: i(depth),
        N: i(6),
        bits: i(4),
        block_size: i(32),
      }),
    ],
    outputs: { y: FLOAT },
  });
}
each('einsum', { a: float32([2, 3, 4]), b: float32([2, 4, 5]) }, [
  ['Einsum', ['a', 'b'], { equation: s('bij,bjk->bik') }],
  ['Einsum', ['a'], { equation: s('bij->bji') }],
]);

// Normalizations

model('batch normalization', {
  feeds: image(),
  weights: { scale: float32([4]), b: float32([4]), mean: float32([4]), variance: float32([4], 0.5, 2) },
  nodes: [node('BatchNormalization', ['x', 'scale', 'b', 'mean', 'variance'], ['y'], { epsilon: f(1e-3) })],
  outputs: { y: FLOAT },
});
model('instance normalization', {
  feeds: image(),
  weights: { scale: float32([4]), b: float32([4]) },
  nodes: [node('InstanceNormalization', ['x', 'scale', 'b'], ['y'])],
  outputs: { y: FLOAT },
});
model('layer normalization', {
  feeds: { x: float32([2, 5, 16]) },
  weights: { scale: float32([16]), b: float32([16]) },
  nodes: [node('LayerNormalization', ['x', 'scale', 'b'], ['y'], { axis: i(-1) })],
  outputs: { y: FLOAT },
});
model('group normalization from its parts', {
  feeds: image(),
  weights: {
    grouped: int64s(2, 2, -1),
    whole: int64s(2, 4, 9, 9),
    ones: floats([2], 1, 1),
    zeros: floats([2], 0, 0),
    scale: float32([4, 1, 1]),
    bias: float32([4, 1, 1]),
  },
  nodes: [
    node('Reshape', ['x', 'grouped'], ['g']),
    node('InstanceNormalization', ['g', 'ones', 'zeros'], ['n']),
    node('Reshape', ['n', 'whole'], ['w']),
    node('Mul', ['w', 'scale'], ['m']),
    node('Add', ['m', 'bias'], ['y']),
  ],
  outputs: { y: FLOAT },
});
model('normalization by the root mean square', {
  feeds: { x: float32([2, 5, 16]) },
  weights: { scale: float32([16]) },
  nodes: [node('SimplifiedLayerNormalization', ['x', 'scale'], ['y'], { axis: i(-1), epsilon: f(1e-5) })],
  outputs: { y: FLOAT },
});
model('layer normalization of a sum', {
  feeds: { x: float32([2, 5, 16]), skip: float32([2, 5, 16]) },
  weights: { scale: float32([16]), beta: float32([16]) },
  nodes: [node('com.microsoft.SkipLayerNormalization', ['x', 'skip', 'scale', 'beta'], ['y'])],
  outputs: { y: FLOAT },
});
model('local response normalization', {
  feeds: image(),
  nodes: [node('LRN', x, ['y'], { size: i(3), alpha: f(0.01), beta: f(0.75), bias: f(1) })],
  outputs: { y: FLOAT },
});
each('normalization by a norm', { x: float32([3, 4, 5]) }, [
  ['LpNormalization', x, { axis: i(1), p: i(2) }],
  ['LpNormalization', x, { axis: i(-1), p: i(1) }],
]);

// Attention

model('attention of a single head', {
  feeds: { x: float32([2, 6, 8]) },
  weights: { wq: float32([8, 8]), wk: float32([8, 8]), wv: float32([8, 8]), divisor: floats([], Math.sqrt(8)) },
  nodes: [
    ...['q', 'k', 'v'].map((name) => node('MatMul', ['x', `w${name}`], [name])),
    node('Transpose', ['k'], ['kt'], { perm: ints(0, 2, 1) }),
    node('MatMul', ['q', 'kt'], ['scores']),
    node('Div', ['scores', 'divisor'], ['scaled']),
    node('Softmax', ['scaled'], ['weights'], { axis: i(-1) }),
    node('MatMul', ['weights', 'v'], ['y']),
  ],
  outputs: { y: FLOAT },
});
model('attention of several heads', {
  feeds: { q: float32([1, 5, 16]), k: float32([1, 5, 16]), v: float32([1, 5, 16]) },
  nodes: [node('com.microsoft.MultiHeadAttention', ['q', 'k', 'v'], ['y'], { num_heads: i(4) })],
  outputs: { y: FLOAT },
});
model('attention of several heads with few keys and a cache', {
  feeds: {
    q: float32([1, 1, 32]),
    k: float32([1, 1, 16]),
    v: float32([1, 1, 16]),
    pastK: float32([1, 2, 6, 8]),
    pastV: float32([1, 2, 6, 8]),
    length: { type: 'int32', shape: [1, 1], data: Int32Array.of(5) },
  },
  weights: { total: { type: 'int32', shape: [1], data: Int32Array.of(6) } },
  nodes: [
    node('com.microsoft.GroupQueryAttention', ['q', 'k', 'v', 'pastK', 'pastV', 'length', 'total'], ['y', 'keys', 'values'], {
      num_heads: i(4),
      kv_num_heads: i(2),
    }),
  ],
  outputs: { y: FLOAT, keys: FLOAT, values: FLOAT },
});
model('rotary embedding', {
  feeds: { x: float32([1, 4, 16]), positions: { ...int64s(0, 1, 2, 3), shape: [1, 4] } },
  weights: { cosines: float32([8, 4]), sines: float32([8, 4]) },
  nodes: [node('com.microsoft.RotaryEmbedding', ['x', 'positions', 'cosines', 'sines'], ['y'], { num_heads: i(2) })],
  outputs: { y: FLOAT },
});
model('block of a transformer', {
  feeds: { x: float32([1, 6, 16]) },
  weights: {
    scale: float32([16]),
    bias: float32([16]),
    w1: float32([16, 64], -0.2, 0.2),
    b1: float32([64]),
    w2: float32([64, 16], -0.2, 0.2),
  },
  nodes: [
    node('LayerNormalization', ['x', 'scale', 'bias'], ['n']),
    node('MatMul', ['n', 'w1'], ['h']),
    node('Add', ['h', 'b1'], ['hb']),
    node('Gelu', ['hb'], ['g']),
    node('MatMul', ['g', 'w2'], ['o']),
    node('Add', ['o', 'x'], ['y']),
  ],
  outputs: { y: FLOAT },
  opset: 20,
});

// Images

const resize = (sizes, attributes) => ({
  feeds: { x: float32([1, 3, 5, 6]) },
  weights: { sizes: int64s(1, 3, ...sizes) },
  nodes: [node('Resize', ['x', '', '', 'sizes'], ['y'], attributes)],
  outputs: { y: FLOAT },
});
model('linear interpolation', resize([10, 15], { mode: s('linear'), coordinate_transformation_mode: s('half_pixel') }));
model('nearest neighbours', resize([10, 12], { mode: s('nearest'), coordinate_transformation_mode: s('asymmetric'), nearest_mode: s('floor') }));
model('nearest neighbours by scales', {
  feeds: { x: float32([1, 2, 4, 4]) },
  weights: { scales: floats([4], 1, 1, 3, 2) },
  nodes: [
    node('Resize', ['x', '', 'scales'], ['y'], {
      mode: s('nearest'),
      coordinate_transformation_mode: s('asymmetric'),
      nearest_mode: s('floor'),
    }),
  ],
  outputs: { y: FLOAT },
});
each('depth to space', { x: float32([1, 8, 3, 4]) }, [
  ['DepthToSpace', x, { blocksize: i(2), mode: s('DCR') }],
  ['DepthToSpace', x, { blocksize: i(2), mode: s('CRD') }],
]);

// Reductions

const positive = () => ({ x: float32([3, 4, 5], 0.1, 2) });
const AXES = { keepdims: i(0) };
each('reductions over an axis', positive(), [
  ...['ReduceMax', 'ReduceMean', 'ReduceMin', 'ReduceProd', 'ReduceL1', 'ReduceL2', 'ReduceLogSum', 'ReduceLogSumExp', 'ReduceSumSquare'].map((operator) => [
    operator,
    x,
    { axes: ints(1), ...AXES },
  ]),
]);
each('reductions over everything', positive(), [...['ReduceMax', 'ReduceMean', 'ReduceMin', 'ReduceSum'].map((operator) => [operator, x, AXES])]);
each(
  'reductions with axes as a constant',
  positive(),
  [...['ReduceMax', 'ReduceMean', 'ReduceSum'].map((operator) => [operator, ['x', 'axes'], { keepdims: i(1) }])],
  { opset: 18, weights: { axes: int64s(0, 2) } },
);
each('positions of the largest and smallest', { x: float32([3, 4, 5]) }, [
  ['ArgMax', x, { axis: i(1), keepdims: i(0) }, INT64],
  ['ArgMin', x, { axis: i(-1), keepdims: i(1) }, INT64],
]);
each(
  'running sums',
  { x: float32([3, 5]) },
  [
    ['CumSum', ['x', 'axis']],
    ['CumSum', ['x', 'axis'], { exclusive: i(1), reverse: i(1) }],
  ],
  { weights: { axis: scalar(int64s(1)) } },
);

// Gather and scatter

each('gather', { x: float32([5, 4]), rows: int64([2, 3], 0, 5), cells: int64([5, 2], 0, 4), points: int64([3, 2], 0, 4) }, [
  ['Gather', ['x', 'rows'], { axis: i(0) }],
  ['GatherElements', ['x', 'cells'], { axis: i(1) }],
  ['GatherND', ['x', 'points']],
]);
model('gather with constant indices', {
  feeds: { x: float32([5, 4]) },
  weights: { last: scalar(int64s(-1)), two: int64s(3, 0) },
  nodes: [node('Gather', ['x', 'last'], ['y'], { axis: i(1) }), node('Gather', ['x', 'two'], ['z'], { axis: i(0) })],
  outputs: { y: FLOAT, z: FLOAT },
});
model('scatter', {
  feeds: { x: float32([5, 4]), rows: float32([2, 4]), cells: float32([5, 1]) },
  weights: { at: { ...int64s(3, 1), shape: [2, 1] }, columns: { ...int64s(0, 3, 1, 2, 0), shape: [5, 1] } },
  nodes: [node('ScatterND', ['x', 'at', 'rows'], ['y']), node('ScatterElements', ['x', 'columns', 'cells'], ['z'], { axis: i(1) })],
  outputs: { y: FLOAT, z: FLOAT },
});
model('embedding of tokens', {
  feeds: { tokens: int64([2, 7], 0, 30) },
  weights: { table: float32([30, 8]) },
  nodes: [node('Gather', ['table', 'tokens'], ['y'])],
  outputs: { y: FLOAT },
});

// Quantization

model('quantize and dequantize', {
  feeds: { x: float32([4, 6]) },
  weights: { scale: floats([], 0.02), zero: scalar(uint8([1], 100, 130)) },
  nodes: [node('QuantizeLinear', ['x', 'scale', 'zero'], ['q']), node('DequantizeLinear', ['q', 'scale', 'zero'], ['y'])],
  outputs: { q: UINT8, y: FLOAT },
});
model('quantization per axis', {
  feeds: { x: float32([4, 6]) },
  weights: { scale: float32([4], 0.01, 0.05), zero: int8([4], -10, 10) },
  nodes: [node('QuantizeLinear', ['x', 'scale', 'zero'], ['q'], { axis: i(0) }), node('DequantizeLinear', ['q', 'scale', 'zero'], ['y'], { axis: i(0) })],
  outputs: { q: INT8, y: FLOAT },
});
model('quantization in blocks', {
  feeds: { x: int8([4, 8], -128, 128) },
  weights: { scale: float32([4, 2], 0.01, 0.05) },
  nodes: [node('DequantizeLinear', ['x', 'scale'], ['y'], { axis: i(1), block_size: i(4) })],
  outputs: { y: FLOAT },
  opset: 21,
});
for (const type of ['int4', 'uint4']) {
  model(`${type} in blocks`, {
    feeds: { x: float32([3, 8]) },
    weights: { w: nibbles(type, [8, 6]), scale: float32([2, 6], 0.1, 0.5), zero: nibbles(type, [2, 6]) },
    nodes: [node('DequantizeLinear', ['w', 'scale', 'zero'], ['d'], { axis: i(0), block_size: i(4) }), node('MatMul', ['x', 'd'], ['y'])],
    outputs: { y: FLOAT },
    opset: 21,
  });
}
model('dynamic quantization', {
  feeds: { x: float32([4, 6]) },
  nodes: [node('DynamicQuantizeLinear', x, ['y', 'scale', 'zero'])],
  outputs: { y: UINT8, scale: FLOAT, zero: UINT8 },
});
model('quantized convolution', {
  feeds: { x: float32([1, 3, 8, 8]) },
  weights: {
    xs: floats([], 0.02),
    xz: scalar(uint8([1], 120, 130)),
    w: int8([4, 3, 3, 3], -127, 128),
    ws: float32([4], 0.001, 0.01),
    wz: int8([4], 0, 1),
    ys: floats([], 0.05),
    yz: scalar(uint8([1], 120, 130)),
  },
  nodes: [
    node('QuantizeLinear', ['x', 'xs', 'xz'], ['xq']),
    node('DequantizeLinear', ['xq', 'xs', 'xz'], ['xd']),
    node('DequantizeLinear', ['w', 'ws', 'wz'], ['wd'], { axis: i(0) }),
    node('Conv', ['xd', 'wd'], ['c']),
    node('QuantizeLinear', ['c', 'ys', 'yz'], ['cq']),
    node('DequantizeLinear', ['cq', 'ys', 'yz'], ['y']),
  ],
  outputs: { y: FLOAT },
  // One step of the quantized result.
  tolerance: 0.051,
});
model('quantized table of an embedding', {
  feeds: { tokens: int64([3], 0, 8) },
  weights: { table: uint8([8, 32], 0, 256), scale: float32([8, 1], 0.01, 0.05) },
  nodes: [
    node('com.microsoft.GatherBlockQuantized', ['table', 'tokens', 'scale'], ['y'], {
      gather_axis: i(0),
      quantize_axis: i(1),
      block_size: i(32),
      bits: i(8),
    }),
  ],
  outputs: { y: FLOAT },
});

// Recurrent networks

const recurrent = (operator, gates, directions, attributes = {}) => ({
  feeds: { x: float32([5, 2, 3]) },
  weights: {
    w: float32([directions, gates * 4, 3], -1, 1),
    r: float32([directions, gates * 4, 4], -1, 1),
    b: float32([directions, gates * 8], -1, 1),
    h: float32([directions, 2, 4], -1, 1),
    ...(gates === 4 && { c: float32([directions, 2, 4], -1, 1) }),
  },
  nodes: [
    node(operator, ['x', 'w', 'r', 'b', '', 'h', ...(gates === 4 ? ['c'] : [])], ['y', 'yh', ...(gates === 4 ? ['yc'] : [])], {
      hidden_size: i(4),
      ...attributes,
    }),
  ],
  outputs: { y: FLOAT, yh: FLOAT, ...(gates === 4 && { yc: FLOAT }) },
});
model('gru', recurrent('GRU', 3, 1, { direction: s('reverse') }));
model('gru in both directions', recurrent('GRU', 3, 2, { direction: s('bidirectional') }));
model('lstm', recurrent('LSTM', 4, 1));
model('lstm in both directions', recurrent('LSTM', 4, 2, { direction: s('bidirectional') }));

// Logic

each('comparisons', { a: int32([4, 5], 0, 3), b: int32([5], 0, 3) }, [
  ...['Equal', 'Greater', 'GreaterOrEqual', 'Less', 'LessOrEqual'].map((operator) => [operator, ['a', 'b'], {}, BOOL]),
]);
each('logic', { a: bool([4, 5]), b: bool([4, 5]) }, [...['And', 'Or', 'Xor'].map((operator) => [operator, ['a', 'b'], {}, BOOL]), ['Not', ['a'], {}, BOOL]]);
model('where', {
  feeds: { condition: bool([4, 1]), a: float32([4, 5]), b: float32([5]) },
  nodes: [node('Where', ['condition', 'a', 'b'], ['y'])],
  outputs: { y: FLOAT },
});
each(
  'infinities and what is not a number',
  { x: floats([5], 1, NaN, Infinity, -Infinity, 0) },
  [
    ['IsNaN', x, {}, BOOL],
    ['IsInf', x, {}, BOOL],
  ],
  { opset: 20 },
);

// Types

each('casts of floats', { x: float32([4, 5], 0, 20) }, [
  ['Cast', x, { to: i(INT32) }, INT32],
  ['Cast', x, { to: i(UINT8) }, UINT8],
  ['Cast', x, { to: i(INT64) }, INT64],
  ['Cast', x, { to: i(FLOAT16) }, FLOAT16],
]);
each('casts to floats', { a: int32([6], -9, 9), b: int64([6], -9, 9), c: uint8([6], 0, 256), d: float16([6]), e: bool([6]) }, [
  ...['a', 'b', 'c', 'd', 'e'].map((name) => ['Cast', [name], { to: i(FLOAT) }]),
]);
model('half precision', {
  feeds: { x: float16([3, 8]) },
  weights: { w: float16([8, 4]), b: float16([4]) },
  nodes: [node('MatMul', ['x', 'w'], ['m']), node('Add', ['m', 'b'], ['a']), node('Relu', ['a'], ['y'])],
  outputs: { y: FLOAT16 },
  tolerance: 4e-3,
});
each('arithmetic of integers', { a: int32([4, 5], 1, 50), b: int32([4, 5], 1, 9) }, [
  ...['Add', 'Sub', 'Mul', 'Div', 'Max', 'Min'].map((operator) => [operator, ['a', 'b'], {}, INT32]),
]);
each('arithmetic of long integers', { a: int64([6], -50, 50), b: int64([6], 1, 9) }, [
  ...['Add', 'Sub', 'Mul', 'Div'].map((operator) => [operator, ['a', 'b'], {}, INT64]),
]);

// Shapes

each(
  'padding',
  { x: float32([2, 3, 4]) },
  [
    ['Pad', ['x', 'pads', 'value'], { mode: s('constant') }],
    ['Pad', ['x', 'pads'], { mode: s('edge') }],
    ['Pad', ['x', 'pads'], { mode: s('reflect') }],
  ],
  { weights: { pads: int64s(0, 1, 2, 1, 0, 1), value: floats([], 0.5) } },
);
model('slices', {
  feeds: { x: float32([6, 7]) },
  weights: { starts: int64s(1, 5), ends: int64s(100, -7), axes: int64s(0, 1), steps: int64s(2, -2) },
  nodes: [node('Slice', ['x', 'starts', 'ends', 'axes', 'steps'], ['y'])],
  outputs: { y: FLOAT },
});
model('split and concatenation', {
  feeds: { x: float32([2, 9]) },
  weights: { sizes: int64s(2, 3, 4) },
  nodes: [node('Split', ['x', 'sizes'], ['a', 'b', 'c'], { axis: i(1) }), node('Concat', ['c', 'a', 'b'], ['y'], { axis: i(-1) })],
  outputs: { y: FLOAT, b: FLOAT },
});
model('new shapes', {
  feeds: { x: float32([2, 3, 4]) },
  weights: { shape: int64s(4, -1), first: int64s(0), broadcast: int64s(2, 2, 3, 4) },
  nodes: [
    node('Transpose', x, ['t'], { perm: ints(2, 0, 1) }),
    node('Reshape', ['t', 'shape'], ['r']),
    node('Unsqueeze', ['r', 'first'], ['u']),
    node('Squeeze', ['u', 'first'], ['s']),
    node('Flatten', ['x'], ['f'], { axis: i(2) }),
    node('Expand', ['x', 'broadcast'], ['e']),
    node('Identity', ['s'], ['y']),
  ],
  outputs: { y: FLOAT, f: FLOAT, e: FLOAT },
});
model('repetitions', {
  feeds: { x: float32([2, 3]) },
  weights: { repeats: int64s(3, 2) },
  nodes: [node('Tile', ['x', 'repeats'], ['y'])],
  outputs: { y: FLOAT },
});
each(
  'triangles',
  { x: float32([2, 5, 5]) },
  [
    ['Trilu', ['x', 'k'], { upper: i(1) }],
    ['Trilu', ['x'], { upper: i(0) }],
  ],
  { weights: { k: scalar(int64s(1)) } },
);
model('shape of an input', {
  feeds: { x: float32([2, 3, 4]) },
  nodes: [node('Shape', x, ['s']), node('Dropout', x, ['y'])],
  outputs: { s: INT64, y: FLOAT },
});

// Element-wise functions

each(
  'activations',
  { x: float32([3, 7], -4, 4) },
  [
    ['Relu', x],
    ['LeakyRelu', x, { alpha: f(0.1) }],
    ['Elu', x, { alpha: f(0.7) }],
    ['HardSigmoid', x, { alpha: f(0.3), beta: f(0.4) }],
    ['HardSwish', x],
    ['Sigmoid', x],
    ['Softplus', x],
    ['Softsign', x],
    ['Tanh', x],
    ['Gelu', x],
    ['PRelu', ['x', 'slope']],
  ],
  { opset: 20, weights: { slope: float32([7]) } },
);
each('softmax', { x: float32([2, 3, 7], -4, 4) }, [
  ['Softmax', x, { axis: i(-1) }],
  ['Softmax', x, { axis: i(1) }],
]);
each(
  'functions of a number',
  { x: float32([3, 7], -2, 2) },
  [...['Abs', 'Ceil', 'Cos', 'Erf', 'Exp', 'Floor', 'Neg', 'Reciprocal', 'Round', 'Sign', 'Sin', 'Tan'].map((operator) => [operator, x])],
  { tolerance: 5e-5 },
);
each('roots and logarithms', positive(), [
  ['Sqrt', x],
  ['Log', x],
]);
each('functions of two numbers', { a: float32([3, 1, 4], 0.1, 3), b: float32([5, 1], 0.1, 3) }, [
  ...['Add', 'Sub', 'Mul', 'Div', 'Pow', 'Max', 'Min'].map((operator) => [operator, ['a', 'b']]),
]);
each('scalars', { x: floats([], 3) }, [
  ['Sqrt', x],
  ['Neg', x],
]);

// Networks

model('convolutional network', {
  feeds: { x: float32([1, 3, 16, 16]) },
  weights: {
    w1: float32([8, 3, 3, 3], -0.4, 0.4),
    b1: float32([8]),
    w2: float32([16, 8, 3, 3], -0.3, 0.3),
    w3: float32([10, 16]),
    b3: float32([10]),
    scale: float32([16]),
    b: float32([16]),
    mean: float32([16]),
    variance: float32([16], 0.5, 2),
  },
  nodes: [
    node('Conv', ['x', 'w1', 'b1'], ['c1'], { pads: ints(1, 1, 1, 1) }),
    node('Relu', ['c1'], ['r1']),
    node('MaxPool', ['r1'], ['p1'], { kernel_shape: ints(2, 2), strides: ints(2, 2) }),
    node('Conv', ['p1', 'w2'], ['c2'], { pads: ints(1, 1, 1, 1) }),
    node('BatchNormalization', ['c2', 'scale', 'b', 'mean', 'variance'], ['n2']),
    node('Relu', ['n2'], ['r2']),
    node('GlobalAveragePool', ['r2'], ['p2']),
    node('Flatten', ['p2'], ['f']),
    node('Gemm', ['f', 'w3', 'b3'], ['g'], { transB: i(1) }),
    node('Softmax', ['g'], ['y'], { axis: i(1) }),
  ],
  outputs: { y: FLOAT },
});
