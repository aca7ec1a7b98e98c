import assert from 'node:assert/strict';
import test, { after, before } from 'node:test';
import { ml } from '../../index.js';
import { loadModel } from '../../onnx.js';
import { FLOAT, node, value, weight, writeModel } from './model-writer.mjs';
import { defined, wrong } from '../lib/types.mjs';

const affine = (nodes = []) =>
  writeModel({
    inputs: [value('x', FLOAT, ['n', 64])],
    outputs: [value('y', FLOAT, ['m', 64])],
    weights: [weight('w', [64, 64], new Float32Array(64 * 64).fill(0.5)), weight('one', [1], BigInt64Array.of(1n))],
    nodes: [node('MatMul', ['x', 'w'], ['product'], {}, 'head/product'), ...(nodes.length > 0 ? nodes : [node('Exp', ['product'], ['y'])])],
  });

let context;
before(async () => {
  context = await ml.createContext();
});
after(() => context.destroy());

const isWithin = (inner, outer) => inner.start >= outer.start && inner.start + inner.duration <= outer.start + outer.duration + 1e3;

test('a run with a clock gives the results of one without', async () => {
  const model = await loadModel(affine(), { context });
  const feeds = { x: { data: new Float32Array(128).fill(0.01), shape: [2, 64] } };
  const expected = await model.run(feeds);
  const { results, graphs, omittedGraphs } = await model.profile(feeds);
  assert.equal(omittedGraphs, 0);
  assert.deepEqual(results.y, expected.y);
  assert.equal(graphs.length, 1);
  const [graph] = graphs;
  assert.equal(graph.start, 0);
  assert.ok(graph.duration > 0);
  const product = defined(graph.steps.find(({ label }) => label === 'head/product'));
  assert.match(product.operator, /matmul|gemm/i);
  assert.equal(product.multiplyAdds, 2 * 64 * 64);
  assert.ok(product.kernel.length > 0);
  if (context.device !== 'gpu') {
    assert.ok(
      graph.steps.every((step) => isWithin(step, graph)),
      JSON.stringify(graph),
    );
  }
  assert.deepEqual(Object.keys((await model.profile(feeds, { y: null })).results), []);
  model.destroy();
});

test('every stage of a model that is cut is a graph', async () => {
  const model = await loadModel(
    affine([
      node('NonZero', ['product'], ['places']),
      node('Split', ['places'], ['rows', 'columns'], { axis: { i: 0 } }),
      node('Squeeze', ['rows'], ['row']),
      node('Gather', ['product', 'row'], ['y']),
    ]),
    { context },
  );
  const feeds = { x: { data: new Float32Array(64).fill(1), shape: [1, 64] } };
  const { results, graphs } = await model.profile(feeds);
  assert.deepEqual(results.y.shape, [64, 64]);
  assert.ok(graphs.length >= 2, `${graphs.length} graphs`);
  assert.ok(graphs.every(({ start }, at) => at === 0 || start > graphs[at - 1].start));
  model.destroy();
});

test('what run() refuses is refused', async () => {
  const model = await loadModel(affine(), { context });
  await assert.rejects(model.profile({}), { code: 'ERR_WEBNN_MISSING_FEED' });
  await assert.rejects(model.profile({ x: wrong(5) }), { name: 'TypeError', code: 'ERR_WEBNN_TYPE' });
  model.destroy();
  await assert.rejects(model.profile({}), { name: 'InvalidStateError', code: 'ERR_WEBNN_DESTROYED' });
});
