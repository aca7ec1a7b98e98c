// Operators on integers of 8 bits: those of their own, and between DequantizeLinear and QuantizeLinear.

import { casesOf, ELEMENT_TYPES, feed, filled, float, floats, ints, node, resultsOf, w, weight, x } from '../case.mjs';

const MS = 'com.microsoft.';

/** Quantized results are rounded; in some of its operators, onnxruntime rounds earlier results, too. */
const ROUNDED = { steps: 1 };

/** Weights of int8 as they are trained: most are small. @param {number[]} shape */
const kernel = (...shape) => weight('int8', shape, [-64, 63]);
const bytes = (/** @type {number[]} */ ...shape) => feed('uint8', shape);
const signed = (/** @type {number[]} */ ...shape) => feed('int8', shape);
const sums = (/** @type {number} */ count) => weight('int32', [count], [-5000, 5000]);

/** A scale, and a zero point. @param {number} scale @param {'uint8' | 'int8'} [type] */
const level = (scale, type = 'uint8') => [filled('float32', scale), filled(type, type === 'uint8' ? 128 : 0)];

/** Scales of weights by channel, and their zero points. @param {number} channels */
const levels = (channels) => [weight('float32', [channels], [0.001, 0.004]), filled('int8', 0, [channels])];

/**
 * QLinearConv.
 *
 * @param {string} name
 * @param {[number, number]} input channels, and height and width
 * @param {number} outputs
 * @param {number} k
 * @param {{ stride?: number, groups?: number, type?: 'uint8' | 'int8' }} [details]
 * @returns {import('../case.mjs').Row}
 */
const qlinear = (name, [channels, size], outputs, k, { stride = 1, groups = 1, type = 'uint8' } = {}) => [
  name,
  'QLinearConv',
  [
    feed(type, [1, channels, size, size]),
    ...level(0.02, type),
    kernel(outputs, channels / groups, k, k),
    ...levels(outputs),
    ...level(0.05, type),
    sums(outputs),
  ],
  { kernel_shape: [k, k], pads: Array(4).fill((k - 1) / 2), strides: [stride, stride], group: groups },
  ROUNDED,
];

/** Dequantized data. @param {import('../case.mjs').Operand} operand @param {import('../case.mjs').Operand[]} levels @param {import('../case.mjs').Attributes} [attributes] */
const dequantized = (operand, levels, attributes = {}) => node('DequantizeLinear', [operand, ...levels], attributes, 'float32');

/** Dequantized bytes. @param {number[]} shape @param {'uint8' | 'int8'} [type] @param {number} [scale] */
const dq = (shape, type = 'uint8', scale = 0.02) => dequantized(feed(type, shape), level(scale, type));

/** Dequantized weights. @param {number[]} shape @param {number} axis of the scales */
const dqWeights = (shape, axis) => dequantized(kernel(...shape), levels(shape[axis]), { axis });

/**
 * An operator between DequantizeLinear and QuantizeLinear.
 *
 * @param {string} name
 * @param {string} operator
 * @param {import('../case.mjs').Operand[]} operands
 * @param {import('../case.mjs').Attributes} [attributes]
 * @param {'uint8' | 'int8'} [type]
 * @param {number} [scale]
 * @returns {import('../case.mjs').Row}
 */
const qdq = (name, operator, operands, attributes = {}, type = 'uint8', scale = 0.05) => [
  `of ${operator} ${name}`,
  'QuantizeLinear',
  [node(operator, operands, attributes, 'float32'), ...level(scale, type)],
  {},
  ROUNDED,
];

/** @param {string} name @param {[number, number]} input @param {number} outputs @param {number} k @param {{ stride?: number, groups?: number, type?: 'uint8' | 'int8' }} [details] */
const qdqConv = (name, [channels, size], outputs, k, { stride = 1, groups = 1, type = 'uint8' } = {}) =>
  qdq(
    `${type} ${name}`,
    'Conv',
    [
      dq([1, channels, size, size], type),
      dqWeights([outputs, channels / groups, k, k], 0),
      dequantized(sums(outputs), [weight('float32', [outputs], [0.00002, 0.00008])], { axis: 0 }),
    ],
    { kernel_shape: [k, k], pads: Array(4).fill((k - 1) / 2), strides: [stride, stride], group: groups },
    type,
  );

/** Two images of bytes with their levels. @param {number[]} shape */
const two = (...shape) => [bytes(...shape), ...level(0.02), bytes(...shape), ...level(0.03)];

const WIDE = [1, 64, 56, 56];

export const INTEGER = casesOf('quantized', [
  qlinear('1x1 64-256 56', [64, 56], 256, 1),
  qlinear('1x1 256-64 56', [256, 56], 64, 1),
  qlinear('3x3 64-64 56', [64, 56], 64, 3),
  qlinear('3x3 128-128 28 s2', [128, 28], 128, 3, { stride: 2 }),
  qlinear('3x3 i8 64-64 28', [64, 28], 64, 3, { type: 'int8' }),
  qlinear('stem 7x7 3-64 224 s2', [3, 224], 64, 7, { stride: 2 }),
  qlinear('stem 3x3 3-32 224 s2', [3, 224], 32, 3, { stride: 2 }),
  qlinear('depthwise 3x3 144 56', [144, 56], 144, 3, { groups: 144 }),
  qlinear('depthwise 5x5 240 28', [240, 28], 240, 5, { groups: 240 }),
  qlinear('8 groups 3x3 64-64 28', [64, 28], 64, 3, { groups: 8 }),
  qlinear('15x15 1-8 32', [1, 32], 8, 15),
  ['3x3 64-64 28', 'ConvInteger', [bytes(1, 64, 28, 28), weight('uint8', [64, 64, 3, 3]), filled('uint8', 128), filled('uint8', 128)], { pads: [1, 1, 1, 1] }],
  ['1x1 64-64 28', 'ConvInteger', [bytes(1, 64, 28, 28), weight('uint8', [64, 64, 1, 1]), filled('uint8', 128), filled('uint8', 128)]],
  ['20x20 1-4 40', 'ConvInteger', [bytes(1, 1, 40, 40), weight('uint8', [4, 1, 20, 20]), filled('uint8', 128), filled('uint8', 128)]],
  ['u8i8 128x768x768', 'MatMulInteger', [bytes(1, 128, 768), kernel(768, 768), filled('uint8', 128)]],
  ['u8i8 1x768x3072', 'MatMulInteger', [bytes(1, 768), kernel(768, 3072), filled('uint8', 128)]],
  ['u8u8 feeds 12x128x64x128', 'MatMulInteger', [bytes(12, 128, 64), bytes(12, 64, 128), filled('uint8', 128), filled('uint8', 120)]],
  ['u8i8 128x768x768', 'QLinearMatMul', [bytes(1, 128, 768), ...level(0.02), kernel(768, 768), ...level(0.002, 'int8'), ...level(0.05)], {}, ROUNDED],
  ['u8i8 1x768x3072', 'QLinearMatMul', [bytes(1, 768), ...level(0.02), kernel(768, 3072), ...level(0.002, 'int8'), ...level(0.05)], {}, ROUNDED],
  ['u8u8 feeds 12x128x64x128', 'QLinearMatMul', [bytes(12, 128, 64), ...level(0.02), bytes(12, 64, 128), ...level(0.02), ...level(0.05)], {}, ROUNDED],
  [
    '128x768x768',
    `${MS}DynamicQuantizeMatMul`,
    [x(128, 768), kernel(768, 768), weight('float32', [768], [0.001, 0.004]), filled('int8', 0, [768])],
    {},
    { tolerance: 1e-3 },
  ],
  [
    '1x768x3072',
    `${MS}DynamicQuantizeMatMul`,
    [x(1, 768), kernel(768, 3072), weight('float32', [3072], [0.001, 0.004]), filled('int8', 0, [3072])],
    {},
    { tolerance: 1e-3 },
  ],
  [
    '128x768x768',
    `${MS}MatMulIntegerToFloat`,
    [bytes(128, 768), kernel(768, 768), filled('float32', 0.02), weight('float32', [768], [0.001, 0.004]), filled('uint8', 128), filled('int8', 0, [768])],
  ],
  ['128x768', 'DynamicQuantizeLinear', [x(1, 128, 768)], {}, { results: 3, steps: 1 }],
  ['1x768', 'DynamicQuantizeLinear', [x(1, 768)], {}, { results: 3, steps: 1 }],
  ['1M', 'DynamicQuantizeLinear', [x(1024, 1024)], {}, { results: 3, steps: 1 }],
  ['u8 1M', 'QuantizeLinear', [x(1024, 1024), ...level(0.01)], {}, ROUNDED],
  ['i8 1M by channel', 'QuantizeLinear', [x(1, 1024, 1024), weight('float32', [1024], [0.008, 0.01]), filled('int8', 0, [1024])], { axis: 1 }, ROUNDED],
  ['u8 128x768', 'QuantizeLinear', [x(1, 128, 768), ...level(0.01)], {}, ROUNDED],
  ['u8 3x224', 'QuantizeLinear', [x(1, 3, 224, 224), ...level(0.01)], {}, ROUNDED],
  ['f16 128x768', 'QuantizeLinear', [feed('float16', [1, 128, 768]), filled('float16', 0.01), filled('uint8', 128)], {}, ROUNDED],
  ['u8 1M', 'DequantizeLinear', [bytes(1024, 1024), ...level(0.01)]],
  ['i8 1M by channel', 'DequantizeLinear', [signed(1, 1024, 1024), ...levels(1024)], { axis: 1 }],
  ['i32 1M', 'DequantizeLinear', [feed('int32', [1024, 1024], [-5000, 5000]), filled('float32', 0.001)]],
  ['u8 128x768', 'DequantizeLinear', [bytes(1, 128, 768), ...level(0.01)]],
  ['i8 blocks 768x768', 'DequantizeLinear', [signed(768, 768), weight('float32', [768, 24], [0.001, 0.01])], { axis: 1, block_size: 32 }],
  ['64x56', `${MS}QLinearAdd`, [...two(...WIDE), ...level(0.04)], {}, ROUNDED],
  ['256x28', `${MS}QLinearAdd`, [...two(1, 256, 28, 28), ...level(0.04)], {}, ROUNDED],
  ['64x56', `${MS}QLinearMul`, [...two(...WIDE), ...level(0.04)], {}, ROUNDED],
  ['by channel 96x56', `${MS}QLinearMul`, [bytes(1, 96, 56, 56), ...level(0.02), bytes(1, 96, 1, 1), ...level(0.02), ...level(0.04)], {}, ROUNDED],
  ['64x56', `${MS}QLinearConcat`, [...level(0.04), ...[bytes(...WIDE), ...level(0.02), bytes(...WIDE), ...level(0.04)]], { axis: 1 }, ROUNDED],
  ['64x56', `${MS}QLinearSigmoid`, [bytes(...WIDE), ...level(0.05), ...level(0.004)], {}, ROUNDED],
  ['64x56', `${MS}QLinearLeakyRelu`, [bytes(...WIDE), ...level(0.05), ...level(0.04)], { alpha: 0.1 }, ROUNDED],
  ['12x128x128', `${MS}QLinearSoftmax`, [bytes(12, 128, 128), ...level(0.05), ...level(0.004)], { axis: -1, opset: 13 }, ROUNDED],
  ['1280x7', `${MS}QLinearGlobalAveragePool`, [bytes(1, 1280, 7, 7), ...level(0.02), ...level(0.01)], {}, ROUNDED],
  ['2x2 s2 128x56', `${MS}QLinearAveragePool`, [bytes(1, 128, 56, 56), ...level(0.02), ...level(0.02)], { kernel_shape: [2, 2], strides: [2, 2] }, ROUNDED],
  ['1x1280x1000', `${MS}QGemm`, [bytes(1, 1280), ...level(0.02), kernel(1280, 1000), ...levels(1000), sums(1000), ...level(0.1)], {}, ROUNDED],
]);

/**
 * What dynamic quantization makes of a product or a convolution with weights.
 *
 * @param {string} name
 * @param {'MatMulInteger' | 'ConvInteger'} operator
 * @param {import('../case.mjs').Data} data
 * @param {import('../case.mjs').Data} weights
 * @param {import('../case.mjs').Attributes} [attributes]
 * @returns {import('../case.mjs').Row}
 */
const dynamic = (name, operator, data, weights, attributes) => {
  const [quantized, scale, zero] = resultsOf('DynamicQuantizeLinear', [data], ['uint8', 'float32', 'uint8']);
  const sums = node(operator, [quantized, weights, zero, filled('int8', 0)], attributes, 'int32');
  const scaled = node('Mul', [scale, float(0.002)]);
  return [`of dynamic ${operator} ${name}`, 'Mul', [node('Cast', [sums], { to: ELEMENT_TYPES.float32 }, 'float32'), scaled], {}, { tolerance: 1e-3 }];
};

export const QDQ = casesOf('qdq', [
  qdqConv('1x1 64-256 56', [64, 56], 256, 1),
  qdqConv('3x3 64-64 56', [64, 56], 64, 3),
  qdqConv('3x3 64-64 56', [64, 56], 64, 3, { type: 'int8' }),
  qdqConv('3x3 128-128 56 s2', [128, 56], 128, 3, { stride: 2 }),
  qdqConv('stem 7x7 3-64 224 s2', [3, 224], 64, 7, { stride: 2 }),
  qdqConv('depthwise 3x3 144 56', [144, 56], 144, 3, { groups: 144 }),
  qdqConv('depthwise 3x3 144 56', [144, 56], 144, 3, { groups: 144, type: 'int8' }),
  qdqConv('4 groups 3x3 64-64 28', [64, 28], 64, 3, { groups: 4 }),
  qdq('u8 128x768x768', 'MatMul', [dq([1, 128, 768]), dqWeights([768, 768], 1)]),
  qdq('i8 128x768x3072', 'MatMul', [dq([1, 128, 768], 'int8'), dqWeights([768, 3072], 1)], {}, 'int8'),
  qdq('u8 1x768x3072', 'MatMul', [dq([1, 768]), dqWeights([768, 3072], 1)]),
  qdq('u8 feeds 12x128x64x128', 'MatMul', [dq([12, 128, 64]), dq([12, 64, 128])]),
  qdq('u8 1x1280x1000', 'Gemm', [dq([1, 1280]), dqWeights([1000, 1280], 0)], { transB: 1 }),
  qdq('u8 64x56', 'Add', [dq(WIDE), dq(WIDE)], {}, 'uint8', 0.04),
  qdq('i8 256x28', 'Add', [dq([1, 256, 28, 28], 'int8'), dq([1, 256, 28, 28], 'int8')], {}, 'int8', 0.04),
  qdq('u8 64x56', 'Mul', [dq(WIDE), dq(WIDE)], {}, 'uint8', 0.04),
  qdq('u8 by channel 96x56', 'Mul', [dq([1, 96, 56, 56]), dq([1, 96, 1, 1])], {}, 'uint8', 0.04),
  qdq('u8 64x56', 'Concat', [dq(WIDE, 'uint8', 0.05), dq(WIDE, 'uint8', 0.05)], { axis: 1 }),
  qdq('i8 64x56', 'Concat', [dq(WIDE, 'int8', 0.02), dq(WIDE, 'int8', 0.05)], { axis: 1 }, 'int8'),
  qdq('u8 64x56', 'Sigmoid', [dq(WIDE, 'uint8', 0.05)], {}, 'uint8', 0.004),
  qdq('u8 64x56', 'HardSwish', [dq(WIDE, 'uint8', 0.05)]),
  qdq('u8 64x56', 'Relu', [dq(WIDE, 'uint8', 0.05)]),
  qdq('u8 3x3 s2 64x112', 'MaxPool', [dq([1, 64, 112, 112], 'uint8', 0.05)], { kernel_shape: [3, 3], strides: [2, 2], pads: [1, 1, 1, 1] }),
  qdq('u8 5x5 s1 256x20', 'MaxPool', [dq([1, 256, 20, 20], 'uint8', 0.05)], { kernel_shape: [5, 5], pads: [2, 2, 2, 2] }),
  qdq('u8 2x2 s2 128x56', 'AveragePool', [dq([1, 128, 56, 56])], { kernel_shape: [2, 2], strides: [2, 2] }, 'uint8', 0.02),
  qdq('u8 1280x7', 'GlobalAveragePool', [dq([1, 1280, 7, 7])], {}, 'uint8', 0.01),
  qdq('i8 1280x7', 'GlobalAveragePool', [dq([1, 1280, 7, 7], 'int8')], {}, 'int8', 0.01),
  qdq('u8 12x128x128', 'Softmax', [dq([1, 12, 128, 128], 'uint8', 0.05)], { axis: -1 }, 'uint8', 0.004),
  qdq('u8 nearest 64x40', 'Resize', [dq([1, 64, 40, 40], 'uint8', 0.05), null, floats(1, 1, 2, 2)], {
    mode: 'nearest',
    coordinate_transformation_mode: 'asymmetric',
    nearest_mode: 'floor',
  }),
  qdq('u8 128x12x64', 'Transpose', [dq([1, 128, 12, 64], 'uint8', 0.05)], { perm: [0, 2, 1, 3] }),
  qdq('u8 512x7', 'Reshape', [dq([1, 512, 7, 7], 'uint8', 0.05), ints(1, -1)]),
  qdq('u8 columns', 'Slice', [dq([1, 8400, 85], 'uint8', 0.05), ints(4), ints(85), ints(2)]),
  qdq('u8 rows of 30000x64', 'Gather', [dequantized(weight('uint8', [30000, 64]), level(0.05)), feed('int64', [1, 128], [0, 29999])], { axis: 0 }),
  qdq('u8 128x768', 'LayerNormalization', [dq([1, 128, 768]), w(768), w(768)], { axis: -1 }),
  dynamic('128x768x768', 'MatMulInteger', x(1, 128, 768), kernel(768, 768)),
  dynamic('1x768x3072', 'MatMulInteger', x(1, 768), kernel(768, 3072)),
  dynamic('1x1 64-256 56', 'ConvInteger', x(1, 64, 56, 56), kernel(256, 64, 1, 1)),
  dynamic('3x3 64-64 56', 'ConvInteger', x(1, 64, 56, 56), kernel(64, 64, 3, 3), { pads: [1, 1, 1, 1] }),
]);
