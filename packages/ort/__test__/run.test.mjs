// What is fed to a session, what is asked of it, and what it refuses.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { runInNewContext } from 'node:vm';
import { InferenceSession, Tensor } from 'webnn-node-ort';
import * as onnx from '../../../__test__/onnx/model-writer.mjs';
import { FLOAT, negate, node, STRING, sums, value, writeModel } from './support.mjs';
import { wrong } from '../../../__test__/lib/types.mjs';

const UINT16 = 4;
const INT16 = 5;
const UINT64 = 13;
const float32 = (data, dims) => new Tensor('float32', Float32Array.from(data), dims);
const plain = ({ type, dims, data, location }) => ({ type, dims, data: [...data], location });

/** A model that gives what it is fed. */
const identity = (elementType, shape) =>
  writeModel({
    inputs: [value('x', elementType, shape)],
    outputs: [value('y', elementType, shape)],
    nodes: [node('Identity', ['x'], ['y'])],
  });

describe('InferenceSession.run', () => {
  it('takes and gives strings', async () => {
    const session = await InferenceSession.create(identity(STRING, ['n']));
    assert.deepEqual(session.inputMetadata[0], { name: 'x', isTensor: true, type: 'string', shape: ['n'] });
    const { y } = await session.run({ x: new Tensor('string', ['a', 'ü'], [2]) });
    assert.deepEqual(plain(y), { type: 'string', dims: [2], data: ['a', 'ü'], location: 'cpu' });
    const target = new Tensor('string', ['', ''], [2]);
    await session.run({ x: new Tensor(['b', 'c']) }, { y: target });
    assert.deepEqual(target.data, ['b', 'c']);
    await assert.rejects(session.run({ x: float32([1], [1]) }), { name: 'Error', message: /"x".*float32.*string/ });
  });

  it('gives all outputs, those that are named, or those that are null', async () => {
    const session = await InferenceSession.create(sums());
    const feeds = { a: float32([1, 2], [1, 2]), b: float32([5, 5], [1, 2]) };
    const sum = { type: 'float32', dims: [1, 2], data: [6, 7], location: 'cpu' };
    const difference = { type: 'float32', dims: [1, 2], data: [-4, -3], location: 'cpu' };
    const run = async (...args) => Object.fromEntries(Object.entries(await session.run(feeds, ...args)).map(([name, tensor]) => [name, plain(tensor)]));
    assert.deepEqual(await run(), { sum, difference });
    assert.deepEqual(await run({}), { sum, difference });
    assert.deepEqual(await run(['difference']), { difference });
    assert.deepEqual(await run(['difference', 'sum'], {}), { sum, difference });
    assert.deepEqual(await run({ sum: null }), { sum });
    assert.deepEqual(await run({ sum: null }, { tag: 'one' }), { sum });
    assert.deepEqual(Object.keys(await run(['difference', 'sum'])), ['sum', 'difference']);
  });

  it('fills tensors that are given for outputs, and gives new ones', async () => {
    const session = await InferenceSession.create(sums());
    const feeds = { a: float32([1, 2], [1, 2]), b: float32([5, 5], [1, 2]) };
    const buffer = new ArrayBuffer(16);
    const target = new Tensor('float32', new Float32Array(buffer, 4, 2), [1, 2]);
    const { sum, difference } = await session.run(feeds, { sum: target });
    assert.deepEqual([...new Float32Array(buffer)], [0, 6, 7, 0]);
    assert.notEqual(sum, target);
    assert.notEqual(/** @type {Float32Array} */ (sum.data).buffer, buffer);
    assert.deepEqual([...sum.data], [6, 7]);
    assert.equal(difference, undefined);
    /** @type {[Tensor, RegExp][]} */
    const refused = [
      [new Tensor('int32', new Int32Array(2), [1, 2]), /sum.*int32.*float32/],
      [float32([0, 0], [2]), /sum.*\[1, 2\].*\[2\]/],
      [float32([0, 0, 0], [1, 3]), /sum.*\[1, 2\].*\[1, 3\]/],
      [float32([], [0, 2]), /sum/],
    ];
    for (const [tensor, message] of refused) {
      await assert.rejects(session.run(feeds, { sum: tensor }), { name: 'Error', message });
    }
    target.dispose();
    await assert.rejects(session.run(feeds, { sum: target }), { name: 'RangeError', message: /disposed/ });
  });

  it('takes dimensions of one name that differ, where they broadcast', async () => {
    const session = await InferenceSession.create(sums());
    const { sum } = await session.run({ a: float32([1, 2], [1, 2]), b: float32([1, 2, 3, 4], [2, 2]) });
    assert.deepEqual(plain(sum), { type: 'float32', dims: [2, 2], data: [2, 4, 4, 6], location: 'cpu' });
    await assert.rejects(session.run({ a: float32([1, 2, 3, 4, 5, 6], [3, 2]), b: float32([1, 2, 3, 4], [2, 2]) }), {
      name: 'Error',
      message: /\[3, 2\].*\[2, 2\]/,
    });
  });

  it('takes a number as a scalar or a list, and only that for a scalar', async () => {
    const session = await InferenceSession.create(negate(FLOAT, []));
    for (const dims of [[], [1], [1, 1]]) {
      const { y } = await session.run({ x: float32([5], dims) });
      assert.deepEqual([...y.data], [-5]);
    }
    await assert.rejects(session.run({ x: float32([5, 6], [2]) }), { name: 'Error', message: /"x".*\[2\]/ });
  });

  it('runs with no elements', async () => {
    const session = await InferenceSession.create(negate(FLOAT, ['n', 3]));
    const { y } = await session.run({ x: float32([], [0, 3]) });
    assert.deepEqual(plain(y), { type: 'float32', dims: [0, 3], data: [], location: 'cpu' });
    const target = float32([], [0, 3]);
    await session.run({ x: float32([], [0, 3]) }, { y: target });
  });

  it('ignores feeds of other names', async () => {
    const session = await InferenceSession.create(negate());
    const { y } = await session.run({ x: float32([1], [1]), other: float32([1], [1]), junk: wrong(5) });
    assert.deepEqual([...y.data], [-1]);
  });

  it('takes and gives every type that there are models for, bit by bit', async () => {
    const Float16 = globalThis.Float16Array ?? Uint16Array;
    /** @type {[number, any, any][]} */
    const types = [
      [FLOAT, 'float32', Float32Array.of(0.1, -0, Infinity)],
      [onnx.FLOAT16, 'float16', new Float16(Uint16Array.of(0x3c00, 0x8000, 0x7c00).buffer)],
      [onnx.INT64, 'int64', BigInt64Array.of(1n, -1n, 2n ** 63n - 1n)],
      [UINT64, 'uint64', BigUint64Array.of(1n, 0n, 2n ** 64n - 1n)],
      [onnx.INT32, 'int32', Int32Array.of(1, -1, 2 ** 31 - 1)],
      [onnx.UINT32, 'uint32', Uint32Array.of(1, 0, 2 ** 32 - 1)],
      [onnx.INT8, 'int8', Int8Array.of(1, -128, 127)],
      [onnx.UINT8, 'uint8', Uint8Array.of(1, 0, 255)],
      [onnx.BOOL, 'bool', Uint8Array.of(1, 0, 1)],
      [onnx.DOUBLE, 'float64', Float64Array.of(0.5, -2, 1e10)],
      [INT16, 'int16', Int16Array.of(1, -32768, 32767)],
      [UINT16, 'uint16', Uint16Array.of(1, 0, 65535)],
    ];
    for (const [elementType, type, data] of types) {
      const session = await InferenceSession.create(identity(elementType, ['n']));
      const { y } = await session.run({ x: new Tensor(type, data, [3]) });
      assert.equal(y.type, type);
      assert.deepEqual(y.data, data, type);
      const [input] = session.inputMetadata;
      assert.equal(input.isTensor && input.type, type);
    }
  });

  it('takes float16 as the bits of them, also where they replace the data of a tensor', async () => {
    const session = await InferenceSession.create(negate(onnx.FLOAT16, ['n']));
    const bits = Uint16Array.of(0x3c00, 0x4000);
    const tensor = new Tensor('float16', new Uint16Array(2), [2]);
    Object.assign(tensor, { cpuData: bits });
    for (const feed of [new Tensor('float16', bits, [2]), tensor]) {
      const data = /** @type {Uint16Array} */ ((await session.run({ x: feed })).y.data);
      assert.deepEqual([...new Uint16Array(data.buffer, data.byteOffset, 2)], [0xbc00, 0xc000]);
    }
  });

  it('takes arrays of another realm, shared memory, parts of buffers, and more elements than it needs', async () => {
    const session = await InferenceSession.create(negate());
    const foreign = runInNewContext('({ type: "float32", dims: [2], data: Float32Array.of(1, 2), location: "cpu" })');
    const shared = new Float32Array(new SharedArrayBuffer(8));
    shared.set([1, 2]);
    const part = new Float32Array(Float32Array.of(9, 1, 2, 9).buffer, 4, 2);
    const long = Float32Array.of(1, 2, 3);
    for (const feed of [foreign, ...[shared, part, long].map((data) => ({ type: 'float32', dims: [2], data, location: 'cpu' }))]) {
      const { y } = await session.run({ x: feed });
      assert.deepEqual([...y.data], [-1, -2]);
      assert.deepEqual(y.dims, [2]);
    }
  });

  it('uses the data at the time of the call', async () => {
    const session = await InferenceSession.create(negate());
    const data = new Float32Array(100_000).fill(1);
    const running = session.run({ x: new Tensor('float32', data, [data.length]) });
    data.fill(2);
    structuredClone(data.buffer, { transfer: [data.buffer] });
    const { y } = await running;
    assert.ok(y.data.every((number) => number === -1));
  });

  it('rejects tensors of wrong types and shapes with an Error that names the input', async () => {
    const session = await InferenceSession.create(negate(FLOAT, ['n', 2]));
    /** @type {[any, RegExp][]} */
    const refused = [
      [new Tensor('int32', [1, 2], [1, 2]), /"x".*int32.*float32/],
      [new Tensor('string', ['a', 'b'], [1, 2]), /"x".*string.*float32/],
      [float32([1, 2], [2]), /"x".*\[2\].*\[.*2\]/],
      [float32([1, 2, 3], [1, 3]), /"x".*\[1, 3\].*\[.*2\]/],
      [{ ...float32([1], [1]), dims: [1, 2], location: 'cpu', data: Float32Array.of(1) }, /"x".*1 element.*2/],
    ];
    for (const [tensor, message] of refused) {
      await assert.rejects(session.run({ x: tensor }), { name: 'Error', message });
    }
    const { y } = await session.run({ x: float32([1, 2], [1, 2]) });
    assert.deepEqual([...y.data], [-1, -2]);
  });

  it('rejects what is no tensor with a TypeError or RangeError', async () => {
    const session = await InferenceSession.create(negate());
    const valid = { type: 'float32', dims: [1], data: Float32Array.of(1), location: 'cpu' };
    /** @type {[any, string, RegExp?][]} */
    const refused = [
      [null, 'TypeError'],
      [5, 'TypeError'],
      ['x', 'TypeError'],
      [[], 'TypeError'],
      [{}, 'TypeError'],
      [Symbol('x'), 'TypeError'],
      [() => valid, 'TypeError'],
      [{ ...valid, dims: undefined }, 'TypeError', /dims/],
      [{ ...valid, dims: '1' }, 'TypeError', /dims/],
      [{ ...valid, dims: ['1'] }, 'TypeError', /dims\[0\]/],
      [{ ...valid, dims: [-1] }, 'RangeError', /dims\[0\]/],
      [{ ...valid, dims: [1.5] }, 'RangeError', /dims\[0\]/],
      [{ ...valid, dims: [NaN] }, 'RangeError', /dims\[0\]/],
      [{ ...valid, dims: [2 ** 32] }, 'RangeError', /dims\[0\]/],
      [{ ...valid, dims: [, 1] }, 'TypeError', /dims\[0\]/],
      [{ ...valid, type: 5 }, 'TypeError', /type/],
      [{ ...valid, type: 'complex64' }, 'TypeError', /complex64/],
      [{ ...valid, type: 'toString' }, 'TypeError', /toString/],
      [{ ...valid, location: 5 }, 'TypeError', /location/],
      [{ ...valid, location: 'moon' }, 'RangeError', /moon/],
      [{ ...valid, location: 'texture' }, 'TypeError', /texture/],
      [{ ...valid, location: 'gpu-buffer', gpuBuffer: {} }, 'TypeError', /gpuBuffer/],
      [{ ...valid, location: 'ml-tensor', mlTensor: null }, 'TypeError', /mlTensor/],
      [{ ...valid, data: [1] }, 'TypeError', /data/],
      [{ ...valid, data: new ArrayBuffer(4) }, 'TypeError', /data/],
      [{ ...valid, data: Int32Array.of(1) }, 'TypeError', /Int32Array/],
      [{ ...valid, data: new DataView(new ArrayBuffer(4)) }, 'TypeError', /data/],
      [{ ...valid, type: 'string', data: 5 }, 'TypeError', /data/],
    ];
    for (const [tensor, name, message = /"x"/] of refused) {
      await assert.rejects(session.run({ x: tensor }), { name, message });
    }
    const disposed = float32([1], [1]);
    disposed.dispose();
    await assert.rejects(session.run({ x: disposed }), { name: 'RangeError', message: /"x".*disposed/ });
    const detached = float32([1], [1]);
    structuredClone(detached.data.buffer, { transfer: [detached.data.buffer] });
    await assert.rejects(session.run({ x: detached }), { name: 'Error', message: /"x".*detached/ });
  });

  it('rejects wrong arguments as onnxruntime-common does', async () => {
    const session = await InferenceSession.create(negate());
    const x = float32([1], [1]);
    /** @type {[any[], string, RegExp][]} */
    const cases = [
      [[], 'TypeError', /'feeds'/],
      [[null], 'TypeError', /'feeds'/],
      [[x], 'TypeError', /'feeds'/],
      [[[x]], 'TypeError', /'feeds'/],
      [[{}], 'Error', /input 'x' is missing/],
      [[{ z: x }], 'Error', /input 'x' is missing/],
      [[{ x }, null], 'TypeError', /argument\[1\]/],
      [[{ x }, 1], 'TypeError', /argument\[1\]/],
      [[{ x }, x], 'TypeError', /'fetches'/],
      [[{ x }, []], 'TypeError', /'fetches'/],
      [[{ x }, [1]], 'TypeError', /'fetches'/],
      [[{ x }, ['z']], 'RangeError', /'fetches'/],
      [[{ x }, ['y'], 1], 'TypeError', /'options'/],
      [[{ x }, ['y'], null], 'TypeError', /'options'/],
    ];
    for (const [args, name, message] of cases) {
      await assert.rejects(Reflect.apply(session.run, session, args), { name, message });
    }
  });

  it('rejects with what getters of hostile arguments throw, and goes on', async () => {
    const session = await InferenceSession.create(negate());
    const raised = new Error('from the getter');
    const throwing = (name) =>
      Object.defineProperty({ type: 'float32', dims: [1], data: Float32Array.of(1), location: 'cpu' }, name, {
        get() {
          throw raised;
        },
      });
    for (const name of ['type', 'dims', 'data', 'location']) {
      await assert.rejects(session.run({ x: wrong(throwing(name)) }), raised);
    }
    const releasing = {
      type: 'float32',
      dims: [1],
      location: 'cpu',
      get data() {
        session.release();
        return Float32Array.of(1);
      },
    };
    await Promise.allSettled([session.run({ x: wrong(releasing) })]);
    await assert.rejects(session.run({ x: float32([1], [1]) }), { name: 'Error', message: /disposed/ });
  });
});

describe('names of sizes and defaults', () => {
  it('are as in the file, and no promises, without a warning', async () => {
    const bytes = writeModel({
      inputs: [value('x', FLOAT, ['?', '?', 'n']), value('w', FLOAT, ['n'])],
      outputs: [value('y', FLOAT, ['?', '?', 'n']), value('z', FLOAT, ['n'])],
      nodes: [node('Relu', ['x'], ['y']), node('Neg', ['w'], ['z'])],
    });
    const warnings = [];
    const note = (warning) => warnings.push(warning);
    process.on('warning', note);
    const session = await InferenceSession.create(bytes);
    assert.deepEqual(
      [...session.inputMetadata, ...session.outputMetadata].map((metadata) => /** @type {any} */ (metadata).shape),
      [['?', '?', 'n'], ['n'], ['?', '?', 'n'], ['n']],
    );
    for (const dims of [
      [1, 2, 3],
      [2, 2, 2],
    ]) {
      const { y, z } = await session.run({ x: float32(Array(dims[0] * dims[1] * dims[2]).fill(1), dims), w: float32([1, 2, 3, 4], [4]) });
      assert.deepEqual([y.dims, [...z.data]], [dims, [-1, -2, -3, -4]]);
    }
    await session.release();
    await new Promise((resolve) => setImmediate(resolve));
    process.off('warning', note);
    assert.deepEqual(warnings, []);
  });

  it('a feed for an input with a default is ignored, as by onnxruntime-node', async () => {
    const bytes = writeModel({
      inputs: [value('x', FLOAT, ['n']), value('w', FLOAT, [1])],
      outputs: [value('y', FLOAT, ['n'])],
      nodes: [node('Add', ['x', 'w'], ['y'])],
      weights: [onnx.weight('w', [1], Float32Array.of(1))],
    });
    const session = await InferenceSession.create(bytes);
    assert.deepEqual(session.inputNames, ['x']);
    const { y } = await session.run({ x: float32([1, 2], [2]), w: float32([10], [1]) });
    assert.deepEqual([...y.data], [2, 3]);
    await session.release();
  });
});
