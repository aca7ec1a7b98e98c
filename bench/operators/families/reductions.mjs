// Reductions, arguments of extrema, running sums, softmax and its kin.

import { casesOf, feed, int, ints, x } from '../case.mjs';

/** What is reduced, with the axes. @type {[string, number[], number[]][]} */
const PATTERNS = [
  ['short rows 8x64x48x48', [8, 64, 48, 48], [3]],
  ['rows 128x768', [1, 128, 768], [2]],
  ['height and width 64x96', [1, 64, 96, 96], [2, 3]],
  ['channels 64x96', [1, 64, 96, 96], [1]],
  ['outer 1024x1024', [1024, 1024], [0]],
  ['all of 1M', [1024, 1024], [0, 1]],
];

const FEW = PATTERNS.filter(([name]) => /^(height|channels)/.test(name));

/** Opsets from which axes are an operand. */
const AS_OPERAND = { opset: 18 };

/** @param {string} operator @param {typeof PATTERNS} patterns @returns {import('../case.mjs').Row[]} */
const reduced = (operator, patterns) =>
  patterns.map(([name, shape, axes]) => [
    name,
    operator,
    [operator === 'ReduceLogSum' ? feed('float32', shape, [0.1, 2]) : x(...shape), ints(...axes)],
    { keepdims: 1 },
    AS_OPERAND,
  ]);

export const REDUCTIONS = casesOf('reductions', [
  ...['ReduceSum', 'ReduceMean', 'ReduceMax'].flatMap((operator) => reduced(operator, PATTERNS)),
  ...['ReduceMin', 'ReduceProd', 'ReduceL1', 'ReduceL2', 'ReduceLogSum', 'ReduceLogSumExp', 'ReduceSumSquare'].flatMap((operator) => reduced(operator, FEW)),
  ['squeeze 1280x7x7', 'ReduceMean', [x(1, 1280, 7, 7), ints(2, 3)], { keepdims: 0 }, AS_OPERAND],
  ['tokens 8x384x768', 'ReduceMean', [x(8, 384, 768), ints(1)], { keepdims: 0 }, AS_OPERAND],
  ['i32 all of 1M', 'ReduceSum', [feed('int32', [1024, 1024]), ints(0, 1)], { keepdims: 0 }, AS_OPERAND],
  ['i64 rows 8x512', 'ReduceSum', [feed('int64', [8, 512], [0, 1]), ints(1)], { keepdims: 0 }, AS_OPERAND],
  ['i32 all of 1M', 'ReduceMax', [feed('int32', [1024, 1024]), ints(0, 1)], { keepdims: 0 }, AS_OPERAND],
  ['i64 512', 'ReduceMax', [feed('int64', [512]), ints(0)], { keepdims: 0 }, AS_OPERAND],
  ['f16 rows 128x768', 'ReduceMean', [feed('float16', [1, 128, 768]), ints(2)], { keepdims: 1 }, AS_OPERAND],
  ['classes 8400x80', 'ReduceMax', [x(1, 8400, 80), ints(2)], { keepdims: 0 }, AS_OPERAND],
  ['classes 84x8400', 'ReduceMax', [x(1, 80, 8400), ints(1)], { keepdims: 0 }, AS_OPERAND],
  ['8400x80', 'ArgMax', [x(1, 8400, 80)], { axis: 2, keepdims: 0 }],
  ['80x8400 outer', 'ArgMax', [x(1, 80, 8400)], { axis: 1, keepdims: 0 }],
  ['480x6625', 'ArgMax', [x(1, 480, 6625)], { axis: 2, keepdims: 0 }],
  ['21x256x256 channels', 'ArgMax', [x(1, 21, 256, 256)], { axis: 1, keepdims: 0 }],
  ['1x151936', 'ArgMax', [x(1, 151936)], { axis: 1, keepdims: 0 }],
  ['1000', 'ArgMax', [x(1, 1000)], { axis: 1, keepdims: 0 }],
  ['21x256x256 channels', 'ArgMin', [x(1, 21, 256, 256)], { axis: 1, keepdims: 0 }],
  ['480x6625', 'ArgMin', [x(1, 480, 6625)], { axis: 2, keepdims: 0 }],
  ['last 128x768', 'CumSum', [x(128, 768), int(1)]],
  ['outer 1024x1024', 'CumSum', [x(1024, 1024), int(0)]],
  ['height 256x256', 'CumSum', [x(1, 256, 256), int(1)]],
  ['mask i64 8x512', 'CumSum', [feed('int64', [8, 512], [0, 1]), int(1)]],
  ['i32 1x4096', 'CumSum', [feed('int32', [1, 4096], [0, 1]), int(1)]],
  ['reverse exclusive 512x512', 'CumSum', [x(512, 512), int(1)], { reverse: 1, exclusive: 1 }],
]);

export const SOFTMAX = casesOf('softmax', [
  ['attention 12x128x128', 'Softmax', [x(1, 12, 128, 128)], { axis: -1 }],
  ['attention 12x512x512', 'Softmax', [x(1, 12, 512, 512)], { axis: -1 }],
  ['attention 6x197x197', 'Softmax', [x(1, 6, 197, 197)], { axis: -1 }],
  ['windows 64x3x49x49', 'Softmax', [x(64, 3, 49, 49)], { axis: -1 }],
  ['token 12x1x512', 'Softmax', [x(1, 12, 1, 512)], { axis: -1 }],
  ['classes 1000', 'Softmax', [x(1, 1000)], { axis: -1 }],
  ['vocabulary 1x151936', 'Softmax', [x(1, 151936)], { axis: -1 }],
  ['letters 480x6625', 'Softmax', [x(1, 480, 6625)], { axis: -1 }],
  ['distribution 8400x4x16', 'Softmax', [x(1, 8400, 4, 16)], { axis: -1 }],
  ['distribution 16x4x8400', 'Softmax', [x(1, 16, 4, 8400)], { axis: 1 }],
  ['segmentation 21x256x256', 'Softmax', [x(1, 21, 256, 256)], { axis: 1 }],
  ['two classes 8732', 'Softmax', [x(1, 8732, 2)], { axis: -1 }],
  ['f16 12x128x128', 'Softmax', [feed('float16', [1, 12, 128, 128])], { axis: -1 }],
  ['12x128x128', 'LogSoftmax', [x(1, 12, 128, 128)], { axis: -1 }],
  ['vocabulary 1x51865', 'LogSoftmax', [x(1, 51865)], { axis: -1 }],
  ['frames 300x29', 'LogSoftmax', [x(1, 300, 29)], { axis: -1 }],
  ['segmentation 21x256x256', 'LogSoftmax', [x(1, 21, 256, 256)], { axis: 1 }],
  ['128x1000', 'Hardmax', [x(128, 1000)], { axis: -1 }],
]);
