import assert from 'node:assert/strict';
import { test } from 'node:test';
import { exception } from '../lib/exceptions.mjs';
import { MLGraphBuilder, floats, ml, operand, read, resultOf } from '../runtime/helpers.mjs';
import { enumerations } from './support.mjs';
import { wrong } from '../lib/types.mjs';

const typeError = exception('TypeError');

test('shapes beyond the limits are refused wherever they come in', async () => {
  const context = await ml.createContext();
  const builder = new MLGraphBuilder(context);
  for (const shape of [
    [0],
    [2, 0, 3],
    [2 ** 31],
    [2 ** 32 - 1],
    [2 ** 16, 2 ** 16],
    [2 ** 31 - 1, 2 ** 31 - 1],
    [2 ** 31 - 1, 2],
    Array(8).fill(2 ** 31 - 1),
    Array(8).fill(2 ** 32 - 1),
    [2 ** 16, 2 ** 16, 2 ** 16, 2 ** 16],
    Array(9).fill(1),
  ]) {
    for (const dataType of /** @type {import('../../index.js').MLOperandDataType[]} */ (enumerations.MLOperandDataType)) {
      await assert.rejects(context.createTensor({ dataType, shape }), typeError);
      await assert.rejects(context.createConstantTensor({ dataType, shape }, new Uint8Array(0)), typeError);
      await assert.rejects(context.createConstantTensor({ dataType, shape }, new ArrayBuffer(8)), typeError);
      assert.throws(() => builder.input('x', { dataType, shape }), typeError);
      assert.throws(() => builder.constant({ dataType, shape }, new Uint8Array(0)), typeError);
    }
  }
  for (const size of [2 ** 32, -1, NaN, Infinity, 2 ** 53, 1n, 'x', undefined, {}, Symbol('x')]) {
    const shape = [wrong(size)];
    await assert.rejects(context.createTensor({ dataType: 'int8', shape }), typeError);
    assert.throws(() => builder.input('x', { dataType: 'int8', shape }), typeError);
  }
  // 2^31 - 1 bytes are the most.
  for (const [dataType, size] of /** @type {[import('../../index.js').MLOperandDataType, number][]} */ ([
    ['int64', 2 ** 28],
    ['float32', 2 ** 29],
    ['float16', 2 ** 30],
  ])) {
    await assert.rejects(context.createTensor({ dataType, shape: [size] }), exception('TypeError', /maxTensorByteLength/));
    assert.throws(() => builder.input('x', { dataType, shape: [size] }), exception('TypeError', /maxTensorByteLength/));
  }
  assert.deepEqual(builder.input('x', { dataType: 'int8', shape: [2 ** 31 - 1] }).shape, [2 ** 31 - 1]);
});

test('memory that cannot be had is a rejected promise, and the rest goes on', async () => {
  const result = await resultOf(
    `const context = await helpers.ml.createContext({ numThreads: 1 });
     const tensors = [];
     let refusal = null;
     // Nothing touches them: machines hand out pages when they are written.
     for (let i = 0; i < 4000 && refusal === null; i++) {
       await context.createTensor({ dataType: 'uint8', shape: [2 ** 31 - 1], readable: true, writable: true }).then(
         (tensor) => tensors.push(tensor),
         (error) => { refusal = error; },
       );
     }
     const message = String(refusal?.message);
     const isRight = refusal instanceof DOMException && refusal.name === 'UnknownError';
     // The same for a graph that needs an arena, while everything is in use.
     const builder = new helpers.MLGraphBuilder(context);
     let y = builder.input('x', { dataType: 'float32', shape: [2 ** 29 - 1] });
     y = builder.transpose(builder.reshape(builder.cumulativeSum(y, 0), [1, 2 ** 29 - 1]));
     const graph = await builder.build({ y: builder.cumulativeSum(y, 0) }).then(() => null, ({ name }) => name);
     const failure = await context.readTensor(tensors[0]).then(() => null, ({ name }) => name);
     for (const tensor of tensors) tensor.destroy();
     const after = await context.createTensor(helpers.floats(1000));
     const zeros = (await helpers.read(context, after)).length;
     console.log(JSON.stringify({ count: tensors.length, isRight, message, graph, failure, zeros }));`,
  );
  assert.ok(result.isRight, result.message);
  assert.match(result.message, /2147483647 bytes/);
  assert.ok(result.count >= 1);
  assert.equal(result.graph, 'OperationError');
  assert.equal(result.failure, 'UnknownError');
  assert.equal(result.zeros, 1000);
});

test('data that cannot be copied is an exception, not the end of the process', async () => {
  const result = await resultOf(
    `const context = await helpers.ml.createContext({ numThreads: 1 });
     const tensors = [];
     for (let full = false; !full; ) {
       await context.createTensor({ dataType: 'uint8', shape: [2 ** 28], writable: true }).then(
         (tensor) => tensors.push(tensor),
         () => { full = true; },
       );
     }
     const data = new Uint8Array(2 ** 28);
     const builder = new helpers.MLGraphBuilder(context);
     const descriptor = { dataType: 'uint8', shape: [2 ** 28] };
     const nameOf = (call) => { try { call(); return null; } catch (error) { return error.name; } };
     console.log(JSON.stringify([
       nameOf(() => context.writeTensor(tensors[0], data)),
       nameOf(() => builder.constant(descriptor, data)),
       await context.createConstantTensor(descriptor, data).then(() => null, ({ name }) => name),
     ]));`,
  );
  assert.deepEqual(result, ['UnknownError', 'UnknownError', 'UnknownError']);
});

test('scalars and single elements of every rank', async () => {
  const context = await ml.createContext();
  for (let rank = 0; rank <= 8; rank++) {
    const shape = Array(rank).fill(1);
    const builder = new MLGraphBuilder(context);
    const graph = await builder.build({ y: builder.exp(builder.input('x', operand(...shape))) });
    const [x, y] = await Promise.all([context.createTensor(floats(...shape)), context.createTensor(floats(...shape))]);
    context.writeTensor(x, new Float32Array([0]));
    context.dispatch(graph, { x }, { y });
    assert.deepEqual([...(await read(context, y))], [1]);
    assert.deepEqual(y.shape, shape);
  }
});
