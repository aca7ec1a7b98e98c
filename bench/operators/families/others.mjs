// Detection heads, sampling, signals, random numbers, and the smallest runs.

import { casesOf, feed, filled, float, int, ints, w, weight, x } from '../case.mjs';

/** Boxes on an image of a size. @param {number} count @param {number} size */
const regions = (count, size) =>
  feed('float32', [count, 4], (random, length) => {
    const list = new Float32Array(length);
    for (let i = 0; i < length; i += 4) {
      const [left, top] = [random() * size * 0.7, random() * size * 0.7];
      list.set([left, top, left + size * (0.05 + 0.25 * random()), top + size * (0.05 + 0.25 * random())], i);
    }
    return list;
  });

/** @param {number} count */
const ofFirst = (count) => weight('int64', [count], () => Array.from({ length: count }, () => 0));

/** @param {number} size @param {number} ratio */
const cells = (size, ratio) => ({ output_height: size, output_width: size, sampling_ratio: ratio, spatial_scale: 0.0625 });

const grid = (/** @type {number[]} */ ...shape) => feed('float32', shape, [-1.1, 1.1]);

export const SAMPLING = casesOf('sampling', [
  ['300 of 256x50, 7x7', 'RoiAlign', [x(1, 256, 50, 50), regions(300, 800), ofFirst(300)], cells(7, 2)],
  ['default ratio 100 of 256x50, 7x7', 'RoiAlign', [x(1, 256, 50, 50), regions(100, 800), ofFirst(100)], cells(7, 0)],
  ['max 100 of 64x50, 14x14', 'RoiAlign', [x(1, 64, 50, 50), regions(100, 800), ofFirst(100)], { ...cells(14, 2), mode: 'max' }],
  [
    '100 of 64x50, 7x7',
    'MaxRoiPool',
    [
      x(1, 64, 50, 50),
      feed('float32', [100, 5], (random, length) => {
        const list = new Float32Array(length);
        for (let i = 0; i < length; i += 5) {
          const [left, top] = [Math.floor(random() * 500), Math.floor(random() * 500)];
          list.set([0, left, top, left + 100 + Math.floor(random() * 150), top + 100 + Math.floor(random() * 150)], i);
        }
        return list;
      }),
    ],
    { pooled_shape: [7, 7], spatial_scale: 0.0625 },
  ],
  [
    '100 of 64x50, 14x14',
    'com.microsoft.CropAndResize',
    [x(1, 64, 50, 50), feed('float32', [100, 4], [-0.1, 1.1]), filled('int32', 0, [100]), filled('int32', 14, [2])],
  ],
  ['linear 3x128', 'GridSample', [x(1, 3, 128, 128), grid(1, 128, 128, 2)], { mode: 'linear', padding_mode: 'zeros' }],
  ['linear 64x64', 'GridSample', [x(1, 64, 64, 64), grid(1, 64, 64, 2)], { mode: 'linear', padding_mode: 'zeros' }],
  ['linear border 64x64', 'GridSample', [x(1, 64, 64, 64), grid(1, 64, 64, 2)], { mode: 'linear', padding_mode: 'border' }],
  ['linear corners 8x32x20', 'GridSample', [x(8, 32, 20, 20), grid(8, 300, 4, 2)], { mode: 'linear', align_corners: 1 }],
  ['nearest 3x256', 'GridSample', [x(1, 3, 256, 256), grid(1, 256, 256, 2)], { mode: 'nearest' }],
  ['cubic 3x128', 'GridSample', [x(1, 3, 128, 128), grid(1, 128, 128, 2)], { mode: 'cubic' }],
  ['reflection 3x128', 'GridSample', [x(1, 3, 128, 128), grid(1, 128, 128, 2)], { mode: 'linear', padding_mode: 'reflection' }],
  ['3-D 16x8x16', 'GridSample', [x(1, 16, 8, 16, 16), grid(1, 8, 16, 16, 3)], { mode: 'linear' }],
  ['256', 'AffineGrid', [x(1, 2, 3), ints(1, 3, 256, 256)]],
]);

/** onnxruntime computes angles of many turns in float32. */
const ROUNDED = { tolerance: 2e-3 };

export const SIGNALS = casesOf('signals', [
  ['real 512x400', 'DFT', [x(1, 512, 400, 1), null, int(2)], { onesided: 1 }, ROUNDED],
  ['complex 32x1000', 'DFT', [x(1, 32, 1000, 2), null, int(2)], {}, ROUNDED],
  ['inverse 128x512', 'DFT', [x(1, 128, 512, 2), null, int(2)], { inverse: 1 }, ROUNDED],
  ['real 16384', 'DFT', [x(1, 16384, 1), null, int(1)], { onesided: 1 }, ROUNDED],
  ['real 1009', 'DFT', [x(16, 1009, 1), null, int(1)], { onesided: 1 }, ROUNDED],
  ['frames of 400 by 160, 3 s', 'STFT', [x(1, 48000, 1), int(160), w(400), int(400)], { onesided: 1 }, { ...ROUNDED, opset: 17 }],
  ['frames of 512 by 128, 1 s', 'STFT', [x(1, 16000, 1), int(128), w(512), int(512)], { onesided: 1 }, { ...ROUNDED, opset: 17 }],
  ['80x512', 'MelWeightMatrix', [int(80), int(512), feed('int64', [], [16000, 16000]), float(0), float(8000)]],
  ['400', 'HannWindow', [feed('int64', [], [400, 400])]],
  ['1M', 'Bernoulli', [feed('float32', [1024, 1024], [0, 1])], { seed: { f: 1 } }, { isRandom: true }],
  ['1M', 'RandomNormalLike', [x(1024, 1024)], { seed: { f: 1 } }, { isRandom: true }],
  ['64k', 'RandomUniformLike', [x(65536)], { seed: { f: 1 } }, { isRandom: true }],
]);

export const TINY = casesOf('tiny', [
  ['1', 'Add', [x(1), float(1)]],
  ['16', 'Relu', [x(1, 16)]],
  ['768', 'Tanh', [x(1, 768)]],
  ['768', 'Erf', [x(1, 768)]],
  ['768', 'Sigmoid', [x(1, 768)]],
  ['768', 'Add', [x(1, 768), x(1, 768)]],
  ['10', 'Softmax', [x(1, 10)], { axis: -1 }],
  ['64', 'LayerNormalization', [x(1, 64), w(64), w(64)], { axis: -1 }],
  ['1x8x8', 'MatMul', [x(1, 8), w(8, 8)]],
  ['1x64x64', 'MatMul', [x(1, 64), w(64, 64)]],
  ['1x16x4', 'Gemm', [x(1, 16), w(4, 16), w(4)], { transB: 1 }],
  ['3x3 3-8 8', 'Conv', [x(1, 3, 8, 8), w(8, 3, 3, 3), w(8)], { pads: [1, 1, 1, 1] }],
  ['8', 'Concat', [x(1, 8), x(1, 8)], { axis: 1 }],
  ['1 of 100', 'Gather', [w(100, 16), feed('int64', [1], [0, 99])]],
  ['64', 'ReduceMean', [x(1, 64), ints(1)], {}, { opset: 18 }],
  ['10', 'ArgMax', [x(1, 10)], { axis: 1 }],
  ['i64 to float32, 8', 'Cast', [feed('int64', [1, 8])], { to: 1 }],
  ['8x16', 'Transpose', [x(8, 16)], { perm: [1, 0] }],
  ['16', 'Identity', [x(1, 16)]],
  ['100 x 0.5', 'Where', [feed('bool', [100]), x(100), float(0.5)]],
]);
