// Attention and what stands beside it in transformers.

import { casesOf, feed, filled, w, x } from '../case.mjs';

const MS = 'com.microsoft.';
const ONNX23 = { opset: 23 };

/**
 * Attention of one token, or of many, over a cache.
 *
 * @param {string} name
 * @param {number} tokens
 * @param {number} past
 * @param {[heads: number, caches: number, size: number]} sizes
 * @returns {import('../case.mjs').Row}
 */
const grouped = (name, tokens, past, [heads, caches, size]) => [
  `${name} ${tokens} after ${past}, ${heads} of ${caches}x${size}`,
  `${MS}GroupQueryAttention`,
  [
    x(1, tokens, heads * size),
    x(1, tokens, caches * size),
    x(1, tokens, caches * size),
    x(1, caches, past, size),
    x(1, caches, past, size),
    filled('int32', tokens + past - 1, [1]),
    filled('int32', tokens + past),
  ],
  { num_heads: heads, kv_num_heads: caches },
  { results: 3 },
];

/** Cosines or sines of positions. @param {number} positions @param {number} size */
const angles = (positions, size) => w(positions, size);

const positions = (/** @type {number} */ count) => feed('int64', [1, count], (_, length) => Array.from({ length }, (__, i) => i));

export const ATTENTION = casesOf('attention', [
  ['128x768, 12 heads', `${MS}Attention`, [x(1, 128, 768), w(768, 2304), w(2304)], { num_heads: 12 }],
  [
    '8x64x384 masked, 12 heads',
    `${MS}Attention`,
    [x(8, 64, 384), w(384, 1152), w(1152), feed('int32', [8], (random, count) => Array.from({ length: count }, () => 20 + Math.floor(random() * 45)))],
    { num_heads: 12 },
  ],
  ['128x768, 12 heads', `${MS}MultiHeadAttention`, [x(1, 128, 768), x(1, 128, 768), x(1, 128, 768)], { num_heads: 12 }],
  ['197x384, 6 heads', `${MS}MultiHeadAttention`, [x(1, 197, 384), x(1, 197, 384), x(1, 197, 384)], { num_heads: 6 }],
  ['1x1500 of 384, 6 heads', `${MS}MultiHeadAttention`, [x(1, 1, 384), x(1, 6, 1500, 64), x(1, 6, 1500, 64)], { num_heads: 6 }],
  ['4096x77 of 320, 8 heads', `${MS}MultiHeadAttention`, [x(1, 1024, 320), x(1, 77, 320), x(1, 77, 320)], { num_heads: 8 }],
  grouped('prompt', 128, 0, [9, 3, 64]),
  grouped('token', 1, 512, [9, 3, 64]),
  grouped('token', 1, 512, [16, 4, 64]),
  grouped('token', 1, 4096, [16, 4, 64]),
  grouped('tokens', 16, 512, [16, 4, 64]),
  ['128 of 12x64', 'Attention', [x(1, 12, 128, 64), x(1, 12, 128, 64), x(1, 12, 128, 64)], {}, ONNX23],
  ['causal 128 of 12x64', 'Attention', [x(1, 12, 128, 64), x(1, 12, 128, 64), x(1, 12, 128, 64)], { is_causal: 1 }, ONNX23],
  ['1 of 12x512x64', 'Attention', [x(1, 12, 1, 64), x(1, 12, 512, 64), x(1, 12, 512, 64)], {}, ONNX23],
  ['masked 128 of 12x64', 'Attention', [x(1, 12, 128, 64), x(1, 12, 128, 64), x(1, 12, 128, 64), x(1, 1, 128, 128)], {}, ONNX23],
  ['128 of 16x4x64', 'Attention', [x(1, 16, 128, 64), x(1, 4, 128, 64), x(1, 4, 128, 64)], {}, ONNX23],
  ['3-D 128x768, 12 heads', 'Attention', [x(1, 128, 768), x(1, 128, 768), x(1, 128, 768)], { q_num_heads: 12, kv_num_heads: 12 }, ONNX23],
  ['128x12x64', 'RotaryEmbedding', [x(1, 12, 128, 64), angles(512, 32), angles(512, 32), positions(128)], {}, ONNX23],
  ['interleaved 128x12x64', 'RotaryEmbedding', [x(1, 12, 128, 64), angles(512, 32), angles(512, 32), positions(128)], { interleaved: 1 }, ONNX23],
  ['1x9x64', 'RotaryEmbedding', [x(1, 9, 1, 64), angles(512, 32), angles(512, 32), positions(1)], {}, ONNX23],
  ['128x768, 12 heads', `${MS}RotaryEmbedding`, [x(1, 12, 128, 64), positions(128), angles(512, 32), angles(512, 32)]],
  ['128x3072', `${MS}BiasGelu`, [x(1, 128, 3072), w(3072)]],
  ['128x3072', `${MS}FastGelu`, [x(1, 128, 3072), w(3072)]],
  ['128x3072', `${MS}QuickGelu`, [x(1, 128, 3072)], { alpha: 1.702 }],
  ['128x3072', `${MS}Gelu`, [x(1, 128, 3072)]],
  [
    '128x768',
    `${MS}EmbedLayerNormalization`,
    [feed('int32', [1, 128], [0, 29999]), feed('int32', [1, 128], [0, 1]), w(30000, 768), w(512, 768), w(2, 768), w(768), w(768), filled('int32', 1, [1, 128])],
    {},
    { results: 2 },
  ],
  ['4096x8', 'TensorScatter', [x(1, 4, 1024, 64), x(1, 4, 1, 64), feed('int64', [1], [0, 1000])], { axis: 2 }, { opset: 24 }],
]);
