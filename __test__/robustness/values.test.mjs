import assert from 'node:assert/strict';
import { test } from 'node:test';
import { MLGraphBuilder, floats, ml, operand, read } from '../runtime/helpers.mjs';
import { SIZES, checkException, named, operators, validCall } from './support.mjs';

/** Bytes of which every float is NaN, every signed integer -1 and every unsigned one the largest. */
const ALL_ONES = 0xff;

/** Bytes that make infinities and the smallest integers among many other values. */
const PATTERN = Uint8Array.from([0, 0, 0x80, 0x7f, 0, 0, 0x80, 0xff, 0, 0x7c, 0, 0xfc, 1, 0, 0, 0, 0, 0, 0, 0x80, 0xff, 0xff, 0xff, 0x7f]);

for (const row of operators) {
  test(`${row.name} computes with NaN, infinities and extreme integers in every operand`, async () => {
    const context = await ml.createContext();
    for (const fill of [
      (bytes) => bytes.fill(ALL_ONES),
      (bytes) => bytes.forEach((_, i) => (bytes[i] = PATTERN[i % PATTERN.length])),
      (bytes) => bytes.forEach((_, i) => (bytes[i] = (i * 2654435761) >>> 13)),
    ]) {
      const { builder, inputs, args, options } = validCall(context, row);
      const outputs = named(builder[row.name](...args, options));
      const graph = await builder.build(outputs);
      const bound = {};
      for (const [name, { dataType, shape }] of Object.entries(inputs)) {
        bound[name] = await context.createTensor({ dataType, shape, writable: true });
        const bytes = new Uint8Array(shape.reduce((a, b) => a * b, SIZES[dataType]));
        fill(bytes);
        context.writeTensor(bound[name], bytes);
      }
      const tensors = {};
      for (const [name, { dataType, shape }] of Object.entries(outputs)) {
        tensors[name] = await context.createTensor({ dataType, shape, readable: true });
      }
      context.dispatch(graph, bound, tensors);
      for (const [name, tensor] of Object.entries(tensors)) {
        const bytes = await context.readTensor(tensor).catch((error) => checkException(error, `${row.name} ${name}`));
        assert.equal(
          bytes?.byteLength,
          tensor.shape.reduce((a, b) => a * b, SIZES[tensor.dataType]),
        );
      }
    }
    context.destroy();
  });
}

test('NaN goes through arithmetic and is not lost', async () => {
  const context = await ml.createContext();
  for (const name of ['add', 'sub', 'mul', 'div', 'pow', 'max', 'min']) {
    const builder = new MLGraphBuilder(context);
    const [x, z] = ['x', 'z'].map((input) => builder.input(input, operand(37)));
    const graph = await builder.build({ y: builder[name](x, z) });
    const [a, b, y] = await Promise.all([1, 2, 3].map(() => context.createTensor(floats(37))));
    context.writeTensor(
      a,
      Float32Array.from({ length: 37 }, (_, i) => (i % 2 ? NaN : 2)),
    );
    context.writeTensor(
      b,
      Float32Array.from({ length: 37 }, (_, i) => (i % 3 ? 3 : NaN)),
    );
    context.dispatch(graph, { x: a, z: b }, { y });
    (await read(context, y)).forEach((value, i) => {
      assert.equal(Number.isNaN(value), i % 2 === 1 || i % 3 === 0, `${name} at ${i} is ${value}`);
    });
  }
});

test('division of integers by zero gives zero', async () => {
  const context = await ml.createContext();
  /** @type {Record<string, any>} */
  const views = {
    int8: Int8Array,
    uint8: Uint8Array,
    int32: Int32Array,
    uint32: Uint32Array,
    int64: BigInt64Array,
    uint64: BigUint64Array,
  };
  for (const [name, View] of Object.entries(views)) {
    const dataType = /** @type {import('../../index.js').MLOperandDataType} */ (name);
    const builder = new MLGraphBuilder(context);
    const [x, z] = ['x', 'z'].map((input) => builder.input(input, { dataType, shape: [40] }));
    const graph = await builder.build({ y: builder.div(x, z) });
    const use = { dataType, shape: [40], readable: true, writable: true };
    const [a, b, y] = await Promise.all([1, 2, 3].map(() => context.createTensor(use)));
    context.writeTensor(a, new Uint8Array(40 * SIZES[dataType]).fill(ALL_ONES));
    context.dispatch(graph, { x: a, z: b }, { y });
    assert.ok(
      new View(await context.readTensor(y)).every((value) => Number(value) === 0),
      dataType,
    );
    // The smallest number divided by -1 does not fit either.
    const smallest = new View(40).map((_, i) => {
      const value = View.BYTES_PER_ELEMENT === 8 ? 2n ** 63n : 2 ** (8 * View.BYTES_PER_ELEMENT - 1);
      return i % 2 ? value : -value;
    });
    context.writeTensor(b, new Uint8Array(40 * SIZES[dataType]).fill(ALL_ONES));
    context.writeTensor(a, smallest);
    context.dispatch(graph, { x: a, z: b }, { y });
    assert.equal((await context.readTensor(y)).byteLength, 40 * SIZES[dataType]);
  }
});

test('indices out of range never leave the tensor', async () => {
  const context = await ml.createContext();
  for (const dataType of /** @type {const} */ (['int32', 'uint32', 'int64'])) {
    /** @type {any} */
    const View = { int32: Int32Array, uint32: Uint32Array, int64: BigInt64Array }[dataType];
    const wild = {
      int32: [-1, 2 ** 31 - 1, -(2 ** 31), 4],
      uint32: [2 ** 32 - 1, 2 ** 31, 4, 5],
      int64: [-1n, 2n ** 63n - 1n, -(2n ** 63n), 4n],
    }[dataType];
    const calls = {
      gather: (b, x, i) => b.gather(x, b.reshape(i, [4]), { axis: 0 }),
      gatherElements: (b, x, i) => b.gatherElements(x, i, { axis: 0 }),
      gatherND: (b, x, i) => b.gatherND(x, b.reshape(i, [2, 2])),
      scatterElements: (b, x, i) =>
        b.scatterElements(x, i, b.constant({ dataType: 'float32', shape: [4, 1] }, new Float32Array(4).fill(1)), {
          axis: 0,
        }),
      scatterND: (b, x, i) => b.scatterND(x, b.reshape(i, [2, 2]), b.constant({ dataType: 'float32', shape: [2] }, new Float32Array(2).fill(1))),
    };
    for (const [name, call] of Object.entries(calls)) {
      const builder = new MLGraphBuilder(context);
      const x = builder.input('x', operand(4, 1));
      const i = builder.input('i', { dataType, shape: [4, 1] });
      const result = call(builder, x, i);
      const graph = await builder.build({ y: result });
      const [a, y] = await Promise.all([context.createTensor(floats(4, 1)), context.createTensor(floats(...result.shape))]);
      const indices = await context.createTensor({ dataType, shape: [4, 1], writable: true });
      context.writeTensor(a, new Float32Array([1, 1, 1, 1]));
      context.writeTensor(indices, View.from(wild));
      context.dispatch(graph, { x: a, i: indices }, { y });
      // Everything in reach is 1: another value was read elsewhere.
      assert.ok(
        (await read(context, y)).every((value) => value === 1),
        `${name} with ${dataType}`,
      );
    }
  }
});
