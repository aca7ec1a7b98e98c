import assert from 'node:assert/strict';
import test, { after, before } from 'node:test';
import { inspect } from 'node:util';
import { collectUntil } from '../lib/wait.mjs';
import { ml } from '../../index.js';
import { loadModel } from '../../onnx.js';
import { FLOAT, INT32, node, value, weight, writeModel } from './model-writer.mjs';

/** Elements of a result that is too large to be copied at once. */
const SIZE = 1 << 20;

const floats = (length, first = 0) => Float32Array.from({ length }, (_, index) => first + (index % 1000));

/** y = x + 1, z = x * 2, and the first element of y. */
const simple = () =>
  writeModel({
    inputs: [value('x', FLOAT, ['n'])],
    outputs: [value('y', FLOAT, ['n']), value('z', FLOAT, ['n']), value('first', FLOAT, [1])],
    weights: [
      weight('one', [], Float32Array.of(1)),
      weight('two', [], Float32Array.of(2)),
      weight('zero', [1], BigInt64Array.of(0n)),
      weight('end', [1], BigInt64Array.of(1n)),
    ],
    nodes: [node('Add', ['x', 'one'], ['y']), node('Mul', ['x', 'two'], ['z']), node('Slice', ['y', 'zero', 'end'], ['first'])],
  });

/** sum = a + b. */
const sum = () =>
  writeModel({
    inputs: [value('a', FLOAT, ['n']), value('b', FLOAT, ['n'])],
    outputs: [value('sum', FLOAT, ['n'])],
    nodes: [node('Add', ['a', 'b'], ['sum'])],
  });

/** A model whose results nobody has read: those of others may be written where they will be read. */
const unread = () => loadModel(simple(), { context });

const isUnread = (result) => Object.getOwnPropertyDescriptor(result, 'data')?.get !== undefined;

let context;
/** Runs within their call are those of CPUs. */
let onCpu;
let model;
before(async () => {
  [context, onCpu] = await Promise.all([ml.createContext(), ml.createContext({ accelerated: false })]);
  model = await loadModel(simple(), { context });
});
after(() => [context, onCpu].forEach((one) => one.destroy()));

test('large results are copied when they are read first, small ones at once', async () => {
  const x = floats(SIZE);
  const { y, first } = await model.run({ x });
  assert.ok(isUnread(y));
  assert.ok(!isUnread(first));
  assert.deepEqual(Object.keys(y), Object.keys(first));
  assert.deepEqual([y.shape, y.dataType], [[SIZE], 'float32']);
  assert.deepEqual(
    y.data,
    x.map((number) => number + 1),
  );
  assert.ok(!isUnread(y));
  assert.equal(y.data, y.data);
  assert.equal(y.data.byteLength, y.data.buffer.byteLength, 'it owns its memory');
  assert.equal(structuredClone(y, { transfer: [y.data.buffer] }).data.length, SIZE);
});

test('runs within their call write outputs that are read into memory of the caller', async () => {
  const quick = await loadModel(simple(), { context: onCpu });
  const inPlace = [];
  for (let runs = 0; inPlace.length < 3; runs++) {
    assert.ok(runs < 2000, 'a run of 65,536 sums leaves its call on a busy machine only');
    const x = floats(1 << 16, runs);
    const { y, z } = await quick.run({ x });
    const wanted = x.map((number) => number + 1);
    assert.ok(isUnread(z) && (isUnread(y) || runs > 0), 'only what was read before is known to be read');
    if (!isUnread(y)) {
      inPlace.push({ y, wanted });
    }
    assert.deepEqual(y.data, wanted);
  }
  for (const { y, wanted } of inPlace) {
    assert.deepEqual(y.data, wanted, 'later runs leave it alone');
    assert.equal(y.data.byteLength, y.data.buffer.byteLength, 'it owns its memory');
    assert.deepEqual(
      (await quick.run({ x: y })).y.data,
      wanted.map((number) => number + 1),
    );
    assert.deepEqual(structuredClone(y, { transfer: [y.data.buffer] }).data, wanted);
  }
  quick.destroy();
});

test('programs get the memory of results only when the run has written it', async () => {
  const quick = await loadModel(sum(), { context: onCpu });
  const b = floats(1 << 14);
  const prototype = Object.getPrototypeOf(Uint8Array.prototype);
  const original = /** @type {PropertyDescriptor} */ (Object.getOwnPropertyDescriptor(prototype, 'buffer'));
  /** @type {Set<unknown>} */
  const known = new Set([b.buffer]);
  let fifth = 0;
  let seen = 0;
  // Here, a program could detach what a run is about to write.
  const see = (value) => {
    const isArrayBuffer = Object.prototype.isPrototypeOf.call(ArrayBuffer.prototype, value);
    if (isArrayBuffer && value.byteLength === b.byteLength && !known.has(value)) {
      seen += 1;
      assert.equal(new Float32Array(value)[5], fifth);
    }
    return isArrayBuffer;
  };
  /** @this {Uint8Array} */
  function buffer() {
    const own = Reflect.apply(/** @type {() => ArrayBuffer} */ (original.get), this, []);
    see(own);
    return own;
  }
  let inPlace = 0;
  for (let runs = 0; inPlace < 3; runs++) {
    assert.ok(runs < 2000, 'a run of 16,384 sums is quick');
    const a = floats(1 << 14, runs);
    known.add(a.buffer);
    fifth = a[5] + b[5];
    Object.defineProperty(ArrayBuffer, Symbol.hasInstance, { value: see, configurable: true });
    Object.defineProperty(prototype, 'buffer', { get: buffer, configurable: true });
    const ran = quick.run({ a, b });
    Reflect.deleteProperty(ArrayBuffer, Symbol.hasInstance);
    Object.defineProperty(prototype, 'buffer', original);
    const { sum: result } = await ran;
    inPlace += isUnread(result) ? 0 : 1;
    assert.equal(result.data[5], fifth);
  }
  assert.ok(seen > 0, 'the check has seen results');
  quick.destroy();
});

test('a result whose data nobody has read is fed without a copy', async () => {
  const model = await unread();
  let { y } = await model.run({ x: floats(SIZE) });
  const before = process.memoryUsage().arrayBuffers;
  for (let round = 0; round < 20; round++) {
    ({ y } = await model.run({ x: y }, { z: null }));
  }
  assert.ok(isUnread(y));
  assert.ok(process.memoryUsage().arrayBuffers - before < 4 * SIZE, 'no result has become an ArrayBuffer');
  assert.deepEqual(y.data, floats(SIZE, 21));
});

test('it is fed to several inputs, runs, models and contexts', async () => {
  const [adder, model] = await Promise.all([loadModel(sum()), unread()]);
  const { y, z } = await model.run({ x: floats(SIZE) });
  const twice = await adder.run({ a: y, b: y });
  const [both, again] = await Promise.all([adder.run({ a: y, b: z }), model.run({ x: z })]);
  assert.ok(isUnread(y) && isUnread(z));
  assert.deepEqual(
    twice.sum.data,
    floats(SIZE).map((number) => 2 * (number + 1)),
  );
  assert.deepEqual(
    both.sum.data,
    floats(SIZE).map((number) => 3 * number + 1),
  );
  assert.deepEqual(
    again.y.data,
    floats(SIZE).map((number) => 2 * number + 1),
  );
  adder.destroy();
});

test('data that somebody has changed or set are those that are fed', async () => {
  const { y, z } = await model.run({ x: floats(SIZE) });
  y.data[0] = 41;
  assert.equal((await model.run({ x: y })).first.data[0], 42);
  z.data = floats(SIZE, 6);
  assert.ok(!isUnread(z));
  assert.equal((await model.run({ x: z })).first.data[0], 7);
});

test('a result with another shape than it came with is fed with that', async () => {
  const any = await loadModel(writeModel({ inputs: [value('x', FLOAT)], outputs: [value('y', FLOAT)], nodes: [node('Neg', ['x'], ['y'])] }), { context });
  const { y } = await model.run({ x: floats(SIZE) });
  y.shape = [2, SIZE / 2];
  assert.deepEqual((await any.run({ x: y })).y.shape, [2, SIZE / 2]);
  const { z } = await model.run({ x: floats(SIZE) });
  z.shape.unshift(1);
  assert.deepEqual((await any.run({ x: z })).y.shape, [1, SIZE]);
  any.destroy();
});

test('a result that is printed shows its data', async () => {
  const { y } = await model.run({ x: floats(SIZE) });
  assert.match(inspect(y), /data: Float32Array\(1048576\) \[\s+1,\s+2,/);
  const { z } = await model.run({ x: floats(SIZE) });
  Object.defineProperty(z, 'data', { configurable: false });
  assert.equal(z.data[1], 2);
});

test('a frozen result is read and fed as any other', async () => {
  const { y } = await model.run({ x: floats(SIZE) });
  Object.freeze(y);
  assert.equal((await model.run({ x: y })).first.data[0], 2);
  assert.equal(y.data, y.data);
  assert.equal((await model.run({ x: y })).first.data[0], 2);
});

test('a result outlives its model and its context', async () => {
  const own = await loadModel(simple());
  const { y, z } = await own.run({ x: floats(SIZE) });
  own.destroy();
  assert.deepEqual(y.data, floats(SIZE, 1));
  assert.equal((await model.run({ x: z })).first.data[0], 1);
});

test('a result is read and fed through a proxy, an heir and a copy of its properties', async () => {
  const wrappers = {
    proxy: (result) => new Proxy(result, {}),
    heir: (result) => Object.create(result),
    copy: (result) => Object.defineProperties({}, Object.getOwnPropertyDescriptors(result)),
  };
  for (const [kind, wrap] of Object.entries(wrappers)) {
    const { y, z } = await model.run({ x: floats(SIZE) });
    const wrapped = wrap(y);
    assert.deepEqual([wrapped.shape, wrapped.dataType, wrapped.data[1]], [[SIZE], 'float32', 2], kind);
    assert.equal(wrapped.data, wrapped.data);
    assert.equal(wrapped.data, y.data);
    assert.equal((await model.run({ x: wrap(z) })).first.data[0], 1);

    const other = wrap((await model.run({ x: floats(SIZE) })).z);
    other.data = floats(SIZE, 6);
    other.shape = [SIZE];
    assert.equal((await model.run({ x: other })).first.data[0], 7);
    assert.ok(!isUnread(other));
  }
});

test('an heir or a copy that is written to leaves the result alone', async () => {
  const model = await unread();
  for (const wrap of [Object.create, (result) => Object.defineProperties({}, Object.getOwnPropertyDescriptors(result))]) {
    const { y } = await model.run({ x: floats(SIZE) });
    const other = wrap(y);
    other.data = floats(SIZE, 6);
    assert.ok(isUnread(y));
    assert.equal((await model.run({ x: y })).first.data[0], 2);
    y.data = floats(SIZE, 8);
    assert.equal(other.data[0], 6);
  }
});

test('properties that are redefined are those that are fed', async () => {
  const { y } = await model.run({ x: floats(SIZE) });
  Object.defineProperty(y, 'data', { value: floats(4, 6) });
  Object.defineProperty(y, 'shape', { value: [4] });
  assert.deepEqual((await model.run({ x: y })).y.data, floats(4, 7));
  const { z } = await model.run({ x: floats(SIZE) });
  Object.freeze(z);
  assert.throws(() => (z.data = floats(4)), TypeError);
  assert.equal((await model.run({ x: z })).first.data[0], 1);
});

test('a result that is kept does not keep the others', async () => {
  const model = await unread();
  const large = () => model.run({ x: floats(SIZE) });
  const kept = [];
  const others = [];
  for (let round = 0; round < 10; round++) {
    const results = await large();
    kept.push(results.z);
    others.push(new WeakRef(results), new WeakRef(results.y));
  }
  await collectUntil(() => others.filter((other) => other.deref() !== undefined).length <= 2, 'all but the last ones are freed');
  assert.ok(kept.every(isUnread));
});

test('a result of another type is refused', async () => {
  const integers = await loadModel(
    writeModel({ inputs: [value('x', INT32, ['n'])], outputs: [value('y', INT32, ['n'])], nodes: [node('Neg', ['x'], ['y'])] }),
    { context },
  );
  const { y, z } = await model.run({ x: floats(SIZE) });
  await assert.rejects(integers.run({ x: y }), { name: 'TypeError', code: 'ERR_WEBNN_TYPE', message: /feed "x" is of type "float32", expected int32/ });
  // Another name for the type does not make integers of floats.
  z.dataType = 'int32';
  await assert.rejects(integers.run({ x: z }), { name: 'TypeError', code: 'ERR_WEBNN_TYPE', message: /feed "x" is a Float32Array/ });
  integers.destroy();
});

test('an unread result serves as a constant', async () => {
  const { y } = await model.run({ x: floats(SIZE) });
  const adder = await loadModel(sum(), { context, constants: { b: y } });
  assert.deepEqual(
    (await adder.run({ a: floats(SIZE) })).sum.data,
    floats(SIZE).map((number) => 2 * number + 1),
  );
  adder.destroy();
});

/**
 * MB that 150 runs with results of 8.4 MB may leave: in what Node knows of, those of a run or two that are still referenced; and
 * resident, pages that the allocator keeps for later. None were measured: the runs before had touched more.
 */
const MORE = { external: 16, resident: 200 };

test('memory of results that nobody reads comes back', async (t) => {
  const run = async (count) => {
    for (let round = 0; round < count; round++) {
      await model.run({ x: floats(SIZE) });
    }
  };
  await run(10);
  const before = process.memoryUsage();
  await run(150);
  const megabytesMore = (name) => (process.memoryUsage()[name] - before[name]) / 1e6;
  await collectUntil(() => megabytesMore('external') <= MORE.external, 'results are given back');
  t.diagnostic(`${megabytesMore('rss').toFixed(0)} MB more are resident`);
  assert.ok(megabytesMore('rss') < MORE.resident, `${megabytesMore('rss')} MB more, of 1258 that were made`);
});

test('an output in a new tensor is one of the context of the model', async () => {
  const { y, first } = await model.run({ x: floats(4) }, { y: 'tensor', z: null });
  assert.deepEqual([y.dataType, y.shape, y.readable, y.writable, y.constant], ['float32', [4], true, true, false]);
  assert.deepEqual(first.data, Float32Array.of(1));
  const next = await model.run({ x: y }, { y: 'tensor', z: 'tensor' });
  assert.notEqual(next.y, y);
  assert.deepEqual(new Float32Array(await context.readTensor(next.y)), Float32Array.of(2, 3, 4, 5));
  assert.deepEqual(new Float32Array(await context.readTensor(next.z)), Float32Array.of(2, 4, 6, 8));
  context.writeTensor(y, floats(4, 9));
  assert.equal((await model.run({ x: y })).first.data[0], 10);
  y.destroy();
  await assert.rejects(model.run({ x: y }), /is destroyed/);
});

test('an output without elements is no tensor', async () => {
  await assert.rejects(model.run({ x: { data: floats(0), shape: [0] } }, { y: 'tensor' }), {
    name: 'TypeError',
    code: 'ERR_WEBNN_SHAPE',
    message: /output "y" has no elements, which a tensor cannot represent/,
  });
  await assert.rejects(model.run({ x: floats(1) }, { y: 'text' }), {
    code: 'ERR_WEBNN_TYPE',
    message: /fetch "y" is "text", expected an MLTensor, "tensor" or null/,
  });
});

test('tensors of runs are destroyed with their context', async () => {
  const own = await loadModel(simple());
  const { y } = await own.run({ x: floats(4) }, { y: 'tensor' });
  own.context.destroy();
  await assert.rejects(own.context.readTensor(y), /destroyed/);
});
