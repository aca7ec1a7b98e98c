// The process of one engine: loads a model and runs it when the parent asks. Speaks with the parent in messages
// `{ id, command, ... }`, each of which is answered by `{ id, result }` or `{ id, error }`.
import { packTensors, unpackTensors } from '../elements.mjs';

const KIB = 1024;

/** Modules of the engines. */
const ENGINES = /** @type {Record<string, string>} */ ({
  'webnn-node': './webnn.mjs',
  'onnxruntime-node': './onnxruntime.mjs',
});

/**
 * @typedef {object} LoadedEngine
 * @property {string} version of the engine
 * @property {string} processor what computes: an instruction set and threads, an adapter, an execution provider
 * @property {number} loadMs time from the file to a model that can run, in milliseconds
 * @property {() => Promise<any>} run one inference; the result as the engine gives it
 * @property {(results: any) => import('../types.mjs').Tensors} tensorsOf
 *   a result in the form of this command line
 */

/** @type {LoadedEngine} */
let engine;

/** @type {Record<string, (parameters: any) => Promise<object>>} */
const commands = {
  async load({ name, options, inputs }) {
    const { load } = await import(ENGINES[name]);
    engine = await load(options, unpackTensors(inputs));
    return { version: engine.version, processor: engine.processor, loadMs: engine.loadMs, resident: process.memoryUsage.rss() };
  },

  /** Times of `count` runs one after another, in milliseconds. */
  async run({ count }) {
    const samples = new Float64Array(count);
    for (let i = 0; i < count; i++) {
      const start = performance.now();
      await engine.run();
      samples[i] = performance.now() - start;
    }
    return { samples };
  },

  async outputs() {
    return { tensors: packTensors(engine.tensorsOf(await engine.run())) };
  },

  /** Memory in bytes and CPU time in microseconds, of the life of this process. */
  async usage() {
    const { user, system } = process.cpuUsage();
    return { peak: process.resourceUsage().maxRSS * KIB, cpuMicroseconds: user + system };
  },
};

/** @param {object} reply */
const send = (reply) => process.send?.(reply);

process.on('message', async (/** @type {any} */ { id, command, ...parameters }) => {
  try {
    send({ id, result: await commands[command](parameters) });
  } catch (caught) {
    const error = /** @type {Error} */ (caught);
    send({ id, error: { message: error.message, stack: error.stack } });
  }
});

// The parent has ended: nobody waits for results.
process.on('disconnect', () => process.exit());
