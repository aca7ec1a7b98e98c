// onnxruntime-web on `webnn-node/auto`, onnxruntime-node beside it, and what the tests watch while they run.

import '../../../auto.js';
import { createRequire } from 'node:module';
import * as ort from 'onnxruntime-web/webgpu';
import { numbersOf } from 'webnn-node-text/elements';

export { ort };

/**
 * onnxruntime-node. Where there is Float16Array, it makes such arrays of float16 tensors and then cannot read them
 * (https://github.com/microsoft/onnxruntime/pull/32323). It asks once whether there is.
 *
 * @returns {any} its module, whose types the older declarations of bench/ would replace
 */
function loadNative() {
  const runtime = createRequire(import.meta.url)('onnxruntime-node');
  const descriptor = Object.getOwnPropertyDescriptor(globalThis, 'Float16Array');
  Reflect.deleteProperty(globalThis, 'Float16Array');
  new runtime.Tensor('uint8', [0], [1]);
  if (descriptor !== undefined) {
    Object.defineProperty(globalThis, 'Float16Array', descriptor);
  }
  return runtime;
}

export const native = loadNative();

/** Refuses a model of which a node would run in WebAssembly. */
const ALL_ON_WEBNN = { session: { disable_cpu_ep_fallback: '1' } };

/**
 * A session of onnxruntime-web with every node on WebNN.
 *
 * @param {Uint8Array} bytes of the model
 * @param {string | object} provider the execution provider: `webnn`, or an object with this name and options
 * @param {object} [options] of the session
 * @throws {Error} for a model that WebNN cannot run as a whole
 */
export function createSession(bytes, provider, options = {}) {
  return ort.InferenceSession.create(bytes, { executionProviders: [provider], extra: ALL_ON_WEBNN, ...options });
}

/**
 * What onnxruntime-node makes of a model.
 *
 * @param {import('./models.mjs').ClientModel} model
 */
export async function reference({ bytes, feeds }) {
  // Warnings are about models that could be simpler.
  const session = await native.InferenceSession.create(bytes, { logSeverityLevel: 3 });
  const results = await session.run(tensorsOf(native, feeds));
  await session.release();
  return results;
}

/** The feeds of a model as tensors of one of the two runtimes. */
export const tensorsOf = (runtime, feeds) =>
  Object.fromEntries(Object.entries(feeds).map(([name, { type, data, shape }]) => [name, new runtime.Tensor(type, data, shape)]));

/** WebNN has no truth values. */
const dataTypeOf = (type) => (type === 'bool' ? 'uint8' : type);

/**
 * An MLTensor as a tensor of onnxruntime-web.
 *
 * @param {MLContext} context
 * @param {{ type: string, shape: number[], data?: ArrayBufferView }} tensor without data for one to be written
 */
export async function mlTensor(context, { type, shape, data }) {
  const tensor = await context.createTensor({ dataType: dataTypeOf(type), shape, writable: true, readable: true });
  if (data !== undefined) {
    context.writeTensor(tensor, data);
  }
  return ort.Tensor.fromMLTensor(tensor, { dataType: type, dims: shape });
}

/** Watches what is built and dispatched, without changing it. */
export class Watch {
  /** @type {MLGraph[]} */
  graphs = [];
  dispatches = 0;
  #build = MLGraphBuilder.prototype.build;
  #dispatch = MLContext.prototype.dispatch;

  constructor() {
    const watch = this;
    MLGraphBuilder.prototype.build = async function build(outputs) {
      const graph = await watch.#build.call(this, outputs);
      watch.graphs.push(graph);
      return graph;
    };
    MLContext.prototype.dispatch = function dispatch(...args) {
      watch.dispatches++;
      return watch.#dispatch.apply(this, args);
    };
  }

  reset() {
    this.graphs = [];
    this.dispatches = 0;
  }

  end() {
    MLGraphBuilder.prototype.build = this.#build;
    MLContext.prototype.dispatch = this.#dispatch;
  }
}

const isBits = ({ type, data }) => type === 'float16' && data instanceof Uint16Array;
const numbers = ({ type, data }) => Array.from(isBits({ type, data }) ? numbersOf({ dataType: type, data }) : data, Number);

/**
 * The largest difference of two tensors of the same type and shape: of floats relative to 1 + |expected|, of others
 * absolute. NaN and infinities must be where they are expected.
 */
export function difference(got, expected) {
  const isFloat = expected.type.startsWith('float');
  const actual = numbers(got);
  return numbers(expected).reduce((worst, number, index) => {
    if (Object.is(number, actual[index]) || number === actual[index]) {
      return worst;
    }
    const distance = Math.abs(actual[index] - number) / (isFloat ? 1 + Math.abs(number) : 1);
    return Math.max(worst, Number.isNaN(distance) ? Infinity : distance);
  }, 0);
}
