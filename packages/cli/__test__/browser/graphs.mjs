// Graphs to look at, built and profiled by webnn-node. Weights are noise: only shapes and names matter here.

import { ml, MLGraphBuilder } from 'webnn-node';
import { describeGraph, profileGraph } from 'webnn-node/inspect';
import { INPUT, OUTPUT, squeezenet } from '../../../../__test__/models/squeezenet.mjs';

/** A label that would end the script element, were it markup. */
export const HOSTILE = '</script><img src=x onerror=alert(1)>';

const RUNS = 5;

/** Small values that differ from each other. */
const noise = (count) => Float32Array.from({ length: count }, (_, i) => Math.sin(i) / 16);
const product = (shape) => shape.reduce((total, length) => total * length, 1);
const constant = (builder, ...shape) => builder.constant({ dataType: 'float32', shape }, noise(product(shape)));

/** Builds a graph of one input and one output, runs it, and takes the times. */
async function profileOf(input, output, build) {
  const context = await ml.createContext();
  const builder = new MLGraphBuilder(context);
  const graph = await builder.build({ y: build(builder, builder.input('x', input)) });
  const x = await context.createTensor({ ...input, writable: true });
  const y = await context.createTensor({ ...output, readable: true });
  context.writeTensor(x, noise(product(input.shape)));
  const profile = await profileGraph(context, graph, { x }, { y }, { runs: RUNS, warmup: 1 });
  context.destroy();
  return profile;
}

/** Channels of SqueezeNet's layers: a squeeze layer and both expansions of each fire module. */
const FIRES = {
  fire2: [96, 16, 64],
  fire3: [128, 16, 64],
  fire4: [128, 32, 128],
  fire5: [256, 32, 128],
  fire6: [256, 48, 192],
  fire7: [384, 48, 192],
  fire8: [384, 64, 256],
  fire9: [512, 64, 256],
};

/** Shapes of SqueezeNet's weights by their names. @returns {[string, number[]][]} */
function squeezenetShapes() {
  /** @returns {[string, number[]][]} */
  const convolution = (name, out, channels, side) => [
    [`${name}.weight`, [out, channels, side, side]],
    [`${name}.bias`, [out]],
  ];
  const fires = Object.entries(FIRES).flatMap(([name, [channels, squeezed, expanded]]) => [
    ...convolution(`${name}_squeeze`, squeezed, channels, 1),
    ...convolution(`${name}_e1x1`, expanded, squeezed, 1),
    ...convolution(`${name}_e3x3`, expanded, squeezed, 3),
  ]);
  return [...convolution('conv1', 96, 3, 7), ...fires, ...convolution('conv10', 1001, 512, 1)];
}

/** SqueezeNet 1.0 with its real shapes and labels. */
export function profileSqueezenet() {
  const tensors = squeezenetShapes().map(([name, shape]) => {
    const values = noise(product(shape));
    return /** @type {[string, any]} */ ([name, { descriptor: { dataType: 'float32', shape }, bytes: new Uint8Array(values.buffer) }]);
  });
  return profileOf(INPUT, OUTPUT, (builder, image) => squeezenet(builder, image, new Map(tensors)));
}

/** A block of everything that the page has to show: what is folded, fused, a view, with several results, far away. */
export function profileSmallGraph() {
  const shape = [8, 32];
  return profileOf({ dataType: 'float32', shape }, { dataType: 'float32', shape }, (builder, x) => {
    const scale = builder.sqrt(builder.constant('float32', 4), { label: 'scale/folded' });
    let h = x;
    for (let layer = 0; layer < 4; layer++) {
      const label = (name) => ({ label: `layer.${layer}/${name}` });
      const product = builder.matmul(h, constant(builder, 32, 32), label('dense'));
      const [a, b] = builder.split(builder.relu(product, label('activation')), 2, { axis: 1, ...label('halves') });
      const turned = builder.reshape(builder.concat([b, a], 1, label('swap')), [32, 8], label('turn'));
      const back = builder.reshape(builder.softmax(turned, 1, label('weights')), shape, label('back'));
      h = builder.add(builder.mul(builder.exp(builder.neg(back, label('neg')), label('exp')), scale, label('scale')), h, label('residual'));
    }
    return builder.softmax(builder.add(h, x, { label: HOSTILE }), 1, { label: 'probabilities' });
  });
}

/** A short chain beside something so wide that the middle of the drawing is far from the chain. */
export async function describeWideGraph() {
  const context = await ml.createContext();
  const builder = new MLGraphBuilder(context);
  const [x, wide] = ['x', 'wide'].map((name) => builder.input(name, { dataType: 'float32', shape: [4] }));
  const branches = Array.from({ length: 40 }, (_, i) => [`branch${i}`, builder.pow(wide, builder.constant('float32', i + 3), { label: `branch ${i}` })]);
  const graph = await builder.build({ y: builder.sin(builder.cos(x)), ...Object.fromEntries(branches) });
  const description = describeGraph(graph);
  context.destroy();
  return description;
}
