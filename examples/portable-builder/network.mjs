// A small convolutional network in two halves. Both functions take a builder, so they describe it for any context.

/** @typedef {import('webnn-node').MLGraphBuilder} Builder */
/** @typedef {import('webnn-node').MLOperand} MLOperand */
/** @typedef {{ dataType: 'float32', shape: number[] }} Descriptor */

/** @type {Record<'images' | 'features' | 'scores', Descriptor>} */
export const SHAPES = {
  images: { dataType: 'float32', shape: [1, 3, 96, 96] },
  features: { dataType: 'float32', shape: [1, 128] },
  scores: { dataType: 'float32', shape: [1, 10] },
};

/** Channels after each convolution. */
const CHANNELS = [32, 64, 128];

/**
 * The same numbers between -scale and scale each time, in place of a file of weights.
 * @param {number} length
 * @param {number} seed
 * @param {number} scale
 */
export function pseudoRandom(length, seed, scale) {
  let state = seed;
  return Float32Array.from({ length }, () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return (state / 2 ** 31 - 1) * scale;
  });
}

/**
 * First half: images to features.
 * @param {Builder} builder
 * @param {MLOperand} images
 * @returns {MLOperand}
 */
export function features(builder, images) {
  let x = images;
  CHANNELS.forEach((outputs, i) => {
    const shape = [outputs, x.shape[1], 3, 3];
    const fanIn = shape[1] * 9;
    const filter = builder.constant({ dataType: 'float32', shape }, pseudoRandom(outputs * fanIn, i + 1, Math.sqrt(6 / fanIn)));
    x = builder.relu(builder.conv2d(x, filter, { padding: [1, 1, 1, 1], strides: [2, 2], label: `convolution ${i}` }));
  });
  return builder.reshape(builder.averagePool2d(x), SHAPES.features.shape);
}

/**
 * Second half: features to scores. The version stands for the file that is read.
 * @param {Builder} builder
 * @param {MLOperand} input
 * @param {number} version
 */
export function classifier(builder, input, version) {
  const shape = [SHAPES.features.shape[1], SHAPES.scores.shape[1]];
  const matrix = builder.constant({ dataType: 'float32', shape }, pseudoRandom(shape[0] * shape[1], 100 + version, 1));
  return builder.softmax(builder.matmul(input, matrix), 1);
}
