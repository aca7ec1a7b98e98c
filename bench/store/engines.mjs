// Loads a model in an engine, behind one interface.

import { createRequire } from 'node:module';
import { availableParallelism } from 'node:os';
import { pathToFileURL } from 'node:url';
import { MODELS, fileOf, ggufFile } from './models.mjs';

/**
 * @typedef {object} Opened
 * @property {() => Record<string, any>} feeds creates the inputs of a run: kept ones would count as memory of the model
 * @property {(feeds: Record<string, any>) => Promise<Uint8Array>} run returns the bytes of the output
 * @property {import('./types.d.mts').ModelMemory} [memory]
 */

const require = createRequire(new URL('../package.json', import.meta.url));

/** @param {import('./models.mjs').Feed} feed */
function elementsOf({ dataType, shape, value, below }) {
  const count = shape.reduce((product, size) => product * size, 1);
  if (dataType === 'float32') return new Float32Array(count).fill(value);
  return BigInt64Array.from({ length: count }, (_, i) => BigInt(below === undefined ? value : (value + i) % below));
}

/** @param {import('./models.mjs').ModelName} name @param {(data: any, feed: import('./models.mjs').Feed) => any} toTensor */
const feedsOf = (name, toTensor) => Object.fromEntries(Object.entries(MODELS[name].feeds).map(([key, feed]) => [key, toTensor(elementsOf(feed), feed)]));

const bytesOf = (/** @type {any} */ view) => new Uint8Array(view.buffer, view.byteOffset, view.byteLength);

/** @param {import('./types.d.mts').Choice} choice @returns {Promise<Opened>} */
async function ours({ model: name, cache, idle }) {
  const { loadModel } = await import('webnn-node/onnx');
  /** @type {any} */
  const options = { numThreads: availableParallelism(), ...(cache !== undefined && { cache }), ...(idle !== undefined && { idle }) };
  /** @type {any} */
  const model = await loadModel(fileOf(name), options);
  return {
    feeds: () => feedsOf(name, (data, { shape }) => ({ data, shape })),
    run: async (feeds) => bytesOf((await model.run(feeds))[MODELS[name].output].data),
    get memory() {
      return model.memory;
    },
  };
}

/** @param {import('./types.d.mts').Choice} choice @returns {Promise<Opened>} */
async function theirs({ model: name }) {
  const { InferenceSession, Tensor } = require('onnxruntime-node');
  const session = await InferenceSession.create(fileOf(name), { intraOpNumThreads: availableParallelism(), logSeverityLevel: 3 });
  return {
    feeds: () => feedsOf(name, (data, { dataType, shape }) => new Tensor(dataType, data, shape)),
    run: async (feeds) => bytesOf((await session.run(feeds))[MODELS[name].output].data),
  };
}

/** Its own modules, which Node finds from there. */
const LLAMA_IMPORTER = createRequire(new URL('../generate/package.json', import.meta.url));

const importLlama = () => import(pathToFileURL(LLAMA_IMPORTER.resolve('node-llama-cpp')).href);

/** Tokens that a text has room for. */
const CONTEXT = 512;

/** The weights of 4 bits as GGUF: each run is the next token of a text. @returns {Promise<Opened>} */
async function llamas() {
  const { getLlama, LlamaLogLevel } = await importLlama();
  const threads = availableParallelism();
  const llama = await getLlama({ gpu: false, build: 'never', skipDownload: true, maxThreads: threads, logLevel: LlamaLogLevel.error });
  const model = await llama.loadModel({ modelPath: ggufFile() });
  const context = await model.createContext({ contextSize: CONTEXT, threads });
  const sequence = context.getSequence();
  const text = sequence.evaluate([1], { temperature: 0, yieldEogToken: true });
  return {
    feeds: () => ({}),
    run: async () => Uint8Array.of((await text.next()).value & 255),
  };
}

const OPEN = { 'webnn-node': ours, 'onnxruntime-node': theirs, 'node-llama-cpp': llamas };

/** Imports an engine, which is no part of loading a model. @param {import('./types.d.mts').Engine} engine */
export async function prepare(engine) {
  if (engine === 'webnn-node') await import('webnn-node/onnx');
  if (engine === 'onnxruntime-node') require('onnxruntime-node');
  if (engine === 'node-llama-cpp') await importLlama();
}

/** @param {import('./types.d.mts').Choice} choice */
export const open = (choice) => OPEN[/** @type {keyof typeof OPEN} */ (choice.engine)](choice);
