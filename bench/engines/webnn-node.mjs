// This package as an engine of the benchmark: the public API, with tensors that are kept between runs. Its modules are
// named by path, because the package.json of this folder hides their package from Node.

import { createRequire } from 'node:module';
import { ml } from '../../index.js';
import { describeGraph } from '../../inspect.js';
import { loadModel } from '../../onnx.js';
import { arrayOf, elementCount } from '../../cli/elements.mjs';

/** See `LoadedEngine` of serve.mjs. */
export async function load({ model: file, inputs, outputs, threads, device = 'cpu' }) {
  const { version } = createRequire(import.meta.url)('../../package.json');
  const start = performance.now();
  const context = await ml.createContext({ numThreads: threads, accelerated: device === 'gpu' });
  const model = await loadModel(file, { context });
  const compiled = await model.compile(Object.fromEntries(Object.entries(inputs).map(([name, { shape }]) => [name, shape])));
  const feeds = {};
  for (const [name, descriptor] of Object.entries(compiled.inputs)) {
    feeds[name] = await context.createTensor({ ...descriptor, writable: true });
  }
  const fetches = {};
  for (const name of outputs) {
    fetches[name] = await context.createTensor({ ...compiled.outputs[name], readable: true });
  }
  const loadMs = performance.now() - start;

  const { graph } = compiled;
  const written = Object.entries(feeds).map(([name, tensor]) => [tensor, inputs[name].data]);
  const read = outputs.map((name) => {
    const { dataType, shape } = compiled.outputs[name];
    return { tensor: fetches[name], dataType, shape, data: arrayOf(dataType, elementCount(shape)) };
  });
  const [{ tensor: onlyTensor, data: onlyData }] = read;
  const write = () => {
    for (const [tensor, data] of written) {
      context.writeTensor(tensor, data);
    }
  };
  const runMany = () => {
    write();
    context.dispatch(graph, feeds, fetches);
    return Promise.all(read.map(({ tensor, data }) => context.readTensor(tensor, data)));
  };
  const runOne = () => {
    write();
    context.dispatch(graph, feeds, fetches);
    return context.readTensor(onlyTensor, onlyData);
  };
  const run = read.length === 1 ? runOne : runMany;
  return {
    version,
    loadMs,
    run,
    async outputs() {
      await run();
      return read;
    },
    commands: {
      /** What the compiled graph is: see `describeGraph`. */
      describe: async () => describeGraph(graph),

      /** Milliseconds of `count` dispatches of which only the last is waited for. */
      async burst({ count }) {
        const begin = performance.now();
        for (let i = 0; i < count; i++) {
          context.dispatch(graph, feeds, fetches);
        }
        const queued = performance.now() - begin;
        await context.readTensor(onlyTensor, onlyData);
        return { ms: performance.now() - begin, queuedMs: queued };
      },
    },
  };
}
