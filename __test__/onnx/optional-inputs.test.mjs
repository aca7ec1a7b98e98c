// Inputs with a default: an initializer of the same name.

import assert from 'node:assert/strict';
import test, { after, before } from 'node:test';
import { MLGraphBuilder, ml } from '../../index.js';
import { importModel, inspectModel, loadModel } from '../../onnx.js';
import { FLOAT, node, value, weight, writeModel } from './model-writer.mjs';

let context;
before(async () => {
  context = await ml.createContext({ accelerated: false });
});
after(() => context.destroy());

/** y = x * w + b, with defaults for w and b. */
const affine = (fields = {}) =>
  writeModel({
    inputs: [value('x', FLOAT, ['n']), value('w', FLOAT, [1]), value('b', FLOAT, ['n'])],
    outputs: [value('y', FLOAT, ['n'])],
    weights: [weight('w', [1], Float32Array.of(2)), weight('b', [2], Float32Array.of(0, 1))],
    nodes: [node('Mul', ['x', 'w'], ['p']), node('Add', ['p', 'b'], ['y'])],
    ...fields,
  });

const x = Float32Array.of(1, 2);
const of = (/** @type {number[]} */ ...numbers) => Float32Array.of(...numbers);
const y = async (/** @type {any} */ model, /** @type {object} */ feeds) => [...(await model.run({ x, ...feeds })).y.data];

test('defaults apply, or what is fed, in any order and at the same time', async () => {
  const model = await loadModel(affine(), { context });
  assert.deepEqual(
    [model.inputs, model.optionalInputs].map((values) => values.map(({ name }) => name)),
    [['x'], ['w', 'b']],
  );
  for (let i = 0; i < 3; i++) {
    assert.deepEqual(await y(model, {}), [2, 5]);
    assert.deepEqual(await y(model, { w: of(10) }), [10, 21]);
    assert.deepEqual(await y(model, { b: of(7, 8) }), [9, 12]);
    assert.deepEqual(await y(model, { b: of(7, 8), w: of(10) }), [17, 28]);
  }
  // Promises settle in the order of the runs; data are read during the call.
  const w = of(3);
  /** @type {string[]} */
  const order = [];
  const runs = [{}, { w }, { b: of(1, 1) }, {}].map((feeds, at) => y(model, feeds).finally(() => order.push(String(at))));
  w[0] = 0;
  assert.deepEqual(await Promise.all(runs), [
    [2, 5],
    [3, 7],
    [3, 5],
    [2, 5],
  ]);
  assert.equal(order.join(), '0,1,2,3');
  model.destroy();
});

test('compile(), describe() and profile() take them, and destroy() frees all', async () => {
  const model = await loadModel(affine(), { context });
  assert.deepEqual(Object.keys((await model.compile({ x: [2] })).inputs), ['x']);
  const { graph, inputs } = await model.compile({ x: [2], w: [1] });
  assert.deepEqual(Object.keys(inputs), ['x', 'w']);
  assert.ok((await model.describe({ x: [2], b: [2] })).graph);
  const { results } = await model.profile({ x, w: of(5) });
  assert.deepEqual([...results.y.data], [5, 11]);
  const running = model.run({ x, w: of(4) });
  model.destroy();
  assert.deepEqual([...(await running).y.data], [4, 9]);
  await assert.rejects(model.run({ x, w: of(4) }), { code: 'ERR_WEBNN_DESTROYED' });
  assert.throws(() => context.dispatch(graph, {}, {}), /the graph is destroyed/);
});

test('a wrong feed is an error that names it', async () => {
  const model = await loadModel(affine(), { context });
  await assert.rejects(model.run({ x, w: of(1, 2) }), { code: 'ERR_WEBNN_SHAPE', message: /"w" has 8 bytes/ });
  await assert.rejects(model.run({ x, w: Int32Array.of(1) }), { code: 'ERR_WEBNN_TYPE', message: /"w"/ });
  await assert.rejects(model.run({ w: of(1) }), { code: 'ERR_WEBNN_MISSING_FEED', message: /"x" is missing/ });
  await assert.rejects(model.run({ x, p: of(1) }), { code: 'ERR_WEBNN_UNKNOWN_FEED', message: /"p" is not an input/ });
  model.destroy();
});

test('constants and operands replace a default for good', async () => {
  const model = await loadModel(affine(), { context, constants: { w: of(10) } });
  assert.deepEqual(
    model.optionalInputs.map(({ name }) => name),
    ['b'],
  );
  assert.deepEqual(await y(model, {}), [10, 21]);
  assert.deepEqual(await y(model, { b: of(1, 1) }), [11, 21]);
  await assert.rejects(model.run({ x, w: of(1) }), { code: 'ERR_WEBNN_UNKNOWN_FEED' });
  model.destroy();
  const builder = new MLGraphBuilder(context);
  const w = builder.constant({ dataType: 'float32', shape: [1] }, of(3));
  const outputs = importModel(builder, affine(), { w }, { freeDimensions: { n: 2 } });
  const graph = await builder.build(outputs);
  const [input, output] = await Promise.all([
    context.createTensor({ dataType: 'float32', shape: [2], writable: true }),
    context.createTensor({ dataType: 'float32', shape: [2], readable: true }),
  ]);
  context.writeTensor(input, x);
  context.dispatch(graph, { x: input }, { y: output });
  assert.deepEqual([...new Float32Array(await context.readTensor(output))], [3, 7]);
});

test('a value that decides a branch can be a default', async () => {
  const branch = (/** @type {string} */ operator) => ({
    g: { name: operator, node: [node(operator, ['x'], [operator])], output: [value(operator, FLOAT, ['n'])] },
  });
  const bytes = writeModel({
    inputs: [value('x', FLOAT, ['n']), value('c', 9, [1])],
    outputs: [value('y', FLOAT, ['n'])],
    weights: [weight('c', [1], Uint8Array.of(1), 9)],
    nodes: [node('If', ['c'], ['y'], { then_branch: branch('Neg'), else_branch: branch('Exp') })],
  });
  const model = await loadModel(bytes, { context });
  assert.deepEqual(await y(model, {}), [-1, -2]);
  assert.deepEqual(await y(model, { c: Uint8Array.of(0) }), [...Float32Array.of(Math.E, Math.E ** 2)]);
  assert.deepEqual(await y(model, { c: Uint8Array.of(1) }), [-1, -2]);
  model.destroy();
});

test('more sets of fed inputs than are kept give right results, and destroy() reaches all their graphs', async () => {
  const names = ['a', 'b', 'c', 'd'];
  const bytes = writeModel({
    inputs: [value('x', FLOAT, ['n']), ...names.map((name) => value(name, FLOAT, [1]))],
    outputs: [value('y', FLOAT, ['n'])],
    weights: names.map((name) => weight(name, [1], of(0))),
    nodes: [node('Sum', ['x', ...names], ['y'])],
  });
  const model = await loadModel(bytes, { context });
  for (let round = 0; round < 2; round++) {
    for (let set = 0; set < 16; set++) {
      const fed = Object.fromEntries(names.filter((_, i) => set & (1 << i)).map((name) => [name, of(2 ** (4 + names.indexOf(name)))]));
      assert.deepEqual(await y(model, fed), [1 + 16 * set, 2 + 16 * set]);
    }
  }
  const graphs = [];
  for (let set = 0; set < 16; set++) {
    const shapes = Object.fromEntries(names.filter((_, i) => set & (1 << i)).map((name) => [name, [1]]));
    graphs.push((await model.compile({ x: [2], ...shapes })).graph);
  }
  model.destroy();
  for (const graph of graphs) {
    assert.throws(() => context.dispatch(graph, {}, {}), /the graph is destroyed/);
  }
});

test('before version 4 of the format, such inputs are constants', async () => {
  const bytes = affine({ ir_version: 3 });
  assert.deepEqual(inspectModel(bytes).optionalInputs, []);
  assert.equal(inspectModel(affine()).optionalInputs.length, 2);
  const model = await loadModel(bytes, { context });
  assert.deepEqual(await y(model, {}), [2, 5]);
  await assert.rejects(model.run({ x, w: of(1) }), { code: 'ERR_WEBNN_UNKNOWN_FEED' });
  model.destroy();
});
