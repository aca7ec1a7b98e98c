// Gathering and scattering, selection and sorting.

import { below, casesOf, feed, float, floats, int, ints, w, weight, x } from '../case.mjs';

/** All integers below the number of elements, in a random order. @type {import('../case.mjs').Source} */
const permutation = (random, count) => {
  const all = Array.from({ length: count }, (_, i) => i);
  for (let i = count - 1; i > 0; i--) {
    const other = Math.floor(random() * (i + 1));
    [all[i], all[other]] = [all[other], all[i]];
  }
  return all;
};

/** Places of updates in a model. @param {number[]} shape @param {number} limit */
const places = (shape, limit) => weight('int64', shape, [0, limit - 1]);

/** Indices of an image's elements, without two equal ones in a row of the last axis. @param {number[]} shape @param {number} limit */
const distinct = (shape, limit) =>
  feed('int64', shape, (random, count) => {
    const [width] = shape.slice(-1);
    const start = Array.from({ length: count / width }, () => Math.floor(random() * limit));
    return Array.from({ length: count }, (_, i) => (start[Math.floor(i / width)] + 7 * (i % width)) % limit);
  });

export const GATHER = casesOf('gather', [
  ['embedding 128 of 30522x384', 'Gather', [w(30522, 384), below([1, 128], 30522)]],
  ['embedding 1 of 49152x576', 'Gather', [w(49152, 576), below([1, 1], 49152)]],
  ['embedding 8x512 of 30522x384', 'Gather', [w(30522, 384), below([8, 512], 30522)]],
  ['f16 embedding 128 of 30522x384', 'Gather', [weight('float16', [30522, 384]), below([1, 128], 30522)]],
  ['first token', 'Gather', [x(8, 128, 768), int(0)], { axis: 1 }],
  ['heads of 3x12x197x64', 'Gather', [x(3, 1, 12, 197, 64), int(1)], { axis: 0 }],
  ['channels 64 of 256x56', 'Gather', [x(1, 256, 56, 56), below([64], 256)], { axis: 1 }],
  ['columns 4 of 8400x85', 'Gather', [x(1, 8400, 85), ints(0, 1, 2, 3)], { axis: 2 }],
  ['relative positions 49x49', 'Gather', [w(169, 3), below([2401], 169)]],
  ['boxes 300 of 8400x4', 'Gather', [x(8400, 4), below([300], 8400)]],
  ['i64 512 of 1000', 'Gather', [feed('int64', [1000]), below([512], 1000)]],
  ['rows 300x80', 'GatherElements', [x(1, 300, 80), below([1, 300, 80], 300)], { axis: 1 }],
  ['last 300x80', 'GatherElements', [x(1, 300, 80), below([1, 300, 80], 80)], { axis: 2 }],
  ['positions 12x128x128', 'GatherElements', [x(12, 128, 256), below([12, 128, 128], 256)], { axis: 2 }],
  ['boxes 300 of 8400x4', 'GatherElements', [x(1, 8400, 4), below([1, 300, 4], 8400)], { axis: 1 }],
  ['300 of 8400x80', 'GatherND', [x(8400, 80), feed('int64', [300, 2], [0, 79])]],
  ['pixels 4096 of 64x64x256', 'GatherND', [x(64, 64, 256), below([4096, 2], 64)]],
  ['batches 8x128 of 512x64', 'GatherND', [x(8, 512, 64), below([8, 128, 1], 512)], { batch_dims: 1 }],
  [
    '32000x512',
    'com.microsoft.GatherBlockQuantized',
    [weight('uint8', [32000, 256]), below([1, 128], 32000), weight('float32', [32000, 16], [0.01, 0.05])],
    { gather_axis: 0, quantize_axis: 1, block_size: 32, bits: 4 },
  ],
  ['512x1000', 'OneHot', [below([512], 1000), int(1000), floats(0, 1)]],
  ['channels 64x64x21', 'OneHot', [below([1, 64, 64], 21), int(21), floats(0, 1)], { axis: 1 }],
]);

/** Updates of rows that are added where places coincide. */
const reduced = ['add', 'mul', 'min', 'max'];

export const SCATTER = casesOf('scatter', [
  ['1024x1024', 'ScatterElements', [x(1024, 1024), distinct([1024, 128], 1024), x(1024, 128)], { axis: 1 }],
  ['mask 300 of 8400', 'ScatterElements', [x(1, 8400), distinct([1, 300], 8400), x(1, 300)], { axis: 1 }],
  ...reduced.map(
    (reduction) =>
      /** @type {import('../case.mjs').Row} */ ([
        `${reduction} known 1024x64`,
        'ScatterElements',
        [x(1024, 64), places([256, 64], 1024), x(256, 64)],
        { axis: 0, reduction },
      ]),
  ),
  ['add of edges 4096x16', 'ScatterElements', [x(512, 16), below([4096, 16], 512), x(4096, 16)], { axis: 0, reduction: 'add' }],
  ['max of edges 4096x16', 'ScatterElements', [x(512, 16), below([4096, 16], 512), x(4096, 16)], { axis: 0, reduction: 'max' }],
  ['rows 128 of 1024x64', 'ScatterND', [x(1024, 64), weight('int64', [128, 1], permutation), x(128, 64)]],
  [
    'token 8x1024x64',
    'ScatterND',
    [x(8, 1024, 64), feed('int64', [8, 2], (_, count) => Array.from({ length: count }, (__, i) => (i % 2 === 0 ? i / 2 : 700))), x(8, 64)],
  ],
  [
    'points 10000 of 512x512',
    'ScatterND',
    [
      x(512, 512),
      feed('int64', [10000, 2], (_, count) => Array.from({ length: count }, (__, i) => (i % 2 === 0 ? (i >> 1) % 500 : Math.floor(i / 1000)))),
      x(10000),
    ],
  ],
  ...reduced.map(
    (reduction) =>
      /** @type {import('../case.mjs').Row} */ ([`${reduction} known 1024x64`, 'ScatterND', [x(1024, 64), places([256, 1], 1024), x(256, 64)], { reduction }]),
  ),
  ['add of edges 4096x16', 'ScatterND', [x(512, 16), below([4096, 1], 512), x(4096, 16)], { reduction: 'add' }],
]);

/** Corners of boxes in a picture of 640. @param {number} count */
const boxes = (count) =>
  feed('float32', [1, count, 4], (random, length) => {
    const list = new Float32Array(length);
    for (let i = 0; i < length; i += 4) {
      const [top, left, height, width] = [600 * random(), 600 * random(), 20 + 80 * random(), 20 + 80 * random()];
      list.set([top, left, top + height, left + width], i);
    }
    return list;
  });

/** @param {number} count @param {number} classes @param {number} best @param {number} [least] @returns {import('../case.mjs').Row} */
const suppression = (count, classes, best, least = 0.25) => [
  `${count} boxes, ${classes} classes`,
  'NonMaxSuppression',
  [boxes(count), feed('float32', [1, classes, count], (random, length) => Array.from({ length }, () => random() ** 4)), int(best), float(0.45), float(least)],
];

/** Mostly zeros. @param {number} share that is not @returns {import('../case.mjs').Source} */
const sparse = (share) => (random, count) => Array.from({ length: count }, () => (random() < share ? 1 : 0));

/** @param {string} name @param {number[]} shape @param {number} k @param {number} [axis] @param {Record<string, number>} [attributes] @returns {import('../case.mjs').Row} */
const best = (name, shape, k, axis = -1, attributes = {}) => [
  `${k} of ${name}`,
  'TopK',
  [feed('float32', shape, distinctFloats), ints(k)],
  { axis, ...attributes },
  { results: 2, isUnordered: attributes.sorted === 0 },
];

/** Numbers without ties. @type {import('../case.mjs').Source} */
const distinctFloats = (random, count) => {
  const places = /** @type {number[]} */ (permutation(random, count));
  return places.map((place) => (2 * place) / count - 1);
};

export const SELECTION = casesOf('selection', [
  best('1000', [1, 1000], 1),
  best('1000', [1, 1000], 5),
  best('151936', [1, 151936], 50),
  best('8400', [1, 8400], 300),
  best('67200', [1, 67200], 1000),
  best('672000', [1, 672000], 300),
  best('8400x80', [1, 8400, 80], 1),
  best('300x256 by column', [300, 256], 100, 0),
  best('64x256', [64, 256], 16),
  best('128x64 experts', [128, 64], 8),
  best('4096, which are all', [1, 4096], 4096),
  best('1000000', [1, 1_000_000], 100),
  best('16384 unsorted', [1, 16384], 512, -1, { sorted: 0 }),
  best('16384 smallest', [1, 16384], 128, -1, { largest: 0 }),
  ['100 of i64 8400', 'TopK', [feed('int64', [1, 8400], permutation), ints(100)], { axis: -1 }, { results: 2 }],
  ['100 of f16 2000', 'TopK', [feed('float16', [1, 2000], permutation), ints(100)], { axis: -1 }, { results: 2 }],
  ['half of 1000x1000', 'NonZero', [feed('float32', [1000, 1000], sparse(0.5))]],
  ['few of 8400x80', 'NonZero', [feed('float32', [8400, 80], sparse(0.001))]],
  ['bool few of 8400', 'NonZero', [feed('bool', [1, 8400], sparse(0.01))]],
  ['i64 512', 'NonZero', [feed('int64', [512], sparse(0.5))]],
  ['rows of 8400x85', 'Compress', [x(8400, 85), feed('bool', [8400], sparse(0.02))], { axis: 0 }],
  ['half of rows of 1000x64', 'Compress', [x(1000, 64), feed('bool', [1000], sparse(0.5))], { axis: 0 }],
  ['elements of 65536', 'Compress', [x(65536), feed('bool', [65536], sparse(0.5))]],
  ['sorted i64 64k', 'Unique', [feed('int64', [65536], [0, 999])], { sorted: 1 }, { results: 4 }],
  ['in order i64 4k', 'Unique', [feed('int64', [4096], [0, 999])], { sorted: 0 }, { results: 1 }],
  [
    'sorted f32 64k',
    'Unique',
    [feed('float32', [65536], (random, count) => Array.from({ length: count }, () => Math.floor(random() * 5000) / 16))],
    { sorted: 1 },
  ],
  suppression(1000, 1, 100),
  suppression(8400, 1, 300),
  suppression(8400, 80, 10, 0.5),
  suppression(300, 20, 20),
  suppression(100, 1, 100),
]);
