import assert from 'node:assert/strict';
import test, { after, before } from 'node:test';
import { Worker } from 'node:worker_threads';
import { ml } from '../../index.js';
import { loadModel } from '../../onnx.js';
import { DOUBLE, FLOAT, INT64, UINT8, node, value, writeModel } from './model-writer.mjs';
import { wrong } from '../lib/types.mjs';

const COUNT = 5000;

let context;
before(async () => {
  context = await ml.createContext({ numThreads: 2 });
});
after(() => context.destroy());

const identity = (type = FLOAT) =>
  writeModel({ inputs: [value('x', type, ['n'])], outputs: [value('y', type, ['n'])], nodes: [node('Identity', ['x'], ['y'])] });

const sum = () =>
  writeModel({ inputs: [value('a', FLOAT, ['n']), value('b', FLOAT, ['n'])], outputs: [value('y', FLOAT, ['n'])], nodes: [node('Add', ['a', 'b'], ['y'])] });

/** Runs a model often: all but the first runs are short enough to run within their calls. */
async function runs(model, feeds, check) {
  for (let turn = 0; turn < 40; turn++) {
    await check(await model.run(feeds(turn)), turn);
  }
}

test('runs within their calls read large feeds in place, and keep nothing of them', async () => {
  const model = await loadModel(identity(), { context });
  const x = new Float32Array(COUNT);
  let last;
  await runs(
    model,
    (turn) => ({ x: x.fill(turn) }),
    async ({ y }, turn) => {
      // Read after the feed has changed.
      x.fill(-1);
      assert.ok(
        y.data.every((number) => number === turn),
        `run ${turn}`,
      );
      last = y;
    },
  );
  const again = await model.run({ x: last });
  assert.deepEqual(again.y.data, last.data);
  // Results have buffers of their own, which programs can pass on.
  assert.equal(last.data.byteOffset, 0);
  assert.equal(last.data.buffer.byteLength, 4 * COUNT);
  assert.equal(structuredClone(last.data, { transfer: [last.data.buffer] }).length, COUNT);
  model.destroy();
});

test('a feed can be fed twice, begin anywhere, and belong to other threads', async () => {
  const model = await loadModel(sum(), { context });
  const bytes = new Uint8Array(4 * COUNT + 1);
  const shared = new Float32Array(new SharedArrayBuffer(4 * COUNT));
  const x = Float32Array.from({ length: COUNT }, (_, index) => index);
  shared.set(x);
  bytes.set(new Uint8Array(x.buffer), 1);
  const expected = x.map((number) => 2 * number);
  const feeds = [
    { a: x, b: x },
    { a: x, b: new DataView(bytes.buffer, 1) },
    { a: shared, b: x },
  ];
  await runs(
    model,
    (turn) => feeds[turn % 3],
    async ({ y }) => assert.deepEqual(y.data, expected),
  );
  model.destroy();
});

test('data that are transferred are detached when the call returns', async () => {
  for (const [type, View] of /** @type {[number, any][]} */ ([
    [FLOAT, Float32Array],
    [DOUBLE, Float64Array],
    [INT64, BigInt64Array],
    [UINT8, Uint8Array],
  ])) {
    const model = await loadModel(identity(type), { context });
    for (let turn = 0; turn < 5; turn++) {
      const data = new View(COUNT).fill(View === BigInt64Array ? BigInt(turn) : turn);
      const expected = data.slice();
      const ran = model.run({ x: { data, shape: [COUNT], transfer: true } });
      assert.equal(data.length, 0);
      const { y } = await ran;
      assert.deepEqual(y.data, expected);
    }
    model.destroy();
  }
});

test('data of runs that wait for others are transferred as well', async () => {
  const model = await loadModel(sum(), { context });
  const runs = [];
  for (let turn = 0; turn < 20; turn++) {
    const [a, b] = [new Float32Array(COUNT).fill(turn), new Float32Array(COUNT).fill(1)];
    runs.push(model.run({ a: { data: a, shape: [COUNT], transfer: true }, b: { data: b, shape: [COUNT] } }));
    b.fill(NaN);
    assert.equal(a.length, 0);
  }
  for (const [turn, { y }] of (await Promise.all(runs)).entries()) {
    assert.ok(y.data.every((/** @type {number} */ number) => number === turn + 1));
  }
  model.destroy();
});

test('a feed in a buffer that another one gives up keeps its data', async () => {
  const model = await loadModel(sum(), { context });
  for (let turn = 0; turn < 4; turn++) {
    const both = Float32Array.from({ length: 2 * COUNT }, (_, index) => (index < COUNT ? 1 : turn));
    const [a, b] = [both.subarray(0, COUNT), both.subarray(COUNT)];
    const { y } = await model.run({ a: { data: a, shape: [COUNT], transfer: true }, b: { data: b, shape: [COUNT] } });
    assert.ok(y.data.every((/** @type {number} */ number) => number === turn + 1));
    assert.equal(both.length, 0);
  }
  model.destroy();
});

test('what cannot be transferred is refused, and shared data stay with the caller', async () => {
  const model = await loadModel(identity(UINT8), { context });
  const run = (data, transfer) => model.run({ x: { data, shape: [data.byteLength], transfer } });
  const pooled = Buffer.from('bytes in the pool of small Buffers');
  await assert.rejects(run(pooled, true), { name: 'TypeError', message: /run: transfer is true, but the bytes are in a buffer that cannot be transferred/ });
  assert.equal(pooled.toString(), 'bytes in the pool of small Buffers');
  await assert.rejects(run(new Uint8Array(8), 1), { name: 'TypeError', message: /feed "x": transfer is 1, expected a boolean/ });
  const shared = new Uint8Array(new SharedArrayBuffer(COUNT)).fill(7);
  const { y } = await run(shared, true);
  assert.deepEqual(y.data, new Uint8Array(COUNT).fill(7));
  assert.equal(shared.length, COUNT);
  const kept = new Uint8Array(COUNT);
  await assert.rejects(model.run({ x: { data: kept, shape: wrong(['n']), transfer: true } }), { name: 'TypeError' });
  assert.equal(kept.length, COUNT);
  model.destroy();
});

test('a worker can end while its transferred feeds are copied', async () => {
  const source = `
    const { parentPort } = require('node:worker_threads');
    const { loadModel } = require(${JSON.stringify(new URL('../../onnx.js', import.meta.url).pathname)});
    loadModel(new Uint8Array(${JSON.stringify([...identity()])})).then((model) => {
      for (let turn = 0; turn < 20; turn++) {
        model.run({ x: { data: new Float32Array(4 << 20), shape: [4 << 20], transfer: true } }).catch(() => {});
      }
      parentPort.postMessage('runs');
    });`;
  for (let turn = 0; turn < 3; turn++) {
    const worker = new Worker(source, { eval: true });
    await new Promise((resolve) => worker.once('message', resolve));
    await worker.terminate();
  }
});
