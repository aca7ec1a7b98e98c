import assert from 'node:assert/strict';
import { test } from 'node:test';
import { exception } from '../lib/exceptions.mjs';
import { MLGraphBuilder, floats, ml, operand, read } from '../runtime/helpers.mjs';
import { wrong } from '../lib/types.mjs';

const typeError = exception('TypeError');

/** Builds and runs a graph with one input `x`, of ones. */
async function run(context, builder, inputShape, outputs) {
  const graph = await builder.build(outputs);
  const x = await context.createTensor(floats(...inputShape));
  context.writeTensor(x, new Float32Array(inputShape.reduce((a, b) => a * b, 1)).fill(1));
  const tensors = {};
  for (const [name, { shape }] of Object.entries(outputs)) {
    tensors[name] = await context.createTensor(floats(...shape));
  }
  context.dispatch(graph, { x }, tensors);
  const results = {};
  for (const [name, tensor] of Object.entries(tensors)) {
    results[name] = await read(context, tensor);
  }
  return results;
}

test('a chain of 5,000 operators', async () => {
  const context = await ml.createContext();
  const builder = new MLGraphBuilder(context);
  let y = builder.input('x', operand(8));
  const one = builder.constant('float32', 1);
  for (let i = 0; i < 5000; i++) {
    y = i % 3 === 2 ? builder.reshape(y, i % 2 ? [8] : [2, 4]) : builder.add(y, one);
  }
  const expected = 1 + Array.from({ length: 5000 }, (_, i) => Number(i % 3 !== 2)).reduce((a, b) => a + b);
  const results = await run(context, builder, [8], { y });
  assert.ok(
    results.y.every((value) => value === expected),
    `${results.y}, expected ${expected}`,
  );
});

test('5,000 operators side by side, and one that takes them all', async () => {
  const context = await ml.createContext();
  const builder = new MLGraphBuilder(context);
  const x = builder.input('x', operand(3));
  const parts = Array.from({ length: 5000 }, (_, i) => builder.mul(x, builder.constant('float32', i)));
  const { y, first } = await run(context, builder, [3], { y: builder.concat(parts, 0), first: parts[4999] });
  assert.equal(y.length, 15_000);
  assert.ok(y.every((value, i) => value === Math.floor(i / 3)));
  assert.deepEqual([...first], [4999, 4999, 4999]);
});

test('a value that doubles 1,000 times over its own users', async () => {
  const context = await ml.createContext();
  const builder = new MLGraphBuilder(context);
  let y = builder.input('x', operand(2));
  for (let i = 0; i < 1000; i++) {
    y = builder.mul(builder.add(y, y), builder.constant('float32', 0.5));
  }
  assert.deepEqual([...(await run(context, builder, [2], { y })).y], [1, 1]);
});

test('8,192 splits and a concat of them, and not one more', async () => {
  const context = await ml.createContext();
  const builder = new MLGraphBuilder(context);
  const x = builder.input('x', operand(8192, 2));
  const parts = builder.split(x, 8192);
  assert.equal(parts.length, 8192);
  const y = builder.concat(
    parts.map((part, i) => (i % 2 ? builder.neg(part) : part)),
    0,
  );
  const results = await run(context, builder, [8192, 2], { y, last: parts[8191] });
  assert.ok(results.y.every((value, i) => value === (Math.floor(i / 2) % 2 ? -1 : 1)));
  assert.deepEqual([...results.last], [1, 1]);
  const other = new MLGraphBuilder(context);
  const large = other.input('x', { dataType: 'int8', shape: [2 ** 31 - 1] });
  for (const splits of [8193, 2 ** 31 - 1, 2 ** 32 - 1, Array(8193).fill(1)]) {
    assert.throws(() => other.split(large, splits), typeError);
  }
  assert.throws(() => other.concat(Array(8193).fill(large), 0), typeError);
});

test('concats within concats', async () => {
  const context = await ml.createContext();
  const builder = new MLGraphBuilder(context);
  const x = builder.input('x', operand(1));
  let y = x;
  for (let i = 0; i < 1000; i++) {
    y = builder.concat([y, x], 0);
  }
  const { y: result } = await run(context, builder, [1], { y });
  assert.equal(result.length, 1001);
  assert.ok(result.every((value) => value === 1));
});

test('1,000 outputs, and the same operand 100 times', async () => {
  const context = await ml.createContext();
  const builder = new MLGraphBuilder(context);
  const x = builder.input('x', operand(2));
  const outputs = Object.fromEntries(Array.from({ length: 1000 }, (_, i) => [`o${i}`, builder.add(x, builder.constant('float32', i))]));
  const same = builder.neg(x);
  const shared = Object.fromEntries(Array.from({ length: 100 }, (_, i) => [`s${i}`, same]));
  const results = await run(context, builder, [2], { ...outputs, ...shared });
  for (let i = 0; i < 1000; i++) {
    assert.deepEqual([...results[`o${i}`]], [i + 1, i + 1]);
  }
  for (let i = 0; i < 100; i++) {
    assert.deepEqual([...results[`s${i}`]], [-1, -1]);
  }
});

test('views of views, and outputs that are views of inputs', async () => {
  const context = await ml.createContext();
  const builder = new MLGraphBuilder(context);
  const x = builder.input('x', operand(4, 6));
  let view = x;
  for (let i = 0; i < 300; i++) {
    view = builder.reshape(builder.slice(builder.reshape(view, [24]), [0], [24]), i % 2 ? [4, 6] : [2, 12]);
  }
  const [a, b] = builder.split(x, 2);
  const results = await run(context, builder, [4, 6], {
    view,
    same: builder.identity(x),
    a,
    b,
    again: builder.reshape(a, [12]),
  });
  for (const values of Object.values(results)) {
    assert.ok(values.every((value) => value === 1));
  }
});

test('the tensors of a dispatch are all different and of its context', async () => {
  const [context, other] = await Promise.all([ml.createContext(), ml.createContext()]);
  const builder = new MLGraphBuilder(context);
  const x = builder.input('x', operand(2));
  const graph = await builder.build({ y: builder.add(x, builder.input('z', operand(2))), w: builder.neg(x) });
  const [a, b, c, d] = await Promise.all(Array.from({ length: 4 }, () => context.createTensor(floats(2))));
  const foreign = await other.createTensor(floats(2));
  for (const [inputs, outputs] of [
    [
      { x: a, z: a },
      { y: c, w: d },
    ],
    [
      { x: a, z: b },
      { y: c, w: c },
    ],
    [
      { x: a, z: b },
      { y: a, w: d },
    ],
    [
      { x: a, z: b },
      { y: c, w: b },
    ],
    [
      { x: foreign, z: b },
      { y: c, w: d },
    ],
    [
      { x: a, z: b },
      { y: c, w: foreign },
    ],
  ]) {
    assert.throws(() => context.dispatch(graph, wrong(inputs), wrong(outputs)), typeError);
  }
  assert.throws(() => other.dispatch(graph, { x: a, z: b }, { y: c, w: d }), typeError);
  context.dispatch(graph, { x: a, z: b }, { y: c, w: d });
  assert.deepEqual([...(await read(context, d))], [-0, -0]);
});

test('a builder builds once, also when that fails', async () => {
  const context = await ml.createContext();
  const builder = new MLGraphBuilder(context);
  const y = builder.neg(builder.input('x', operand(2)));
  const [first, second] = await Promise.allSettled([builder.build({ y }), builder.build({ y })]);
  assert.equal(first.status, 'fulfilled');
  assert.ok(second.status === 'rejected');
  exception('InvalidStateError')(second.reason);
});

test('a depthwise convolution with steps that leave the image is computed', async () => {
  const context = await ml.createContext({ numThreads: 2 });
  const builder = new MLGraphBuilder(context);
  const x = builder.input('x', operand(1, 2, 1, 1));
  const filter = builder.constant(operand(2, 1, 2, 1), new Float32Array([1, 2, 3, 4]));
  const y = builder.conv2d(x, filter, {
    groups: 2,
    padding: [2 ** 31 - 1, 0, 0, 0],
    strides: [1, 2 ** 28],
    dilations: [2 ** 31 - 1, 1],
  });
  assert.deepEqual([...y.shape], [1, 2, 1, 1]);
  const result = await run(context, builder, [1, 2, 1, 1], { y });
  // The first row of the filter lies in the padding, the second one on the only row of the input.
  assert.deepEqual([...result.y], [2, 4]);
});
