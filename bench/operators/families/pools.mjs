// Pools.

import { casesOf, feed, node, x } from '../case.mjs';

/** A window of k elements in each direction that keeps the size. @param {number} k @param {number} [dimensions] */
const same = (k, dimensions = 2) => ({ kernel_shape: Array(dimensions).fill(k), pads: Array(2 * dimensions).fill((k - 1) / 2) });

/** Windows that share no element. @param {number} k @param {number} [dimensions] */
const apart = (k, dimensions = 2) => ({ kernel_shape: Array(dimensions).fill(k), strides: Array(dimensions).fill(k) });

/** The first pool of a ResNet. */
const STEM = { ...same(3), strides: [2, 2] };

export const POOLS = casesOf('pools', [
  ['3x3 s2 64x112', 'MaxPool', [x(1, 64, 112, 112)], STEM],
  ['2x2 s2 64x112', 'MaxPool', [x(1, 64, 112, 112)], apart(2)],
  ['2x2 s2 512x14', 'MaxPool', [x(1, 512, 14, 14)], apart(2)],
  ['3x3 s1 192x28', 'MaxPool', [x(1, 192, 28, 28)], same(3)],
  ['5x5 s1 256x20', 'MaxPool', [x(1, 256, 20, 20)], same(5)],
  ['9x9 s1 256x20', 'MaxPool', [x(1, 256, 20, 20)], same(9)],
  ['13x13 s1 256x20', 'MaxPool', [x(1, 256, 20, 20)], same(13)],
  ['13x13 s1 512x20', 'MaxPool', [x(1, 512, 20, 20)], same(13)],
  ['3x3 s1 peaks 80x128', 'MaxPool', [x(1, 80, 128, 128)], same(3)],
  ['2x1 s2x1 64x16x160', 'MaxPool', [x(1, 64, 16, 160)], { kernel_shape: [2, 1], strides: [2, 1] }],
  ['3x3 s2 ceil 64x55', 'MaxPool', [x(1, 64, 55, 55)], { kernel_shape: [3, 3], strides: [2, 2], ceil_mode: 1 }],
  ['3x3 dilated 64x56', 'MaxPool', [x(1, 64, 56, 56)], { kernel_shape: [3, 3], dilations: [2, 2] }],
  ['2x2 s2 with indices 64x112', 'MaxPool', [x(1, 64, 112, 112)], apart(2), { results: 2 }],
  ['1-D 2 s2 128x4000', 'MaxPool', [x(1, 128, 4000)], apart(2, 1)],
  ['1-D 3 s1 64x1000', 'MaxPool', [x(1, 64, 1000)], same(3, 1)],
  ['3-D 2x2x2 s2 32x16x56', 'MaxPool', [x(1, 32, 16, 56, 56)], apart(2, 3)],
  ['f16 3x3 s2 64x112', 'MaxPool', [feed('float16', [1, 64, 112, 112])], STEM],
  ['u8 3x3 s2 64x112', 'MaxPool', [feed('uint8', [1, 64, 112, 112])], STEM],
  ['i8 2x2 s2 64x112', 'MaxPool', [feed('int8', [1, 64, 112, 112])], apart(2)],
  ['3x3 s1 192x28', 'AveragePool', [x(1, 192, 28, 28)], same(3)],
  ['3x3 s1 all elements 192x28', 'AveragePool', [x(1, 192, 28, 28)], { ...same(3), count_include_pad: 1 }],
  ['2x2 s2 128x56', 'AveragePool', [x(1, 128, 56, 56)], apart(2)],
  ['2x2 s2 ceil 128x55', 'AveragePool', [x(1, 128, 55, 55)], { ...apart(2), ceil_mode: 1 }],
  ['3x3 s2 64x112', 'AveragePool', [x(1, 64, 112, 112)], STEM],
  ['9x9 s1 64x20', 'AveragePool', [x(1, 64, 20, 20)], same(9)],
  ['7x7 2048', 'AveragePool', [x(1, 2048, 7, 7)], { kernel_shape: [7, 7] }],
  ['8x8 s8 512x32', 'AveragePool', [x(1, 512, 32, 32)], apart(8)],
  ['1-D 2 s2 128x4000', 'AveragePool', [x(1, 128, 4000)], apart(2, 1)],
  ['3-D 2x2x2 s2 32x16x56', 'AveragePool', [x(1, 32, 16, 56, 56)], apart(2, 3)],
  ['f16 2x2 s2 128x56', 'AveragePool', [feed('float16', [1, 128, 56, 56])], apart(2)],
  ['1280x7', 'GlobalAveragePool', [x(1, 1280, 7, 7)]],
  ['2048x7', 'GlobalAveragePool', [x(1, 2048, 7, 7)]],
  ['64x112', 'GlobalAveragePool', [x(1, 64, 112, 112)]],
  ['batch of 8 512x7', 'GlobalAveragePool', [x(8, 512, 7, 7)]],
  ['1280x7', 'GlobalMaxPool', [x(1, 1280, 7, 7)]],
  ['64x112', 'GlobalMaxPool', [x(1, 64, 112, 112)]],
  ['2x2 s2 64x112', 'LpPool', [x(1, 64, 112, 112)], { ...apart(2), p: 2 }],
  ['1280x7', 'GlobalLpPool', [x(1, 1280, 7, 7)], { p: 2 }],
  [
    '2x2 s2 64x56',
    'MaxUnpool',
    [x(1, 64, 56, 56), feed('int64', [1, 64, 56, 56], (random, count) => Array.from({ length: count }, (_, i) => placeOf(i, random)))],
    apart(2),
  ],
  ['of relu 3x3 s2 64x112', 'MaxPool', [node('Relu', [x(1, 64, 112, 112)])], STEM],
]);

/** An element of the window of 2x2 from which element i of an image of 56x56 was taken. @param {number} i @param {() => number} random */
function placeOf(i, random) {
  const [size, wide] = [56, 112];
  const [row, column] = [Math.floor(i / size), i % size];
  const corner = Math.floor(random() * 4);
  return (2 * row + (corner >> 1)) * wide + 2 * column + (corner & 1);
}
