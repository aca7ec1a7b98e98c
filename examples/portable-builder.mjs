// One network for any context: a function that takes a builder describes it, and is called for each context.
//
//   node examples/portable-builder.mjs [--budget MS]
//
// - The same functions build on several contexts (accelerated, all threads of the CPU, one thread).
// - Each context is measured, and the fastest is used. If even that takes longer than the budget, a smaller network is.
// - The network is in two halves. They are joined in one graph, or are two graphs where the output of the first is the
//   input of the second and never leaves the device. The second half can then be replaced alone.
// - When the context is lost, the next one takes over.

import { parseArgs } from 'node:util';
import { ml, MLGraphBuilder } from 'webnn-node';

/** @typedef {import('webnn-node').MLOperand} MLOperand */
/** @typedef {{ name: string, options: import('webnn-node').MLContextOptions }} Candidate */

/** @type {Candidate[]} */
const CANDIDATES = [
  { name: 'accelerated', options: { accelerated: true, powerPreference: 'high-performance' } },
  { name: 'CPU', options: { accelerated: false } },
  { name: 'CPU, one thread', options: { accelerated: false, powerPreference: 'low-power', numThreads: 1 } },
];

/** Channels after each convolution. */
const NETWORKS = { large: [32, 64, 128], small: [8, 8, 16] };

const IMAGE_SHAPE = [1, 3, 96, 96];
const CLASSES = 10;
const RUNS = 10;

/** Scores of different devices may differ by this much, because they add in another order. */
const TOLERANCE = 1e-3;

/**
 * The same numbers between -scale and scale each time, in place of a file of weights.
 * @param {number} length
 * @param {number} seed
 * @param {number} scale
 */
function weights(length, seed, scale) {
  let state = seed;
  return Float32Array.from({ length }, () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return (state / 2 ** 31 - 1) * scale;
  });
}

/**
 * First half: images [1, 3, height, width] to features [1, channels].
 * @param {MLGraphBuilder} builder
 * @param {MLOperand} images
 * @param {number[]} channels
 */
function features(builder, images, channels) {
  let x = images;
  channels.forEach((outputs, i) => {
    const shape = [outputs, x.shape[1], 3, 3];
    const fanIn = shape[1] * 9;
    const filter = builder.constant(
      { dataType: 'float32', shape },
      weights(outputs * fanIn, i + 1, Math.sqrt(6 / fanIn)),
    );
    x = builder.relu(builder.conv2d(x, filter, { padding: [1, 1, 1, 1], strides: [2, 2], label: `convolution ${i}` }));
  });
  return builder.reshape(builder.averagePool2d(x), [1, x.shape[1]]);
}

/**
 * Second half: features [1, channels] to scores [1, classes]. The version stands for the file that is read.
 * @param {MLGraphBuilder} builder
 * @param {MLOperand} input
 * @param {number} version
 */
function classifier(builder, input, version) {
  const shape = [input.shape[1], CLASSES];
  const matrix = builder.constant({ dataType: 'float32', shape }, weights(shape[0] * CLASSES, 100 + version, 1));
  return builder.softmax(builder.matmul(input, matrix), 1);
}

const imageInput = (/** @type {MLGraphBuilder} */ builder) =>
  builder.input('images', { dataType: 'float32', shape: IMAGE_SHAPE });

/** @typedef {Awaited<ReturnType<typeof openNetwork>>} Network on one context */

/**
 * Creates a context and builds a network on it; rejects when it can do either not.
 * @param {Candidate} candidate
 * @param {number[]} channels
 */
async function openNetwork({ name, options }, channels) {
  const context = await ml.createContext(options);
  const featureShape = [1, channels[channels.length - 1]];

  // Both halves in one graph, ...
  const ofBoth = new MLGraphBuilder(context);
  const whole = await ofBoth.build({ scores: classifier(ofBoth, features(ofBoth, imageInput(ofBoth), channels), 1) });
  // ... and the first one alone, by the same function.
  const ofFirst = new MLGraphBuilder(context);
  const first = await ofFirst.build({ features: features(ofFirst, imageInput(ofFirst), channels) });
  // The second one can be replaced.
  let second = await buildSecond(1);

  const images = await context.createTensor({ dataType: 'float32', shape: IMAGE_SHAPE, writable: true });
  // Neither readable nor writable: it stays on the device.
  const between = await context.createTensor({ dataType: 'float32', shape: featureShape });
  const scores = await context.createTensor({ dataType: 'float32', shape: [1, CLASSES], readable: true });

  /** @param {number} version */
  function buildSecond(version) {
    const builder = new MLGraphBuilder(context);
    const input = builder.input('features', { dataType: 'float32', shape: featureShape });
    return builder.build({ scores: classifier(builder, input, version) });
  }

  /**
   * Builds the second half anew; the first is left as it is.
   * @param {number} version
   */
  async function replaceClassifier(version) {
    second.destroy();
    second = await buildSecond(version);
  }

  /**
   * Scores of an image by the graph of both halves.
   * @param {Float32Array} image
   */
  async function run(image) {
    context.writeTensor(images, image);
    context.dispatch(whole, { images }, { scores });
    return new Float32Array(await context.readTensor(scores));
  }

  /**
   * The same by two graphs in a row.
   * @param {Float32Array} image
   */
  async function runHalves(image) {
    context.writeTensor(images, image);
    context.dispatch(first, { images }, { features: between });
    context.dispatch(second, { features: between }, { scores });
    return new Float32Array(await context.readTensor(scores));
  }

  /**
   * Milliseconds of one run: the median of several, after one that warms up.
   * @param {Float32Array} image
   */
  async function measure(image) {
    await run(image);
    const times = [];
    for (let i = 0; i < RUNS; i++) {
      const start = performance.now();
      await run(image);
      times.push(performance.now() - start);
    }
    return times.sort((a, b) => a - b)[RUNS >> 1];
  }

  // The time of a run is measured later.
  return { name, context, milliseconds: Infinity, replaceClassifier, run, runHalves, measure };
}

/**
 * Opens a network on each context that can be had; those that cannot are told on the console.
 * @param {Candidate[]} candidates
 * @param {number[]} channels
 */
async function openAll(candidates, channels) {
  /** @type {Network[]} */
  const networks = [];
  for (const candidate of candidates) {
    try {
      networks.push(await openNetwork(candidate, channels));
    } catch (error) {
      console.log(`${candidate.name}: not usable: ${/** @type {Error} */ (error).message}`);
    }
  }
  return networks;
}

/**
 * The largest difference of scores.
 * @param {Float32Array} a
 * @param {Float32Array} b
 */
function difference(a, b) {
  return a.reduce((largest, score, i) => Math.max(largest, Math.abs(score - b[i])), 0);
}

/**
 * Runs the first of some networks whose context is not lost; its name and the scores.
 * @param {Network[]} networks
 * @param {Float32Array} image
 */
async function runOnAny(networks, image) {
  for (const network of networks) {
    try {
      return { name: network.name, scores: await network.run(image) };
    } catch (error) {
      console.log(`${network.name} cannot go on: ${/** @type {Error} */ (error).message}`);
    }
  }
  throw new Error('none of the contexts is left');
}

const shown = (/** @type {number} */ number) => number.toExponential(1);

const bestClass = (/** @type {Float32Array} */ scores) => scores.indexOf(Math.max(...scores));

const { values } = parseArgs({ options: { budget: { type: 'string', default: '1000' } } });
const budget = Number(values.budget);
if (!(budget >= 0)) {
  throw new TypeError(`--budget is ${values.budget}, expected milliseconds`);
}
const image = weights(
  IMAGE_SHAPE.reduce((product, size) => product * size),
  7,
  1,
);

// One description, several contexts; all must agree.
const networks = await openAll(CANDIDATES, NETWORKS.large);
if (networks.length === 0) {
  throw new Error('none of the contexts is usable');
}
const expected = await networks[0].run(image);
for (const network of networks) {
  network.milliseconds = await network.measure(image);
  const off = difference(await network.run(image), expected);
  console.log(
    `${network.name}: ${network.milliseconds.toFixed(2)} ms, ` +
      `accelerated ${network.context.accelerated}, off by ${shown(off)}`,
  );
  if (off > TOLERANCE) {
    throw new Error(`${network.name} computes other scores than ${networks[0].name}`);
  }
}

// The fastest first, and a smaller network where that is still too slow.
networks.sort((a, b) => a.milliseconds - b.milliseconds);
const isFastEnough = networks[0].milliseconds <= budget;
console.log(`chosen: ${networks[0].name}, ${isFastEnough ? 'large' : 'small'} network for a budget of ${budget} ms`);
const order = networks.flatMap(({ name }) => CANDIDATES.filter((candidate) => candidate.name === name));
const usable = isFastEnough ? networks : await openAll(order, NETWORKS.small);
const [chosen, ...others] = usable;

// Two graphs in place of one.
const scores = await chosen.run(image);
console.log(`two graphs: off by ${shown(difference(await chosen.runHalves(image), scores))}`);

// Another second half.
await chosen.replaceClassifier(2);
const replaced = await chosen.runHalves(image);
console.log(
  `new classifier: scores off by ${shown(difference(replaced, scores))}, ` +
    `class ${bestClass(replaced)} in place of ${bestClass(scores)}`,
);

// The context is lost (here, because it is destroyed): the next one goes on.
chosen.context.lost.then(({ message }) => console.log(`${chosen.name} is lost: ${message}`));
chosen.context.destroy();
const next = await runOnAny([chosen, ...others], image);
console.log(`${next.name} went on: off by ${shown(difference(next.scores, scores))}`);
usable.forEach(({ context }) => context.destroy());
networks.forEach(({ context }) => context.destroy());
