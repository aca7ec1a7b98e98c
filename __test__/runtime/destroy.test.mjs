import assert from 'node:assert/strict';
import { test } from 'node:test';
import { exception, invalidState } from '../lib/exceptions.mjs';
import { MLGraphBuilder, chain, chained, floats, ml, operand, slowGraph, slowTensors } from './helpers.mjs';

/** A context with about a second of work in its queue. */
async function busyContext() {
  const context = await ml.createContext({ numThreads: 1 });
  const slow = await slowGraph(context, 100);
  for (let i = 0; i < 8; i++) {
    slow.run();
  }
  return { context, ...slow };
}

test('a tensor that is destroyed while work on it is queued is still used by that work', async () => {
  const { context, graph, links, x, y } = await busyContext();
  const z = await context.createTensor(floats(1 << 20));
  context.writeTensor(x, new Float32Array(1 << 20).fill(1));
  context.dispatch(graph, { x }, { y });
  context.dispatch(graph, { x: y }, { y: z });
  const result = context.readTensor(z);
  x.destroy();
  y.destroy();
  assert.throws(() => context.dispatch(graph, { x }, { y: z }), exception('TypeError', /destroyed/));
  const [value] = new Float32Array(await result);
  assert.ok(Math.abs(value - chained(1, 2 * links)) < 1e-3);
});

test('a pending read is rejected as soon as its tensor is destroyed, other reads are not', async () => {
  const { context, x, y } = await busyContext();
  let isDone = false;
  const other = context.readTensor(x).then(() => {
    isDone = true;
  });
  const pending = [context.readTensor(y), context.readTensor(y, new Float32Array(1 << 20))];
  y.destroy();
  await Promise.all(pending.map((promise) => assert.rejects(promise, invalidState)));
  assert.ok(!isDone, 'the rejection waited for the queue');
  await other;
});

test('a graph that is destroyed while a dispatch is queued still runs it', async () => {
  const { context, graph, links, x, y } = await busyContext();
  context.writeTensor(x, new Float32Array(1 << 20).fill(1));
  context.dispatch(graph, { x }, { y });
  graph.destroy();
  assert.throws(() => context.dispatch(graph, { x }, { y }), invalidState);
  const [value] = new Float32Array(await context.readTensor(y));
  assert.ok(Math.abs(value - chained(1, links)) < 1e-3);
  // The context is as good as before.
  const next = await chain(context, 1);
  context.dispatch(next, { x }, { y });
  assert.equal(new Float32Array(await context.readTensor(y))[0], Math.fround(Math.sin(1)));
});

test('a context that is destroyed drops its queue and rejects everything that is pending', async () => {
  const { context, graph, x, y } = await busyContext();
  const builder = new MLGraphBuilder(context);
  const pending = [
    context.readTensor(y),
    context.createTensor(floats(4)),
    context.createConstantTensor(operand(1), new Float32Array(1)),
    builder.build({ y: builder.relu(builder.input('x', operand(4))) }),
  ];
  const unread = context.createTensor(floats(4));
  context.destroy();
  await Promise.all([...pending, unread].map((promise) => assert.rejects(promise, invalidState)));
  assert.match((await context.lost).message, /destroy/);
  assert.throws(() => context.dispatch(graph, { x }, { y }), invalidState);
  for (const resource of [x, y, graph, context]) {
    resource.destroy();
  }
});

test('destroying one context leaves the others alone', async () => {
  const { context } = await busyContext();
  const other = await ml.createContext({ numThreads: 1 });
  const { x, y } = await slowTensors(other);
  const graph = await chain(other, 3);
  other.writeTensor(x, new Float32Array(1 << 20).fill(1));
  other.dispatch(graph, { x }, { y });
  context.destroy();
  assert.ok(Math.abs(new Float32Array(await other.readTensor(y))[0] - chained(1, 3)) < 1e-5);
});

test('things can be destroyed in any order and many times', async () => {
  for (let order = 0; order < 24; order++) {
    const context = await ml.createContext();
    const builder = new MLGraphBuilder(context);
    const graph = await builder.build({ y: builder.exp(builder.input('x', operand(1000))) });
    const [x, y] = await Promise.all([context.createTensor(floats(1000)), context.createTensor(floats(1000))]);
    context.dispatch(graph, { x }, { y });
    const pending = context.readTensor(y).catch(invalidState);
    const things = [context, graph, x, y];
    for (let left = 4, code = order; left > 0; code = Math.floor(code / left), left--) {
      const [thing] = things.splice(code % left, 1);
      thing.destroy();
      thing.destroy();
    }
    await pending;
    await context.lost;
  }
});

test('creations that are pending when the context is destroyed are rejected, never forgotten', async () => {
  const outcomes = await Promise.all(
    Array.from({ length: 50 }, async () => {
      const context = await ml.createContext();
      const promises = Array.from({ length: 20 }, () => context.createTensor(floats(1000)));
      setImmediate(() => context.destroy());
      return Promise.allSettled(promises);
    }),
  );
  for (const outcome of outcomes.flat()) {
    assert.ok(outcome.status === 'fulfilled' || invalidState(outcome.reason));
  }
});
