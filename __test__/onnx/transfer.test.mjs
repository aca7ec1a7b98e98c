// loadModel() from bytes that the caller gives up.
import assert from 'node:assert/strict';
import test, { after, before } from 'node:test';
import { Worker } from 'node:worker_threads';
import { ml } from '../../index.js';
import { loadModel } from '../../onnx.js';
import { resultOf } from '../runtime/helpers.mjs';
import { externalWeight, FLOAT, node, value, weight, writeModel } from './model-writer.mjs';

let context;
before(async () => {
  context = await ml.createContext({ numThreads: 1 });
});
after(() => context.destroy());

/** y = x + w, with weights 0, 1, 2, ...; larger than one part of a copy, and not a multiple of it. */
const COUNT = (3 << 18) + 5;
const weights = () => Float32Array.from({ length: COUNT }, (_, i) => i);
const simple = () =>
  writeModel({
    inputs: [value('x', FLOAT, [1])],
    outputs: [value('y', FLOAT, [COUNT])],
    weights: [weight('w', [COUNT], weights())],
    nodes: [node('Add', ['x', 'w'], ['y'])],
  });
const expected = weights().map((number) => number + 1);

/** The result of a model, which is destroyed. */
async function resultOfModel(model) {
  const { y } = await model.run({ x: Float32Array.of(1) });
  model.destroy();
  return y.data;
}

/** The bytes in a buffer of their own, behind as many others. */
function inBuffer(bytes, before = 0, isShared = false) {
  const size = before + bytes.byteLength;
  const view = new Uint8Array(isShared ? new SharedArrayBuffer(size) : new ArrayBuffer(size), before);
  view.set(bytes);
  return view;
}

test('the bytes of every kind of source are taken, and their buffers detached', async () => {
  const sources = [
    inBuffer(simple()),
    inBuffer(simple(), 13),
    inBuffer(simple()).buffer,
    new DataView(inBuffer(simple()).buffer),
    Buffer.from(inBuffer(simple()).buffer),
  ];
  for (const source of sources) {
    const loading = loadModel(source, { context, transfer: true });
    const buffer = ArrayBuffer.isView(source) ? source.buffer : source;
    assert.equal(buffer.byteLength, 0, 'it is detached at once');
    assert.deepEqual(await resultOfModel(await loading), expected);
  }
});

test('shared bytes stay with the caller', async () => {
  const source = inBuffer(simple(), 5, true);
  const loading = loadModel(source, { context, transfer: true });
  assert.equal(source.buffer.byteLength, source.byteLength + 5);
  assert.deepEqual(await resultOfModel(await loading), expected);
  assert.deepEqual(await resultOfModel(await loadModel(source, { context, transfer: true })), expected);
});

test('without the option, bytes are those of the call', async () => {
  for (const options of [{}, { transfer: false }, { transfer: undefined }]) {
    const source = inBuffer(simple());
    const loading = loadModel(source, { context, ...options });
    source.fill(0);
    assert.deepEqual(await resultOfModel(await loading), expected);
  }
});

test('weight files are taken as well, also from the same buffer', async () => {
  const model = writeModel({
    inputs: [value('x', FLOAT, [1])],
    outputs: [value('y', FLOAT, [COUNT])],
    weights: [externalWeight('w', [COUNT], 'weights', 0, 4 * COUNT)],
    nodes: [node('Add', ['x', 'w'], ['y'])],
  });
  const both = new Uint8Array(4 * COUNT + model.byteLength);
  both.set(new Uint8Array(weights().buffer));
  both.set(model, 4 * COUNT);
  const loading = loadModel(both.subarray(4 * COUNT), { context, transfer: true, externalData: { weights: both.subarray(0, 4 * COUNT) } });
  assert.equal(both.byteLength, 0);
  assert.deepEqual(await resultOfModel(await loading), expected);

  const files = { weights: inBuffer(new Uint8Array(weights().buffer)) };
  const again = loadModel(inBuffer(model), { context, transfer: true, externalData: files });
  assert.equal(files.weights.byteLength, 0);
  assert.deepEqual(await resultOfModel(await again), expected);
});

test('buffers that cannot be given up are refused, and keep their bytes', async () => {
  const pooled = Buffer.from('a model in the pool of small Buffers');
  await assert.rejects(loadModel(pooled, { context, transfer: true }), { name: 'TypeError', code: 'ERR_WEBNN_TYPE', message: /cannot be transferred/ });
  assert.equal(pooled.toString(), 'a model in the pool of small Buffers');
  const memory = new WebAssembly.Memory({ initial: 1 });
  await assert.rejects(loadModel(memory.buffer, { context, transfer: true }), { code: 'ERR_WEBNN_TYPE', message: /cannot be transferred/ });
  const detached = inBuffer(simple());
  structuredClone(detached.buffer, { transfer: [detached.buffer] });
  await assert.rejects(loadModel(detached, { context, transfer: true }), { code: 'ERR_WEBNN_TYPE', message: /is detached/ });
});

test('nothing is taken by a call with a mistake', async () => {
  const source = inBuffer(simple());
  const size = source.byteLength;
  await assert.rejects(loadModel(source, { context, transfer: /** @type {any} */ (1) }), {
    code: 'ERR_WEBNN_TYPE',
    message: /transfer is 1, expected a boolean/,
  });
  await assert.rejects(loadModel(source, { context, transfer: true, outputs: [] }), { code: 'ERR_WEBNN_TYPE' });
  await assert.rejects(loadModel(source, { context, transfer: true, signal: AbortSignal.abort() }), { name: 'AbortError' });
  assert.equal(source.byteLength, size);
  assert.deepEqual(await resultOfModel(await loadModel(source, { context, transfer: true })), expected);
});

test('bytes that are no model are refused as ever', async () => {
  const source = new Uint8Array(3 << 20).fill(255);
  await assert.rejects(loadModel(source, { context, transfer: true }), { code: 'ERR_WEBNN_MODEL_INVALID' });
  assert.equal(source.byteLength, 0);
});

test('the given memory is freed when it has been copied', async () => {
  const { before, loaded } = await resultOf(
    `
    import { loadModel } from 'webnn-node/onnx';
    import { FLOAT, node, value, weight, writeModel } from ${JSON.stringify(new URL('./model-writer.mjs', import.meta.url))};
    const { collectUntil, ml } = helpers;
    const context = await ml.createContext({ numThreads: 1, accelerated: false });
    const make = () => new Uint8Array(writeModel({
      inputs: [value('x', FLOAT, ['n', 1])],
      outputs: [value('y', FLOAT, ['n', 1 << 24])],
      weights: [weight('w', [1 << 24], new Float32Array(1 << 24))],
      nodes: [node('Add', ['x', 'w'], ['y'])],
    }));
    const megabytes = () => process.memoryUsage().arrayBuffers / 2 ** 20;
    let source = make();
    await collectUntil(() => megabytes() < 100, 'only the model is left');
    const before = megabytes();
    const model = await loadModel(source, { context, transfer: true });
    await collectUntil(() => megabytes() < 20, 'the model is freed');
    console.log(JSON.stringify({ before, loaded: megabytes() }));
    model.destroy();`,
    { flags: ['--expose-gc'] },
  );
  assert.ok(before >= 64 && loaded < 20, `${before} MiB before, ${loaded} MiB when it is loaded`);
});

test('a worker that ends while its bytes are copied ends nothing else', async () => {
  const bytes = new SharedArrayBuffer(48 << 20);
  new Uint8Array(bytes).set(simple());
  for (let round = 0; round < 12; round++) {
    const worker = new Worker(
      `const { parentPort, workerData } = require('node:worker_threads');
       const { loadModel } = require(${JSON.stringify(new URL('../../onnx.js', import.meta.url).pathname)});
       const source = ${round % 2 === 0 ? 'new Uint8Array(workerData).slice()' : 'workerData'};
       loadModel(source, { transfer: true }).catch(() => {});
       parentPort.postMessage('started');`,
      { eval: true, workerData: bytes },
    );
    await new Promise((resolve, reject) => worker.once('message', resolve).once('error', reject));
    await worker.terminate();
  }
  assert.deepEqual(await resultOfModel(await loadModel(inBuffer(simple()), { context, transfer: true })), expected);
});
