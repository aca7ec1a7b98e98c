/** The loss of the GPU, as a driver that fails would cause it: who is told, what is left, what can be had again. */

import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { test } from 'node:test';

import { lossOf } from '../lib/wait.mjs';
import { exception, invalidState } from '../lib/exceptions.mjs';
import { GPU_WANTED, MLGraphBuilder, floats, ml, operand, read, resultOf, slowGraph } from '../runtime/helpers.mjs';
import { ON_GPU, checkCode } from '../robustness/provocations.mjs';
import { deviceOf } from './device.mjs';
import { defined } from '../lib/types.mjs';

const require = createRequire(import.meta.url);
const { slots } = require('../../lib/context.js');
const { errorCodes } = require('../../lib/native.js');

/** Loses the GPU of a context. */
const loseDevice = (context) => defined(slots.get(context)).loseDevice();

/** What `lost` of a context has become when the context has done what was asked of it. */
async function stateOf(context) {
  await checkThatItWorks(context);
  return Promise.race([context.lost.then(() => 'settled'), new Promise((resolve) => setImmediate(resolve, 'pending'))]);
}

/** Checks that a context computes. */
async function checkThatItWorks(context) {
  const builder = new MLGraphBuilder(context);
  const graph = await builder.build({ y: builder.neg(builder.input('x', operand(2))) });
  const [x, y] = await Promise.all([context.createTensor(floats(2)), context.createTensor(floats(2))]);
  context.writeTensor(x, new Float32Array([1, -2]));
  context.dispatch(graph, { x }, { y });
  assert.deepEqual(await read(context, y), new Float32Array([-1, 2]));
}

test('lost says why, and a new context works', async () => {
  const context = await ml.createContext(GPU_WANTED);
  assert.equal(await deviceOf(context), 'gpu');
  assert.equal(await stateOf(context), 'pending');
  loseDevice(context);
  const info = await lossOf(context);
  assert.deepEqual(Object.keys(info), ['message']);
  assert.match(info.message, /^the GPU was lost: /);
  const again = await ml.createContext(GPU_WANTED);
  assert.equal(await deviceOf(again), 'gpu');
  await checkThatItWorks(again);
  again.destroy();
});

test('what is pending is rejected, and so is what is asked later', async () => {
  const context = await ml.createContext(GPU_WANTED);
  const { run, x, y } = await slowGraph(context, 100);
  const builder = new MLGraphBuilder(context);
  const [unused, next] = [new MLGraphBuilder(context), builder.input('x', operand(4))];
  for (let i = 0; i < 5; i++) run();
  const pending = [
    context.readTensor(y),
    context.readTensor(x, new Float32Array(x.shape[0])),
    context.createTensor(floats(8)),
    context.createConstantTensor(operand(1), new Float32Array(1)),
    builder.build({ y: builder.exp(next) }),
  ];
  loseDevice(context);
  for (const promise of pending) {
    await assert.rejects(promise, invalidState);
  }
  await lossOf(context);
  await assert.rejects(context.createTensor(floats(1)), invalidState);
  await assert.rejects(context.createConstantTensor(operand(1), new Float32Array(1)), invalidState);
  assert.throws(() => new MLGraphBuilder(context), invalidState);
  assert.throws(() => unused.input('x', operand(1)), invalidState);
  // The loss destroys them, as destroy() does.
  await assert.rejects(context.readTensor(y), exception('TypeError', /destroyed/));
  assert.throws(() => context.writeTensor(x, new Float32Array(x.shape[0])), exception('TypeError', /destroyed/));
  assert.throws(run, invalidState);
  context.destroy();
});

test('all contexts of the device are lost, those on the CPU and later ones are not', async () => {
  const options = [GPU_WANTED, GPU_WANTED, { accelerated: false }];
  const [one, two, cpu] = await Promise.all(options.map((each) => ml.createContext(each)));
  loseDevice(one);
  const [first, second] = await Promise.all([lossOf(one), lossOf(two)]);
  assert.equal(first.message, second.message);
  const later = await ml.createContext(GPU_WANTED);
  // On the CPU there is nothing to lose.
  loseDevice(cpu);
  for (const context of [cpu, later]) {
    assert.equal(await stateOf(context), 'pending');
  }
  assert.equal(await deviceOf(later), 'gpu');
});

test('destroy() says so in lost, and a loss after it changes nothing', async () => {
  const [context, other] = await Promise.all([ml.createContext(GPU_WANTED), ml.createContext(GPU_WANTED)]);
  context.destroy();
  loseDevice(other);
  await lossOf(other);
  assert.deepEqual(await context.lost, { message: 'destroy() was called on the context' });
});

test('the GPU is lost again and again', async () => {
  for (let i = 0; i < 20; i++) {
    const context = await ml.createContext(GPU_WANTED);
    await checkThatItWorks(context);
    loseDevice(context);
    assert.match((await lossOf(context)).message, /^the GPU was lost: /);
  }
});

/**
 * MiB that 50 contexts with 8 MiB each may leave behind: free pages that the allocator keeps, in an arena for each thread. Were
 * the contexts kept, it would be 400.
 */
const GROWTH = 150;

test('contexts whose loss is waited for are collected, and end with all they had', async (t) => {
  const { lost, growth } = await resultOf(
    `let [collected, lost] = [0, 0];
     const registry = new FinalizationRegistry(() => collected++);
     const MiB = 2 ** 20;
     const once = async () => {
       const context = await helpers.ml.createContext(helpers.GPU_WANTED);
       context.lost.then(() => lost++);
       registry.register(context);
       const x = await context.createTensor(helpers.floats(2 * MiB));
       context.writeTensor(x, new Float32Array(2 * MiB).fill(1));
       await context.readTensor(x, new Float32Array(2 * MiB));
     };
     const kept = await helpers.ml.createContext(helpers.GPU_WANTED);
     for (let i = 0; i < 10; i++) await once();
     await helpers.collectUntil(() => collected >= 8, '8 of 10 contexts are collected');
     const before = process.memoryUsage.rss();
     for (let i = 0; i < 50; i++) await once();
     await helpers.collectUntil(() => collected >= 58, '58 of 60 contexts are collected');
     const growth = () => (process.memoryUsage.rss() - before) / MiB;
     await helpers.collectUntil(() => growth() < ${GROWTH}, 'the memory of the contexts is given back');
     console.log(JSON.stringify({ lost, growth: growth(), kept: kept.accelerated }));`,
    { flags: ['--expose-gc'] },
  );
  assert.equal(lost, 0);
  t.diagnostic(`resident memory grew by ${growth.toFixed(0)} MiB`);
});

for (const row of errorCodes.filter(({ code }) => ON_GPU.includes(code))) {
  test(`${row.code}: ${row.meaning}`, () => checkCode(row));
}
