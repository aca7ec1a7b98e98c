// How each code of the ONNX entry's errors comes about: for every row of the native table of codes, calls that fail with it.

import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { inspect } from 'node:util';
import { ml } from '../../index.js';
import { OnnxError, inspectModel, loadModel } from '../../onnx.js';
import { faultsOf } from '../lib/messages.mjs';
import { defined } from '../lib/types.mjs';
import { lossOf } from '../lib/wait.mjs';
import { FLOAT, INT32, node, value, weight, writeModel } from '../onnx/model-writer.mjs';
import { resultOf } from '../runtime/helpers.mjs';

const require = createRequire(import.meta.url);
const { slots } = require('../../lib/context.js');
const { helpOf } = require('../../lib/errors.js');

const floats = (...numbers) => Float32Array.from(numbers);

/** y = scale * x for x of shape [batch, width]. */
export const scaling = () =>
  writeModel({
    inputs: [value('x', FLOAT, ['batch', 'width']), value('scale', FLOAT, [])],
    outputs: [value('y', FLOAT, ['batch', 'width'])],
    nodes: [node('Mul', ['x', 'scale'], ['y'])],
  });

/** An operator that there is not. */
const unsupported = () => writeModel({ inputs: [value('x', FLOAT, [1])], outputs: [value('y', FLOAT)], nodes: [node('Nothing', ['x'], ['y'])] });

/** y = rows[ids], of two rows. */
const lookup = () =>
  writeModel({
    inputs: [value('ids', INT32, ['n'])],
    outputs: [value('y', FLOAT)],
    weights: [weight('rows', [2], floats(1, 2))],
    nodes: [node('Gather', ['rows', 'ids'], ['y'])],
  });

/** A model that is cut: its data decide about a size. */
const cut = () => writeModel({ inputs: [value('x', FLOAT, ['n'])], outputs: [value('y', FLOAT)], nodes: [node('NonZero', ['x'], ['y'])] });

const x = { data: floats(1, 2), shape: [1, 2] };
const scale = floats(2);

/** Fails as a load with these options does. */
const load = (source, options) => async (context) => loadModel(source, { context, ...options });

/** Fails as `use` of a model does. */
const using = (source, use) => async (context) => use(await loadModel(source, { context }));

/** Fails as `use` of a loaded model does in a process in which tensors have all of the memory. Nothing touches them. */
const withoutMemory = (use) => async () => {
  const { name, message, ...shown } = await resultOf(`
    const { loadModel } = await import(${JSON.stringify(new URL('../../onnx.js', import.meta.url))});
    const { weight, node, value, writeModel, FLOAT } = await import(${JSON.stringify(new URL('../onnx/model-writer.mjs', import.meta.url))});
    const bytes = writeModel({
      inputs: [value('x', FLOAT, ['n', 'n'])], outputs: [value('y', FLOAT)],
      weights: [weight('axis', [], BigInt64Array.of(0n))],
      nodes: [node('CumSum', ['x', 'axis'], ['a']), node('Transpose', ['a'], ['b']), node('CumSum', ['b', 'axis'], ['y'])],
    });
    const context = await helpers.ml.createContext({ accelerated: false, numThreads: 1 });
    const model = await loadModel(bytes, { context });
    const tensors = [];
    for (let size = 2 ** 31 - 1; size > 2 ** 20; size = size >> 1) {
      for (let isFull = false; !isFull; ) {
        await context.createTensor({ dataType: 'uint8', shape: [size] }).then((tensor) => tensors.push(tensor), () => { isFull = true; });
      }
    }
    const error = await (${use})(model).then(() => new Error('there is memory'), (error) => error);
    if (!(error instanceof DOMException)) throw error;
    console.log(JSON.stringify({ ...error, name: error.name, message: error.message }));`);
  throw Object.defineProperties(new DOMException(message, name), Object.getOwnPropertyDescriptors(shown));
};

/**
 * For each code, calls that are given a context on the CPU and must fail with it.
 *
 * @type {Record<string, ((context: import('../../index.js').MLContext) => Promise<unknown>)[]>}
 */
export const PROVOCATIONS = {
  ERR_WEBNN_MODEL_NOT_FOUND: [load('/no/such/model.onnx')],
  ERR_WEBNN_MODEL_INVALID: [load(new Uint8Array(10))],
  ERR_WEBNN_UNSUPPORTED_OPERATOR: [load(unsupported()), load(unsupported(), { freeDimensions: {} })],
  ERR_WEBNN_TYPE: [
    load(5),
    using(scaling(), (model) => model.run({ x: new Int32Array(2), scale })),
    using(scaling(), (model) => model.run({ x: 'text', scale })),
  ],
  ERR_WEBNN_UNKNOWN_OPTION: [load(scaling(), { numThread: 1 }), async () => inspectModel(scaling(), /** @type {any} */ ({ outputs: ['y'] }))],
  ERR_WEBNN_SHAPE: [
    using(scaling(), (model) => model.run({ x: floats(1, 2), scale })),
    using(scaling(), (model) => model.run({ x: { data: floats(1, 2), shape: [2, 2] }, scale })),
    using(scaling(), (model) => model.run({ x: { data: floats(1, 2), shape: [2 ** 31 - 1, 2 ** 31 - 1] }, scale })),
    using(scaling(), (model) => model.compile()),
    using(scaling(), (model) => model.describe({ x: [1, 2 ** 31], scale: [2] })),
  ],
  ERR_WEBNN_INDEX: [using(lookup(), (model) => model.run({ ids: Int32Array.of(2) }))],
  ERR_WEBNN_MISSING_FEED: [using(scaling(), (model) => model.run({ x }))],
  ERR_WEBNN_UNKNOWN_FEED: [using(scaling(), (model) => model.run({ x, scale, z: scale }))],
  ERR_WEBNN_UNKNOWN_OUTPUT: [load(scaling(), { outputs: ['z'] }), using(scaling(), (model) => model.run({ x, scale }, { z: null }))],
  ERR_WEBNN_UNKNOWN_DIMENSION: [load(scaling(), { freeDimensions: { bacth: 1 } }), async () => inspectModel(scaling(), { freeDimensions: { bacth: 1 } })],
  ERR_WEBNN_NOT_SUPPORTED: [using(cut(), (model) => model.compile({ x: [3] }))],
  ERR_WEBNN_OPERATION: [withoutMemory('(model) => model.compile({ x: [2 ** 12, 2 ** 12] })')],
  ERR_WEBNN_NO_MEMORY: [withoutMemory('(model) => model.run({ x: { data: new Float32Array(2 ** 22), shape: [2 ** 11, 2 ** 11] } })')],
  ERR_WEBNN_DESTROYED: [
    using(scaling(), (model) => {
      model.destroy();
      return model.run({ x, scale });
    }),
    async () => {
      const model = await loadModel(scaling(), { context: await ml.createContext({ accelerated: false }) });
      model.context.destroy();
      return model.run({ x, scale });
    },
  ],
  ERR_WEBNN_DEVICE_LOST: [
    async () => {
      const model = await loadModel(scaling(), { device: 'gpu' });
      // Nothing of the public API loses a GPU.
      defined(slots.get(model.context)).loseDevice();
      return model.run({ x, scale });
    },
    ...['run', 'describe', 'load'].map((what) => async () => {
      const context = await ml.createContext({ powerPreference: 'high-performance' });
      const model = await loadModel(scaling(), { context });
      defined(slots.get(context)).loseDevice();
      await lossOf(context);
      // The first reason counts.
      context.destroy();
      const shapes = { x: [1, 2], scale: [] };
      return { run: () => model.run({ x, scale }), describe: () => model.describe(shapes), load: () => loadModel(scaling(), { context }) }[what]();
    }),
  ],
};

/** The exceptions that are no DOMException. */
const CLASSES = { OnnxError, TypeError };

/** The codes that need a GPU. */
export const ON_GPU = ['ERR_WEBNN_DEVICE_LOST'];

/**
 * Asserts that everything which provokes a code does so.
 *
 * @param {{ code: string, exception: string }} row of the native table
 * @param {import('../../index.js').MLContext} [context] on the CPU; those of `ON_GPU` have their own
 */
export async function checkCode({ code, exception }, context) {
  for (const provoke of PROVOCATIONS[code]) {
    await assert.rejects(provoke(/** @type {import('../../index.js').MLContext} */ (context)), (/** @type {any} */ error) => {
      assert.ok(error instanceof (CLASSES[exception] ?? DOMException), error.stack);
      assert.deepEqual([error.name, error.code, error.help], [exception, code, helpOf(code)], error.stack);
      assert.deepEqual(faultsOf(error.message), []);
      // The form in which Node prints an uncaught error.
      for (const line of [`code: '${code}'`, `help: '${helpOf(code)}'`]) assert.ok(inspect(error).includes(line), inspect(error));
      return true;
    });
  }
}
