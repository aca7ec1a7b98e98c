// Networks that classify pictures, find objects and text in them, and cut out what is in front. Layer shapes are those of the networks that they are
// named for; operators are those that their exporters write: PyTorch's folds batch normalizations, Paddle's keeps them.

import { extentOf, Layers, RELU_GAIN, SWISH_GAIN } from './layers.mjs';

/** @typedef {import('./network.mjs').Tensor} Tensor */

const CLASSES = 1000;

/** Per stage: expansion, channels, blocks, stride. */
const MOBILENET_V2 = [
  [1, 16, 1, 1],
  [6, 24, 2, 2],
  [6, 32, 3, 2],
  [6, 64, 4, 2],
  [6, 96, 3, 1],
  [6, 160, 3, 2],
  [6, 320, 1, 1],
];

export function mobilenetV2() {
  const n = new Layers('mobilenet_v2');
  let x = n.clip6(n.conv(n.picture('input', 224), 32, 3, { stride: 2 }));
  for (const [expansion, channels, blocks, firstStride] of MOBILENET_V2) {
    for (let block = 0; block < blocks; block++) {
      const [stride, wide] = [block === 0 ? firstStride : 1, extentOf(x, 1) * expansion];
      const isResidual = stride === 1 && extentOf(x, 1) === channels;
      let y = expansion === 1 ? x : n.clip6(n.conv(x, wide, 1));
      y = n.clip6(n.conv(y, wide, 3, { stride, groups: wide }));
      y = n.conv(y, channels, 1, { gain: isResidual ? 0.6 : 1 });
      x = isResidual ? n.add(x, y) : y;
    }
  }
  x = n.pooled(n.clip6(n.conv(x, 1280, 1)));
  n.output(n.gemm(x, CLASSES, { gain: 1.5 }), 'logits');
  return n;
}

/** Per stage: channels within its blocks, blocks. */
export const RESNET_50 = [
  [64, 3],
  [128, 4],
  [256, 6],
  [512, 3],
];

export function resnet50() {
  const n = new Layers('resnet50');
  let x = n.relu(n.conv(n.picture('input', 224), 64, 7, { stride: 2 }));
  x = n.maxPool(x, 3, { stride: 2, pad: 1 });
  for (const [stage, [channels, blocks]] of RESNET_50.entries()) {
    for (let block = 0; block < blocks; block++) {
      const stride = stage > 0 && block === 0 ? 2 : 1;
      let y = n.relu(n.conv(x, channels, 1));
      y = n.relu(n.conv(y, channels, 3, { stride }));
      y = n.conv(y, 4 * channels, 1, { gain: 0.6 });
      if (block === 0) x = n.conv(x, 4 * channels, 1, { stride, gain: 1 });
      x = n.relu(n.add(y, x));
    }
  }
  n.output(n.gemm(n.pooled(x), CLASSES, { gain: 1.5 }), 'logits');
  return n;
}

/** Per stage: expansion, channels, blocks, stride, extent of the filters. */
const EFFICIENTNET_B0 = [
  [1, 16, 1, 1, 3],
  [6, 24, 2, 2, 3],
  [6, 40, 2, 2, 5],
  [6, 80, 3, 2, 3],
  [6, 112, 3, 1, 5],
  [6, 192, 4, 2, 5],
  [6, 320, 1, 1, 3],
];

/** Squeeze-and-excite in every block. */
export function efficientnetB0() {
  const n = new Layers('efficientnet_b0');
  const convSilu = (/** @type {Tensor} */ x, /** @type {number} */ channels, /** @type {number} */ filter, options = {}) =>
    n.silu(n.conv(x, channels, filter, { gain: 1, ...options }));
  let x = convSilu(n.picture('input', 224), 32, 3, { stride: 2 });
  for (const [expansion, channels, blocks, firstStride, filter] of EFFICIENTNET_B0) {
    for (let block = 0; block < blocks; block++) {
      const [stride, narrow] = [block === 0 ? firstStride : 1, extentOf(x, 1)];
      const wide = narrow * expansion;
      const isResidual = stride === 1 && narrow === channels;
      let y = expansion === 1 ? x : convSilu(x, wide, 1);
      y = convSilu(y, wide, filter, { gain: SWISH_GAIN, stride, groups: wide });
      const squeezed = convSilu(n.globalPool(y), narrow / 4, 1, { gain: 3 });
      const excited = n.sigmoid(n.conv(squeezed, wide, 1, { gain: 3 }));
      y = n.conv(n.multiply(y, excited), channels, 1, { gain: isResidual ? SWISH_GAIN : 1.6 * SWISH_GAIN });
      x = isResidual ? n.add(y, x) : y;
    }
  }
  x = n.pooled(convSilu(x, 1280, 1));
  n.output(n.gemm(x, CLASSES, { gain: 3 }), 'logits');
  return n;
}

/** YOLOv8n at 416x416 with its decoder: boxes and 80 scores for each of 3549 places. */
export function yolov8n() {
  const [side, bins, classes] = [416, 16, 80];
  // With this seed, few activations are so large that their sigmoid is 0.
  const n = new Layers('yolov8n at 416x416');
  const conv = (/** @type {Tensor} */ x, /** @type {number} */ channels, /** @type {number} */ filter, stride = 1) =>
    n.silu(n.conv(x, channels, filter, { stride, gain: SWISH_GAIN }));
  const down = (/** @type {Tensor} */ x, /** @type {number} */ channels) => conv(x, channels, 3, 2);
  const twice = (/** @type {Tensor} */ x) => n.enlarge(x, 2, { cubic_coeff_a: -0.75 });

  /** Convolutions in a row; the output has the results of all of them. */
  const block = (/** @type {Tensor} */ x, /** @type {number} */ channels, { repeats = 1, shortcut = false } = {}) => {
    const parts = n.split(conv(x, channels, 1), [channels / 2, channels / 2], 1);
    for (let i = 0; i < repeats; i++) {
      const last = parts[parts.length - 1];
      const y = conv(conv(last, channels / 2, 3), channels / 2, 3);
      parts.push(shortcut ? n.add(last, y) : y);
    }
    return conv(n.concat(parts, 1), channels, 1);
  };

  const pools = (/** @type {Tensor} */ x, /** @type {number} */ channels) => {
    const parts = [conv(x, channels / 2, 1)];
    for (let i = 0; i < 3; i++) parts.push(n.maxPool(parts[i], 5, { stride: 1, pad: 2 }));
    return conv(n.concat(parts, 1), channels, 1);
  };

  const shallow = block(down(down(n.picture('images', side), 16), 32), 32, { shortcut: true });
  const fine = block(down(shallow, 64), 64, { repeats: 2, shortcut: true });
  const middle = block(down(fine, 128), 128, { repeats: 2, shortcut: true });
  const coarse = pools(block(down(middle, 256), 256, { shortcut: true }), 256);
  const upper = block(n.concat([twice(coarse), middle], 1), 128);
  const finest = block(n.concat([twice(upper), fine], 1), 64);
  const lower = block(n.concat([down(finest, 64), upper], 1), 128);
  const lowest = block(n.concat([down(lower, 128), coarse], 1), 256);

  const levels = [finest, lower, lowest].map((level) => {
    let [box, scores] = [level, level];
    for (let i = 0; i < 2; i++) {
      box = conv(box, 4 * bins, 3);
      scores = conv(scores, classes, 3);
    }
    box = n.conv(box, 4 * bins, 1, { gain: 0.25 });
    scores = n.conv(scores, classes, 1, { gain: 0.5 });
    return n.reshape(n.concat([box, scores], 1), 1, 4 * bins + classes, -1);
  });
  const grids = [8, 16, 32].map((stride) => ({ stride, count: side / stride }));
  const places = grids.flatMap(({ stride, count }) =>
    Array.from({ length: count * count }, (_, at) => ({ stride, x: (at % count) + 0.5, y: Math.floor(at / count) + 0.5 })),
  );
  const all = n.concat(levels, 2);
  const [distances, scores] = n.split(all, [4 * bins, classes], 1);

  // Each side of a box is a mean of 16 distances.
  const chances = n.softmax(n.transpose(n.reshape(distances, 1, 4, bins, places.length), 0, 2, 1, 3), 1);
  const steps = n.constant(
    Array.from({ length: bins }, (_, i) => i),
    [1, bins, 1, 1],
  );
  const mean = n.node('Conv', [chances, steps], { kernel_shape: [1, 1] }, [1, 1, 4, places.length]);
  const sides = n.reshape(mean, 1, 4, places.length);
  const cut = (/** @type {number} */ from) => {
    const [first, end, axis] = [from, from + 2, 1].map((at) => n.integers([at]));
    return n.node('Slice', [sides, first, end, axis], {}, [1, 2, places.length]);
  };
  const [leftTop, rightBottom] = [cut(0), cut(2)];
  const centers = n.constant([...places.map((place) => place.x), ...places.map((place) => place.y)], [1, 2, places.length]);
  const [low, high] = [n.subtract(centers, leftTop), n.add(centers, rightBottom)];
  const center = n.divide(n.add(low, high), n.constant(2));
  const strides = n.constant(
    places.map(({ stride }) => stride),
    [1, places.length],
  );
  const boxes = n.multiply(n.concat([center, n.subtract(high, low)], 1), strides);
  n.output(n.concat([boxes, n.sigmoid(scores)], 1), 'output0');
  return n;
}

/** MobileNetV3 large at half width, per block: extent of the filters, expanded channels, channels, hard-swish, stride. */
const MOBILENET_V3_HALF = /** @type {const} */ ([
  [3, 8, 8, false, 1],
  [3, 32, 16, false, 2],
  [3, 40, 16, false, 1],
  [5, 40, 24, false, 2],
  [5, 64, 24, false, 1],
  [5, 64, 24, false, 1],
  [3, 120, 40, true, 2],
  [3, 104, 40, true, 1],
  [3, 96, 40, true, 1],
  [3, 96, 40, true, 1],
  [3, 240, 56, true, 1],
  [3, 336, 56, true, 1],
  [5, 336, 80, true, 2],
  [5, 480, 80, true, 1],
  [5, 480, 80, true, 1],
]);

/** DBNet as PP-OCR has it: MobileNetV3 without squeeze-and-excite, a feature pyramid, and a head of two transposed convolutions. */
export function textDetector() {
  const n = new Layers('text_detector');
  const convNorm = (/** @type {Tensor} */ x, /** @type {number} */ channels, /** @type {number} */ filter, options = {}) =>
    n.batchNorm(n.conv(x, channels, filter, { bias: false, ...options }));

  /** Doubles both extents: no pixel of the result has more than one element of the filter. */
  const transposed = (/** @type {Tensor} */ x, /** @type {number} */ channels, /** @type {number} */ gain) => {
    const [, depth, ...size] = /** @type {number[]} */ (x.shape);
    const attributes = { kernel_shape: [2, 2], strides: [2, 2], pads: [0, 0, 0, 0], dilations: [1, 1], group: 1 };
    const shape = [1, channels, ...size.map((extent) => 2 * extent)];
    const y = n.node('ConvTranspose', [x, n.weight([depth, channels, 2, 2], gain / Math.sqrt(depth))], attributes, shape);
    return n.add(y, n.weight([1, channels, 1, 1], 0.1));
  };

  let x = n.hardSwish(convNorm(n.picture('x', 640), 8, 3, { stride: 2 }));
  const stages = [];
  for (const [i, [filter, wide, channels, isSwish, stride]] of MOBILENET_V3_HALF.entries()) {
    if (stride === 2 && i > 1) stages.push(x);
    const gain = isSwish ? SWISH_GAIN : RELU_GAIN;
    const isResidual = stride === 1 && extentOf(x, 1) === channels;
    const activation = (/** @type {Tensor} */ y) => (isSwish ? n.hardSwish(y) : n.relu(y));
    let y = activation(convNorm(x, wide, 1, { gain: 1 }));
    y = activation(convNorm(y, wide, filter, { gain, stride, groups: wide }));
    y = convNorm(y, channels, 1, { gain: isResidual ? 0.4 * gain : 1 });
    x = isResidual ? n.add(x, y) : y;
  }
  stages.push(n.hardSwish(convNorm(x, 480, 1)));

  // The coarsest first, each with what is coarser added.
  /** @type {Tensor[]} */
  const levels = [];
  for (const stage of stages.reverse()) {
    const level = n.conv(stage, 96, 1, { bias: false, gain: 1 });
    const coarser = levels.at(-1);
    levels.push(coarser === undefined ? level : n.add(level, n.enlarge(coarser, 2)));
  }
  const parts = levels.map((level) => n.conv(level, 24, 3, { bias: false, gain: 1 }));
  const finest = parts.length - 1;
  x = n.concat(
    parts.map((part, i) => (i < finest ? n.enlarge(part, 2 ** (finest - i)) : part)),
    1,
  );
  x = n.relu(convNorm(x, 24, 3));
  x = n.relu(n.batchNorm(transposed(x, 24, RELU_GAIN)));
  n.output(n.sigmoid(transposed(x, 1, 0.5)), 'sigmoid_0.tmp_0');
  return n;
}

/** Depth of the nested U of each stage on the way down; those without one have dilations in place of pooling. */
const U2NET_STAGES = [7, 6, 5, 4, undefined, undefined];

/** U2-Net, small, at 320x320: U-shaped networks of 16 channels nested in one of 64, with seven masks. */
export function u2netp() {
  const [side, narrow, wide] = [320, 16, 64];
  const n = new Layers('u2netp');
  const conv = (/** @type {Tensor} */ x, channels = narrow, { dilation = 1, gain = RELU_GAIN } = {}) =>
    n.relu(n.conv(x, channels, 3, { pad: dilation, dilation, gain }));
  const pool = (/** @type {Tensor} */ x) => n.maxPool(x, 2, { stride: 2, ceil: true });

  const like = (/** @type {Tensor} */ x, /** @type {number[]} */ size) => {
    const attributes = { mode: 'linear', nearest_mode: 'floor', coordinate_transformation_mode: 'pytorch_half_pixel', cubic_coeff_a: -0.75 };
    const shape = [1, extentOf(x, 1), ...size];
    return n.node('Resize', [x, undefined, undefined, n.integers(shape)], attributes, shape);
  };
  const sizeOf = (/** @type {Tensor} */ x) => /** @type {number[]} */ (x.shape.slice(2));

  /** Convolutions and pooling down, and the same up. */
  const nested = (/** @type {Tensor} */ first, /** @type {number} */ depth) => {
    const skips = [conv(first)];
    for (let i = 2; i < depth; i++) skips.push(conv(pool(skips[i - 2])));
    let x = conv(skips[depth - 2], narrow, { dilation: 2 });
    for (const skip of skips.reverse()) {
      if (extentOf(x, 2) !== extentOf(skip, 2)) x = like(x, sizeOf(skip));
      x = conv(n.concat([x, skip], 1), skip === skips.at(-1) ? wide : narrow);
    }
    return x;
  };

  const dilated = (/** @type {Tensor} */ first) => {
    const a = conv(first);
    const b = conv(a, narrow, { dilation: 2 });
    const c = conv(b, narrow, { dilation: 4 });
    let x = conv(c, narrow, { dilation: 8 });
    x = conv(n.concat([x, c], 1), narrow, { dilation: 4 });
    x = conv(n.concat([x, b], 1), narrow, { dilation: 2 });
    return conv(n.concat([x, a], 1), wide);
  };

  const stage = (/** @type {Tensor} */ x, /** @type {number | undefined} */ depth) => {
    const first = conv(x, wide, { gain: 1 });
    return n.add(depth === undefined ? dilated(first) : nested(first, depth), first);
  };

  let x = n.picture('input.1', side);
  /** @type {Tensor[]} */
  const skips = [];
  for (const [i, depth] of U2NET_STAGES.entries()) {
    x = stage(i === 0 ? x : pool(x), depth);
    skips.push(x);
  }
  const results = [skips.pop()];
  for (const skip of skips.toReversed()) {
    x = stage(n.concat([like(x, sizeOf(skip)), skip], 1), U2NET_STAGES[skips.indexOf(skip)]);
    results.push(x);
  }
  const masks = results.reverse().map((result, i) => {
    const mask = n.conv(/** @type {Tensor} */ (result), 1, 3, { gain: 0.5 });
    return i === 0 ? mask : like(mask, [side, side]);
  });
  const fused = n.conv(n.concat(masks, 1), 1, 1, { gain: 1 });
  for (const [i, mask] of [fused, ...masks].entries()) n.output(n.sigmoid(mask), `d${i}`);
  return n;
}
