// Models that free what they can make again: release(), and the option idle.

import assert from 'node:assert/strict';
import test, { after, before } from 'node:test';
import { fileURLToPath } from 'node:url';
import { MLGraphBuilder, ml } from '../../index.js';
import { loadModel } from '../../onnx.js';
import { runNode } from '../lib/processes.mjs';
import { CACHE, cacheShape, decoder } from './decoder.mjs';
import { FLOAT, node, value, weight, writeModel } from './model-writer.mjs';

let context;
before(async () => {
  context = await ml.createContext({ accelerated: false });
});
after(() => context.destroy());

const numbers = (/** @type {number} */ count, seed = 1) => Float32Array.from({ length: count }, (_, i) => (((i + seed) * 7919) % 1009) / 1009 - 0.5);

/** y = relu(x w), with weights that are packed. */
const product = (/** @type {(number | string)[]} */ shape) =>
  writeModel({
    inputs: [value('x', FLOAT, shape)],
    outputs: [value('y', FLOAT)],
    weights: [weight('w', [64, 128], numbers(64 * 128))],
    nodes: [node('MatMul', ['x', 'w'], ['xw']), node('Relu', ['xw'], ['y'])],
  });

/** The positions of positive elements: how many there are depends on data. */
const cut = () =>
  writeModel({
    inputs: [value('x', FLOAT, ['n'])],
    outputs: [value('y', FLOAT)],
    nodes: [
      node('Relu', ['x'], ['r']),
      node('NonZero', ['r'], ['places']),
      node('Cast', ['places'], ['floats'], { to: { i: FLOAT } }),
      node('Neg', ['floats'], ['y']),
    ],
  });

const rows = (/** @type {number} */ count) => ({ x: { data: numbers(count * 64, count), shape: [count, 64] } });

/**
 * Runs with all feeds between releases, and checks that the results stay the same.
 * @param {import('../../onnx.js').OnnxModel} model
 * @param {any[]} all
 */
async function check(model, all) {
  const results = async () => {
    const texts = [];
    for (const feeds of all) {
      const { y } = await model.run(feeds);
      texts.push([y.shape, y.data]);
    }
    return texts;
  };
  const expected = await results();
  for (let round = 0; round < 3; round++) {
    assert.equal(await model.release(), undefined);
    assert.deepEqual(await results(), expected);
  }
  // Also one after the other.
  await Promise.all([model.release(), model.release()]);
  assert.deepEqual(await results(), expected);
}

test('the next run returns the same bits, for models of all kinds', async () => {
  const fixed = await loadModel(product([2, 64]), { context });
  await fixed.release();
  await check(fixed, [rows(2)]);
  const dynamic = await loadModel(product(['n', 64]), { context });
  await check(dynamic, [rows(1), rows(7), rows(3)]);
  const stages = await loadModel(cut(), { context });
  await check(stages, [{ x: Float32Array.of(1, -1, 2) }, { x: Float32Array.of(0, 0, 0, 5) }]);
  for (const model of [fixed, dynamic, stages]) {
    model.destroy();
  }
});

test('constants, and optional inputs that are fed', async () => {
  const affine = writeModel({
    inputs: [value('x', FLOAT, ['n']), value('w', FLOAT, [1]), value('b', FLOAT, [1])],
    outputs: [value('y', FLOAT, ['n'])],
    weights: [weight('w', [1], Float32Array.of(2))],
    nodes: [node('Mul', ['x', 'w'], ['p']), node('Add', ['p', 'b'], ['y'])],
  });
  const model = await loadModel(affine, { context, constants: { b: Float32Array.of(5) } });
  const x = Float32Array.of(1, 2);
  await check(model, [{ x }, { x, w: Float32Array.of(10) }]);
  model.destroy();
});

test('caches that JavaScript holds go on', async () => {
  const ids = (/** @type {number[]} */ ...tokens) => ({ data: BigInt64Array.from(tokens, BigInt), shape: [1, tokens.length] });
  const start = Object.fromEntries(CACHE.map((name) => [`past_key_values.${name}`, { data: new Float32Array(0), shape: cacheShape(0) }]));
  const logits = async (/** @type {boolean} */ releases) => {
    const model = await loadModel(decoder(), { context });
    const all = [];
    /** @type {any} */
    let past = start;
    for (let step = 0; step < 6; step++) {
      const results = await model.run({ input_ids: ids(step + 1), attention_mask: ids(...Array(step + 1).fill(1)), ...past });
      all.push(results.logits.data);
      past = { past: results.present };
      if (releases) {
        await model.release();
      }
    }
    model.destroy();
    return all;
  };
  assert.deepEqual(await logits(true), await logits(false));
});

test('runs before and after a release settle in order', async () => {
  const model = await loadModel(product(['n', 64]), { context });
  const expected = (await model.run(rows(3))).y.data;
  /** @type {string[]} */
  const order = [];
  const noted = (/** @type {string} */ what, /** @type {Promise<any>} */ promise) => promise.finally(() => order.push(what));
  const runs = [];
  for (let i = 0; i < 3; i++) {
    runs.push(noted('run', model.run(rows(3))), noted('release', model.release()), noted('run', model.run(rows(3))));
  }
  for (const result of await Promise.all(runs)) {
    assert.deepEqual(result?.y.data ?? expected, expected);
  }
  assert.deepEqual(order, Array(3).fill(['run', 'release', 'run']).flat());
  model.destroy();
});

test('graphs that the program holds stay usable', async () => {
  const model = await loadModel(product([2, 64]), { context });
  const { graph } = await model.compile();
  await model.release();
  const [x, y] = await Promise.all([
    context.createTensor({ dataType: 'float32', shape: [2, 64], writable: true }),
    context.createTensor({ dataType: 'float32', shape: [2, 128], readable: true }),
  ]);
  context.writeTensor(x, rows(2).x.data);
  context.dispatch(graph, { x }, { y });
  assert.deepEqual(new Float32Array(await context.readTensor(y)), (await model.run(rows(2))).y.data);
  assert.notEqual((await model.compile()).graph, graph);
  model.destroy();
});

test('destroyed models and lost contexts', async () => {
  const model = await loadModel(product([2, 64]), { context });
  const releasing = model.release();
  model.destroy();
  assert.equal(await releasing, undefined);
  await assert.rejects(model.release(), { name: 'InvalidStateError', code: 'ERR_WEBNN_DESTROYED', message: 'release: the model is destroyed' });
  const own = await loadModel(product([2, 64]), { idle: 1 });
  own.context.destroy();
  await assert.rejects(own.release(), { name: 'InvalidStateError' });
  own.destroy();
});

test('idle is a whole number of milliseconds from 1', async () => {
  for (const idle of [0, -1, Number.NaN, Number.POSITIVE_INFINITY, 2 ** 32, 'soon', null, {}]) {
    await assert.rejects(loadModel(product([2, 64]), { context, idle: /** @type {any} */ (idle) }), { name: 'TypeError', message: /^loadModel: idle/ });
  }
  for (const idle of [1, 300_000, 2 ** 32 - 1, undefined]) {
    (await loadModel(product([2, 64]), { context, idle })).destroy();
  }
});

test('a model that is not used for a while runs again, any number of times', async () => {
  const model = await loadModel(product(['n', 64]), { context, idle: 1 });
  const expected = (await model.run(rows(4))).y.data;
  for (let i = 0; i < 50; i++) {
    await new Promise((resolve) => setTimeout(resolve, i % 5));
    assert.deepEqual((await model.run(rows(4))).y.data, expected);
  }
  model.destroy();
});

test('a release returns memory to the system', { skip: process.platform !== 'linux' }, async () => {
  const program = `
    import { readFileSync } from 'node:fs';
    import { loadModel } from ${JSON.stringify(new URL('../../onnx.js', import.meta.url).href)};
    import { FLOAT, node, value, writeModel } from ${JSON.stringify(new URL('./model-writer.mjs', import.meta.url).href)};
    const resident = () => Number(/^VmRSS:\\s+(\\d+)/m.exec(readFileSync('/proc/self/status', 'utf8'))[1]) / 1024;
    // 64 MB between the operators, for a result of 4 bytes.
    const model = await loadModel(writeModel({
      inputs: [value('x', FLOAT, [4096, 1])],
      outputs: [value('y', FLOAT)],
      nodes: [
        node('Transpose', ['x'], ['t'], { perm: { ints: [1, 0] } }),
        node('MatMul', ['x', 't'], ['large']),
        node('Softmax', ['large'], ['soft'], { axis: { i: 0 } }),
        node('ReduceMax', ['soft'], ['y'], { keepdims: { i: 0 } }),
      ],
    }));
    await model.run({ x: new Float32Array(4096).fill(0.5) });
    const before = resident();
    await model.release();
    console.log(before - resident());
  `;
  const { stdout } = await runNode(['--input-type=module', '-e', program], { cwd: fileURLToPath(new URL('.', import.meta.url)) });
  assert.ok(Number(stdout) > 40, `${stdout} MB fewer`);
});

test('a context that others use keeps their memory', async () => {
  const [first, second] = await Promise.all([1, 2].map(() => loadModel(product([2, 64]), { context })));
  const builder = new MLGraphBuilder(context);
  const x = builder.input('x', { dataType: 'float32', shape: [2] });
  const graph = await builder.build({ y: builder.neg(x) });
  const expected = (await second.run(rows(2))).y.data;
  await first.release();
  assert.deepEqual((await second.run(rows(2))).y.data, expected);
  first.destroy();
  assert.deepEqual((await second.run(rows(2))).y.data, expected);
  second.destroy();
  graph.destroy();
});
