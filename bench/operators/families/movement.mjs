// Operators that move data, and that make them.

import { casesOf, feed, filled, float, int, ints, node, weight, x } from '../case.mjs';

const u8 = (/** @type {number[]} */ ...shape) => feed('uint8', shape);
const half = (/** @type {number[]} */ ...shape) => feed('float16', shape);

const perm = (/** @type {number[]} */ ...order) => ({ perm: order });
const TO_NHWC = perm(0, 2, 3, 1);
const TO_NCHW = perm(0, 3, 1, 2);

export const TRANSPOSE = casesOf('transpose', [
  ['heads 128x12x64', 'Transpose', [x(1, 128, 12, 64)], perm(0, 2, 1, 3)],
  ['keys 12x128x64', 'Transpose', [x(1, 12, 128, 64)], perm(0, 1, 3, 2)],
  ['nchw to nhwc 64x56', 'Transpose', [x(1, 64, 56, 56)], TO_NHWC],
  ['nhwc to nchw 56x64', 'Transpose', [x(1, 56, 56, 64)], TO_NCHW],
  ['nhwc to nchw 640x3', 'Transpose', [x(1, 640, 640, 3)], TO_NCHW],
  ['nchw to nhwc 3x640', 'Transpose', [x(1, 3, 640, 640)], TO_NHWC],
  ['u8 nhwc to nchw 640x3', 'Transpose', [u8(1, 640, 640, 3)], TO_NCHW],
  ['u8 nchw to nhwc 3x640', 'Transpose', [u8(1, 3, 640, 640)], TO_NHWC],
  ['u8 nchw to nhwc 64x56', 'Transpose', [u8(1, 64, 56, 56)], TO_NHWC],
  ['u8 heads 128x12x64', 'Transpose', [u8(1, 128, 12, 64)], perm(0, 2, 1, 3)],
  ['matrix 1024', 'Transpose', [x(1024, 1024)], perm(1, 0)],
  ['matrix 768x3072', 'Transpose', [x(768, 3072)], perm(1, 0)],
  ['predictions 84x8400', 'Transpose', [x(1, 84, 8400)], perm(0, 2, 1)],
  ['anchors 3x85x80x80', 'Transpose', [x(1, 3, 85, 80, 80)], perm(0, 1, 3, 4, 2)],
  ['distribution 4x16x8400', 'Transpose', [x(1, 4, 16, 8400)], perm(0, 2, 1, 3)],
  ['windows 8x7x8x7x96', 'Transpose', [x(1, 8, 7, 8, 7, 96)], perm(0, 1, 3, 2, 4, 5)],
  ['shuffle 2x58x28', 'Transpose', [x(1, 2, 58, 28, 28)], perm(0, 2, 1, 3, 4)],
  ['frames 80x3000', 'Transpose', [x(1, 80, 3000)], perm(0, 2, 1)],
  ['f16 heads 128x12x64', 'Transpose', [half(1, 128, 12, 64)], perm(0, 2, 1, 3)],
  ['f16 matrix 1024', 'Transpose', [half(1024, 1024)], perm(1, 0)],
  ['i64 matrix 256', 'Transpose', [feed('int64', [256, 256])], perm(1, 0)],
]);

/** @param {number[]} starts @param {number[]} ends @param {number[]} axes @param {number[]} [steps] */
const range = (starts, ends, axes, steps = axes.map(() => 1)) => [ints(...starts), ints(...ends), ints(...axes), ints(...steps)];

const mode = (/** @type {string} */ name) => ({ mode: name });

export const MOVEMENT = casesOf('movement', [
  ['channels 2x 64x56', 'Concat', [x(1, 64, 56, 56), x(1, 64, 56, 56)], { axis: 1 }],
  ['last 2x 8400x4', 'Concat', [x(1, 8400, 4), x(1, 8400, 80)], { axis: 2 }],
  ['outputs of 3 scales', 'Concat', [x(1, 84, 6400), x(1, 84, 1600), x(1, 84, 400)], { axis: 2 }],
  ['cache 12x512x64', 'Concat', [x(1, 12, 512, 64), x(1, 12, 1, 64)], { axis: 2 }],
  ['halves 12x128x32', 'Concat', [x(1, 12, 128, 32), x(1, 12, 128, 32)], { axis: 3 }],
  ['u8 4x 32x112', 'Concat', [u8(1, 32, 112, 112), u8(1, 32, 112, 112), u8(1, 32, 112, 112), u8(1, 32, 112, 112)], { axis: 1 }],
  ['class token 196x384', 'Concat', [x(1, 1, 384), x(1, 196, 384)], { axis: 1 }],
  ['f16 channels 2x 64x56', 'Concat', [half(1, 64, 56, 56), half(1, 64, 56, 56)], { axis: 1 }],
  ['channels 64x56', 'Split', [x(1, 64, 56, 56), ints(32, 32)], { axis: 1 }, { results: 2 }],
  ['queries, keys, values 128x2304', 'Split', [x(1, 128, 2304), ints(768, 768, 768)], { axis: 2 }, { results: 3 }],
  ['boxes and classes 84x8400', 'Split', [x(1, 84, 8400), ints(4, 80)], { axis: 1 }, { results: 2 }],
  ['boxes and classes 8400x84', 'Split', [x(1, 8400, 84), ints(4, 80)], { axis: 2 }, { results: 2 }],
  ['last token 512x768', 'Slice', [x(1, 512, 768), ...range([511], [512], [1])]],
  ['columns 8400x85', 'Slice', [x(1, 8400, 85), ...range([4], [85], [2])]],
  ['rows 8400x85', 'Slice', [x(1, 8400, 85), ...range([100], [4300], [1])]],
  ['channels 64x56', 'Slice', [x(1, 64, 56, 56), ...range([16], [48], [1])]],
  ['crop 3x256', 'Slice', [x(1, 3, 256, 256), ...range([16, 16], [240, 240], [2, 3])]],
  ['every other pixel 3x640', 'Slice', [x(1, 3, 640, 640), ...range([0, 0], [640, 640], [2, 3], [2, 2])]],
  ['reversed 128x768', 'Slice', [x(128, 768), ...range([-1], [-10000], [0], [-1])]],
  ['reversed columns 3x224', 'Slice', [x(1, 3, 224, 224), ...range([-1], [-10000], [3], [-1])]],
  ['every other of 12x128x64', 'Slice', [x(1, 12, 128, 64), ...range([0], [64], [3], [2])]],
  ['shifted windows 56x56x96', 'Slice', [x(1, 56, 56, 96), ...range([3, 3], [56, 56], [1, 2])]],
  ['u8 channel of 640x640x3', 'Slice', [u8(1, 640, 640, 3), ...range([0], [1], [3])]],
  ['constant 64x112', 'Pad', [x(1, 64, 112, 112), ints(0, 0, 1, 1, 0, 0, 1, 1)], mode('constant')],
  ['constant to the right 64x112', 'Pad', [x(1, 64, 112, 112), ints(0, 0, 0, 0, 0, 0, 1, 1)], mode('constant')],
  ['constant last 512x1000', 'Pad', [x(512, 1000), ints(0, 12, 0, 12)], mode('constant')],
  ['letterbox 3x480x640', 'Pad', [x(1, 3, 480, 640), ints(0, 0, 80, 0, 0, 0, 80, 0), float(0.447)], mode('constant')],
  ['constant u8 3x224', 'Pad', [u8(1, 3, 224, 224), ints(0, 0, 8, 8, 0, 0, 8, 8), filled('uint8', 114)], mode('constant')],
  ['reflect 64x112', 'Pad', [x(1, 64, 112, 112), ints(0, 0, 3, 3, 0, 0, 3, 3)], mode('reflect')],
  ['reflect audio 16000', 'Pad', [x(1, 16000), ints(0, 256, 0, 256)], mode('reflect')],
  ['edge 64x112', 'Pad', [x(1, 64, 112, 112), ints(0, 0, 1, 1, 0, 0, 1, 1)], mode('edge')],
  ['wrap 64x112', 'Pad', [x(1, 64, 112, 112), ints(0, 0, 2, 2, 0, 0, 2, 2)], mode('wrap')],
  ['i64 tokens 8x100', 'Pad', [feed('int64', [8, 100]), ints(0, 0, 0, 28), int(0)], mode('constant')],
  ['f16 64x112', 'Pad', [half(1, 64, 112, 112), ints(0, 0, 1, 1, 0, 0, 1, 1)], mode('constant')],
  ['2x2 of 512', 'Tile', [x(512, 512), ints(2, 2)]],
  ['last 1024x64', 'Tile', [x(1024, 64), ints(1, 8)]],
  ['rows 1x256', 'Tile', [x(1, 256), ints(900, 1)]],
  ['i64 64', 'Tile', [feed('int64', [1, 64]), ints(16, 1)]],
  ['heads 4x512x64', 'Expand', [x(1, 4, 1, 512, 64), ints(1, 4, 4, 512, 64)]],
  ['scalar to 1M', 'Expand', [x(1, 1), ints(1024, 1024)]],
  ['rows 512 to 512x512', 'Expand', [x(1, 512), ints(512, 512)]],
  ['columns 512 to 512x512', 'Expand', [x(512, 1), ints(512, 512)]],
  ['i64 mask 1x1x1x128', 'Expand', [feed('int64', [1, 1, 1, 128]), ints(1, 1, 128, 128)]],
  ['1M', 'Reshape', [x(1024, 1024), ints(1, 16, 256, 256)]],
  ['512x7', 'Flatten', [x(1, 512, 7, 7)]],
  ['1M', 'Squeeze', [x(1, 1024, 1024), ints(0)]],
  ['8400', 'Unsqueeze', [x(1, 8400), ints(2)]],
  ['upper 1024', 'Trilu', [x(1024, 1024)], { upper: 1 }],
  ['lower 12x256', 'Trilu', [x(12, 256, 256)], { upper: 0 }],
  ['causal bool 512', 'Trilu', [feed('bool', [512, 512]), int(1)], { upper: 1 }],
  ['dcr 64x112 by 2', 'DepthToSpace', [x(1, 64, 112, 112)], { blocksize: 2, mode: 'DCR' }],
  ['crd 48x128 by 4', 'DepthToSpace', [x(1, 48, 128, 128)], { blocksize: 4, mode: 'CRD' }],
  ['crd 12x320 by 2', 'DepthToSpace', [x(1, 12, 320, 320)], { blocksize: 2, mode: 'CRD' }],
  ['3x640 by 2', 'SpaceToDepth', [x(1, 3, 640, 640)], { blocksize: 2 }],
  ['64x112 by 2', 'SpaceToDepth', [x(1, 64, 112, 112)], { blocksize: 2 }],
  ['128x32x64', 'ReverseSequence', [x(128, 32, 64), feed('int64', [32], [1, 128])], { time_axis: 0, batch_axis: 1 }],
  ['3x256 to 224', 'CenterCropPad', [x(3, 256, 256), ints(224, 224)], { axes: [1, 2] }],
  ['64x28 patches', 'Col2Im', [x(1, 576, 784), ints(28, 28), ints(3, 3)], { pads: [1, 1, 1, 1] }],
  ['512', 'EyeLike', [x(512, 512)]],
  ['positions', 'Range', [node('Squeeze', [feed('int64', [1], [512, 512])]), int(4096), int(1)]],
  ['f32 of 1000', 'Range', [node('Squeeze', [feed('float32', [1], [0.25, 0.25])]), float(1000), float(1)]],
  ['zeros by shape', 'ConstantOfShape', [node('Shape', [x(1, 64, 56, 56)], {}, 'int64')]],
  ['64x56', 'Shape', [x(1, 64, 56, 56)]],
  ['64x56', 'Size', [x(1, 64, 56, 56)]],
  ['positions computed', 'Range', [int(0), node('Squeeze', [node('Shape', [x(1, 512)], { start: 1 }, 'int64')]), int(1)]],
  ['1M', 'Dropout', [x(1024, 1024)]],
]);

/** Coordinates of Resize. */
const ASYMMETRIC = { coordinate_transformation_mode: 'asymmetric' };
const CORNERS = { coordinate_transformation_mode: 'align_corners' };
const PYTORCH = { coordinate_transformation_mode: 'pytorch_half_pixel' };
const NEAREST = { mode: 'nearest', nearest_mode: 'floor', ...ASYMMETRIC };
const LINEAR = { mode: 'linear' };
const CUBIC = { mode: 'cubic', cubic_coeff_a: -0.75 };

/** The engines round coordinates between elements differently. */
const BETWEEN = { tolerance: 1e-3 };

/** @param {string} name @param {import('../case.mjs').Data} image @param {number} factor @param {import('../case.mjs').Attributes} attributes @param {import('../case.mjs').Details} [details] @returns {import('../case.mjs').Row} */
const scaled = (name, image, factor, attributes, details) => [
  name,
  'Resize',
  [image, null, weight('float32', [image.shape.length], () => image.shape.map((_, axis) => (axis < 2 ? 1 : factor)))],
  attributes,
  details,
];

/** @param {string} name @param {import('../case.mjs').Data} image @param {number[]} sizes @param {import('../case.mjs').Attributes} attributes @param {import('../case.mjs').Details} [details] @returns {import('../case.mjs').Row} */
const sized = (name, image, sizes, attributes, details) => [
  name,
  'Resize',
  [image, null, null, ints(...image.shape.slice(0, 2), ...sizes)],
  attributes,
  details,
];

export const RESIZE = casesOf('resize', [
  scaled('nearest x2 256x20', x(1, 256, 20, 20), 2, NEAREST),
  scaled('nearest x2 128x40', x(1, 128, 40, 40), 2, NEAREST),
  scaled('nearest x2 64x80', x(1, 64, 80, 80), 2, NEAREST),
  scaled('nearest x4 64x40', x(1, 64, 40, 40), 4, NEAREST),
  scaled('nearest rounded x2 64x40', x(1, 64, 40, 40), 2, { mode: 'nearest' }),
  sized('nearest 256x38 to 75', x(1, 256, 38, 38), [75, 75], NEAREST),
  scaled('nearest 1-D x2 128x1000', x(1, 128, 1000), 2, NEAREST),
  scaled('nearest 3-D x2 32x8x16', x(1, 32, 8, 16, 16), 2, NEAREST),
  scaled('linear x2 64x40', x(1, 64, 40, 40), 2, LINEAR),
  scaled('linear x2 256x28', x(1, 256, 28, 28), 2, { ...LINEAR, ...PYTORCH }),
  scaled('linear corners x2 64x56', x(1, 64, 56, 56), 2, { ...LINEAR, ...CORNERS }),
  scaled('linear x8 21x64', x(1, 21, 64, 64), 8, LINEAR),
  sized('linear 3x480x640 to 224', x(1, 3, 480, 640), [224, 224], LINEAR, BETWEEN),
  sized('linear 1x512 to 1080', x(1, 1, 512, 512), [1080, 1080], LINEAR, BETWEEN),
  sized('linear antialias 3x480x640 to 224', x(1, 3, 480, 640), [224, 224], { ...LINEAR, antialias: 1 }),
  sized('cubic 3x480x640 to 224', x(1, 3, 480, 640), [224, 224], CUBIC, BETWEEN),
  scaled('cubic x2 64x40', x(1, 64, 40, 40), 2, CUBIC),
  sized('cubic antialias 3x480x640 to 224', x(1, 3, 480, 640), [224, 224], { ...CUBIC, antialias: 1 }),
  sized('cubic positions 384x14 to 16', x(1, 384, 14, 14), [16, 16], CUBIC),
  scaled('u8 nearest x2 64x80', u8(1, 64, 80, 80), 2, NEAREST),
  sized('u8 linear 3x480x640 to 224', u8(1, 3, 480, 640), [224, 224], LINEAR, { steps: 1 }),
  scaled('f16 nearest x2 64x80', half(1, 64, 80, 80), 2, NEAREST),
  scaled('f16 linear x2 64x40', half(1, 64, 40, 40), 2, LINEAR),
]);
