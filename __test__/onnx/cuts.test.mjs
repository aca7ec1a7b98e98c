// Models whose data decide about sizes, branches and rounds: they are cut there.

import assert from 'node:assert/strict';
import test, { after, before, describe } from 'node:test';
import { MLGraphBuilder, ml } from '../../index.js';
import { describeGraph } from '../../inspect.js';
import { OnnxError, importModel, inspectModel, loadModel } from '../../onnx.js';
import { BOOL, FLOAT, INT64, node, value, weight, writeModel } from './model-writer.mjs';
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

/** A graph in an attribute, with the output `name`. */
const body = (name, ...nodes) => ({ g: { name, node: nodes, output: [value(name, FLOAT)] } });

/** Attributes of an `If` with this graph and one that negates x. */
const branches = (name, ...nodes) => ({ then_branch: body(name, ...nodes), else_branch: body('negative', node('Neg', ['x'], ['negative'])) });

/**
 * y = what `operator` makes of x, by way of a branch in a branch, for a rate of 16; y = -x for others. As in Silero's model of voice
 * activity, the outer condition follows from an input and the inner one from a size.
 */
const branching = (...operator) =>
  writeModel({
    inputs: [value('x', FLOAT, ['n']), value('rate', INT64, [])],
    outputs: [value('y', FLOAT)],
    weights: [weight('sixteen', [], BigInt64Array.of(16n)), weight('rows', [2], BigInt64Array.of(3n, 4n)), weight('zero', [], BigInt64Array.of(0n))],
    nodes: [
      node('Equal', ['rate', 'sixteen'], ['is_sixteen']),
      node(
        'If',
        ['is_sixteen'],
        ['y'],
        branches(
          'chosen',
          node(.../** @type {Parameters<typeof node>} */ (operator)),
          node('Shape', ['x'], ['shape']),
          node('Gather', ['shape', 'zero'], ['size']),
          node('Cast', ['size'], ['has_size'], { to: { i: BOOL } }),
          node('If', ['has_size'], ['chosen'], branches('positive', node('Relu', ['made'], ['positive']))),
        ),
      ),
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
      defined(graph).source.nodes.map(({ operator }) => operator),
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

describe('branches', () => {
  const x = { data: Float32Array.from({ length: 12 }, (_, i) => i - 5), shape: [12] };
  const [positive, negative] = [(i) => Math.max(i, 0), (i) => -i].map((of) => [...x.data].map(of));
  const rate = (number) => BigInt64Array.of(BigInt(number));

  test('are chosen by constants when the model is loaded, although not all sizes are possible', async () => {
    const source = branching('Reshape', ['x', 'rows'], ['made']);
    const chosen = await loadModel(source, { context, constants: { rate: rate(16) } });
    const { y } = await chosen.run({ x });
    assert.deepEqual([y.shape, [...y.data]], [[3, 4], positive]);
    // The model is whole: one graph, without the branch that is not taken.
    const { graph, cuts } = await chosen.describe({ x: [12] });
    assert.deepEqual([cuts, defined(graph).source.nodes.map(({ operator }) => operator)], [[], ['reshape', 'relu']]);
    await assert.rejects(chosen.run({ x: x.data.subarray(1) }), { code: 'ERR_WEBNN_UNSUPPORTED_OPERATOR', message: /Reshape/ });
    chosen.destroy();
    const other = await loadModel(source, { context, constants: { rate: rate(8) } });
    assert.deepEqual((await other.run({ x })).y.data, Float32Array.from(negative));
    other.destroy();
  });

  test('are chosen by feeds', async () => {
    const model = await loadModel(branching('Reshape', ['x', 'rows'], ['made']), { context });
    assert.deepEqual([...(await model.run({ x, rate: rate(16) })).y.data], positive);
    assert.deepEqual((await model.run({ x, rate: rate(8) })).y.shape, [12]);
    model.destroy();
  });

  test('can have a cut inside, at any depth', async () => {
    const found = [node('NonZero', ['x'], ['places']), node('Cast', ['places'], ['made'], { to: { i: FLOAT } })];
    const places = [...x.data.keys()].filter((at) => x.data[at] !== 0);
    for (const constants of [{ rate: rate(16) }, undefined]) {
      const model = await loadModel(
        writeModel({
          inputs: [value('x', FLOAT, ['n']), value('rate', INT64, [])],
          outputs: [value('y', FLOAT)],
          weights: [weight('yes', [], Uint8Array.of(1), BOOL), weight('sixteen', [], BigInt64Array.of(16n))],
          nodes: [
            node('Equal', ['rate', 'sixteen'], ['is_sixteen']),
            node('If', ['is_sixteen'], ['y'], branches('chosen', node('If', ['yes'], ['chosen'], branches('made', ...found)))),
          ],
        }),
        { context, constants },
      );
      const { y } = await model.run({ x, ...(constants === undefined && { rate: rate(16) }) });
      assert.deepEqual([y.shape, [...y.data]], [[1, places.length], places]);
      model.destroy();
    }
  });
});

/** ys = the running sums of the rows of xs, and their last one; `length` rows of 4. */
const summing = (length) => {
  const row = [4];
  const body = {
    name: 'body',
    input: [value('sum', FLOAT, row), value('x', FLOAT, row)],
    node: [node('Add', ['sum', 'x'], ['next']), node('Identity', ['next'], ['y'])],
    output: [value('next', FLOAT, row), value('y', FLOAT, row)],
  };
  return writeModel({
    inputs: [value('xs', FLOAT, [length, 4]), value('start', FLOAT, row)],
    outputs: [value('last', FLOAT, row), value('ys', FLOAT, [length, 4])],
    nodes: [node('Scan', ['start', 'xs'], ['last', 'ys'], { body: { g: body }, num_scan_inputs: { i: 1 } }, 'sums')],
  });
};

describe('a loop', () => {
  const feedsOf = (length) => ({
    xs: { data: Float32Array.from({ length: 4 * length }, (_, i) => i % 7), shape: [length, 4] },
    start: Float32Array.of(1, 2, 3, 4),
  });
  const expectedOf = (length) => {
    const { xs, start } = feedsOf(length);
    const ys = xs.data.slice();
    ys.forEach((_, i) => (ys[i] += i < 4 ? start[i] : ys[i - 4]));
    return { ys, last: length === 0 ? start : ys.slice(-4) };
  };

  test('of any length runs round by round', async () => {
    const model = await loadModel(summing('n'), { context });
    for (const length of [0, 1, 2, 70, 3000]) {
      const { ys, last } = await model.run(feedsOf(length));
      const expected = expectedOf(length);
      assert.deepEqual([ys.shape, ys.data], [[length, 4], expected.ys]);
      assert.deepEqual(last.data, expected.last);
    }
    const { cuts, nodesLeft } = await model.describe({ xs: [5, 4] });
    assert.deepEqual([cuts.length, cuts[0].name, cuts[0].operator, nodesLeft], [1, 'sums', 'Scan', 1]);
    const { graphs } = await model.profile(feedsOf(5));
    assert.equal(graphs.length, 5);
    model.destroy();
  });

  test('is unrolled for a single graph', async () => {
    const model = await loadModel(summing('n'), { context });
    await model.run(feedsOf(5));
    const { graph } = await model.compile({ xs: [5, 4] });
    const { nodes } = describeGraph(defined(graph)).source;
    assert.equal(nodes.filter(({ operator }) => operator === 'add').length, 5);
    assert.deepEqual((await model.run(feedsOf(5))).ys.data, expectedOf(5).ys);
    model.destroy();
  });

  test('of any length is reported before it is loaded, one of a given length is not', () => {
    const { cuts, unsupported } = inspectModel(summing('n'));
    assert.deepEqual([unsupported.length, cuts.length], [0, 1]);
    const [{ name, operator, reason }] = cuts;
    assert.deepEqual([name, operator, reason], ['sums', 'Scan', 'the number of rounds depends on sizes of inputs']);
    assert.deepEqual(inspectModel(summing('n'), { freeDimensions: { n: 5 } }).cuts, []);
  });

  test('of few rounds is unrolled, one of many is not', async () => {
    for (const [length, count] of [
      [20, 0],
      [2000, 1],
    ]) {
      const model = await loadModel(summing(length), { context });
      assert.equal((await model.describe()).cuts.length, count);
      assert.equal(inspectModel(summing(length)).cuts.length, count);
      assert.deepEqual((await model.run(feedsOf(length))).ys.data, expectedOf(length).ys);
      model.destroy();
    }
  });
});
