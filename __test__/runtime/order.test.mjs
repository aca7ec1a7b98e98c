import assert from 'node:assert/strict';
import { test } from 'node:test';
import { exception } from '../lib/exceptions.mjs';
import { MLGraphBuilder, chain, chained, floats, ml, operand, read, slowGraph, slowTensors } from './helpers.mjs';

test('work of one context runs in order', async () => {
  const context = await ml.createContext();
  const builder = new MLGraphBuilder(context);
  const graph = await builder.build({
    y: builder.add(builder.mul(builder.input('x', operand(1000)), builder.constant('float32', 2)), builder.constant('float32', 1)),
  });
  let a = await context.createTensor(floats(1000));
  let b = await context.createTensor(floats(1000));
  const reads = [];
  for (let i = 0; i < 20; i++) {
    context.dispatch(graph, { x: a }, { y: b });
    reads.push(read(context, b));
    [a, b] = [b, a];
  }
  const order = [];
  reads.forEach((promise, i) => promise.then(() => order.push(i)));
  const values = await Promise.all(reads);
  // 0 -> 1 -> 3 -> 7 ...
  values.forEach((floats, i) =>
    assert.ok(
      floats.every((value) => value === 2 ** (i + 1) - 1),
      `dispatch ${i}`,
    ),
  );
  assert.deepEqual(order, [...values.keys()]);
});

test('promises of one context are settled in order, however many end at the same time', async () => {
  const context = await ml.createContext({ numThreads: 1 });
  const tensor = await context.createTensor(floats(4));
  for (let round = 0; round < 100; round++) {
    const order = [];
    const reads = Array.from({ length: 100 }, (_, i) => context.readTensor(tensor).then(() => order.push(i)));
    await Promise.all(reads);
    assert.deepEqual(order, [...reads.keys()], `round ${round}`);
  }
});

test('a later write changes nothing that an earlier dispatch or read sees', async () => {
  const context = await ml.createContext();
  const { run, x, y, links } = await slowGraph(context, 200);
  const data = new Float32Array(await context.readTensor(x));
  context.writeTensor(x, data.fill(1));
  run();
  const input = context.readTensor(x);
  context.writeTensor(x, data.fill(0.5));
  // The bytes were copied: the buffer belongs to the caller again.
  data.fill(7);
  const first = context.readTensor(y);
  run();
  const second = context.readTensor(y);
  context.writeTensor(x, data);
  assert.ok(new Float32Array(await input).every((value) => value === 1));
  for (const [promise, start] of /** @type {[Promise<ArrayBuffer>, number][]} */ ([
    [first, 1],
    [second, 0.5],
  ])) {
    const result = new Float32Array(await promise);
    const expected = chained(start, links);
    assert.ok(Math.abs(result[0] - expected) < 1e-3, `${result[0]}, expected ${expected}`);
    assert.ok(result.every((value) => value === result[0]));
  }
  assert.ok((await read(context, x)).every((value) => value === 7));
});

test('many contexts work at the same time and do not mix', async () => {
  const contexts = await Promise.all(Array.from({ length: 12 }, (_, i) => ml.createContext({ numThreads: 1 + (i % 3) })));
  const totals = await Promise.all(
    contexts.map(async (context, index) => {
      const builder = new MLGraphBuilder(context);
      const step = builder.constant('float32', index);
      const graph = await builder.build({ y: builder.add(builder.input('x', operand(5000)), step) });
      let a = await context.createTensor(floats(5000));
      let b = await context.createTensor(floats(5000));
      for (let i = 0; i < 30; i++) {
        context.dispatch(graph, { x: a }, { y: b });
        [a, b] = [b, a];
        if (i % 10 === index % 10) {
          await context.readTensor(a);
        }
      }
      return read(context, a);
    }),
  );
  totals.forEach((values, index) =>
    assert.ok(
      values.every((value) => value === 30 * index),
      `context ${index}`,
    ),
  );
});

test('a busy context does not hold up another one', async () => {
  const busy = await ml.createContext({ numThreads: 1 });
  const { run, y } = await slowGraph(busy, 300);
  for (let i = 0; i < 20; i++) {
    run();
  }
  let isDone = false;
  const end = busy.readTensor(y).then(() => {
    isDone = true;
  }, exception('InvalidStateError'));
  const other = await ml.createContext({ numThreads: 2 });
  const graph = await chain(other, 1);
  const tensors = await slowTensors(other);
  other.dispatch(graph, { x: tensors.x }, { y: tensors.y });
  await other.readTensor(tensors.y);
  assert.ok(!isDone, 'the other context had to wait');
  busy.destroy();
  await end;
});

test('results are the same bits for any number of threads', async () => {
  const results = [];
  for (const numThreads of [1, 2, 7]) {
    const context = await ml.createContext({ numThreads });
    const builder = new MLGraphBuilder(context);
    const x = builder.input('x', operand(3, 100_003));
    const graph = await builder.build({ y: builder.exp(builder.sin(x)), sum: builder.reduceSum(x, { axes: [1] }) });
    const input = await context.createTensor(floats(3, 100_003));
    const y = await context.createTensor(floats(3, 100_003));
    const sum = await context.createTensor(floats(3));
    context.writeTensor(
      input,
      Float32Array.from({ length: 300_009 }, (_, i) => Math.fround((i * 7919) % 1013) / 100),
    );
    context.dispatch(graph, { x: input }, { y, sum });
    results.push(await Promise.all([context.readTensor(y), context.readTensor(sum)]));
  }
  assert.deepEqual(results[1], results[0]);
  assert.deepEqual(results[2], results[0]);
});
