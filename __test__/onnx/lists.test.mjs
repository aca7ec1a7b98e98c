// Sequences, optionals and maps as inputs and outputs.

import assert from 'node:assert/strict';
import test, { after, before } from 'node:test';
import { ml } from '../../index.js';
import { inspectModel, loadModel } from '../../onnx.js';
import { FLOAT, INT64, STRING, node, optionalValue, sequenceValue, value, writeModel } from './model-writer.mjs';

let context;
before(async () => {
  context = await ml.createContext();
});
after(() => context.destroy());

/** A list goes in and out, and its tensors are joined. */
const lists = (elementType = FLOAT) =>
  writeModel({
    inputs: [sequenceValue('list', elementType)],
    outputs: [sequenceValue('same', elementType), value('joined', elementType), value('count', INT64, [])],
    nodes: [
      node('Identity', ['list'], ['same']),
      node('ConcatFromSequence', ['list'], ['joined'], { axis: { i: 0 } }),
      node('SequenceLength', ['list'], ['count']),
    ],
  });

test('lists go in and out', async () => {
  const model = await loadModel(lists(), { context });
  assert.deepEqual(model.inputs[0].items, { dataType: 'float32', isSequence: true, isOptional: false });
  assert.deepEqual([model.inputs[0].dataType, model.inputs[0].type], ['sequence', 'seq(tensor(float))']);
  const list = [Float32Array.of(1, 2), { data: Float32Array.of(3), shape: [1] }, Float32Array.of()];
  const { same, joined, count } = await model.run({ list });
  const tensor = (...numbers) => ({ data: Float32Array.from(numbers), shape: [numbers.length], dataType: 'float32' });
  assert.deepEqual(same, [tensor(1, 2), tensor(3), tensor()]);
  assert.deepEqual(joined, tensor(1, 2, 3));
  assert.deepEqual([...count.data], [3n]);
  const again = await model.run({ list: /** @type {any} */ (same) });
  assert.deepEqual(again.joined, joined, 'a result is a feed');
});

test('lists of many tensors, large ones and strings', async () => {
  const model = await loadModel(lists(), { context });
  const list = Array.from({ length: 200 }, (_, at) => ({ data: new Float32Array(5000).fill(at), shape: [5000] }));
  const { same, joined } = await model.run({ list });
  assert.deepEqual([same.length, same[199].data[0], joined.shape, joined.data[999_999]], [200, 199, [1_000_000], 199]);
  const texts = await loadModel(lists(STRING), { context });
  const results = await texts.run({ list: [['a', 'b'], { data: ['c'], shape: [1] }] });
  assert.deepEqual(results.joined, { data: ['a', 'b', 'c'], shape: [3], dataType: 'string' });
  assert.deepEqual(
    results.same.map(({ data }) => data),
    [['a', 'b'], ['c']],
  );
});

test('what is no list is refused', async () => {
  const model = await loadModel(lists(), { context });
  /** @type {[any, RegExp][]} */
  const cases = [
    [Float32Array.of(1), /feed "list" is .*expected an array of tensors/],
    [null, /feed "list" is .*expected an array of tensors/],
    [[Int32Array.of(1)], /feed "list"\[0\] is an Int32Array, expected a Float32Array/],
    [[new ArrayBuffer(4)], /feed "list"\[0\] has no shape, expected a typed array or \{ data, shape \}/],
    [[{ data: Float32Array.of(1), shape: [2] }], /feed "list" has 4 bytes, expected the 8 bytes of float32 \[2\]/],
    [[5], /feed "list"\[0\] is 5, expected a typed array/],
  ];
  for (const [list, message] of cases) {
    await assert.rejects(model.run({ list }), { name: 'TypeError', message }, String(message));
  }
  await assert.rejects(model.run({ list: [Float32Array.of(1)] }, { same: 'tensor' }), {
    message: /the output "same" is a sequence or an optional, and no tensor/,
  });
  await assert.rejects(model.compile({}), { code: 'ERR_WEBNN_NOT_SUPPORTED' });
  assert.deepEqual(inspectModel(lists()).unsupported, []);
});

test('optionals can be null', async () => {
  const model = await loadModel(
    writeModel({
      opset: 18,
      inputs: [optionalValue(value('x', FLOAT, ['n']))],
      outputs: [optionalValue(value('same', FLOAT, ['n'])), value('has', 9, [])],
      nodes: [node('Identity', ['x'], ['same']), node('OptionalHasElement', ['x'], ['has'])],
    }),
    { context },
  );
  assert.deepEqual(model.inputs[0].items, { dataType: 'float32', isSequence: false, isOptional: true });
  assert.equal(model.inputs[0].type, 'optional(tensor(float))');
  const none = await model.run({ x: null });
  assert.deepEqual([none.same, ...none.has.data], [null, 0]);
  const some = await model.run({ x: Float32Array.of(1, 2) });
  assert.deepEqual([[...some.same.data], ...some.has.data], [[1, 2], 1]);
});

test('the result of ZipMap is an array of objects', async () => {
  const model = await loadModel(
    writeModel({
      inputs: [value('x', FLOAT, ['n', 2])],
      outputs: [sequenceValue('maps', FLOAT)],
      nodes: [
        node('ai.onnx.ml.ZipMap', ['x'], ['maps'], {
          classlabels_strings: { strings: [new TextEncoder().encode('no'), new TextEncoder().encode('__proto__')] },
        }),
      ],
    }),
    { context },
  );
  const { maps } = await model.run({ x: Float32Array.of(0.25, 0.75, 1, 0) });
  assert.deepEqual([maps.shape, maps.dataType], [[2], 'map']);
  assert.deepEqual(maps.data.map(Object.entries), [
    [
      ['no', 0.25],
      ['__proto__', 0.75],
    ],
    [
      ['no', 1],
      ['__proto__', 0],
    ],
  ]);
  const rows = 5000;
  const many = await model.run({ x: Float32Array.from({ length: 2 * rows }, (_, at) => at) });
  assert.deepEqual([many.maps.data.length, many.maps.data[rows - 1].no], [rows, 2 * rows - 2]);
});
