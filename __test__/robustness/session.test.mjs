// What a caller can give `webnn-node/onnx`: each wrong value is an error with a code, and the process lives.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { pathToFileURL } from 'node:url';

import { root } from '../../scripts/process.mjs';
import { ml } from '../../index.js';
import { OnnxError, importModel, inspectModel, loadModel } from '../../onnx.js';
import { FLOAT, node, value, weight, writeModel } from '../onnx/model-writer.mjs';
import { resultOf } from '../runtime/helpers.mjs';
import { scaling } from './provocations.mjs';
import { wrong } from '../lib/types.mjs';

const HOME = pathToFileURL(`${root}/`);

const floats = (...numbers) => Float32Array.from(numbers);

const hostile = () => [
  null,
  true,
  NaN,
  -1,
  2 ** 53,
  5n,
  '',
  'text\ud800',
  Symbol('s'),
  [],
  [1, 'two', {}],
  {},
  () => {},
  new Proxy(
    {},
    {
      get() {
        throw new RangeError('trap');
      },
    },
  ),
  new Date(),
  new Map(),
  new Error('e'),
  Promise.resolve(),
  new WeakRef({}),
  Object.create(null),
  { data: null, shape: [] },
  { data: floats(1), shape: [1], dataType: {} },
  { data: floats(1), shape: [2 ** 32] },
  { data: floats(1), shape: [2 ** 31 - 1, 2 ** 31 - 1, 2 ** 31 - 1] },
  { data: floats(1), shape: [0.5] },
  { data: floats(1), shape: [Symbol('s')] },
  { data: floats(1), shape: new Array(1000).fill(1) },
  { data: floats(1), shape: { length: 1 } },
  {
    get data() {
      throw new RangeError('getter');
    },
  },
];

async function requireError(promise, what) {
  await promise.then(
    (result) => result?.destroy?.(), // some fit by chance
    (error) => {
      assert.ok(error instanceof Error, `${what}: ${String(error)}`);
      assert.ok(!/internal error|defect/.test(error.message), `${what}: ${error.message}`);
    },
  );
}

test('hostile values for every argument', async () => {
  const bytes = scaling();
  const context = await ml.createContext({ accelerated: false });
  for (const [at, bad] of hostile().entries()) {
    await requireError(loadModel(bad, { context }), `source ${at}`);
    await requireError(loadModel(bytes, bad), `options ${at}`);
    for (const name of ['context', 'device', 'numThreads', 'freeDimensions', 'outputs', 'constants', 'signal', 'unknown']) {
      await requireError(
        loadModel(bytes, { ...(name === 'context' || name === 'device' || name === 'numThreads' ? {} : { context }), [name]: bad }),
        `${name} ${at}`,
      );
    }
    await requireError(loadModel(bytes, { context, freeDimensions: { batch: bad } }), `size ${at}`);
    await requireError(loadModel(bytes, { context, constants: { scale: bad } }), `constant ${at}`);
    for (const call of [
      () => inspectModel(bad),
      () => inspectModel(bytes, bad),
      () => importModel(bad, bytes),
      () => importModel(wrong({}), bytes, bad, bad),
    ]) {
      try {
        call();
      } catch (error) {
        assert.ok(error instanceof Error);
      }
    }
  }
  const loaded = await loadModel(bytes, { context });
  const scale = floats(2);
  for (const [at, bad] of hostile().entries()) {
    await requireError(loaded.run(bad), `feeds ${at}`);
    await requireError(loaded.run({ x: bad, scale }), `feed ${at}`);
    await requireError(loaded.run({ x: floats(1), scale: bad }), `scalar ${at}`);
    await requireError(loaded.run({ x: { data: bad, shape: [1, 1] }, scale }), `data ${at}`);
    await requireError(loaded.run({ x: { data: floats(1), shape: bad }, scale }), `shape ${at}`);
    await requireError(loaded.run({ x: { data: floats(1), shape: [1, bad] }, scale }), `size ${at}`);
    await requireError(loaded.run({ x: { data: floats(1), shape: [1, 1], dataType: bad }, scale }), `dataType ${at}`);
    await requireError(loaded.run({ x: { data: floats(1), shape: [1, 1] }, scale }, bad), `fetches ${at}`);
    await requireError(loaded.run({ x: { data: floats(1), shape: [1, 1] }, scale }, { y: bad }), `fetch ${at}`);
    await requireError(loaded.compile(bad), `shapes ${at}`);
    await requireError(loaded.compile({ x: bad, scale: [] }), `shape of compile ${at}`);
    await requireError(loaded.compile({ x: [bad, 1], scale: [] }), `size of compile ${at}`);
    await requireError(loaded.describe(bad), `shapes to describe ${at}`);
    await requireError(loaded.describe({ x: [bad, 1], scale: [] }), `size to describe ${at}`);
  }
  // After all that it still works.
  const { y } = await loaded.run({ x: { data: floats(1, 2), shape: [1, 2] }, scale });
  assert.deepEqual(y, { data: floats(2, 4), shape: [1, 2], dataType: 'float32' });
  loaded.destroy();
  context.destroy();
});

test('a run ends with its context, before or behind it', async () => {
  const context = await ml.createContext({ accelerated: false });
  const loaded = await loadModel(scaling(), { context });
  const run = loaded.run({ x: { data: floats(1, 2), shape: [1, 2] }, scale: floats(2) }).then(
    () => 'it was faster',
    ({ code }) => code,
  );
  context.destroy();
  assert.ok(['it was faster', 'ERR_WEBNN_DESTROYED'].includes(await run));
});

test('a feed may be detached, changed or shared while it runs', async () => {
  const context = await ml.createContext({ accelerated: false });
  const loaded = await loadModel(scaling(), { context });
  const scale = floats(2);
  const feed = () => ({ data: floats(1, 2), shape: [1, 2] });
  const [detached, changed] = [feed(), feed()];
  const runs = [loaded.run({ x: detached, scale }), loaded.run({ x: changed, scale })];
  structuredClone(detached.data.buffer, { transfer: [detached.data.buffer] });
  changed.data.fill(9);
  changed.shape[0] = 100;
  scale.fill(7);
  for (const run of runs) {
    assert.deepEqual((await run).y.data, floats(2, 4));
  }
  for (const gone of [detached.data, new Uint8Array(0)]) {
    if (gone instanceof Uint8Array) structuredClone(gone.buffer, { transfer: [gone.buffer] });
    await assert.rejects(loaded.run({ x: { data: gone, shape: [1, 2] }, scale }), { name: 'TypeError', message: /is detached/, code: 'ERR_WEBNN_TYPE' });
  }
  // A getter that detaches what was read before it.
  const late = feed();
  await requireError(
    loaded.run({
      x: late,
      get scale() {
        structuredClone(late.data.buffer, { transfer: [late.data.buffer] });
        return scale;
      },
    }),
    'late',
  );
  const shared = new Float32Array(new SharedArrayBuffer(8));
  shared.set([3, 4]);
  assert.deepEqual((await loaded.run({ x: { data: shared, shape: [1, 2] }, scale: floats(2) })).y.data, floats(6, 8));
  context.destroy();
});

test('a model that needs inputs of some length is not refused before they are known', async () => {
  const bytes = writeModel({
    inputs: [value('x', FLOAT, [1, 1, 'length'])],
    outputs: [value('y', FLOAT, [1, 1, 'frames'])],
    weights: [weight('filter', [1, 1, 128], new Float32Array(128).fill(1))],
    nodes: [node('Conv', ['x', 'filter'], ['y'], { strides: { ints: [64] } })],
  });
  const context = await ml.createContext({ accelerated: false });
  const loaded = await loadModel(bytes, { context });
  const { y } = await loaded.run({ x: new Float32Array(512).fill(1) });
  assert.deepEqual([y.shape, y.data[0]], [[1, 1, 7], 128]);
  await assert.rejects(loaded.run({ x: new Float32Array(16) }), (error) => error instanceof OnnxError && /output width is/.test(error.message));
  assert.deepEqual(inspectModel(bytes).unsupported, []);
  context.destroy();
});

test('an AbortSignal ends a load with its reason', async () => {
  const bytes = scaling();
  const reason = new Error('changed my mind');
  await assert.rejects(loadModel(bytes, { signal: AbortSignal.abort(reason) }), reason);
  for (const options of [{}, { freeDimensions: { batch: 1, width: 1 } }]) {
    const controller = new AbortController();
    const loading = loadModel(bytes, { signal: controller.signal, ...options });
    controller.abort(reason);
    await assert.rejects(loading, reason);
  }
  const controller = new AbortController();
  const loaded = await loadModel(bytes, { signal: controller.signal });
  controller.abort(reason);
  assert.deepEqual((await loaded.run({ x: { data: floats(1), shape: [1, 1] }, scale: floats(3) })).y.data, floats(3));
  loaded.destroy();
});

/** A program that begins something and ends in the middle of it. */
const ending = (what, end) =>
  resultOf(
    `import { loadModel } from ${JSON.stringify(new URL('onnx.js', HOME).href)};
   import { FLOAT, node, value, writeModel } from ${JSON.stringify(new URL('__test__/onnx/model-writer.mjs', HOME).href)};
   const bytes = writeModel({
     inputs: [value('x', FLOAT, ['n', 'n'])], outputs: [value('y', FLOAT)],
     nodes: Array.from({ length: 300 }, (_, at) => node('MatMul', [at === 0 ? 'x' : 'v' + at, 'x'], [at === 299 ? 'y' : 'v' + (at + 1)])),
   });
   const model = await loadModel(bytes, { device: 'cpu' });
   const x = { data: new Float32Array(300 * 300), shape: [300, 300] };
   const work = { run: () => model.run({ x }), load: () => loadModel(bytes, { device: 'cpu', freeDimensions: { n: 300 } }) }[${JSON.stringify(what)}];
   console.log(JSON.stringify('begun'));
   void [work(), work()];
   ${end}`,
  );

for (const what of ['run', 'load']) {
  test(`the process ends in the middle of a ${what}`, async () => {
    assert.equal(await ending(what, 'await helpers.untilBusy(5); process.exit(0);'), 'begun');
  });
}

test('a worker is terminated in the middle of runs and loads', async () => {
  const told = await resultOf(
    `import { Worker } from 'node:worker_threads';
     const program = \`
       const modules = ['node:worker_threads', ${JSON.stringify(new URL('onnx.js', HOME).href)}, ${JSON.stringify(new URL('__test__/onnx/model-writer.mjs', HOME).href)}];
       Promise.all(modules.map((name) => import(name))).then(async ([{ parentPort }, { loadModel }, { FLOAT, node, value, writeModel }]) => {
         const bytes = writeModel({ inputs: [value('x', FLOAT, ['n', 'n'])], outputs: [value('y', FLOAT)],
           nodes: Array.from({ length: 300 }, (_, at) => node('MatMul', [at === 0 ? 'x' : 'v' + at, 'x'], [at === 299 ? 'y' : 'v' + (at + 1)])) });
         const model = await loadModel(bytes);
         const x = { data: new Float32Array(200 * 200), shape: [200, 200] };
         for (let i = 0; i < 3; i++) { model.run({ x }).catch(() => {}); loadModel(bytes, { freeDimensions: { n: 100 } }).catch(() => {}); }
         parentPort.postMessage('begun');
       });\`;
     for (let turn = 0; turn < 3; turn++) {
       const worker = new Worker(program, { eval: true });
       await new Promise((resolve) => worker.once('message', resolve));
       await worker.terminate();
     }
     console.log(JSON.stringify('alive'));`,
  );
  assert.equal(told, 'alive');
});
