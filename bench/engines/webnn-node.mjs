// This package as an engine of the benchmark, as users run models: `loadModel()` and `run()`. Its modules are named by path, because the package.json of this folder hides their package from Node.

import { createRequire } from 'node:module';
import { feedsOf, shapesOf } from 'webnn-node-cli/lib/elements.mjs';
import { ml } from '../../index.js';
import { describeGraph } from '../../inspect.js';
import { loadModel } from '../../onnx.js';

/**
 * @param {import('../types.mjs').LoadParameters} parameters
 * @returns {Promise<import('../types.mjs').LoadedEngine>}
 */
export async function load({ model: file, inputs, outputs, threads, device = 'cpu' }) {
  const { version } = createRequire(import.meta.url)('../../package.json');
  const start = performance.now();
  const context = await ml.createContext({ numThreads: threads, accelerated: device === 'gpu' });
  const model = await loadModel(file, { context });
  const compiled = await model.compile(shapesOf(inputs));
  const loadMs = performance.now() - start;

  const graph = /** @type {import('../../index.js').MLGraph} */ (compiled.graph);
  const feeds = feedsOf(inputs);
  const run = () => model.run(feeds);
  /** @type {(descriptors: typeof compiled.inputs, usage: { readable?: boolean, writable?: boolean }) => Promise<Record<string, import('../../index.js').MLTensor>>} */
  const tensorsOf = async (descriptors, usage) => {
    const made = Object.entries(descriptors).map(async ([name, descriptor]) => /** @type {const} */ ([name, await context.createTensor({ ...descriptor, ...usage })]));
    return Object.fromEntries(await Promise.all(made));
  };
  return {
    version,
    loadMs,
    run,
    async outputs() {
      const results = await run();
      return outputs.map((name) => results[name]);
    },
    commands: {
      /** What the compiled graph is: see `describeGraph`. */
      describe: async () => describeGraph(graph),

      /** Milliseconds of `count` dispatches of which only the last is waited for. */
      async burst({ count }) {
        const from = await tensorsOf(compiled.inputs, { writable: true });
        const to = await tensorsOf(compiled.outputs, { readable: true });
        Object.entries(from).forEach(([name, tensor]) => context.writeTensor(tensor, inputs[name].data));
        const [last] = Object.values(to);
        await context.readTensor(last);
        const begin = performance.now();
        for (let i = 0; i < count; i++) {
          context.dispatch(graph, from, to);
        }
        const queued = performance.now() - begin;
        await context.readTensor(last);
        return { ms: performance.now() - begin, queuedMs: queued };
      },
    },
  };
}
