// Products of matrices.

import { casesOf, feed, filled, node, w, weight, x } from '../case.mjs';

const half = (/** @type {number[]} */ ...shape) => feed('float16', shape);
const halves = (/** @type {number[]} */ ...shape) => weight('float16', shape);

const MS = 'com.microsoft.';

/**
 * A product with weights in blocks.
 *
 * @param {number} rows
 * @param {number} k
 * @param {number} n
 * @param {{ bits?: 4 | 8, block?: number, level?: number }} [details] `level` 4 lets activations be rounded to 8 bits
 * @returns {import('../case.mjs').Row}
 */
const inBlocks = (rows, k, n, { bits = 4, block = 32, level = 0 } = {}) => [
  `${bits} bits${level === 0 ? '' : ` level ${level}`} ${rows}x${k}x${n}`,
  `${MS}MatMulNBits`,
  [x(rows, k), weight('uint8', [n, k / block, (block * bits) / 8]), weight('float32', [(n * k) / block], [0.01, 0.05])],
  { K: k, N: n, bits, block_size: block, accuracy_level: level },
  { tolerance: level === 0 ? 1e-4 : 2e-2 },
];

const equation = (/** @type {string} */ text) => ({ equation: text });

export const PRODUCTS = casesOf('products', [
  ['128x768x768', 'MatMul', [x(1, 128, 768), w(768, 768)]],
  ['128x768x3072', 'MatMul', [x(1, 128, 768), w(768, 3072)]],
  ['128x3072x768', 'MatMul', [x(1, 128, 3072), w(3072, 768)]],
  ['197x384x1536', 'MatMul', [x(1, 197, 384), w(384, 1536)]],
  ['8x128x384x384', 'MatMul', [x(8, 128, 384), w(384, 384)]],
  ['10x384x384', 'MatMul', [x(1, 10, 384), w(384, 384)]],
  ['1x768x3072', 'MatMul', [x(1, 1, 768), w(768, 3072)]],
  ['1x2048x2048', 'MatMul', [x(1, 1, 2048), w(2048, 2048)]],
  ['4x768x768', 'MatMul', [x(4, 768), w(768, 768)]],
  ['vector 768 by 768x768', 'MatMul', [x(768), w(768, 768)]],
  ['768x768 by vector', 'MatMul', [x(768, 768), x(768)]],
  ['128x64x6625', 'MatMul', [x(1, 128, 64), w(64, 6625)]],
  ['square 256 of feeds', 'MatMul', [x(256, 256), x(256, 256)]],
  ['square 512 of feeds', 'MatMul', [x(512, 512), x(512, 512)]],
  ['1x1024x1024 of feeds', 'MatMul', [x(1, 1024), x(1024, 1024)]],
  ['vector by 4096 of feeds', 'MatMul', [x(1, 4096), x(4096, 256)]],
  ['scores 12x128x64x128', 'MatMul', [x(1, 12, 128, 64), x(1, 12, 64, 128)]],
  ['values 12x128x128x64', 'MatMul', [x(1, 12, 128, 128), x(1, 12, 128, 64)]],
  ['token scores 32x1x64x1024', 'MatMul', [x(1, 32, 1, 64), x(1, 32, 64, 1024)]],
  ['token values 32x1x1024x64', 'MatMul', [x(1, 32, 1, 1024), x(1, 32, 1024, 64)]],
  ['windows 64x3x49x32x49', 'MatMul', [x(64, 3, 49, 32), x(64, 3, 32, 49)]],
  ['small 64x4x4x4', 'MatMul', [x(64, 4, 4), x(64, 4, 4)]],
  ['similarity 1x384x10000', 'MatMul', [x(1, 384), w(384, 10000)]],
  ['f64 128', 'MatMul', [feed('float64', [128, 128]), feed('float64', [128, 128])]],
  ['i32 64', 'MatMul', [feed('int32', [64, 64]), feed('int32', [64, 64])]],
  ['f16 128x768x768', 'MatMul', [half(1, 128, 768), halves(768, 768)]],
  ['f16 1x768x3072', 'MatMul', [half(1, 1, 768), halves(768, 3072)]],
  ['f16 scores 12x128x64x128', 'MatMul', [half(1, 12, 128, 64), half(1, 12, 64, 128)]],
  ['and bias 128x768x3072', 'Add', [node('MatMul', [x(1, 128, 768), w(768, 3072)]), w(3072)]],
  ['classifier 1x1280x1000', 'Gemm', [x(1, 1280), w(1000, 1280), w(1000)], { transB: 1 }],
  ['classifier 1x4096x4096', 'Gemm', [x(1, 4096), w(4096, 4096), w(4096)], { transB: 1 }],
  ['1x768x3072', 'Gemm', [x(1, 768), w(768, 3072), w(3072)]],
  ['16x768x3072', 'Gemm', [x(16, 768), w(3072, 768), w(3072)], { transB: 1 }],
  ['128x768x768', 'Gemm', [x(128, 768), w(768, 768), w(768)]],
  ['32x16x4', 'Gemm', [x(32, 16), w(16, 4), w(4)]],
  ['transposed left 768x128x768', 'Gemm', [x(768, 128), w(768, 768)], { transA: 1 }],
  ['of feeds 128x256x128', 'Gemm', [x(128, 256), x(128, 256)], { transB: 1, alpha: 0.125 }],
  ['transposed right 12x256x64', `${MS}FusedMatMul`, [x(1, 12, 256, 64), x(1, 12, 256, 64)], { transB: 1, alpha: 0.125 }],
  ['heads bhid,bhjd', 'Einsum', [x(1, 12, 128, 64), x(1, 12, 128, 64)], equation('bhid,bhjd->bhij')],
  ['heads bhij,bhjd', 'Einsum', [x(1, 12, 128, 128), x(1, 12, 128, 64)], equation('bhij,bhjd->bhid')],
  ['tokens bijk,jkl', 'Einsum', [x(1, 128, 12, 64), w(12, 64, 768)], equation('bijk,jkl->bil')],
  ['outer i,j', 'Einsum', [x(512), x(512)], equation('i,j->ij')],
  ['trace ii', 'Einsum', [x(512, 512)], equation('ii->i')],
  ['sum ij', 'Einsum', [x(512, 512)], equation('ij->i')],
  ['masks nc,chw', 'Einsum', [x(100, 32), x(32, 160, 160)], equation('nc,chw->nhw')],
  ['transpose ijk', 'Einsum', [x(12, 128, 64)], equation('ijk->jik')],
  inBlocks(1, 2048, 2048),
  inBlocks(1, 2048, 2048, { level: 4 }),
  inBlocks(128, 2048, 2048),
  inBlocks(128, 2048, 2048, { level: 4 }),
  inBlocks(1, 2048, 2048, { bits: 8 }),
  inBlocks(1, 576, 1536, { level: 4 }),
  ['2x relu 128x768x768', `${MS}FusedGemm`, [x(128, 768), w(768, 768), filled('float32', 0.1, [768])], { activation: 'Relu' }],
]);
