// Models whose data decide about sizes, branches and rounds: they are cut there.

import assert from 'node:assert/strict';
import test, { after, before, describe } from 'node:test';
import { MLGraphBuilder, ml } from '../../index.js';
import { describeGraph } from '../../inspect.js';
import { OnnxError, importModel, inspectModel, loadModel } from '../../onnx.js';
import { FLOAT, INT64, node, value, weight, writeModel } from './model-writer.mjs';
import { defined } from '../lib/types.mjs';

/** y = the positive elements of x, doubled; `rows` = y in rows of `k`. */
const positive = () =>
  writeModel({
    inputs: [value('x', FLOAT, ['n']), value('shape', INT64, [2])],
    outputs: [value('y', FLOAT), value('rows', FLOAT)],
    weights: [weight('two', [], Float32Array.of(2)), weight('axis', [1], BigInt64Array.of(0n))],
    nodes: [
      node('Relu', ['x'], ['r']),
      node('NonZero', ['r'], ['places'], {}, 'finds'),
      node('Squeeze', ['places', 'axis'], ['at']),
      node('Gather', ['x', 'at'], ['found']),
      node('Mul', ['found', 'two'], ['y']),
      node('Reshape', ['y', 'shape'], ['rows']),
    ],
  });

let context;
before(async () => {
  context = await ml.createContext();
});
after(() => context.destroy());

describe('a model that is cut', () => {
  test('runs with any sizes and data, into tensors as well', async () => {
    const model = await loadModel(positive(), { context });
    for (const [x, rows] of /** @type {[number[], number][]} */ ([
      [[1, -1, 2, 3, 4], 2],
      [[5, -1, 6, 7], 3],
      [[8], 1],
      [[-1, -2], 0],
    ])) {
      const doubled = x.filter((element) => element > 0).map((element) => 2 * element);
      const shape = rows === 0 ? [0, 1] : [rows, doubled.length / rows];
      const results = await model.run({
        x: { data: Float32Array.from(x), shape: [x.length] },
        shape: BigInt64Array.from(rows === 0 ? [0n, 1n] : [BigInt(rows), -1n]),
      });
      assert.deepEqual([...results.y.data], doubled);
      assert.deepEqual(results.rows.shape, rows === 0 ? [0, 1] : shape);
    }
    const y = await context.createTensor({ dataType: 'float32', shape: [2], readable: true });
    const feeds = { x: { data: Float32Array.of(1, 2), shape: [2] }, shape: BigInt64Array.of(1n, 2n) };
    const { rows } = await model.run(feeds, { y });
    assert.deepEqual([...rows.data], [2, 4]);
    assert.deepEqual([...new Float32Array(await context.readTensor(y))], [2, 4]);
    const wrong = await context.createTensor({ dataType: 'float32', shape: [3] });
    await assert.rejects(model.run(feeds, { y: wrong }), { code: 'ERR_WEBNN_SHAPE' });
    model.destroy();
  });

  test('describes the graph of its first stage and what is left', async () => {
    const model = await loadModel(positive(), { context });
    const { graph, cuts, nodesLeft } = await model.describe({ x: [3] });
    assert.ok(graph);
    assert.deepEqual(
      graph.source.nodes.map(({ operator }) => operator),
      ['relu'],
    );
    assert.deepEqual(
      graph.source.values.map(({ shape }) => shape),
      [[3], [3]],
    );
    assert.deepEqual(
      graph.source.inputs.map(({ name }) => name),
      ['x'],
    );
    assert.deepEqual(
      graph.source.outputs.map(({ name }) => name.replace(/^\d+:/, '')),
      ['r'],
    );
    assert.deepEqual([cuts.length, nodesLeft], [1, 5]);
    assert.deepEqual(cuts, inspectModel(positive()).cuts);
    await assert.rejects(model.describe({ y: [3] }), { code: 'ERR_WEBNN_UNKNOWN_FEED', message: /^describe: / });
    model.destroy();

    const whole = await loadModel(writeModel({ inputs: [value('x', FLOAT, ['n'])], outputs: [value('y', FLOAT)], nodes: [node('Relu', ['x'], ['y'])] }), {
      context,
    });
    const described = await whole.describe({ x: [4] });
    assert.deepEqual(described, { graph: describeGraph(defined((await whole.compile({ x: [4] })).graph)), cuts: [], nodesLeft: 0 });
    assert.deepEqual(await whole.describe({ x: [0] }), { graph: null, cuts: [], nodesLeft: 0 });
    whole.destroy();
  });

  test('says where it is cut, and is no single graph', async () => {
    const { cuts, unsupported } = inspectModel(positive());
    assert.deepEqual([unsupported.length, cuts.length, cuts[0].name, cuts[0].operator], [0, 1, 'finds', 'NonZero']);
    const model = await loadModel(positive(), { context });
    await assert.rejects(model.compile({ x: [3] }), { code: 'ERR_WEBNN_NOT_SUPPORTED' });
    model.destroy();
    await assert.rejects(model.describe({ x: [3] }), { code: 'ERR_WEBNN_DESTROYED' });
    assert.throws(() => importModel(new MLGraphBuilder(context), positive(), {}, { freeDimensions: { n: 3 } }), OnnxError);
  });

  test('tells what the data make wrong', async () => {
    const model = await loadModel(positive(), { context });
    const feeds = { x: { data: Float32Array.of(1, 2, 3), shape: [3] }, shape: BigInt64Array.of(2n, -1n) };
    await assert.rejects(model.run(feeds), { name: 'OnnxError', message: /cannot get the shape/ });
    model.destroy();
  });
});
