// webnn-node as an engine, used as programs do: `loadModel()` and `run()`.

import { createRequire } from 'node:module';
import { median, sum } from 'd3-array';
import { ml } from 'webnn-node';
import { systemInfo } from 'webnn-node/inspect';
import { loadModel } from 'webnn-node/onnx';
import { compile } from '../compile.mjs';
import { feedsOf, shapesOf } from 'webnn-node-text/elements';
import { formatProcessor } from '../format.mjs';

/** Of a millisecond. */
const NANOSECONDS = 1e6;

/**
 * @param {import('./types.mjs').LoadParameters} parameters
 * @returns {Promise<import('./types.mjs').LoadedEngine>}
 */
export async function load({ model: file, inputs, outputs, threads, device = 'cpu', freeDimensions = {}, keepLast = {}, cache }) {
  const { version } = createRequire(import.meta.url)('webnn-node/package.json');
  const start = performance.now();
  const context = await ml.createContext({
    ...(device === 'gpu' && { powerPreference: 'high-performance' }),
    ...(threads !== undefined && { numThreads: threads }),
  });
  const model = await loadModel(file, { context, freeDimensions, keepLast, cache });
  const shapes = shapesOf(inputs ?? {});
  if (inputs !== undefined) await compile(model, shapes);
  const loadMs = performance.now() - start;

  const names = outputs ?? model.outputs.map(({ name }) => name);
  const feeds = feedsOf(inputs ?? {});
  const run = () => model.run(feeds);
  /** @type {(descriptors: Readonly<Record<string, import('webnn-node/onnx').OnnxDescriptor>>, usage: { readable?: boolean, writable?: boolean }) => Promise<Record<string, import('webnn-node').MLTensor>>} */
  const tensorsOf = async (descriptors, usage) => {
    const made = Object.entries(descriptors).map(
      async ([name, descriptor]) => /** @type {const} */ ([name, await context.createTensor({ ...descriptor, ...usage })]),
    );
    return Object.fromEntries(await Promise.all(made));
  };
  return {
    version,
    loadMs,
    run,
    async outputs(others) {
      const results = await model.run(others === undefined ? feeds : feedsOf(others));
      return names.map((name) => results[name]);
    },
    async processor() {
      const { graph, cuts } = await model.describe(shapes);
      const system = systemInfo();
      if (graph === null && cuts.length === 0) throw new Error('there is nothing to measure: no output of the model has any elements');
      if (device === 'gpu' && (graph === null ? system.gpuReason !== null : !graph.devices.includes(device)))
        throw new Error(`the GPU cannot be used: ${system.gpuReason}`);
      // A model that is cut before its first computation has no graph to describe.
      return formatProcessor(graph ?? { adapter: device === 'gpu' ? 'GPU' : null, isa: system.isa, threads: threads ?? system.threads });
    },
    async operators(runs) {
      const { cuts } = await model.describe(shapes);
      if (cuts.length > 0) return null;
      const times = [];
      for (let i = 0; i < runs; i++) {
        const { graphs, results } = await model.profile(feeds);
        // Results that are read leave their memory to the next run, as other engines' do.
        for (const name of names) results[name].data;
        times.push(sum(graphs, ({ steps }) => sum(steps, ({ duration }) => duration)) / NANOSECONDS);
      }
      return /** @type {number} */ (median(times));
    },
    async close() {
      model.destroy();
      context.destroy();
    },
    session: { feedsOf, run: (values) => model.run(values), tensorOf: (result) => result },
    commands: {
      /** Describes the compiled graph, see `describeGraph`. */
      async describe() {
        const { graph } = await model.describe(shapes);
        if (graph === null) throw new Error('no graph is compiled: no output of the model has any elements');
        return graph;
      },

      /** Returns the milliseconds that `count` dispatches take, waiting only for the last one. */
      async burst({ count }) {
        const compiled = await model.compile(shapes);
        const graph = /** @type {import('webnn-node').MLGraph} */ (compiled.graph);
        const from = await tensorsOf(compiled.inputs, { writable: true });
        const to = await tensorsOf(compiled.outputs, { readable: true });
        Object.entries(from).forEach(([name, tensor]) => context.writeTensor(tensor, feeds[name].data));
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
