import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createContext, runInContext } from 'node:vm';
import * as api from '../../index.js';
import { MLGraphBuilder, exception, floats, ml, operand } from './helpers.mjs';

const realm = createContext({ api: { ...api } });

/** Evaluates an expression where every object and class is another one. */
const foreign = (expression) => runInContext(`(${expression})`, realm);

test('descriptors, options and lists of another realm are accepted', async () => {
  const context = await ml.createContext(foreign(`{ powerPreference: 'low-power', numThreads: 1 }`));
  const builder = new MLGraphBuilder(context);
  const x = builder.input('x', foreign(`{ dataType: 'float32', shape: [2, 3] }`));
  assert.deepEqual(x.shape, [2, 3]);
  const parts = builder.split(x, foreign(`[1, 2]`), foreign(`{ axis: 1, label: new String('parts') }`));
  assert.ok(Array.isArray(parts) && Object.getPrototypeOf(parts) === Array.prototype);
  const sum = builder.reduceSum(x, foreign(`{ axes: new Set([0]), keepDimensions: 1 }`));
  assert.deepEqual(sum.shape, [1, 3]);
});

test('buffers of another realm are read and filled', async () => {
  const context = await ml.createContext();
  const tensor = await context.createTensor(floats(4));
  for (const source of [
    'new Float32Array([1, 2, 3, 4])',
    'new Float32Array([0, 1, 2, 3, 4, 5]).subarray(1, 5)',
    'new Float32Array([1, 2, 3, 4]).buffer',
    'new Uint8Array(new Float32Array([1, 2, 3, 4]).buffer)',
    'Object.assign(new SharedArrayBuffer(16), {})',
    'new Float32Array(new SharedArrayBuffer(16))',
  ]) {
    const data = foreign(source);
    const bytes = ArrayBuffer.isView(data) ? new Float32Array(data.buffer, data.byteOffset, 4) : new Float32Array(data);
    bytes.set([1, 2, 3, 4]);
    context.writeTensor(tensor, data);
    bytes.fill(0);
    await context.readTensor(tensor, data);
    assert.deepEqual([...bytes], [1, 2, 3, 4], source);
    await context.createConstantTensor(operand(4), data);
    new MLGraphBuilder(context).constant(operand(4), data);
  }
  assert.throws(
    () => context.writeTensor(tensor, foreign('new Float64Array(2)')),
    exception('TypeError', /Float64Array/),
  );
});

test('records of another realm are accepted', async () => {
  const context = await ml.createContext();
  const builder = new MLGraphBuilder(context);
  realm.y = builder.neg(builder.input('x', operand(1)));
  const graph = await builder.build(foreign('{ y }'));
  [realm.a, realm.b] = await Promise.all([context.createTensor(floats(1)), context.createTensor(floats(1))]);
  context.writeTensor(realm.a, new Float32Array([5]));
  context.dispatch(graph, foreign('{ x: a }'), foreign('{ y: b }'));
  assert.deepEqual([...new Float32Array(await context.readTensor(realm.b))], [-5]);
});

test('code of another realm uses the objects of this one, whose exceptions are thrown', async () => {
  realm.MLGraphBuilder = MLGraphBuilder;
  realm.ml = ml;
  const shape = await foreign(`(async () => {
    const context = await ml.createContext();
    const builder = new MLGraphBuilder(context);
    const tensor = await context.createTensor({ dataType: 'float32', shape: [2] });
    return [...tensor.shape, ...builder.input('x', { dataType: 'int8', shape: [3] }).shape];
  })()`);
  assert.deepEqual([...shape], [2, 3]);
  await assert.rejects(foreign(`ml.createContext(1)`), exception('TypeError'));
});
