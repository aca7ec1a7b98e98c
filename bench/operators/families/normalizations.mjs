// Normalizations.

import { casesOf, feed, w, weight, x } from '../case.mjs';

const half = (/** @type {number[]} */ ...shape) => feed('float16', shape);
const halves = (/** @type {number} */ size) => weight('float16', [size]);

/** Scale, bias, mean and variance. @param {number} channels */
const moments = (channels) => [w(channels), w(channels), w(channels), weight('float32', [channels], [0.5, 2])];

const MS = 'com.microsoft.';

export const NORMALIZATIONS = casesOf('normalizations', [
  ['64x112', 'BatchNormalization', [x(1, 64, 112, 112), ...moments(64)]],
  ['256x14', 'BatchNormalization', [x(1, 256, 14, 14), ...moments(256)]],
  ['audio 128x1000', 'BatchNormalization', [x(1, 128, 1000), ...moments(128)]],
  ['1x768', 'LayerNormalization', [x(1, 1, 768), w(768), w(768)], { axis: -1 }],
  ['128x768', 'LayerNormalization', [x(1, 128, 768), w(768), w(768)], { axis: -1 }],
  ['197x384', 'LayerNormalization', [x(1, 197, 384), w(384), w(384)], { axis: -1 }],
  ['3136x96', 'LayerNormalization', [x(1, 3136, 96), w(96), w(96)], { axis: -1 }],
  ['2048x1024', 'LayerNormalization', [x(1, 2048, 1024), w(1024), w(1024)], { axis: -1 }],
  ['f16 128x768', 'LayerNormalization', [half(1, 128, 768), halves(768), halves(768)], { axis: -1 }],
  ['1x2048', 'RMSNormalization', [x(1, 1, 2048), w(2048)], { axis: -1 }, { opset: 23 }],
  ['128x768', 'RMSNormalization', [x(1, 128, 768), w(768)], { axis: -1 }, { opset: 23 }],
  ['2048x1024', 'RMSNormalization', [x(1, 2048, 1024), w(1024)], { axis: -1 }, { opset: 23 }],
  ['128x768', 'SimplifiedLayerNormalization', [x(1, 128, 768), w(768)], { axis: -1 }],
  ['128x768', `${MS}SkipLayerNormalization`, [x(1, 128, 768), x(1, 128, 768), w(768), w(768), w(768)]],
  ['1x768', `${MS}SkipLayerNormalization`, [x(1, 1, 768), x(1, 1, 768), w(768), w(768)]],
  ['128x2048', `${MS}SkipSimplifiedLayerNormalization`, [x(1, 128, 2048), x(1, 128, 2048), w(2048)]],
  ['1x2048', `${MS}SkipSimplifiedLayerNormalization`, [x(1, 1, 2048), x(1, 1, 2048), w(2048)]],
  ['64x128', 'InstanceNormalization', [x(1, 64, 128, 128), w(64), w(64)]],
  ['256x64', 'InstanceNormalization', [x(1, 256, 64, 64), w(256), w(256)]],
  ['audio 512x3000', 'InstanceNormalization', [x(1, 512, 3000), w(512), w(512)]],
  ['320x32 32 groups', 'GroupNormalization', [x(1, 320, 32, 32), w(320), w(320)], { num_groups: 32 }],
  ['64x128 8 groups', 'GroupNormalization', [x(1, 64, 128, 128), w(64), w(64)], { num_groups: 8 }],
  ['64x56', 'LRN', [x(1, 64, 56, 56)], { size: 5, alpha: 0.0001, beta: 0.75 }],
  ['96x27', 'LRN', [x(1, 96, 27, 27)], { size: 5, alpha: 0.0001, beta: 0.75 }],
  ['8x64x56', 'MeanVarianceNormalization', [x(8, 64, 56, 56)]],
  ['rows 512x512', 'LpNormalization', [x(512, 512)], { axis: -1, p: 2 }],
  ['channels 64x56', 'LpNormalization', [x(1, 64, 56, 56)], { axis: 1, p: 2 }],
]);
