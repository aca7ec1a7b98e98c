// How fast this machine runs the smallest graph, a matrix product and SqueezeNet through the public API: median and best
// of many runs, each a writeTensor, a dispatch and a readTensor. Other work on the machine shows in the distance between
// the two.
//
//   node bench/speed.mjs [THREADS ...]      default: 1 and 2

import { fileURLToPath } from 'node:url';
import { ml, MLGraphBuilder } from 'webnn-node';
import { readSafetensors } from '../examples/lib/safetensors.mjs';
import { INPUT, squeezenet } from '../examples/lib/squeezenet.mjs';

const WEIGHTS = fileURLToPath(new URL('../../shared/models/squeezenet1.0/weights.safetensors', import.meta.url));
const RUNS = 41;
const WARM_UP = 3;
const SMALL_RUNS = 10_001;

const elements = (shape) => shape.reduce((product, dimension) => product * dimension, 1);

/** Median and best time in milliseconds of a graph with one float32 input and one output. */
async function measure(numThreads, descriptor, build, runs = RUNS) {
  const context = await ml.createContext({ numThreads });
  const builder = new MLGraphBuilder(context);
  const y = build(builder, builder.input('x', descriptor));
  const graph = await builder.build({ y });
  const input = await context.createTensor({ ...descriptor, writable: true });
  const output = await context.createTensor({ dataType: y.dataType, shape: y.shape, readable: true });
  const data = Float32Array.from({ length: elements(descriptor.shape) }, (_, i) => Math.sin(i));
  const result = new Float32Array(elements(y.shape));
  const times = [];
  for (let run = -WARM_UP; run < runs; run++) {
    const start = performance.now();
    context.writeTensor(input, data);
    context.dispatch(graph, { x: input }, { y: output });
    await context.readTensor(output, result);
    if (run >= 0) {
      times.push(performance.now() - start);
    }
  }
  context.destroy();
  times.sort((a, b) => a - b);
  return { median: times[runs >> 1], best: times[0] };
}

const size = 1024;
const square = { dataType: 'float32', shape: [size, size] };
const { tensors } = await readSafetensors(WEIGHTS);
const threads = process.argv.length > 2 ? process.argv.slice(2).map(Number) : [1, 2];
for (const count of threads) {
  const add = await measure(count, { dataType: 'float32', shape: [1] }, (builder, x) => builder.add(x, x), SMALL_RUNS);
  const microseconds = (ms) => (ms * 1000).toFixed(1);
  console.log(`${count} threads, add of 1 element: ${microseconds(add.median)} us median, ${microseconds(add.best)} best`);
  const matmul = await measure(count, square, (builder, x) =>
    builder.matmul(x, builder.constant(square, new Float32Array(size * size).fill(0.5))),
  );
  const rate = (ms) => ((2 * size ** 3) / ms / 1e6).toFixed(0);
  console.log(`${count} threads, matmul ${size}: ${rate(matmul.median)} GFLOP/s median, ${rate(matmul.best)} best`);
  const network = await measure(count, INPUT, (builder, x) => squeezenet(builder, x, tensors));
  console.log(`${count} threads, SqueezeNet: ${network.median.toFixed(1)} ms median, ${network.best.toFixed(1)} best`);
}
