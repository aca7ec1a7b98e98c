import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Worker } from 'node:worker_threads';
import { exception } from '../lib/exceptions.mjs';
import { MLGraphBuilder, floats, ml, operand, read } from '../runtime/helpers.mjs';

const typeError = exception('TypeError');

/** Everything that takes a buffer for `float32 [4]`; each call is a promise. */
const ENTRIES = {
  writeTensor: async ({ context, tensor }, data) => context.writeTensor(tensor, data),
  readTensor: ({ context, tensor }, data) => context.readTensor(tensor, data),
  createConstantTensor: ({ context }, data) => context.createConstantTensor(operand(4), data),
  constant: async ({ context }, data) => new MLGraphBuilder(context).constant(operand(4), data),
};

async function setUp() {
  const context = await ml.createContext({ numThreads: 1 });
  return { context, tensor: await context.createTensor(floats(4)) };
}

const detach = (value) => {
  const buffer = value.buffer ?? value;
  structuredClone(buffer, { transfer: [buffer] });
  return value;
};

const GOOD = {
  Float32Array: () => new Float32Array(4),
  'Float32Array in the middle of a buffer': () => new Float32Array(new ArrayBuffer(64), 8, 4),
  Uint8Array: () => new Uint8Array(16),
  'Uint8Array at an odd offset': () => new Uint8Array(new ArrayBuffer(33), 7, 16),
  Buffer: () => Buffer.alloc(16),
  'Buffer of the pool': () => Buffer.from('sixteen bytes...'),
  ArrayBuffer: () => new ArrayBuffer(16),
  SharedArrayBuffer: () => new SharedArrayBuffer(16),
  'Float32Array of shared memory': () => new Float32Array(new SharedArrayBuffer(32), 16, 4),
  'derived Float32Array': () => new (class Mine extends Float32Array {})(4),
  'Float32Array with properties that lie': () =>
    Object.defineProperties(new Float32Array(4), {
      byteLength: { value: 2 ** 31 },
      length: { value: -1 },
      buffer: { get: () => assert.fail('it was read') },
      [Symbol.toStringTag]: { value: 'Uint8Array' },
    }),
};

const BAD = {
  undefined: () => undefined,
  null: () => null,
  number: () => 16,
  string: () => 'sixteen bytes...',
  array: () => [0, 0, 0, 0],
  'array-like': () => ({ length: 4, byteLength: 16, buffer: new ArrayBuffer(16) }),
  'object with the prototype of a Float32Array': () => Object.create(Float32Array.prototype),
  'object with the prototype of an ArrayBuffer': () => Object.setPrototypeOf({}, ArrayBuffer.prototype),
  'proxy of a Float32Array': () => new Proxy(new Float32Array(4), {}),
  'too short': () => new Float32Array(3),
  'too long': () => new Float32Array(5),
  empty: () => new Float32Array(0),
  'another type': () => new Int32Array(4),
  Float64Array: () => new Float64Array(2),
  Uint8ClampedArray: () => new Uint8ClampedArray(16),
  DataView: () => new DataView(new ArrayBuffer(16)),
  'DataView of a detached buffer': () => detach(new DataView(new ArrayBuffer(16))),
  'detached Float32Array': () => detach(new Float32Array(4)),
  'detached Uint8Array': () => detach(new Uint8Array(16)),
  'detached ArrayBuffer': () => detach(new ArrayBuffer(16)),
  'resizable ArrayBuffer': () => new ArrayBuffer(16, { maxByteLength: 32 }),
  'Float32Array of a resizable buffer': () => new Float32Array(new ArrayBuffer(16, { maxByteLength: 32 })),
  'Float32Array of fixed length in a resizable buffer': () => new Float32Array(new ArrayBuffer(32, { maxByteLength: 64 }), 0, 4),
  'Float32Array that is out of bounds': () => {
    const buffer = new ArrayBuffer(32, { maxByteLength: 64 });
    const view = new Float32Array(buffer, 16, 4);
    buffer.resize(8);
    return view;
  },
  'growable SharedArrayBuffer': () => new SharedArrayBuffer(16, { maxByteLength: 32 }),
  'Float32Array of a growable buffer': () => new Float32Array(new SharedArrayBuffer(16, { maxByteLength: 32 })),
};

for (const [entry, call] of Object.entries(ENTRIES)) {
  for (const [name, make] of Object.entries(GOOD)) {
    test(`${entry} takes a ${name}`, async () => {
      await call(await setUp(), make());
    });
  }
  for (const [name, make] of Object.entries(BAD)) {
    test(`${entry} refuses: ${name}`, async () => {
      const state = await setUp();
      await assert.rejects(call(state, make()), typeError);
      assert.deepEqual([...(await read(state.context, state.tensor))], [0, 0, 0, 0]);
    });
  }
}

test('memory whose bytes are taken away between a call and its work', async () => {
  const { context, tensor } = await setUp();
  const data = new Float32Array([1, 2, 3, 4]);
  context.writeTensor(tensor, data);
  detach(data);
  assert.deepEqual([...(await read(context, tensor))], [1, 2, 3, 4]);
  const constant = new Float32Array([5, 6, 7, 8]);
  const builder = new MLGraphBuilder(context);
  const pending = context.createConstantTensor(operand(4), constant);
  const y = builder.add(builder.constant(operand(4), constant), builder.input('x', operand(4)));
  detach(constant);
  const graph = await builder.build({ y });
  await pending;
  const output = await context.createTensor(floats(4));
  context.dispatch(graph, { x: tensor }, { y: output });
  assert.deepEqual([...(await read(context, output))], [6, 8, 10, 12]);
  for (const target of [new Float32Array(4), new ArrayBuffer(16), new Uint8Array(16)]) {
    const reading = context.readTensor(tensor, target);
    detach(target);
    await assert.rejects(reading, typeError);
  }
});

test('memory that another thread writes at the same time', async () => {
  const LENGTH = 100_003;
  const shared = new SharedArrayBuffer(LENGTH + 16);
  // At an odd place, so that words of the view are not words of the memory.
  const [view, state] = [new Uint8Array(shared, 3, LENGTH), new Int32Array(new SharedArrayBuffer(4))];
  view.fill(0x11);
  const worker = new Worker(
    `const { view, state } = require('node:worker_threads').workerData;
     for (let turn = 0; Atomics.load(state, 0) < 2; turn++) {
       view.fill(turn % 2 === 0 ? 0xee : 0x11);
       Atomics.store(state, 0, Math.max(Atomics.load(state, 0), 1));
     }`,
    { eval: true, workerData: { view, state } },
  );
  const ended = new Promise((resolve) => worker.on('exit', resolve));
  while (Atomics.load(state, 0) < 1) await new Promise(setImmediate);

  const context = await ml.createContext({ accelerated: false, numThreads: 1 });
  const descriptor = { dataType: /** @type {const} */ ('uint8'), shape: [LENGTH], readable: true, writable: true };
  const tensor = await context.createTensor(descriptor);
  const isOneOfBoth = (bytes) => bytes.every((byte) => byte === 0x11 || byte === 0xee);
  for (let turn = 0; turn < 50; turn++) {
    context.writeTensor(tensor, view);
    assert.ok(isOneOfBoth(new Uint8Array(await context.readTensor(tensor))), 'what was written');
    // Both threads write into it now.
    await context.readTensor(tensor, view);
    assert.ok(isOneOfBoth(view), 'what was read');
  }
  await context.createConstantTensor(descriptor, view);
  const builder = new MLGraphBuilder(context);
  const graph = await builder.build({ y: builder.identity(builder.constant(descriptor, view)) });
  context.dispatch(graph, {}, { y: tensor });
  assert.ok(isOneOfBoth(new Uint8Array(await context.readTensor(tensor))), 'the constant');
  Atomics.store(state, 0, 2);
  assert.equal(await ended, 0);
});

test('a buffer may be read into by many reads at once', async () => {
  const { context, tensor } = await setUp();
  const target = new Float32Array(4);
  const reads = [];
  for (let i = 0; i < 50; i++) {
    context.writeTensor(tensor, new Float32Array(4).fill(i));
    reads.push(context.readTensor(tensor, target).then(() => target[0]));
  }
  assert.deepEqual(await Promise.all(reads), [...reads.keys()]);
});

test('each read without a buffer gives one of its own', async () => {
  const { context, tensor } = await setUp();
  const [a, b] = await Promise.all([context.readTensor(tensor), context.readTensor(tensor)]);
  assert.notEqual(a, b);
  assert.ok(a instanceof ArrayBuffer && a.byteLength === 16 && !a.resizable);
  new Uint8Array(a).fill(9);
  assert.deepEqual([...(await read(context, tensor))], [0, 0, 0, 0]);
});
