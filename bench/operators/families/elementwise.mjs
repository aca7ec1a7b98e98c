// Operators of one element, or of one from each operand.

import { casesOf, ELEMENT_TYPES, feed, filled, float, int, w, weight, x } from '../case.mjs';

/** The hidden layer of a transformer, and an image of a convolutional network: 393,216 and 200,704 elements. */
const HIDDEN = /** @type {const} */ ([128, 3072]);
const IMAGE = /** @type {const} */ ([1, 64, 56, 56]);

/** An odd number of elements, as sizes of padded texts and pictures have them. */
const ODD = /** @type {const} */ ([3, 65537]);

const half = (/** @type {number[]} */ ...shape) => feed('float16', shape);
const positive = (/** @type {number[]} */ ...shape) => feed('float32', shape, [0.1, 4]);
const above1 = (/** @type {number[]} */ ...shape) => feed('float32', shape, [1, 8]);
const wide = (/** @type {number[]} */ ...shape) => feed('float32', shape, [-6, 6]);

/** Operators without attributes of their own, with an operand that suits them. @type {[string, typeof x][]} */
const PLAIN = [
  ['Abs', x],
  ['Neg', x],
  ['Exp', x],
  ['Log', positive],
  ['Sqrt', positive],
  ['Reciprocal', positive],
  ['Floor', wide],
  ['Ceil', wide],
  ['Round', wide],
  ['Sign', x],
  ['Sin', wide],
  ['Cos', wide],
  ['Tan', x],
  ['Asin', x],
  ['Acos', x],
  ['Atan', wide],
  ['Sinh', wide],
  ['Cosh', wide],
  ['Asinh', wide],
  ['Acosh', above1],
  ['Atanh', (...shape) => feed('float32', shape, [-0.9, 0.9])],
  ['Erf', wide],
  ['Relu', x],
  ['LeakyRelu', x],
  ['Elu', wide],
  ['Selu', wide],
  ['Celu', wide],
  ['Sigmoid', wide],
  ['HardSigmoid', wide],
  ['HardSwish', wide],
  ['Softplus', wide],
  ['Softsign', wide],
  ['Tanh', wide],
  ['ThresholdedRelu', wide],
  ['Mish', wide],
  ['Gelu', wide],
  ['Shrink', wide],
  ['Identity', x],
  ['IsNaN', x],
  ['IsInf', x],
];

export const UNARY = casesOf('unary', [
  ...PLAIN.map(([operator, operand]) => /** @type {import('../case.mjs').Row} */ (['128x3072', operator, [operand(...HIDDEN)]])),
  ['tanh 128x3072', 'Gelu', [wide(...HIDDEN)], { approximate: 'tanh' }],
  ['relu6 64x112', 'Clip', [wide(1, 64, 112, 112), float(0), float(6)]],
  ['odd', 'Relu', [x(...ODD)]],
  ['odd', 'Sigmoid', [wide(...ODD)]],
  ['f16 128x3072', 'Relu', [half(...HIDDEN)]],
  ['f16 128x3072', 'Sigmoid', [half(...HIDDEN)]],
  ['f16 128x3072', 'Tanh', [half(...HIDDEN)]],
  ['f16 128x3072', 'Exp', [half(...HIDDEN)]],
  ['f16 128x3072', 'Neg', [half(...HIDDEN)]],
  ['f16 128x3072', 'Gelu', [half(...HIDDEN)]],
  ['i32 64k', 'Abs', [feed('int32', [65536], [-1000, 1000])]],
  ['i64 64k', 'Neg', [feed('int64', [65536], [-1000, 1000])]],
  ['i64 512', 'Sign', [feed('int64', [512], [-3, 3])]],
  ['u8 3x640x640', 'Clip', [feed('uint8', [1, 3, 640, 640]), filled('uint8', 16), filled('uint8', 235)]],
  ['4 MB', 'Identity', [x(1024, 1024)]],
]);

const channel = w(1, 64, 1, 1);

export const BINARY = casesOf('binary', [
  ['same', 'Add', [x(...IMAGE), x(...IMAGE)]],
  ['same', 'Sub', [x(...IMAGE), x(...IMAGE)]],
  ['same', 'Mul', [x(...IMAGE), x(...IMAGE)]],
  ['same', 'Div', [x(...IMAGE), positive(...IMAGE)]],
  ['same', 'Max', [x(...IMAGE), x(...IMAGE)]],
  ['same', 'Min', [x(...IMAGE), x(...IMAGE)]],
  ['same', 'Pow', [positive(...IMAGE), x(...IMAGE)]],
  ['residual 197x384', 'Add', [x(1, 197, 384), x(1, 197, 384)]],
  ['residual 64x112', 'Add', [x(1, 64, 112, 112), x(1, 64, 112, 112)]],
  ['4 MB', 'Add', [x(1024, 1024), x(1024, 1024)]],
  ['by channel', 'Add', [x(...IMAGE), channel]],
  ['by channel', 'Mul', [x(...IMAGE), channel]],
  ['by channel 64x112', 'Mul', [x(1, 64, 112, 112), channel]],
  ['by gates', 'Mul', [x(1, 96, 56, 56), x(1, 96, 1, 1)]],
  ['by mask', 'Mul', [x(1, 64, 56, 56), x(1, 1, 56, 56)]],
  ['bias 128x3072', 'Add', [x(...HIDDEN), w(3072)]],
  ['bias 8x384x768', 'Add', [x(8, 384, 768), w(768)]],
  ['row 128x3072', 'Sub', [x(...HIDDEN), x(128, 1)]],
  ['row 128x3072', 'Div', [x(...HIDDEN), positive(128, 1)]],
  ['scalar', 'Mul', [x(...HIDDEN), float(0.125)]],
  ['scalar', 'Div', [x(...HIDDEN), float(8)]],
  ['by scalar 4 MB', 'Add', [x(1024, 1024), float(1)]],
  ['square', 'Pow', [x(...HIDDEN), float(2)]],
  ['cube', 'Pow', [x(...HIDDEN), float(3)]],
  ['root', 'Pow', [positive(...HIDDEN), float(0.5)]],
  ['mask of attention', 'Add', [x(1, 12, 128, 128), x(1, 1, 128, 128)]],
  ['mask of padding', 'Add', [x(8, 12, 128, 128), x(8, 1, 1, 128)]],
  ['outer 1024', 'Mul', [x(1024, 1), x(1, 1024)]],
  ['table 480x6625', 'Sub', [x(480, 6625), x(480, 1)]],
  ['anchors', 'Add', [x(1, 2, 8400), w(1, 2, 8400)]],
  ['strides', 'Mul', [x(1, 4, 8400), w(1, 1, 8400)]],
  ['pixels', 'Div', [x(1, 3, 224, 224), weight('float32', [1, 3, 1, 1], [0.2, 0.3])]],
  ['of three', 'Sum', [x(...IMAGE), x(...IMAGE), x(...IMAGE)]],
  ['of four', 'Max', [x(...IMAGE), x(...IMAGE), x(...IMAGE), x(...IMAGE)]],
  ['of two', 'Mean', [x(...IMAGE), x(...IMAGE)]],
  ['channels', 'PRelu', [x(1, 64, 128, 128), w(64, 1, 1)]],
  ['i64 64k', 'Add', [feed('int64', [65536]), feed('int64', [65536])]],
  ['i64 64k', 'Mul', [feed('int64', [65536]), int(3)]],
  ['i64 64k', 'Div', [feed('int64', [65536]), int(7)]],
  ['i64 64k', 'Mod', [feed('int64', [65536]), int(7)]],
  ['i32 256k', 'Add', [feed('int32', [512, 512]), feed('int32', [512, 512])]],
  ['i32 256k', 'Mul', [feed('int32', [512, 512]), feed('int32', [512, 512])]],
  ['u8 256k', 'Max', [feed('uint8', [512, 512]), feed('uint8', [512, 512])]],
  ['f64 256k', 'Add', [feed('float64', [512, 512]), feed('float64', [512, 512])]],
  ['f64 256k', 'Mul', [feed('float64', [512, 512]), feed('float64', [512, 512])]],
  ['f16 same', 'Add', [half(...IMAGE), half(...IMAGE)]],
  ['f16 same', 'Mul', [half(...IMAGE), half(...IMAGE)]],
  ['f16 bias 128x3072', 'Add', [half(...HIDDEN), weight('float16', [3072])]],
  ['f16 by channel', 'Mul', [half(...IMAGE), weight('float16', [1, 64, 1, 1])]],
]);

const bools = (/** @type {number[]} */ ...shape) => feed('bool', shape);
const unsigned = (/** @type {number[]} */ ...shape) => feed('uint32', shape, [0, 2 ** 31]);

export const LOGIC = casesOf('logic', [
  ['f32 4 MB', 'Equal', [x(1024, 1024), x(1024, 1024)]],
  ['f32 4 MB', 'Greater', [x(1024, 1024), x(1024, 1024)]],
  ['f32 scalar 8400x80', 'Greater', [x(1, 8400, 80), float(0.25)]],
  ['f32 256k', 'GreaterOrEqual', [x(512, 512), x(512, 512)]],
  ['f32 4 MB', 'Less', [x(1024, 1024), float(0.5)]],
  ['f32 256k', 'LessOrEqual', [x(512, 512), x(512, 512)]],
  ['i64 scalar 8x512', 'Equal', [feed('int64', [8, 512]), int(0)]],
  ['i64 64k', 'Less', [feed('int64', [65536]), feed('int64', [65536])]],
  ['positions 512', 'LessOrEqual', [feed('int64', [1, 512]), feed('int64', [512, 1])]],
  ['i32 256k', 'Equal', [feed('int32', [512, 512], [0, 3]), feed('int32', [512, 512], [0, 3])]],
  ['u8 256k', 'Equal', [feed('uint8', [512, 512], [0, 3]), feed('uint8', [512, 512], [0, 3])]],
  ['1M', 'And', [bools(1024, 1024), bools(1024, 1024)]],
  ['1M', 'Or', [bools(1024, 1024), bools(1024, 1024)]],
  ['1M', 'Xor', [bools(1024, 1024), bools(1024, 1024)]],
  ['1M', 'Not', [bools(1024, 1024)]],
  ['mask 1x1x512x512', 'And', [bools(1, 1, 512, 512), bools(1, 1, 1, 512)]],
  ['f32 256k', 'Where', [bools(512, 512), x(512, 512), x(512, 512)]],
  ['mask of attention', 'Where', [bools(1, 1, 128, 128), x(1, 12, 128, 128), float(-1e9)]],
  ['scalars 512x512', 'Where', [bools(512, 512), float(0), float(-10000)]],
  ['i64 256k', 'Where', [bools(512, 512), feed('int64', [512, 512]), feed('int64', [512, 512])]],
  ['f16 256k', 'Where', [bools(512, 512), feed('float16', [512, 512]), feed('float16', [512, 512])]],
  ['i32 256k', 'BitwiseAnd', [feed('int32', [512, 512]), feed('int32', [512, 512])]],
  ['i32 256k', 'BitwiseOr', [feed('int32', [512, 512]), feed('int32', [512, 512])]],
  ['i32 256k', 'BitwiseXor', [feed('int32', [512, 512]), feed('int32', [512, 512])]],
  ['i64 4k', 'BitwiseAnd', [feed('int64', [4096]), int(255)]],
  ['u8 256k', 'BitwiseAnd', [feed('uint8', [512, 512]), filled('uint8', 15)]],
  ['i32 256k', 'BitwiseNot', [feed('int32', [512, 512])]],
  ['left u32 256k', 'BitShift', [unsigned(512, 512), filled('uint32', 3)], { direction: 'LEFT' }],
  ['right u32 256k', 'BitShift', [unsigned(512, 512), filled('uint32', 5)], { direction: 'RIGHT' }],
  ['right u8 256k', 'BitShift', [feed('uint8', [512, 512]), filled('uint8', 4)], { direction: 'RIGHT' }],
]);

/** Numbers with a fraction that float32 holds. @type {import('../case.mjs').Source} */
const quarters = (random, count) => Array.from({ length: count }, () => Math.floor(8000 * random()) / 4 - 1000);

/** Types of casts, and the values to cast, which both types hold. @type {[from: string, to: string, values?: import('../case.mjs').Source][]} */
const CASTS = [
  ['float32', 'float16'],
  ['float32', 'float64'],
  ['float32', 'int64', [-1000, 1000]],
  ['float32', 'int32', [-1000, 1000]],
  ['float32', 'uint8', [0, 255]],
  ['float32', 'int8', [-128, 127]],
  ['float32', 'bool'],
  ['float16', 'float32'],
  ['float16', 'int32', [-1000, 1000]],
  ['float16', 'uint8', [0, 255]],
  ['float64', 'float32'],
  ['float64', 'int64', quarters],
  ['int64', 'float32'],
  ['int64', 'float16'],
  ['int64', 'int32'],
  ['int64', 'bool', [0, 1]],
  ['int64', 'float64'],
  ['int32', 'float32'],
  ['int32', 'int64'],
  ['int32', 'bool', [0, 1]],
  ['int32', 'uint8', [0, 255]],
  ['int32', 'float16'],
  ['uint8', 'float32'],
  ['uint8', 'float16'],
  ['uint8', 'int32'],
  ['uint8', 'int64'],
  ['uint8', 'bool', [0, 1]],
  ['int8', 'float32'],
  ['int8', 'int32'],
  ['bool', 'float32'],
  ['bool', 'float16'],
  ['bool', 'int64'],
  ['bool', 'int32'],
  ['bool', 'uint8'],
];

/** What the attribute `to` has. @param {string} type */
const to = (type) => ({ to: ELEMENT_TYPES[type] });

export const CASTED = casesOf('casts', [
  ...CASTS.map(
    ([from, type, values]) => /** @type {import('../case.mjs').Row} */ ([`${from} to ${type}, 512x512`, 'Cast', [feed(from, [512, 512], values)], to(type)]),
  ),
  ['float32 to float16, 1024x1024', 'Cast', [x(1024, 1024)], to('float16')],
  ['float32 to uint8, 1024x1024', 'Cast', [feed('float32', [1024, 1024], [0, 255])], to('uint8')],
  ['float32 to bool, 1024x1024', 'Cast', [x(1024, 1024)], to('bool')],
  ['uint8 to float32, 640x640x3', 'Cast', [feed('uint8', [1, 640, 640, 3])], to('float32')],
  ['int64 to float32, 128', 'Cast', [feed('int64', [1, 128])], to('float32')],
]);
