// Convolutions.

import { casesOf, feed, filled, node, w, weight, x } from '../case.mjs';

/**
 * A convolution of images with a bias.
 *
 * @param {string} name
 * @param {[number, number, number]} input channels, height and width
 * @param {number} outputs channels
 * @param {number} k height and width of the kernel
 * @param {{ stride?: number, groups?: number, dilation?: number, batch?: number, pad?: number }} [details]
 * @returns {import('../case.mjs').Row}
 */
const conv = (name, [channels, height, width], outputs, k, { stride = 1, groups = 1, dilation = 1, batch = 1, pad = (dilation * (k - 1)) / 2 } = {}) => [
  name,
  'Conv',
  [x(batch, channels, height, width), w(outputs, channels / groups, k, k), w(outputs)],
  { kernel_shape: [k, k], pads: Array(4).fill(pad), strides: [stride, stride], group: groups, dilations: [dilation, dilation] },
];

/** @param {string} name @param {[number, number, number]} input @param {number} k @param {{ stride?: number, dilation?: number }} [details] */
const depthwise = (name, input, k, details) => conv(name, input, input[0], k, { ...details, groups: input[0] });

/**
 * A convolution of signals.
 *
 * @param {string} name
 * @param {[number, number]} input channels and length
 * @param {number} outputs
 * @param {number} k
 * @param {{ stride?: number, groups?: number, dilation?: number, pad?: number }} [details]
 * @returns {import('../case.mjs').Row}
 */
const conv1 = (name, [channels, length], outputs, k, { stride = 1, groups = 1, dilation = 1, pad = Math.floor((dilation * (k - 1)) / 2) } = {}) => [
  name,
  'Conv',
  [x(1, channels, length), w(outputs, channels / groups, k), w(outputs)],
  { kernel_shape: [k], pads: [pad, pad], strides: [stride], group: groups, dilations: [dilation] },
];

/**
 * A convolution of volumes.
 *
 * @param {string} name
 * @param {[number, number, number]} input channels, depth, and height and width
 * @param {number} outputs
 * @param {number} k
 * @param {{ stride?: number, groups?: number }} [details]
 * @returns {import('../case.mjs').Row}
 */
const conv3 = (name, [channels, depth, size], outputs, k, { stride = 1, groups = 1 } = {}) => [
  name,
  'Conv',
  [x(1, channels, depth, size, size), w(outputs, channels / groups, k, k, k), w(outputs)],
  { kernel_shape: [k, k, k], pads: Array(6).fill((k - 1) / 2), strides: Array(3).fill(stride), group: groups },
];

/**
 * A transposed convolution of images.
 *
 * @param {string} name
 * @param {[number, number]} input channels, and height and width
 * @param {number} outputs
 * @param {number} k
 * @param {{ stride?: number, groups?: number, pad?: number, outputPadding?: number }} [details]
 * @returns {import('../case.mjs').Row}
 */
const transposed = (name, [channels, size], outputs, k, { stride = 1, groups = 1, pad = 0, outputPadding = 0 } = {}) => [
  name,
  'ConvTranspose',
  [x(1, channels, size, size), w(channels, outputs / groups, k, k), w(outputs)],
  {
    kernel_shape: [k, k],
    pads: Array(4).fill(pad),
    strides: [stride, stride],
    group: groups,
    output_padding: [outputPadding, outputPadding],
  },
];

const half = (/** @type {number[]} */ ...shape) => feed('float16', shape);
const halves = (/** @type {number[]} */ ...shape) => weight('float16', shape);

export const POINTWISE = casesOf('pointwise', [
  conv('64-256 56', [64, 56, 56], 256, 1),
  conv('256-64 56', [256, 56, 56], 64, 1),
  conv('24-144 112', [24, 112, 112], 144, 1),
  conv('144-24 56', [144, 56, 56], 24, 1),
  conv('512-2048 7', [512, 7, 7], 2048, 1),
  conv('1024-256 14', [1024, 14, 14], 256, 1),
  conv('256-512 56 s2', [256, 56, 56], 512, 1, { stride: 2 }),
  conv('960-160 7', [960, 7, 7], 160, 1),
  conv('1280-1000 1', [1280, 1, 1], 1000, 1),
  conv('squeeze 32-8 1', [32, 1, 1], 8, 1),
  conv('320-80 20', [320, 20, 20], 80, 1),
  conv('batch of 8 64-64 28', [64, 28, 28], 64, 1, { batch: 8 }),
]);

export const CONVOLUTIONS = casesOf('convolutions', [
  conv('3x3 64-64 56', [64, 56, 56], 64, 3),
  conv('3x3 128-128 28', [128, 28, 28], 128, 3),
  conv('3x3 256-256 14', [256, 14, 14], 256, 3),
  conv('3x3 512-512 7', [512, 7, 7], 512, 3),
  conv('3x3 128-128 56 s2', [128, 56, 56], 128, 3, { stride: 2 }),
  conv('3x3 16-16 160', [16, 160, 160], 16, 3),
  conv('3x3 32-64 80 s2', [32, 80, 80], 64, 3, { stride: 2 }),
  conv('3x3 8-8 28', [8, 28, 28], 8, 3),
  conv('3x3 64-1 128', [64, 128, 128], 1, 3),
  conv('3x3 320-320 32', [320, 32, 32], 320, 3),
  conv('3x3 batch of 8 64-64 28', [64, 28, 28], 64, 3, { batch: 8 }),
  conv('5x5 32-64 28', [32, 28, 28], 64, 5),
  conv('7x7 64-64 28', [64, 28, 28], 64, 7),
  conv('9x9 1-64 64', [1, 64, 64], 64, 9),
  ['1x7 128-128 17', 'Conv', [x(1, 128, 17, 17), w(128, 128, 1, 7)], { kernel_shape: [1, 7], pads: [0, 3, 0, 3] }],
  conv('dilated by 2 256-256 28', [256, 28, 28], 256, 3, { dilation: 2 }),
  conv('dilated by 12 64-64 33', [64, 33, 33], 64, 3, { dilation: 12 }),
  conv('stem 7x7 3-64 224 s2', [3, 224, 224], 64, 7, { stride: 2 }),
  conv('stem 3x3 3-32 224 s2', [3, 224, 224], 32, 3, { stride: 2 }),
  conv('stem 3x3 3-16 224 s2', [3, 224, 224], 16, 3, { stride: 2 }),
  conv('stem 3x3 3-16 640 s2', [3, 640, 640], 16, 3, { stride: 2 }),
  conv('stem 3x3 3-64 224', [3, 224, 224], 64, 3),
  conv('stem 3x3 1-16 112', [1, 112, 112], 16, 3),
  conv('patches 16x16 3-384 224', [3, 224, 224], 384, 16, { stride: 16, pad: 0 }),
  conv('patches 4x4 3-96 224', [3, 224, 224], 96, 4, { stride: 4, pad: 0 }),
  ['runtime weights 3x3 64-64 28', 'Conv', [x(1, 64, 28, 28), x(64, 64, 3, 3)], { pads: [1, 1, 1, 1] }],
  ['f16 3x3 64-64 56', 'Conv', [half(1, 64, 56, 56), halves(64, 64, 3, 3), halves(64)], { pads: [1, 1, 1, 1] }],
  ['f16 1x1 64-256 56', 'Conv', [half(1, 64, 56, 56), halves(256, 64, 1, 1), halves(256)]],
  ['f16 depthwise 3x3 144 56', 'Conv', [half(1, 144, 56, 56), halves(144, 1, 3, 3), halves(144)], { pads: [1, 1, 1, 1], group: 144 }],
  ['and relu 3x3 64-64 56', 'Relu', [node('Conv', [x(1, 64, 56, 56), w(64, 64, 3, 3), w(64)], { pads: [1, 1, 1, 1] })]],
  ['relu 64-64 56', 'com.microsoft.FusedConv', [x(1, 64, 56, 56), w(64, 64, 3, 3), w(64)], { pads: [1, 1, 1, 1], activation: 'Relu' }],
]);

export const GROUPED = casesOf('grouped', [
  conv('4 groups 3x3 64-64 56', [64, 56, 56], 64, 3, { groups: 4 }),
  conv('32 groups 3x3 128-128 56', [128, 56, 56], 128, 3, { groups: 32 }),
  conv('32 groups 3x3 512-512 14 s2', [512, 14, 14], 512, 3, { groups: 32, stride: 2 }),
  conv('8 groups 3x3 240-240 28', [240, 28, 28], 240, 3, { groups: 8 }),
  conv('3 groups 1x1 240-60 28', [240, 28, 28], 60, 1, { groups: 3 }),
  conv('2 groups 5x5 96-256 27', [96, 27, 27], 256, 5, { groups: 2 }),
  depthwise('depthwise 3x3 32 112', [32, 112, 112], 3),
  depthwise('depthwise 3x3 96 112 s2', [96, 112, 112], 3, { stride: 2 }),
  depthwise('depthwise 3x3 144 56', [144, 56, 56], 3),
  depthwise('depthwise 3x3 384 14', [384, 14, 14], 3),
  depthwise('depthwise 5x5 240 28', [240, 28, 28], 5),
  depthwise('depthwise 5x5 672 14 s2', [672, 14, 14], 5, { stride: 2 }),
  depthwise('depthwise 7x7 96 56', [96, 56, 56], 7),
  depthwise('depthwise 3x3 dilated 64 28', [64, 28, 28], 3, { dilation: 2 }),
  conv('depthwise with multiplier 32-64 56', [32, 56, 56], 64, 3, { groups: 32 }),
  conv1('depthwise 1-D 9 256x500', [256, 500], 256, 9, { groups: 256 }),
  conv1('depthwise 1-D 31 144x400', [144, 400], 144, 31, { groups: 144 }),
  conv3('depthwise 3-D 64 8x28', [64, 8, 28], 64, 3, { groups: 64 }),
  ['runtime depthwise 256x31 7x7', 'Conv', [x(1, 256, 31, 31), x(256, 1, 7, 7)], { group: 256 }],
]);

export const SIGNALS = casesOf('convolutions 1-D and 3-D', [
  conv1('80-512 3000 k3', [80, 3000], 512, 3),
  conv1('512-512 1500 k3 s2', [512, 1500], 512, 3, { stride: 2 }),
  conv1('1-512 16000 k10 s5', [1, 16000], 512, 10, { stride: 5, pad: 0 }),
  conv1('1-32 16000 k7', [1, 16000], 32, 7),
  conv1('64-64 4000 k3 dilated', [64, 4000], 64, 3, { dilation: 8 }),
  conv1('32-32 8000 k11', [32, 8000], 32, 11),
  conv1('16-1 16000 k7', [16, 16000], 1, 7),
  conv1('256-256 200 k1', [256, 200], 256, 1),
  conv1('258-128 4 k3', [258, 4], 128, 3),
  conv3('3-64 8x56 k3', [3, 8, 56], 64, 3),
  conv3('16-32 16x32 k3 s2', [16, 16, 32], 32, 3, { stride: 2 }),
  conv3('64-64 8x28 k1', [64, 8, 28], 64, 1),
  conv3('32-32 8x28 k3', [32, 8, 28], 32, 3),
]);

export const TRANSPOSED = casesOf('transposed', [
  transposed('2x2 s2 256-128 28', [256, 28], 128, 2, { stride: 2 }),
  transposed('2x2 s2 64-64 80', [64, 80], 64, 2, { stride: 2 }),
  transposed('2x2 s2 24-1 160', [24, 160], 1, 2, { stride: 2 }),
  transposed('3x3 s2 128-64 28', [128, 28], 64, 3, { stride: 2, pad: 1, outputPadding: 1 }),
  transposed('4x4 s2 256-128 16', [256, 16], 128, 4, { stride: 2, pad: 1 }),
  transposed('4x4 s2 64-3 64', [64, 64], 3, 4, { stride: 2, pad: 1 }),
  transposed('4x4 s1 100-512 1', [100, 1], 512, 4),
  transposed('3x3 s1 64-64 28', [64, 28], 64, 3, { pad: 1 }),
  transposed('4x4 s2 depthwise 21 64', [21, 64], 21, 4, { stride: 2, groups: 21 }),
  transposed('8x8 s4 depthwise 64 32', [64, 32], 64, 8, { stride: 4, groups: 64, pad: 2 }),
  ['1-D 16 s8 256-128 200', 'ConvTranspose', [x(1, 256, 200), w(256, 128, 16), w(128)], { strides: [8], pads: [4, 4] }],
  ['1-D 4 s2 32-16 8000', 'ConvTranspose', [x(1, 32, 8000), w(32, 16, 4), w(16)], { strides: [2], pads: [1, 1] }],
  ['3-D 2 s2 32-16 8x16', 'ConvTranspose', [x(1, 32, 8, 16, 16), w(32, 16, 2, 2, 2), w(16)], { strides: [2, 2, 2] }],
]);

const offsets = (/** @type {number[]} */ ...shape) => feed('float32', shape, [-2, 2]);

export const DEFORMABLE = casesOf('deformable', [
  ['3x3 64-64 56', 'DeformConv', [x(1, 64, 56, 56), w(64, 64, 3, 3), offsets(1, 18, 56, 56)], { pads: [1, 1, 1, 1] }],
  [
    '3x3 masked 64-64 28',
    'DeformConv',
    [x(1, 64, 28, 28), w(64, 64, 3, 3), offsets(1, 18, 28, 28), filled('float32', 0, [64]), feed('float32', [1, 9, 28, 28], [0, 1])],
    { pads: [1, 1, 1, 1] },
  ],
]);
