import assert from 'node:assert/strict';
import { test } from 'node:test';
import vm from 'node:vm';

import { exception, invalidState, rejects, typeError } from '../lib/exceptions.mjs';
import { resultOf } from '../runtime/helpers.mjs';
import { newBuilder, recording, recordingNumber, webnn } from './helpers.mjs';
import { defined } from '../lib/types.mjs';

const { ml, MLContext, MLGraphBuilder, MLTensor } = webnn();

const FLOATS = { dataType: 'float32', shape: [2, 2], readable: true, writable: true };
/** @type {Record<string, [number, any]>} */
const DATA_TYPES = {
  float32: [4, Float32Array],
  float16: [2, Uint16Array],
  int32: [4, Int32Array],
  uint32: [4, Uint32Array],
  int64: [8, BigInt64Array],
  uint64: [8, BigUint64Array],
  int8: [1, Int8Array],
  uint8: [1, Uint8Array],
};
const VIEW_TYPES = [...new Set([...Object.values(DATA_TYPES).map(([, View]) => View), Int16Array, Float64Array])];

/** Whether a promise is still pending after all microtasks. */
async function isPending(promise) {
  const mark = Symbol('pending');
  return (await Promise.race([promise, new Promise((resolve) => setImmediate(resolve, mark))])) === mark;
}

function detach(buffer) {
  structuredClone(buffer, { transfer: [buffer] });
}

test('createContext keeps the preference for acceleration', async () => {
  for (const [options, accelerated] of [
    [undefined, true],
    [null, true],
    [{}, true],
    [{ accelerated: undefined }, true],
    [{ accelerated: 0 }, false],
    [{ accelerated: 'no' }, true],
    [() => {}, true],
  ]) {
    const context = await ml.createContext(options);
    assert.ok(context instanceof MLContext);
    assert.equal(context.accelerated, accelerated);
    context.destroy();
  }
});

test('a GPU is used where it is asked for, and contexts say why they compute where they do', async () => {
  // With this value of either variable, contexts that ask for a GPU are refused, whatever hardware there is. NODE_OPTIONS
  // makes contexts ask for one where tests run on GPUs.
  const program = `import { describeContext } from 'webnn-node/inspect';
     import { loadModel } from 'webnn-node/onnx';
     const { ml } = helpers;
     const seen = (creating) =>
       creating.then(describeContext).then(({ device, adapter, reason }) => device + ', ' + adapter + ': ' + reason, ({ name, message }) => name + ': ' + message);
     const results = [];
     for (const options of [undefined, {}, { accelerated: true }, { powerPreference: 'low-power' }, { powerPreference: 'high-performance' },
         { accelerated: false, powerPreference: 'high-performance' }, { computePolicy: 'high-performance', powerPreference: 'low-power' },
         { computePolicy: 'fallback', powerPreference: 'high-performance' }, { accelerated: false, computePolicy: 'high-performance' },
         { computePolicy: 'default', powerPreference: 'high-performance' }, { computePolicy: 'low-power' }]) {
       results.push(await seen(ml.createContext(options)));
     }
     for (const device of [undefined, 'auto', 'cpu', 'gpu']) {
       results.push(await seen(loadModel('packages/cli/__test__/files/conv.onnx', { device }).then(({ context }) => context)));
     }
     console.log(JSON.stringify(results));`;
  const byDefault = 'cpu, null: by default; a GPU computes where powerPreference is "high-performance"';
  const isFalse = 'cpu, null: accelerated is false';
  const lowPower = 'cpu, null: "low-power" is preferred';
  for (const [name, expected] of [
    ['WEBNN_GPU_SOFTWARE', '0 or 1'],
    ['WEBNN_GPU_LIMITS', 'minimum'],
  ]) {
    const refused = `NotSupportedError: ${name} is "refused", expected ${expected}`;
    assert.deepEqual(await resultOf(program, { env: { NODE_OPTIONS: '', [name]: 'refused' } }), [
      ...[byDefault, byDefault, byDefault, lowPower, refused, isFalse],
      ...[refused, 'cpu, null: computePolicy is "fallback"', isFalse, byDefault, lowPower],
      ...[byDefault, byDefault, isFalse, refused],
    ]);
  }
});

test('createContext reads its options in order', async () => {
  const log = [];
  await ml.createContext(recording(log, { powerPreference: 'low-power', numThreads: '2' }));
  assert.deepEqual(log, ['accelerated', 'cache', 'computePolicy', 'extensions', 'numThreads', 'powerPreference']);
});

test('createContext rejects bad options', async () => {
  for (const bad of [1, 'high-performance', true, 1n, Symbol('s')]) {
    await rejects(() => ml.createContext(bad), typeError(/createContext: options is .*, expected an object/));
  }
  for (const name of ['powerPreference', 'computePolicy']) {
    await rejects(() => ml.createContext({ [name]: 'fast' }), typeError(new RegExp(`options\\.${name} is "fast", expected one of`)));
  }
  for (const numThreads of [0, -1, 1025, NaN, 'x', 2 ** 32, 1n]) {
    await rejects(() => ml.createContext({ numThreads }), typeError(/options\.numThreads is/));
  }
  for (const numThreads of [1, 1.9, '3', 1024]) {
    (await ml.createContext({ numThreads })).destroy();
  }
  const own = new Error('mine');
  const hostile = {
    get accelerated() {
      throw own;
    },
  };
  await rejects(
    () => ml.createContext(hostile),
    (error) => error === own,
  );
});

test('createContext rejects a GPUDevice with the reason', async () => {
  class GPUDevice {}
  Object.defineProperty(globalThis, 'GPUDevice', { value: GPUDevice, configurable: true });
  try {
    const device = /** @type {any} */ (new GPUDevice());
    await rejects(
      () => ml.createContext(device),
      (error) => {
        assert.match(error.message, /GPUDevice/);
        return exception('NotSupportedError')(error);
      },
    );
    (await ml.createContext({})).destroy();
  } finally {
    Reflect.deleteProperty(globalThis, 'GPUDevice');
  }
});

test('createTensor reads its descriptor in order and keeps it', async () => {
  const context = await ml.createContext();
  const log = [];
  const shape = [recordingNumber(log, 'first', 2), recordingNumber(log, 'second', 3)];
  const tensor = await context.createTensor(recording(log, { dataType: 'int64', shape, readable: 1 }));
  assert.deepEqual(log, ['dataType', 'shape', 'first', 'second', 'readable', 'writable']);
  assert.ok(tensor instanceof MLTensor);
  assert.equal(tensor.dataType, 'int64');
  assert.deepEqual(tensor.shape, [2, 3]);
  assert.equal(tensor.readable, true);
  assert.equal(tensor.writable, false);
  assert.equal(tensor.constant, false);
  assert.deepEqual((await context.createTensor({ dataType: 'uint8', shape: [] })).shape, []);
});

test('createTensor rejects bad descriptors', async () => {
  const context = await ml.createContext();
  for (const [descriptor, pattern] of /** @type {[any, RegExp][]} */ ([
    [undefined, /descriptor\.dataType is required/],
    [1, /descriptor is 1, expected an object/],
    [{ shape: [1] }, /descriptor\.dataType is required/],
    [{ dataType: 'float32' }, /descriptor\.shape is required/],
    [{ dataType: 'float64', shape: [1] }, /descriptor\.dataType is "float64"/],
    [{ dataType: 'float32', shape: 1 }, /descriptor\.shape is 1, expected an iterable object/],
    [{ dataType: 'float32', shape: [1, -1] }, /descriptor\.shape\[1\] is -1/],
    [{ dataType: 'float32', shape: [2 ** 32] }, /descriptor\.shape\[0\] is 4294967296/],
    [{ dataType: 'float32', shape: [0] }, /./],
    [{ dataType: 'float32', shape: [2 ** 31] }, /./],
    [{ dataType: 'float32', shape: [65536, 65536] }, /./],
  ])) {
    await rejects(() => context.createTensor(descriptor), typeError(pattern));
    await rejects(() => context.createConstantTensor(descriptor, new ArrayBuffer(4)), typeError(pattern));
  }
});

test('tensors start with zeros and hold what is written', async () => {
  const context = await ml.createContext();
  const tensor = await context.createTensor(FLOATS);
  assert.deepEqual(new Float32Array(await context.readTensor(tensor)), new Float32Array(4));
  const data = new Float32Array([1, 2, 3, 4]);
  assert.equal(context.writeTensor(tensor, data), undefined);
  data.fill(9);
  const result = await context.readTensor(tensor);
  assert.equal(Object.getPrototypeOf(result), ArrayBuffer.prototype);
  assert.deepEqual(new Float32Array(result), new Float32Array([1, 2, 3, 4]));
  assert.notEqual(await context.readTensor(tensor), result);
});

test('a read is a snapshot on the timeline', async () => {
  const context = await ml.createContext();
  const tensor = await context.createTensor(FLOATS);
  context.writeTensor(tensor, new Float32Array(4).fill(1));
  const before = context.readTensor(tensor);
  context.writeTensor(tensor, new Float32Array(4).fill(2));
  const after = context.readTensor(tensor);
  assert.deepEqual(new Float32Array(await before), new Float32Array(4).fill(1));
  assert.deepEqual(new Float32Array(await after), new Float32Array(4).fill(2));
});

test('readTensor writes into buffers and views of all kinds', async () => {
  const context = await ml.createContext();
  const tensor = await context.createTensor(FLOATS);
  const data = new Float32Array([1, 2, 3, 4]);
  context.writeTensor(tensor, data);
  for (const output of [
    new ArrayBuffer(16),
    new SharedArrayBuffer(16),
    new Float32Array(4),
    new Uint8Array(16),
    new Float32Array(new SharedArrayBuffer(16)),
    vm.runInNewContext('new ArrayBuffer(16)'),
    vm.runInNewContext('new Float32Array(4)'),
  ]) {
    assert.equal(await context.readTensor(tensor, output), undefined);
    const bytes = ArrayBuffer.isView(output) ? output.buffer : output;
    assert.deepEqual([...new Float32Array(bytes)], [...data]);
  }
  const around = new Float32Array(6).fill(7);
  await context.readTensor(tensor, around.subarray(1, 5));
  assert.deepEqual([...around], [7, 1, 2, 3, 4, 7]);
  const shifted = new Uint8Array(18);
  await context.readTensor(tensor, shifted.subarray(1, 17));
  assert.deepEqual(shifted.slice(1, 17), new Uint8Array(data.buffer));
});

test('overloads of readTensor are told apart by the number of arguments', async () => {
  const context = await ml.createContext();
  const tensor = await context.createTensor(FLOATS);
  for (const bad of [undefined, null, {}, [], 'x', 16]) {
    await rejects(() => context.readTensor(tensor, bad), typeError(/outputData is .*, expected a typed array/));
  }
  await rejects(() => context.readTensor({}), typeError(/readTensor: tensor is an object, expected an MLTensor/));
});

for (const [dataType, [size, View]] of Object.entries(DATA_TYPES)) {
  test(`buffers for ${dataType}`, async () => {
    const context = await ml.createContext();
    const builder = new MLGraphBuilder(context);
    const descriptor = { dataType, shape: [8], readable: true, writable: true };
    const tensor = await context.createTensor(descriptor);
    const length = 8 * size;
    const good = [new ArrayBuffer(length), new SharedArrayBuffer(length), new Uint8Array(length), new View(8)];
    if (dataType === 'float16' && globalThis.Float16Array) {
      good.push(new globalThis.Float16Array(8));
    }
    for (const buffer of good) {
      context.writeTensor(tensor, buffer);
      await context.readTensor(tensor, buffer);
      assert.equal((await context.createConstantTensor(descriptor, buffer)).constant, true);
      assert.deepEqual(builder.constant(descriptor, buffer).shape, [8]);
    }
    const wrongViews = VIEW_TYPES.filter((Other) => Other !== View && Other !== Uint8Array);
    const bad = [
      ...wrongViews.map((Other) => new Other(new ArrayBuffer(length))),
      new Uint8ClampedArray(length),
      new DataView(new ArrayBuffer(length)),
      new ArrayBuffer(length - 1),
      new ArrayBuffer(length + 1),
      new ArrayBuffer(0),
      new View(7),
      new View(9),
    ];
    for (const buffer of bad) {
      assert.throws(() => context.writeTensor(tensor, buffer), typeError(/^writeTensor: inputData (is a|has)/));
      await rejects(() => context.readTensor(tensor, buffer), typeError(/^readTensor: outputData (is a|has)/));
      await rejects(() => context.createConstantTensor(descriptor, buffer), typeError(/^createConstantTensor: inputData (is a|has)/));
      assert.throws(() => builder.constant(descriptor, buffer), typeError(/^constant: buffer (is a|has)/));
    }
  });
}

test('buffers that may change their length or are detached are rejected', async () => {
  const context = await ml.createContext();
  const tensor = await context.createTensor(FLOATS);
  const resizable = new ArrayBuffer(16, { maxByteLength: 32 });
  const growable = new SharedArrayBuffer(16, { maxByteLength: 32 });
  for (const buffer of [resizable, growable, new Float32Array(resizable), new Float32Array(growable)]) {
    assert.throws(() => context.writeTensor(tensor, buffer), typeError(/can change its length/));
    await rejects(() => context.readTensor(tensor, buffer), typeError(/can change its length/));
  }
  const view = new Float32Array(4);
  const { buffer } = view;
  detach(buffer);
  for (const detached of [view, buffer]) {
    assert.throws(() => context.writeTensor(tensor, detached), typeError(/detached/));
    await rejects(() => context.readTensor(tensor, detached), typeError(/detached/));
  }
});

test('a buffer that is detached while the read is pending rejects it', async () => {
  const context = await ml.createContext();
  const tensor = await context.createTensor(FLOATS);
  for (const output of [new ArrayBuffer(16), new Float32Array(4)]) {
    const promise = context.readTensor(tensor, output);
    detach(ArrayBuffer.isView(output) ? output.buffer : output);
    await assert.rejects(promise, typeError(/detached/));
  }
});

test('patched prototypes do not change which bytes are used', async () => {
  const context = await ml.createContext();
  const tensor = await context.createTensor(FLOATS);
  const typedArray = Object.getPrototypeOf(Uint8Array.prototype);
  const saved = defined(Object.getOwnPropertyDescriptor(typedArray, 'byteLength'));
  Object.defineProperty(typedArray, 'byteLength', { get: () => 16, configurable: true });
  try {
    assert.throws(() => context.writeTensor(tensor, new Float32Array(3)), TypeError);
    context.writeTensor(tensor, new Float32Array([1, 2, 3, 4]));
  } finally {
    Object.defineProperty(typedArray, 'byteLength', saved);
  }
  assert.deepEqual([...new Float32Array(await context.readTensor(tensor))], [1, 2, 3, 4]);
});

test('constant tensors can neither be read nor written', async () => {
  const context = await ml.createContext();
  const descriptor = { dataType: 'float32', shape: [1], readable: true, writable: true };
  const tensor = await context.createConstantTensor(descriptor, new Float32Array(1));
  assert.deepEqual([tensor.readable, tensor.writable, tensor.constant], [false, false, true]);
  await rejects(() => context.readTensor(tensor), typeError(/readable/));
  assert.throws(() => context.writeTensor(tensor, new Float32Array(1)), typeError(/writable/));
});

test('createConstantTensor does not read readable and writable', async () => {
  const context = await ml.createContext();
  const log = [];
  const descriptor = recording(log, { dataType: 'int8', shape: [1] });
  await context.createConstantTensor(descriptor, new Int8Array(1));
  assert.deepEqual(log, ['dataType', 'shape']);
});

test('a tensor serves its own context and the uses it was created for', async () => {
  const context = await ml.createContext();
  const other = await ml.createContext();
  const tensor = await context.createTensor(FLOATS);
  await rejects(() => other.readTensor(tensor), typeError(/another context/));
  assert.throws(() => other.writeTensor(tensor, new Float32Array(4)), typeError(/another context/));
  const plain = await context.createTensor({ dataType: 'float32', shape: [2, 2] });
  await rejects(() => context.readTensor(plain), typeError(/without readable: true/));
  assert.throws(() => context.writeTensor(plain, new Float32Array(4)), typeError(/without writable: true/));
});

test('destroying a tensor is final and rejects pending reads at once', async () => {
  const context = await ml.createContext();
  const tensor = await context.createTensor(FLOATS);
  const reads = [context.readTensor(tensor), context.readTensor(tensor, new Float32Array(4))];
  const outcomes = [];
  reads.forEach((promise) => promise.catch((error) => outcomes.push(error.name)));
  assert.equal(tensor.destroy(), undefined);
  await null;
  await null;
  assert.deepEqual(outcomes, ['InvalidStateError', 'InvalidStateError']);
  for (const promise of reads) {
    await assert.rejects(promise, invalidState);
  }
  tensor.destroy();
  await rejects(() => context.readTensor(tensor), typeError(/destroyed/));
  assert.throws(() => context.writeTensor(tensor, new Float32Array(4)), typeError(/destroyed/));
  assert.deepEqual(tensor.shape, [2, 2]);
  assert.equal(tensor.readable, true);
  // The late completion of the abandoned reads arrives before this one.
  const next = await context.createTensor(FLOATS);
  assert.equal((await context.readTensor(next)).byteLength, 16);
});

test('destroying a context loses it once, with a reason', async () => {
  const context = await ml.createContext();
  const { lost } = context;
  assert.ok(await isPending(lost));
  assert.equal(context.destroy(), undefined);
  const info = await lost;
  assert.equal(Object.getPrototypeOf(info), Object.prototype);
  assert.deepEqual(Object.keys(info), ['message']);
  assert.match(info.message, /destroy/);
  context.destroy();
  assert.equal(context.lost, lost);
  assert.equal(await context.lost, info);
  assert.equal(context.accelerated, true);
});

test('losing a context destroys its tensors and graphs and rejects what is pending', async () => {
  const { context, builder, a } = await newBuilder();
  const tensor = await context.createTensor({ ...FLOATS, shape: [2, 3] });
  const output = await context.createTensor({ ...FLOATS, shape: [2, 3] });
  const graph = await builder.build({ y: builder.relu(a) });
  const second = new MLGraphBuilder(context);
  const operand = second.relu(second.input('x', FLOATS));
  const pending = [
    context.createTensor(FLOATS),
    context.createConstantTensor(FLOATS, new Float32Array(4)),
    context.readTensor(tensor),
    second.build({ operand }),
  ];
  context.destroy();
  await Promise.all(pending.map((promise) => assert.rejects(promise, invalidState)));
  assert.throws(() => context.dispatch(graph, { a: tensor }, { y: output }), invalidState);
  await rejects(() => context.readTensor(tensor), typeError(/destroyed/));
  assert.throws(() => context.writeTensor(tensor, new Float32Array(6)), typeError(/destroyed/));
  await rejects(() => context.createTensor(FLOATS), invalidState);
  await rejects(() => context.createConstantTensor(FLOATS, new Float32Array(4)), invalidState);
  // Conversion comes first, then the state, then the buffer.
  await rejects(() => context.createTensor({}), TypeError);
  await rejects(() => context.createConstantTensor(FLOATS, new Float32Array(3)), invalidState);
  tensor.destroy();
  graph.destroy();
});

test('builders of a lost context can not build', async () => {
  const { context, builder, a } = await newBuilder();
  const relu = builder.relu(a);
  context.destroy();
  assert.throws(() => builder.input('c', FLOATS), invalidState);
  assert.throws(() => builder.constant(FLOATS, new Float32Array(4)), invalidState);
  assert.throws(() => builder.constant('float32', 1), invalidState);
  assert.throws(() => builder.relu(a), invalidState);
  await rejects(() => builder.build({ relu }), invalidState);
});

test('opSupportLimits gives a new object each time, members in order', async () => {
  const context = await ml.createContext();
  const limits = context.opSupportLimits();
  assert.notEqual(context.opSupportLimits(), limits);
  assert.deepEqual(context.opSupportLimits(), limits);
  const names = Object.keys(limits);
  assert.deepEqual(names, [...names].sort());
  for (const name of ['preferredInputLayout', 'maxTensorByteLength', 'input', 'constant', 'output', 'conv2d', 'where']) {
    assert.ok(names.includes(name), name);
  }
  assert.deepEqual(Object.keys(limits.input), ['dataTypes', 'rankRange']);
  assert.deepEqual(Object.keys(limits.input.rankRange), ['max', 'min']);
  assert.ok(Array.isArray(limits.relu.input.dataTypes));
  limits.input.dataTypes.length = 0;
  assert.notEqual(context.opSupportLimits().input.dataTypes.length, 0);
});
