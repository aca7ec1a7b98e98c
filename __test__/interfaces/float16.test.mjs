import assert from 'node:assert/strict';
import { test } from 'node:test';

import { typeError } from '../lib/exceptions.mjs';
import { FLOAT16, node, value, writeModel } from '../onnx/model-writer.mjs';
import { require, webnn } from './helpers.mjs';

const { ml, MLGraphBuilder } = webnn();
const { loadModel } = require('../../onnx.js');
const { Float16Array } = globalThis;

/** Numbers and the float16 nearest to each of them, as bits. */
const NUMBERS = [0, -0, 1, -2, 0.1, 65504, 65520, -Infinity, 2 ** -14, 2 ** -24, 2 ** -26, 1 / 3];
const BITS = [0, 0x8000, 0x3c00, 0xc000, 0x2e66, 0x7bff, 0x7c00, 0xfc00, 0x0400, 1, 0, 0x3555];

const descriptor = { dataType: 'float16', shape: [NUMBERS.length] };

/** Runs `y = x + c` on float16 numbers; `toData` makes a buffer from a list. */
async function sum(toData, numbers, addends) {
  const context = await ml.createContext();
  const builder = new MLGraphBuilder(context);
  const operand = { dataType: 'float16', shape: [numbers.length] };
  const constant = builder.constant(operand, toData(addends));
  const graph = await builder.build({ y: builder.add(builder.input('x', operand), constant) });
  const x = await context.createTensor({ ...operand, writable: true });
  const y = await context.createTensor({ ...operand, readable: true });
  context.writeTensor(x, toData(numbers));
  context.dispatch(graph, { x }, { y });
  return context.readTensor(y);
}

test('the bits of float16 numbers go through a tensor as they are', async () => {
  const context = await ml.createContext();
  const tensor = await context.createTensor({ ...descriptor, readable: true, writable: true });
  context.writeTensor(tensor, new Uint16Array(BITS));
  assert.deepEqual([...new Uint16Array(await context.readTensor(tensor))], BITS);
});

test('float16 numbers are computed from their bits', async () => {
  // 1.5 + 0.25, -2 + 4, 2048 + 1: the last sum lies between two float16 numbers and goes to the even one.
  const result = await sum((bits) => new Uint16Array(bits), [0x3e00, 0xc000, 0x6800], [0x3400, 0x4400, 0x3c00]);
  assert.deepEqual([...new Uint16Array(result)], [0x3f00, 0x4000, 0x6800]);
});

test('results of ONNX models in float16 are the best array that the runtime has', async () => {
  const model = await loadModel(
    writeModel({ inputs: [value('x', FLOAT16, ['n'])], outputs: [value('y', FLOAT16, ['n'])], nodes: [node('Identity', ['x'], ['y'])] }),
  );
  const { y } = await model.run({ x: new Uint16Array(BITS) });
  assert.equal(y.data.constructor, Float16Array ?? Uint16Array);
  assert.deepEqual([...new Uint16Array(y.data.buffer)], BITS);
  model.destroy();
});

// Only where the runtime has it; scripts/suites/runtimes.mjs checks that these run in every runtime that does.
if (Float16Array !== undefined) {
  test('Float16Array: numbers go through a tensor as they are rounded', async () => {
    const context = await ml.createContext();
    const tensor = await context.createTensor({ ...descriptor, readable: true, writable: true });
    const numbers = new Float16Array(NUMBERS);
    context.writeTensor(tensor, numbers);
    numbers.fill(7);
    assert.deepEqual([...new Uint16Array(await context.readTensor(tensor))], BITS);
    await context.readTensor(tensor, numbers);
    assert.deepEqual(numbers, new Float16Array(NUMBERS));
  });

  test('Float16Array: a part of a buffer, also of a shared one', async () => {
    const context = await ml.createContext();
    const tensor = await context.createTensor({ dataType: 'float16', shape: [2], readable: true, writable: true });
    for (const Buffer of [ArrayBuffer, SharedArrayBuffer]) {
      const all = new Float16Array(new Buffer(12));
      all.set([1, 2, 3, 4, 5, 6]);
      context.writeTensor(tensor, all.subarray(2, 4));
      await context.readTensor(tensor, all.subarray(4));
      assert.deepEqual([...all], [1, 2, 3, 4, 3, 4]);
    }
  });

  test('Float16Array: constants, constant tensors and feeds', async () => {
    const result = await sum((numbers) => new Float16Array(numbers), [1.5, -2, 2048], [0.25, 4, 1]);
    assert.deepEqual([...new Float16Array(result)], [1.75, 2, 2048]);
    const context = await ml.createContext();
    const tensor = await context.createConstantTensor({ dataType: 'float16', shape: [2] }, new Float16Array([1, 2]));
    assert.equal(tensor.constant, true);
    assert.deepEqual(new MLGraphBuilder(context).constant(tensor).shape, [2]);
  });

  test('Float16Array: no other data type takes it', async () => {
    const context = await ml.createContext();
    for (const dataType of ['float32', 'int32', 'uint32', 'int64', 'uint64', 'int8', 'uint8']) {
      const tensor = await context.createTensor({ dataType, shape: [2], writable: true });
      assert.throws(() => context.writeTensor(tensor, new Float16Array(2)), typeError(/^writeTensor: inputData is a Float16Array, expected an? /));
    }
  });

  test('Float16Array: a feed and a result of an ONNX model', async () => {
    const model = await loadModel(
      writeModel({
        inputs: [value('x', FLOAT16, [2])],
        outputs: [value('y', FLOAT16, [2])],
        nodes: [node('Neg', ['x'], ['y'])],
      }),
    );
    const { y } = await model.run({ x: new Float16Array([1.5, -2]) });
    assert.ok(y.data instanceof Float16Array);
    assert.deepEqual([...y.data], [-1.5, 2]);
    model.destroy();
  });
}
