import assert from 'node:assert/strict';
import test, { after, before, describe } from 'node:test';
import { MLGraphBuilder, ml } from '../../index.js';
import { importModel, inspectModel, loadModel } from '../../onnx.js';
import { BOOL, DOUBLE, FLOAT, INT16, INT64, UINT16, externalWeight, node, sequenceValue, value, weight, writeModel } from './model-writer.mjs';
import { wrong } from '../lib/types.mjs';

let context;
before(async () => {
  context = await ml.createContext();
});
after(() => context.destroy());

/** y = x - z, where z is a constant of the type of x. */
const difference = (elementType, constant, shape = /** @type {(string | number)[]} */ (['n'])) =>
  writeModel({
    inputs: [value('x', elementType, shape)],
    outputs: [value('y', elementType, shape)],
    weights: [weight('z', [constant.length], constant, elementType)],
    nodes: [node('Sub', ['x', 'z'], ['y'])],
  });

const identity = (elementType) =>
  writeModel({ inputs: [value('x', elementType, ['n'])], outputs: [value('y', elementType, ['n'])], nodes: [node('Identity', ['x'], ['y'])] });

describe('types of ONNX that WebNN does not have', () => {
  /** @type {[import('../../onnx.js').OnnxDataType, number, Float64Array | Int16Array | Uint16Array, string][]} */
  const cases = [
    ['double', DOUBLE, Float64Array.of(1.5, -2, Infinity), 'tensor(double)'],
    ['int16', INT16, Int16Array.of(-32768, 0, 32767), 'tensor(int16)'],
    ['uint16', UINT16, Uint16Array.of(0, 1, 65535), 'tensor(uint16)'],
  ];
  for (const [name, elementType, data, type] of cases) {
    test(`${name} goes in and out`, async () => {
      const empty = new /** @type {any} */ (data.constructor)(0);
      const model = await loadModel(identity(elementType), { context });
      assert.deepEqual([model.inputs[0].dataType, model.inputs[0].type], [name, type]);
      const { y } = await model.run({ x: data });
      assert.deepEqual(y, { data, shape: [3], dataType: name });
      const again = await model.run({ x: y });
      assert.deepEqual(again.y.data, data);
      // Bytes are the elements, wherever they begin.
      const bytes = new Uint8Array(data.byteLength + 1);
      bytes.set(new Uint8Array(data.buffer), 1);
      assert.deepEqual((await model.run({ x: bytes.subarray(1) })).y.data, data);
      assert.deepEqual((await model.run({ x: { data: data.buffer, shape: [3], dataType: name } })).y.data, data);
      assert.deepEqual((await model.run({ x: empty })).y.data, empty);
      await assert.rejects(model.run({ x: Float32Array.of(1) }), {
        code: 'ERR_WEBNN_TYPE',
        message: new RegExp(`is a Float32Array, expected one of ${data.constructor.name}`),
      });
      await assert.rejects(model.run({ x: bytes.subarray(0, 1) }), { code: 'ERR_WEBNN_SHAPE', message: /1 bytes, not a whole number of elements/ });
      model.destroy();
    });
  }

  test('large results of them are read later and fed unread', async () => {
    const model = await loadModel(difference(DOUBLE, Float64Array.of(1)), { context });
    const x = Float64Array.from({ length: 1 << 14 }, (_, index) => index);
    const first = await model.run({ x });
    const second = await model.run({ x: first.y });
    assert.notEqual(Object.getOwnPropertyDescriptor(first.y, 'data')?.get, undefined);
    assert.deepEqual(
      second.y.data,
      x.map((number) => number - 2),
    );
    assert.deepEqual(
      first.y.data,
      x.map((number) => number - 1),
    );
    model.destroy();
  });

  test('constants of them serve as inputs, and tensors of float32 do', async () => {
    const bytes = writeModel({
      inputs: [value('x', DOUBLE, ['n']), value('z', DOUBLE, ['n'])],
      outputs: [value('y', DOUBLE, ['n'])],
      nodes: [node('Sub', ['x', 'z'], ['y'])],
    });
    const model = await loadModel(bytes, { context, constants: { z: { data: Float64Array.of(1, 2), shape: [2] } } });
    const tensor = await context.createTensor({ dataType: 'float32', shape: [2], writable: true });
    context.writeTensor(tensor, Float32Array.of(5, 5));
    assert.deepEqual((await model.run({ x: tensor })).y, { data: Float64Array.of(4, 3), shape: [2], dataType: 'double' });
    model.destroy();
  });

  test('imported, they are operands of types that WebNN has', () => {
    const { y } = importModel(new MLGraphBuilder(context), difference(DOUBLE, Float64Array.of(1), [2]));
    assert.deepEqual([y.dataType, y.shape], ['float32', [2]]);
  });
});

test('inputs and outputs say how ONNX writes their types', () => {
  const bytes = writeModel({
    inputs: [value('flags', BOOL, ['n', undefined]), value('any', INT64)],
    outputs: [value('not', BOOL, ['n', undefined]), sequenceValue('list', INT64)],
    nodes: [node('Not', ['flags'], ['not']), node('SequenceConstruct', ['any'], ['list'])],
  });
  const model = inspectModel(bytes);
  assert.deepEqual(
    [...model.inputs, ...model.outputs].map(({ dataType, type, declaredShape }) => [dataType, type, declaredShape]),
    [
      ['uint8', 'tensor(bool)', ['n', '']],
      ['int64', 'tensor(int64)', null],
      ['uint8', 'tensor(bool)', ['n', '']],
      ['sequence', 'seq(tensor(int64))', null],
    ],
  );
});

test('outputs that the file does not describe have the shapes that follow', async () => {
  const shapeOf = async (shape, nodes, options = {}) => {
    const bytes = writeModel({ inputs: [value('x', FLOAT, shape)], outputs: [value('y', FLOAT)], nodes });
    const model = await loadModel(bytes, { context, ...options });
    model.destroy();
    const [{ shape: named, declaredShape }] = model.outputs;
    return [named, declaredShape];
  };
  const flat = [node('Flatten', ['x'], ['y'], { axis: { i: 1 } })];
  assert.deepEqual(await shapeOf(['batch', 3, 'width'], [node('Abs', ['x'], ['y'])]), [
    ['batch', 3, 'width'],
    ['batch', 3, 'width'],
  ]);
  assert.deepEqual(await shapeOf(['batch', 3, 'width'], flat), [
    ['batch', 'y_dim_1'],
    ['batch', ''],
  ]);
  assert.deepEqual(await shapeOf(['batch', 3, 'width'], flat, { freeDimensions: { width: 2 } }), [
    ['batch', 6],
    ['batch', 6],
  ]);
  assert.deepEqual(await shapeOf([undefined, 'width'], [node('Abs', ['x'], ['y'])]), [
    ['y_dim_0', 'width'],
    ['', 'width'],
  ]);
  assert.deepEqual(await shapeOf([2, 4], [node('Abs', ['x'], ['y'])]), [
    [2, 4],
    [2, 4],
  ]);
  assert.deepEqual(await shapeOf(undefined, [node('Abs', ['x'], ['y'])]), [null, null]);
});

test('which of two sizes that broadcast is that of the output is not known', async () => {
  const bytes = writeModel({
    inputs: [value('x', FLOAT, ['n', 2]), value('b', FLOAT, ['m', 1])],
    outputs: [value('y', FLOAT)],
    nodes: [node('Add', ['x', 'b'], ['y'])],
  });
  const model = await loadModel(bytes, { context });
  assert.deepEqual(model.outputs[0].declaredShape, ['', 2]);
  const { y } = await model.run({ x: { data: Float32Array.of(1, 2), shape: [1, 2] }, b: { data: Float32Array.of(0, 1, 2), shape: [3, 1] } });
  assert.deepEqual(y.shape, [3, 2]);
  model.destroy();
});

describe('externalData', () => {
  const model = writeModel({
    inputs: [value('x', FLOAT, [2])],
    outputs: [value('y', FLOAT, [2])],
    weights: [externalWeight('w', [2], 'weights/1.bin', 4, 8)],
    nodes: [node('Add', ['x', 'w'], ['y'])],
  });
  const file = Float32Array.of(9, 1, 2);

  test('stands for files beside a model that comes as bytes', async () => {
    for (const source of [file, file.buffer, Buffer.from(file.buffer)]) {
      const loaded = await loadModel(model, { context, externalData: { 'weights/1.bin': source } });
      assert.deepEqual((await loaded.run({ x: Float32Array.of(10, 20) })).y.data, Float32Array.of(11, 22));
      loaded.destroy();
    }
    const dotted = await loadModel(model, { context, externalData: { './weights/1.bin': file } });
    dotted.destroy();
    const { y } = importModel(new MLGraphBuilder(context), model, {}, { externalData: { 'weights/1.bin': file } });
    assert.deepEqual(y.shape, [2]);
  });

  test('must be there, long enough and of a known kind', async () => {
    /** @type {[any, object][]} */
    const cases = [
      [{}, { code: 'ERR_WEBNN_MODEL_INVALID', message: /'weights\/1\.bin': load the model from a path to find it, or give it as externalData/ }],
      [{ 'weights/2.bin': file }, { code: 'ERR_WEBNN_MODEL_INVALID' }],
      [{ 'weights/1.bin': file.subarray(1) }, { code: 'ERR_WEBNN_MODEL_INVALID', message: /needs 8 bytes at 4, 'weights\/1\.bin' has 8/ }],
      [{ 'weights/1.bin': '/no/such/file' }, { code: 'ERR_WEBNN_MODEL_NOT_FOUND', message: /externalData "weights\/1\.bin"/ }],
      [{ 'weights/1.bin': 5 }, { name: 'TypeError', code: 'ERR_WEBNN_TYPE' }],
      ['text', { name: 'TypeError', code: 'ERR_WEBNN_TYPE', message: /externalData is text, expected an object/ }],
    ];
    for (const [externalData, expected] of cases) {
      await assert.rejects(loadModel(model, { context, externalData }), expected);
    }
  });
});

test('looseDimensions lets dimensions of one name have different sizes', async () => {
  const bytes = writeModel({
    inputs: [value('a', FLOAT, ['n', 2]), value('b', FLOAT, ['n', 2])],
    outputs: [value('c', FLOAT, ['n', 2])],
    nodes: [node('Add', ['a', 'b'], ['c'])],
  });
  const feeds = { a: { data: Float32Array.of(1, 2, 3, 4), shape: [2, 2] }, b: { data: Float32Array.of(10, 20), shape: [1, 2] } };
  const strict = await loadModel(bytes, { context });
  await assert.rejects(strict.run(feeds), { code: 'ERR_WEBNN_SHAPE', message: /"b" has shape \[1, 2\], expected \[n=2, 2\]/ });
  strict.destroy();
  const loose = await loadModel(bytes, { context, looseDimensions: true });
  assert.deepEqual((await loose.run(feeds)).c, { data: Float32Array.of(11, 22, 13, 24), shape: [2, 2], dataType: 'float32' });
  loose.destroy();
  await assert.rejects(loadModel(bytes, { context, looseDimensions: wrong(1) }), { name: 'TypeError', message: /looseDimensions is of type number/ });
});
