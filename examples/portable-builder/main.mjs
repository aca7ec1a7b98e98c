// One network for any context: node.mjs runs this module in Node, index.html in browsers with WebNN.
//
// - The same functions build it on several contexts. Each is measured, and the fastest is used.
// - Its halves are joined in one graph, or are two graphs where the output of the first is the input of the second and never
//   leaves the device. The second half can then be replaced alone.
// - When the context is lost, the next one takes over.
import { classifier, features, pseudoRandom, SHAPES } from './network.mjs';

/** @typedef {{ name: string, options: import('webnn-node').MLContextOptions }} Candidate */
/** @typedef {Awaited<ReturnType<typeof openNetwork>>} Network on one context */

/** @type {Candidate[]} */
const CANDIDATES = [
  { name: 'accelerated', options: { accelerated: true, powerPreference: 'high-performance' } },
  { name: 'CPU', options: { accelerated: false } },
  { name: 'low power', options: { accelerated: false, powerPreference: 'low-power' } },
];

const RUNS = 10;

/** Scores of different devices may differ by this much, because they add in another order. */
const TOLERANCE = 1e-3;

/** Creates a context and builds the network on it. @param {Candidate} candidate */
async function openNetwork({ name, options }) {
  const context = await navigator.ml.createContext(options);

  // Both halves in one graph, ...
  const ofBoth = new MLGraphBuilder(context);
  const whole = await ofBoth.build({ scores: classifier(ofBoth, features(ofBoth, ofBoth.input('images', SHAPES.images)), 1) });
  // ... the first one alone, by the same function, and the second one, which can be replaced.
  const ofFirst = new MLGraphBuilder(context);
  const first = await ofFirst.build({ features: features(ofFirst, ofFirst.input('images', SHAPES.images)) });
  const buildSecond = (/** @type {number} */ version) => {
    const builder = new MLGraphBuilder(context);
    return builder.build({ scores: classifier(builder, builder.input('features', SHAPES.features), version) });
  };
  let second = await buildSecond(1);

  const images = await context.createTensor({ ...SHAPES.images, writable: true });
  // Neither readable nor writable: it stays on the device.
  const between = await context.createTensor(SHAPES.features);
  const scores = await context.createTensor({ ...SHAPES.scores, readable: true });
  const read = async () => new Float32Array(await context.readTensor(scores));

  return {
    name,
    context,
    /** @param {Float32Array<ArrayBuffer>} image */
    async run(image) {
      context.writeTensor(images, image);
      context.dispatch(whole, { images }, { scores });
      return read();
    },
    /** The same by two graphs in a row. @param {Float32Array<ArrayBuffer>} image */
    async runHalves(image) {
      context.writeTensor(images, image);
      context.dispatch(first, { images }, { features: between });
      context.dispatch(second, { features: between }, { scores });
      return read();
    },
    /** @param {number} version */
    async replaceClassifier(version) {
      second.destroy();
      second = await buildSecond(version);
    },
  };
}

/** Milliseconds of a run, the median of several. @param {Network} network @param {Float32Array<ArrayBuffer>} image */
async function measure(network, image) {
  const times = [];
  for (let i = 0; i < RUNS; i++) {
    const start = performance.now();
    await network.run(image);
    times.push(performance.now() - start);
  }
  return times.sort((a, b) => a - b)[RUNS >> 1];
}

const agree = (/** @type {Float32Array} */ a, /** @type {Float32Array} */ b) => a.every((score, i) => Math.abs(score - b[i]) <= TOLERANCE);
const bestClass = (/** @type {Float32Array} */ scores) => scores.indexOf(Math.max(...scores));

/**
 * @param {(line: string) => void} print what is the same on every machine
 * @param {(line: string) => void} remark what depends on the machine
 */
export async function main(print, remark) {
  const image = pseudoRandom(
    SHAPES.images.shape.reduce((product, size) => product * size),
    7,
    1,
  );
  const networks = await Promise.all(CANDIDATES.map(openNetwork));
  const expected = await networks[0].run(image);
  const timed = [];
  for (const network of networks) {
    print(`${network.name}: ${agree(await network.run(image), expected) ? 'the same' : 'OTHER'} scores`);
    const milliseconds = await measure(network, image);
    remark(`${network.name}: ${milliseconds.toFixed(2)} ms`);
    timed.push({ network, milliseconds });
  }
  const [chosen, next] = timed.sort((a, b) => a.milliseconds - b.milliseconds).map(({ network }) => network);
  remark(`chosen: ${chosen.name}, then ${next.name}`);
  print(`two graphs: ${agree(await chosen.runHalves(image), expected) ? 'the same' : 'OTHER'} scores`);

  await chosen.replaceClassifier(2);
  print(`another classifier: class ${bestClass(await chosen.runHalves(image))} in place of ${bestClass(expected)}`);

  // A device can be lost at any time; here, the context is destroyed.
  chosen.context.destroy();
  await chosen.context.lost;
  const scores = await chosen.run(image).catch(() => next.run(image));
  print(`after a loss: ${agree(scores, expected) ? 'the same' : 'OTHER'} scores`);
  networks.forEach(({ context }) => context.destroy());
}
