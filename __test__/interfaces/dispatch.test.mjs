import assert from 'node:assert/strict';
import { test } from 'node:test';

import { invalidState, typeError } from '../lib/exceptions.mjs';
import { newBuilder, webnn } from './helpers.mjs';

const { ml, MLGraphBuilder } = webnn();

const DESCRIPTOR = { dataType: 'float32', shape: [2, 3], readable: true, writable: true };

/** A graph `y = identity(a)`, `z = identity(b)` and tensors for it. */
async function setUp() {
  const { context, builder, a, b } = await newBuilder();
  const graph = await builder.build({ y: builder.identity(a), z: builder.identity(b) });
  const [ta, tb, ty, tz] = await Promise.all([0, 1, 2, 3].map(() => context.createTensor(DESCRIPTOR)));
  return { context, graph, ta, tb, ty, tz };
}

test('dispatch returns undefined and its outputs can be read', async () => {
  const { context, graph, ta, tb, ty, tz } = await setUp();
  context.writeTensor(ta, new Float32Array([1, 2, 3, 4, 5, 6]));
  context.writeTensor(tb, new Float32Array(6).fill(7));
  assert.equal(context.dispatch(graph, { b: tb, a: ta }, { z: tz, y: ty }), undefined);
  assert.deepEqual([...new Float32Array(await context.readTensor(ty))], [1, 2, 3, 4, 5, 6]);
});

test('dispatch converts its arguments in order', async () => {
  const { context, graph, ta, tb, ty, tz } = await setUp();
  const outputs = { y: ty, z: tz };
  assert.throws(() => context.dispatch({}, 1, 1), typeError(/^dispatch: graph is an object, expected an MLGraph$/));
  assert.throws(() => context.dispatch(graph, 1, 1), typeError(/^dispatch: inputs is 1, expected an object$/));
  assert.throws(() => context.dispatch(graph, { a: ta, b: tb }, undefined), typeError(/^dispatch: outputs is undefined/));
  assert.throws(() => context.dispatch(graph, { a: ta, b: {} }, outputs), typeError(/^dispatch: inputs\["b"\] is an object, expected an MLTensor$/));
  assert.throws(() => context.dispatch(graph, { a: ta, b: tb, [Symbol('s')]: tb }, outputs), TypeError);
});

test('names must be exactly those of the graph', async () => {
  const { context, graph, ta, tb, ty, tz } = await setUp();
  const outputs = { y: ty, z: tz };
  const extra = await context.createTensor(DESCRIPTOR);
  assert.throws(() => context.dispatch(graph, { a: ta }, outputs), typeError(/^dispatch: inputs do not match the graph: "b" missing; the graph has /));
  assert.throws(() => context.dispatch(graph, { a: ta, b: tb, c: extra }, outputs), typeError(/: "c" unknown;/));
  assert.throws(() => context.dispatch(graph, { a: ta, c: tb }, outputs), typeError(/: "b" missing, "c" unknown;/));
  assert.throws(() => context.dispatch(graph, { a: ta, b: tb }, { y: ty }), typeError(/^dispatch: outputs do not match the graph: "z" missing/));
  assert.throws(() => context.dispatch(graph, {}, outputs), typeError(/"b" missing|"a", "b" missing|"b", "a" missing/));
});

test('data types and shapes must be exactly those of the graph', async () => {
  const { context, graph, ta, tb, ty, tz } = await setUp();
  const transposed = await context.createTensor({ dataType: 'float32', shape: [3, 2] });
  const longer = await context.createTensor({ dataType: 'float32', shape: [2, 3, 1] });
  const halves = await context.createTensor({ dataType: 'float16', shape: [2, 3] });
  for (const [tensor, shown] of [
    [transposed, 'float32 \\[3, 2\\]'],
    [longer, 'float32 \\[2, 3, 1\\]'],
    [halves, 'float16 \\[2, 3\\]'],
  ]) {
    assert.throws(
      () => context.dispatch(graph, { a: ta, b: tensor }, { y: ty, z: tz }),
      typeError(new RegExp(`^dispatch: input "b" needs float32 \\[2, 3\\], the tensor is ${shown}$`)),
    );
    assert.throws(
      () => context.dispatch(graph, { a: ta, b: tb }, { y: ty, z: tensor }),
      typeError(new RegExp(`^dispatch: output "z" needs float32 \\[2, 3\\], the tensor is ${shown}$`)),
    );
  }
});

test('a tensor may be used once, must live and belong to the context, and be no constant', async () => {
  const { context, graph, ta, tb, ty, tz } = await setUp();
  assert.throws(() => context.dispatch(graph, { a: ta, b: ta }, { y: ty, z: tz }), typeError(/input "b" is passed more than once/));
  assert.throws(() => context.dispatch(graph, { a: ta, b: tb }, { y: ty, z: ty }), typeError(/output "z" is passed more than once/));
  assert.throws(() => context.dispatch(graph, { a: ta, b: tb }, { y: ty, z: ta }), typeError(/output "z" is passed more than once/));
  // Tensors of an earlier dispatch, also a failed one, are free again.
  context.dispatch(graph, { a: ta, b: tb }, { y: ty, z: tz });

  const other = await ml.createContext();
  const foreign = await other.createTensor(DESCRIPTOR);
  assert.throws(() => context.dispatch(graph, { a: foreign, b: tb }, { y: ty, z: tz }), typeError(/input "a" belongs to another context/));
  assert.throws(() => other.dispatch(graph, { a: ta, b: tb }, { y: ty, z: tz }), typeError(/graph belongs to another context/));

  const constant = await context.createConstantTensor(DESCRIPTOR, new Float32Array(6));
  assert.throws(() => context.dispatch(graph, { a: constant, b: tb }, { y: ty, z: tz }), typeError(/input "a" is a constant tensor/));

  tb.destroy();
  assert.throws(() => context.dispatch(graph, { a: ta, b: tb }, { y: ty, z: tz }), typeError(/input "b" is destroyed/));
});

test('a destroyed graph can not be dispatched', async () => {
  const { context, graph, ta, tb, ty, tz } = await setUp();
  assert.equal(graph.destroy(), undefined);
  graph.destroy();
  assert.throws(() => context.dispatch(graph, { a: ta, b: tb }, { y: ty, z: tz }), invalidState);
  assert.throws(() => context.dispatch(graph, {}, {}), invalidState);
});

test('inputs that no output needs are not inputs of the graph', async () => {
  const { context, builder, a } = await newBuilder();
  const graph = await builder.build({ y: builder.relu(a) });
  const [ta, tb, ty] = await Promise.all([0, 1, 2].map(() => context.createTensor(DESCRIPTOR)));
  context.dispatch(graph, { a: ta }, { y: ty });
  assert.throws(() => context.dispatch(graph, { a: ta, b: tb }, { y: ty }), typeError(/"b" unknown/));
});

test('one operand may be output under several names', async () => {
  const { context, builder, a } = await newBuilder();
  const relu = builder.relu(a);
  const graph = await builder.build({ first: relu, second: relu });
  const [ta, t1, t2] = await Promise.all([0, 1, 2].map(() => context.createTensor(DESCRIPTOR)));
  context.writeTensor(ta, new Float32Array(6).fill(5));
  context.dispatch(graph, { a: ta }, { second: t2, first: t1 });
  assert.deepEqual(await context.readTensor(t1), await context.readTensor(t2));
});

test('a graph without inputs is dispatched with none', async () => {
  const context = await ml.createContext();
  const builder = new MLGraphBuilder(context);
  const one = builder.constant('float32', 1);
  const graph = await builder.build({ y: builder.add(one, one) });
  const ty = await context.createTensor({ dataType: 'float32', shape: [], readable: true });
  context.dispatch(graph, {}, { y: ty });
  assert.equal((await context.readTensor(ty)).byteLength, 4);
});
