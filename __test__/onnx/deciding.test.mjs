// Inputs whose elements decide: conditions, counts, shapes and bounds. A run knows them, and is one graph.

import assert from 'node:assert/strict';
import test, { after, before, describe } from 'node:test';
import { ml } from '../../index.js';
import { loadModel } from '../../onnx.js';
import { BOOL, FLOAT, INT32, INT64, node, value, weight, writeModel } from './model-writer.mjs';

/** A graph in an attribute, with the outputs `names`. */
const graph = (names, ...nodes) => ({ g: { name: names[0], node: nodes, output: names.map((name) => value(name, FLOAT)) } });

const ints = (...numbers) => BigInt64Array.from(numbers, BigInt);

/** The number of graphs that a run of `model` consists of. */
const stages = async (model, feeds) => (await model.profile(feeds)).graphs.length;

let context;
before(async () => {
  context = await ml.createContext({ numThreads: 1 });
});
after(() => context.destroy());

const [HEADS, SIZE] = [2, 4];

/**
 * A decoder as Optimum merges them: the keys of all tokens and their sum, with a cache of earlier ones or without.
 */
const merged = () =>
  writeModel({
    inputs: [value('new', FLOAT, [1, HEADS, 'n', SIZE]), value('past', FLOAT, [1, HEADS, 'm', SIZE]), value('use_cache_branch', BOOL, [1])],
    outputs: [value('sum', FLOAT), value('present', FLOAT)],
    weights: [weight('axes', [1], ints(2))],
    nodes: [
      node('If', ['use_cache_branch'], ['sum', 'present'], {
        then_branch: graph(
          ['with_sum', 'with_present'],
          node('Concat', ['past', 'new'], ['with_present'], { axis: { i: 2 } }),
          node('ReduceSum', ['with_present', 'axes'], ['with_sum'], { keepdims: { i: 0 } }),
        ),
        else_branch: graph(
          ['first_sum', 'first_present'],
          node('Identity', ['new'], ['first_present']),
          node('ReduceSum', ['new', 'axes'], ['first_sum'], { keepdims: { i: 0 } }),
        ),
      }),
    ],
  });

const rows = (count, first) => ({ data: new Float32Array(HEADS * count * SIZE).fill(first), shape: [1, HEADS, count, SIZE] });

describe('a merged decoder', () => {
  test('is one graph for each branch, and its cache is fed back as it is', async () => {
    const model = await loadModel(merged(), { context });
    const use = (truth) => Uint8Array.of(truth);
    for (let text = 0; text < 3; text++) {
      const first = { new: rows(3, 1), past: rows(0, 0), use_cache_branch: use(0) };
      let { sum, present } = await model.run(first);
      assert.deepEqual([present.shape, [...new Set(sum.data)]], [[1, HEADS, 3, SIZE], [3]]);
      assert.equal(await stages(model, first), 1);
      for (let length = 4; length < 30; length++) {
        ({ sum, present } = await model.run({ new: rows(1, 1), past: present, use_cache_branch: use(1) }));
        assert.deepEqual([present.shape, [...new Set(sum.data)]], [[1, HEADS, length, SIZE], [length]]);
      }
      assert.equal(await stages(model, { new: rows(1, 1), past: present, use_cache_branch: use(1) }), 1);
      assert.ok(present.data.every((element) => element === 1));
    }
    model.destroy();
  });

  test('reads its condition from a tensor, after all that was written to it', async () => {
    const model = await loadModel(merged(), { context });
    const condition = await context.createTensor({ dataType: 'uint8', shape: [1], writable: true });
    const runs = [0, 1, 1, 0, 1, 0].map((truth) => {
      context.writeTensor(condition, Uint8Array.of(truth));
      return model.run({ new: rows(1, 2), past: rows(1, 1), use_cache_branch: condition });
    });
    const sums = (await Promise.all(runs)).map(({ sum }) => sum.data[0]);
    assert.deepEqual(sums, [2, 3, 3, 2, 3, 2]);
    condition.destroy();
    await assert.rejects(model.run({ new: rows(1, 2), past: rows(1, 1), use_cache_branch: condition }));
    model.destroy();
  });

  test('refuses feeds that do not match, and goes on', async () => {
    const model = await loadModel(merged(), { context });
    const feeds = { new: rows(1, 2), past: rows(1, 1) };
    await assert.rejects(model.run(feeds), { code: 'ERR_WEBNN_MISSING_FEED' });
    await assert.rejects(model.run({ ...feeds, use_cache_branch: new Uint8Array(2) }), { code: 'ERR_WEBNN_SHAPE' });
    await assert.rejects(model.run({ ...feeds, use_cache_branch: new Uint8Array(0) }), { code: 'ERR_WEBNN_SHAPE' });
    assert.equal((await model.run({ ...feeds, use_cache_branch: Uint8Array.of(1) })).sum.data[0], 3);
    model.destroy();
  });

  test('has no single graph, unless the condition is a constant', async () => {
    const shapes = { new: [1, HEADS, 1, SIZE], past: [1, HEADS, 1, SIZE] };
    const model = await loadModel(merged(), { context });
    await assert.rejects(model.compile(shapes), { code: 'ERR_WEBNN_NOT_SUPPORTED', message: /"use_cache_branch".*constants/ });
    assert.equal((await model.describe(shapes)).nodesLeft, 1);
    model.destroy();
    const fixed = await loadModel(merged(), { context, constants: { use_cache_branch: Uint8Array.of(1) } });
    assert.ok((await fixed.compile(shapes)).graph);
    fixed.destroy();
  });
});

/** y = the elements of x from `start` on, `count` of them; `filled`, `count` halves; `short`, `count` as a float. */
const counted = () =>
  writeModel({
    inputs: [value('x', FLOAT, ['n']), value('start', INT64, [1]), value('count', INT32, [])],
    outputs: [value('y', FLOAT), value('filled', FLOAT), value('short', FLOAT)],
    weights: [weight('axes', [1], ints(0)), weight('half', [1], Float32Array.of(0.5))],
    nodes: [
      node('Cast', ['count'], ['long'], { to: { i: INT64 } }),
      node('Unsqueeze', ['long', 'axes'], ['counts']),
      node('Add', ['start', 'counts'], ['end']),
      node('Slice', ['x', 'start', 'end', 'axes'], ['y']),
      node('Expand', ['half', 'counts'], ['filled']),
      node('Cast', ['count'], ['short'], { to: { i: FLOAT } }),
    ],
  });

describe('counts and bounds', () => {
  const x = { data: Float32Array.from({ length: 50 }, (_, i) => i), shape: [50] };

  test('differ from run to run', async () => {
    const model = await loadModel(counted(), { context });
    for (let run = 0; run < 60; run++) {
      const [start, count] = [(run * 7) % 20, 1 + ((run * 5) % 30)];
      const feeds = { x, start: ints(start), count: Int32Array.of(count) };
      const { y, filled, short } = await model.run(feeds);
      assert.deepEqual(y.data, x.data.slice(start, start + count));
      assert.deepEqual([filled.shape, short.data[0]], [[count], count]);
      if (run % 20 === 0) assert.equal(await stages(model, feeds), 1);
    }
    model.destroy();
  });

  test('are refused if they are absurd, whatever ran before', async () => {
    const model = await loadModel(counted(), { context });
    const run = (start, count) => model.run({ x, start: BigInt64Array.of(start), count: Int32Array.of(count) });
    const most = 2n ** 63n - 1n;
    for (const [start, count] of [
      [0n, -1],
      [0n, -(2 ** 31)],
      [most, -5],
    ]) {
      await assert.rejects(run(start, count), { code: /^ERR_WEBNN_/ });
      assert.deepEqual([...(await run(1n, 2)).y.data], [1, 2]);
    }
    // Sums wrap around, as in onnxruntime.
    for (const start of [most, -most, most - 1n, -most - 1n, 2n ** 40n]) {
      assert.equal((await run(start, 3)).filled.data.length, 3);
    }
    for (let at = 0; at < 300; at++) {
      await assert.rejects(run(0n, -1 - at * 1001));
      assert.deepEqual([...(await run(-5n - BigInt(at % 40), 2)).filled.data], [0.5, 0.5]);
    }
    model.destroy();
  });
});

test('a rate chooses the graph, by a comparison', async () => {
  const model = await loadModel(
    writeModel({
      inputs: [value('x', FLOAT, ['batch', 'n']), value('sr', INT64, [])],
      outputs: [value('y', FLOAT)],
      weights: [weight('rate', [], ints(16000)), weight('wide', [3], ints(0, 4, -1)), weight('narrow', [3], ints(0, 2, -1))],
      nodes: [
        node('Equal', ['sr', 'rate'], ['is_rate']),
        node('If', ['is_rate'], ['y'], {
          then_branch: graph(['four'], node('Reshape', ['x', 'wide'], ['four'])),
          else_branch: graph(['two'], node('Reshape', ['x', 'narrow'], ['two'])),
        }),
      ],
    }),
    { context },
  );
  for (const [sr, size, batch] of [
    [16000, 8, 2],
    [8000, 8, 2],
    [16000, 12, 3],
    [8001, 6, 2],
    [16000, 8, 2],
    [0, 8, 2],
  ]) {
    const feeds = { x: { data: new Float32Array(batch * size), shape: [batch, size] }, sr: ints(sr) };
    const parts = sr === 16000 ? 4 : 2;
    assert.deepEqual((await model.run(feeds)).y.shape, [batch, parts, size / parts]);
    assert.equal(await stages(model, feeds), 1);
  }
  const odd = { x: { data: new Float32Array(6), shape: [1, 6] }, sr: ints(16000) };
  await assert.rejects(model.run(odd), { code: 'ERR_WEBNN_UNSUPPORTED_OPERATOR', message: /Reshape/ });
  model.destroy();
});

test('more conditions than graphs are kept give the right results', async () => {
  const conditions = ['a', 'b', 'c', 'd', 'e'];
  const model = await loadModel(
    writeModel({
      inputs: [value('x0', FLOAT, ['n']), ...conditions.map((name) => value(name, BOOL, []))],
      outputs: [value('x5', FLOAT)],
      nodes: conditions.map((name, at) =>
        node('If', [name], [`x${at + 1}`], {
          then_branch: graph([`longer${at}`], node('Concat', [`x${at}`, 'x0'], [`longer${at}`], { axis: { i: 0 } })),
          else_branch: graph([`less${at}`], node('Neg', [`x${at}`], [`less${at}`])),
        }),
      ),
    }),
    { context },
  );
  for (let run = 0; run < 100; run++) {
    const bits = (run * 11) % 32;
    const feeds = Object.fromEntries(conditions.map((name, at) => [name, Uint8Array.of((bits >> at) & 1)]));
    let expected = [1, 2];
    for (let at = 0; at < 5; at++) expected = (bits >> at) & 1 ? [...expected, 1, 2] : expected.map((element) => -element);
    const { x5 } = await model.run({ x0: { data: Float32Array.of(1, 2), shape: [2] }, ...feeds });
    assert.deepEqual([...x5.data], expected);
  }
  model.destroy();
});
