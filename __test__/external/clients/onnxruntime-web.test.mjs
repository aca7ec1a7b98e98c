// onnxruntime-web's WebNN execution provider, unchanged, on `webnn-node/auto`. `npm run suite -- clients` installs it.

import assert from 'node:assert/strict';
import test, { after, afterEach, before, beforeEach, describe } from 'node:test';
import { describeGraph } from '../../../inspect.js';
import { FLOAT, INT64, node, value, weight, writeModel } from '../../onnx/model-writer.mjs';
import { createSession, difference, mlTensor, ort, reference, tensorsOf, Watch } from './client.mjs';
import { MODELS } from './models.mjs';
import { float32 } from './tensors.mjs';

let context;
let watch;
before(async () => {
  context = await navigator.ml.createContext();
  watch = new Watch();
});
beforeEach(() => watch.reset());
after(() => {
  watch.end();
  context.destroy();
});

const onContext = () => ({ name: 'webnn', context, deviceType: 'cpu' });

/** Compares all outputs. @returns {Promise<number>} the largest difference of floats */
async function compare(got, expected, { tolerance, steps }) {
  assert.deepEqual(Object.keys(got).sort(), Object.keys(expected).sort());
  let worst = 0;
  for (const [name, wanted] of Object.entries(expected)) {
    const { type, dims } = got[name];
    assert.deepEqual({ type, dims: [...dims] }, { type: wanted.type, dims: [...wanted.dims] }, name);
    const error = difference({ type, data: await got[name].getData() }, wanted);
    const isFloat = type.startsWith('float');
    assert.ok(error <= (isFloat ? tolerance : steps), `${name} differs by ${error} from onnxruntime-node`);
    worst = Math.max(worst, isFloat ? error : 0);
  }
  return worst;
}

/** y = 2 x + b of shape [2, 3], and then the state of a network that adds what it is fed: sum' = sum + x. */
const affine = () =>
  writeModel({
    inputs: [value('x', FLOAT, [2, 3])],
    outputs: [value('y', FLOAT, [2, 3])],
    weights: [weight('two', [], Float32Array.of(2)), weight('b', [3], Float32Array.of(1, 10, 100))],
    nodes: [node('Mul', ['x', 'two'], ['m']), node('Add', ['m', 'b'], ['y'])],
  });
const accumulator = () =>
  writeModel({
    inputs: [value('sum', FLOAT, [4]), value('x', FLOAT, [4])],
    outputs: [value('next', FLOAT, [4])],
    nodes: [node('Add', ['sum', 'x'], ['next'])],
  });

const feed = () => new ort.Tensor('float32', Float32Array.of(1, 2, 3, 4, 5, 6), [2, 3]);
const AFFINE_OF_FEED = Float32Array.of(3, 14, 106, 9, 20, 112);

describe('every node of a model runs on WebNN and gives what onnxruntime-node gives', () => {
  const errors = [];
  const operators = new Set();
  for (const model of MODELS) {
    test(model.name, async () => {
      const expected = await reference(model);

      const session = await createSession(model.bytes, onContext());
      assert.equal(watch.graphs.length, 1, 'the whole model is one graph');
      describeGraph(watch.graphs[0]).source.nodes.forEach(({ operator }) => operators.add(operator));
      errors.push(await compare(await session.run(tensorsOf(ort, model.feeds)), expected, model));
      assert.equal(watch.dispatches, 1);
      await session.release();

      const bound = await createSession(model.bytes, onContext(), { preferredOutputLocation: 'ml-tensor' });
      const feeds = {};
      for (const [name, tensor] of Object.entries(model.feeds)) {
        feeds[name] = await mlTensor(context, tensor);
      }
      const results = await bound.run(feeds);
      for (const [name, result] of Object.entries(results)) {
        assert.equal(result.location, 'ml-tensor', name);
        assert.ok(result.mlTensor instanceof MLTensor, name);
      }
      await compare(results, expected, model);
      Object.values(results).forEach((result) => result.dispose());
      await bound.release();
    });
  }
  after(() => {
    console.log(`${MODELS.length} models with ${operators.size} operators of WebNN: ${[...operators].sort().join(', ')}`);
    console.log(`largest difference, of tensors that are not quantized: ${Math.max(...errors.filter((error) => error < 1e-3))}`);
  });
});

test('weights of 4 bits stay as they are on the CPU', async () => {
  const own = await navigator.ml.createContext({ accelerated: false });
  for (const { name, bytes } of MODELS.filter((model) => model.name.includes('of 4 bits'))) {
    watch.reset();
    const session = await createSession(bytes, { name: 'webnn', context: own, deviceType: 'cpu' });
    const [{ compiled }] = watch.graphs.map((graph) => describeGraph(graph));
    assert.ok(
      compiled.nodes.some(({ operator }) => operator === 'blockProduct'),
      name,
    );
    assert.ok(
      compiled.values.some(({ dataType }) => dataType === 'uint4'),
      name,
    );
    await session.release();
  }
  own.destroy();
});

test('a model with a node that WebNN cannot run is refused: none of the sessions here falls back to WebAssembly', async () => {
  const bytes = writeModel({
    inputs: [value('x', FLOAT, [2, 3])],
    outputs: [value('y', INT64)],
    nodes: [node('Abs', ['x'], ['a']), node('NonZero', ['a'], ['y'])],
  });
  // onnxruntime-web prints its errors before it throws them.
  await assert.rejects(createSession(bytes, onContext(), { logSeverityLevel: 4 }), /fallback to CPU EP has been explicitly disabled/);
});

test('a model that is refused while it is built is an error, and the sessions before and after it work', async () => {
  const before = await createSession(affine(), onContext());
  const tooLarge = writeModel({
    inputs: [value('x', FLOAT, [1, 1])],
    outputs: [value('y', FLOAT)],
    weights: [weight('shape', [2], BigInt64Array.of(65536n, 65536n))],
    nodes: [node('Expand', ['x', 'shape'], ['e']), node('ReduceSum', ['e'], ['y'])],
  });
  await assert.rejects(createSession(tooLarge, onContext()), /expand: output has shape \[65536, 65536\], more than/);
  assert.equal(watch.graphs.length, 1, 'it did not get as far as build()');
  const next = await createSession(affine(), onContext());
  for (const session of [before, next]) {
    assert.deepEqual((await session.run({ x: feed() })).y.data, AFFINE_OF_FEED);
    await session.release();
  }
});

describe('contexts', () => {
  const providers = {
    'none given': 'webnn',
    'none given, but a device': { name: 'webnn', deviceType: 'cpu' },
    'none given, but a preference': { name: 'webnn', deviceType: 'gpu', powerPreference: 'low-power' },
  };
  for (const [name, provider] of Object.entries(providers)) {
    test(name, async () => {
      const session = await createSession(affine(), provider);
      assert.deepEqual((await session.run({ x: feed() })).y.data, AFFINE_OF_FEED);
      assert.equal(watch.graphs.length, 1);
      await session.release();
    });
  }

  test('many sessions on one', async () => {
    const sessions = [];
    for (let count = 0; count < 5; count++) {
      sessions.push(await createSession(affine(), onContext()));
    }
    for (const session of sessions) {
      assert.deepEqual((await session.run({ x: feed() })).y.data, AFFINE_OF_FEED);
    }
    await Promise.all(sessions.map((session) => session.release()));
    assert.equal(watch.dispatches, 5);
  });
});

describe('MLTensors', () => {
  let session;
  beforeEach(async () => {
    session = await createSession(accumulator(), onContext(), { preferredOutputLocation: 'ml-tensor' });
  });
  afterEach(() => session.release());

  test('a state stays on the device from run to run', async () => {
    let sum = await mlTensor(context, { type: 'float32', shape: [4], data: new Float32Array(4) });
    for (let step = 1; step <= 10; step++) {
      const x = new ort.Tensor('float32', Float32Array.of(step, 2 * step, -step, 0.5), [4]);
      const { next } = await session.run({ sum, x });
      sum.dispose();
      sum = next;
    }
    assert.deepEqual(await sum.getData(), Float32Array.of(55, 110, -55, 5));
    assert.equal(watch.dispatches, 10);
    sum.dispose();
  });

  test('results go into tensors that the caller made', async () => {
    const next = await mlTensor(context, { type: 'float32', shape: [4] });
    const sum = await mlTensor(context, { type: 'float32', shape: [4], data: Float32Array.of(1, 2, 3, 4) });
    const x = new ort.Tensor('float32', Float32Array.of(10, 20, 30, 40), [4]);
    const results = await session.run({ sum, x }, { next });
    assert.equal(results.next.mlTensor, next.mlTensor);
    const bytes = await context.readTensor(next.mlTensor);
    assert.deepEqual(new Float32Array(bytes), Float32Array.of(11, 22, 33, 44));
  });

  test('the result of one model is the feed of another', async () => {
    const first = await createSession(affine(), onContext(), { preferredOutputLocation: 'ml-tensor' });
    const second = await createSession(affine(), onContext());
    const { y } = await first.run({ x: feed() });
    const result = await second.run({ x: y });
    assert.deepEqual(
      result.y.data,
      AFFINE_OF_FEED.map((number, index) => number * 2 + [1, 10, 100][index % 3]),
    );
    y.dispose();
    await first.release();
    await second.release();
  });
});

test('free dimensions that are fixed for the session', async () => {
  const model = {
    name: 'softmax',
    operators: ['softmax'],
    bytes: writeModel({
      inputs: [value('x', FLOAT, ['batch', 'width'])],
      outputs: [value('y', FLOAT)],
      nodes: [node('Softmax', ['x'], ['y'], { axis: { i: -1 } })],
    }),
    feeds: { x: float32([3, 5]) },
    tolerance: 1e-6,
    steps: 0,
  };
  const session = await createSession(model.bytes, onContext(), { freeDimensionOverrides: { batch: 3, width: 5 } });
  await compare(await session.run(tensorsOf(ort, model.feeds)), await reference(model), model);
  await session.release();
});
