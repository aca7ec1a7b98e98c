// Strings: as inputs and outputs, in constants and attributes. `npm run suite -- onnx-contrib` compares operators with
// onnxruntime.

import assert from 'node:assert/strict';
import test, { after, before } from 'node:test';
import { MLGraphBuilder, ml } from '../../index.js';
import { importModel, inspectModel, loadModel } from '../../onnx.js';
import { wrong } from '../lib/types.mjs';
import { FLOAT, INT64, STRING, node, textWeight, value, writeModel } from './model-writer.mjs';

let context;
before(async () => {
  context = await ml.createContext();
});
after(() => context.destroy());

const bytesOf = (text) => new TextEncoder().encode(text);

const identity = (shape = /** @type {(string | number)[]} */ (['n'])) =>
  writeModel({ inputs: [value('x', STRING, shape)], outputs: [value('y', STRING, shape)], nodes: [node('Identity', ['x'], ['y'])] });

/** y = x == "apple". */
const isApple = (weight = textWeight('apple', [], ['apple'])) =>
  writeModel({
    opset: 19,
    inputs: [value('x', STRING, ['n'])],
    outputs: [value('y', 9, ['n'])],
    weights: [weight],
    nodes: [node('Equal', ['x', 'apple'], ['y'])],
  });

test('strings go in and out', async () => {
  const model = await loadModel(identity(), { context });
  assert.deepEqual([model.inputs[0].dataType, model.inputs[0].type], ['string', 'tensor(string)']);
  const texts = ['', 'a', 'Äpfel 日本 \u{1f34e}', 'a', '\0'];
  const { y } = await model.run({ x: texts });
  assert.deepEqual(y, { data: texts, shape: [5], dataType: 'string' });
  assert.deepEqual((await model.run({ x: /** @type {any} */ (y) })).y, y, 'a result is a feed');
  assert.deepEqual((await model.run({ x: { data: texts, shape: [5], dataType: 'string' } })).y, y);
  assert.deepEqual((await model.run({ x: [] })).y, { data: [], shape: [0], dataType: 'string' });
  const profile = await model.profile({ x: texts });
  assert.deepEqual(profile.results.y, y);
});

test('runs at the same time keep their strings apart', async () => {
  const model = await loadModel(identity(), { context });
  const runs = Array.from({ length: 50 }, (_, run) => [`text ${run}`, 'shared', `${run}`]);
  const results = await Promise.all(runs.map((x) => model.run({ x })));
  assert.deepEqual(
    results.map(({ y }) => y.data),
    runs,
  );
});

test('strings equal those of the model', async () => {
  const model = await loadModel(isApple(), { context });
  for (let run = 0; run < 3; run++) {
    const { y } = await model.run({ x: ['apple', 'pear', 'Apple', 'apple', ''] });
    assert.deepEqual([...y.data], [1, 0, 0, 1, 0]);
  }
});

test('what cannot be fed as strings is refused', async () => {
  const model = await loadModel(identity([2]), { context });
  const tensor = await context.createTensor({ dataType: 'int32', shape: [2], writable: true });
  /** @type {[any, RegExp][]} */
  const cases = [
    [['a', 5], /feed "x"\[1\] is 5, expected a string/],
    [['a', '\ud800'], /feed "x"\[1\] has a lone surrogate, which UTF-8 cannot represent/],
    [Int32Array.of(0, 1), /feed "x" is an object, expected an array of strings/],
    [tensor, /feed "x"/],
    [['a'], /feed "x" has 4 bytes, expected the 8 bytes of int32 \[2\]|feed "x" has 1 text/],
    [{ data: ['a', 'b'], shape: [3] }, /"x" has shape \[3\], expected \[2\]/],
  ];
  for (const [x, message] of cases) {
    await assert.rejects(model.run({ x }), { name: 'TypeError', message });
  }
  await assert.rejects(model.run({ x: ['a', 'b'] }, { y: 'tensor' }), { name: 'TypeError', message: /output "y" is of texts, which tensors do not hold/ });
  const numbers = await loadModel(writeModel({ inputs: [value('x', FLOAT, [1])], outputs: [value('y', FLOAT, [1])], nodes: [node('Neg', ['x'], ['y'])] }), {
    context,
  });
  await assert.rejects(numbers.run({ x: wrong(['a']) }), { name: 'TypeError', message: /feed "x" is .*expected a Float32Array/ });
});

test('graphs have no strings', async () => {
  const model = await loadModel(identity(), { context });
  await assert.rejects(model.compile({ x: [2] }), {
    code: 'ERR_WEBNN_NOT_SUPPORTED',
    message: /compile: "x" is tensor\(string\), which an MLGraph cannot have/,
  });
  assert.throws(() => importModel(new MLGraphBuilder(context), identity([2])), {
    code: 'ERR_WEBNN_UNSUPPORTED_OPERATOR',
    message: /"x" is of type string, which WebNN does not have/,
  });
  assert.deepEqual(inspectModel(identity()).unsupported, []);
  const { graph } = await model.describe({ x: [2] });
  assert.ok(graph);
});

test('constants of strings that are damaged are refused', async () => {
  /** @type {[ReturnType<typeof textWeight>, RegExp][]} */
  const cases = [
    [textWeight('apple', [], [Uint8Array.of(0x61, 0xff)]), /tensor "apple": the text "a\ufffd" is no UTF-8 from byte 1 on/],
    [textWeight('apple', [2], ['a']), /tensor "apple": it has 1 text, expected those of the shape \[2\]/],
    [textWeight('apple', [], []), /tensor "apple": it has 0 texts/],
  ];
  for (const [weight, message] of cases) {
    await assert.rejects(loadModel(isApple(weight), { context }), { name: 'OnnxError', message });
  }
});

test('operators of numbers refuse strings, and those of strings numbers', async () => {
  const one = (operator, inputs, elementType, attributes) =>
    writeModel({
      opset: 20,
      inputs: inputs.map(([name, type]) => value(name, type, ['n'])),
      outputs: [value('y', elementType)],
      nodes: [
        node(
          operator,
          inputs.map(([name]) => name),
          ['y'],
          attributes,
        ),
      ],
    });
  /** @type {[Uint8Array, RegExp][]} */
  const cases = [
    [
      one(
        'Add',
        [
          ['a', STRING],
          ['b', STRING],
        ],
        STRING,
      ),
      /input 0 is a tensor of texts, expected numbers/,
    ],
    [
      one(
        'Concat',
        [
          ['a', STRING],
          ['b', FLOAT],
        ],
        STRING,
        { axis: { i: 0 } },
      ),
      /input 1 is a tensor of numbers, expected texts as in the others/,
    ],
    [
      one(
        'StringConcat',
        [
          ['a', FLOAT],
          ['b', STRING],
        ],
        STRING,
      ),
      /input 0 is no tensor of texts/,
    ],
    [one('RegexFullMatch', [['a', STRING]], 9, { pattern: { s: bytesOf('a)|(b') } }), /"a\)\|\(b" is no regular expression/],
    [one('Identity', [['a', STRING]], FLOAT), /the output "y" is a tensor of texts, and declared as tensor\(float\)/],
    [one('Identity', [['a', FLOAT]], STRING), /the output "y" is a tensor of numbers, and declared as one of texts/],
  ];
  for (const [model, message] of cases) {
    await assert.rejects(loadModel(model, { context }), { name: 'OnnxError', message }, String(message));
  }
  const number = await loadModel(one('Cast', [['a', STRING]], INT64, { to: { i: INT64 } }), { context });
  await assert.rejects(number.run({ a: ['12', 'x'] }), { name: 'OnnxError', message: /the text "x" is no int64 number/ });
});

test('texts that would fill the memory are refused, and leave the model usable', async () => {
  const nodes = Array.from({ length: 60 }, (_, at) => node('StringConcat', [`x${at}`, `x${at}`], [`x${at + 1}`]));
  const model = await loadModel(writeModel({ opset: 20, inputs: [value('x0', STRING, [1])], outputs: [value('x60', STRING, [1])], nodes }), { context });
  await assert.rejects(model.run({ x0: ['a'] }), /memory/);
  assert.deepEqual((await model.run({ x0: [''] })).x60.data, ['']);
});
