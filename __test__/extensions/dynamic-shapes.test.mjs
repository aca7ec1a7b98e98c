/** Named dimensions: the extension "dynamic-shapes". */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { exception, typeError } from '../lib/exceptions.mjs';
import { describeGraph, profileGraph } from '../../inspect.js';
import { importModel } from '../../onnx.js';
import { FLOAT, node, value, writeModel } from '../onnx/model-writer.mjs';
import { GARBAGE } from '../robustness/random.mjs';
import { checkException } from '../robustness/support.mjs';
import { floats, interfaces, ml } from '../runtime/helpers.mjs';
import { dynamicBuilder } from './builders.mjs';
import { wrong } from '../lib/types.mjs';

const context = await ml.createContext({ accelerated: false, numThreads: 2, extensions: ['dynamic-shapes'] });
const float32 = (...shape) => ({ dataType: /** @type {const} */ ('float32'), shape });

const filled = async (values, ...shape) => {
  const tensor = await context.createTensor(floats(...shape));
  context.writeTensor(tensor, Float32Array.from(values));
  return tensor;
};

const count = (shape) => shape.reduce((a, b) => a * b, 1);

/** The results of a dispatch with these numbers and shapes, outputs as `computeShapes` has them. */
async function run(graph, feeds) {
  const inputs = {};
  for (const [name, { shape, values = Array.from({ length: count(shape) }, (_, i) => i) }] of Object.entries(feeds)) {
    inputs[name] = await filled(values, ...shape);
  }
  const shapes = graph.computeShapes(Object.fromEntries(Object.entries(feeds).map(([name, { shape }]) => [name, shape])));
  const outputs = {};
  for (const [name, shape] of Object.entries(shapes)) {
    outputs[name] = await context.createTensor(floats(...shape));
  }
  context.dispatch(graph, inputs, outputs);
  const read = {};
  for (const [name, tensor] of Object.entries(outputs)) {
    read[name] = { shape: shapes[name], values: [...new Float32Array(await context.readTensor(tensor))] };
  }
  return read;
}

/** y = x w + b for x of the shape ['batch', 2]. */
async function affine() {
  const builder = dynamicBuilder(context);
  const x = builder.input('x', float32('batch', 2));
  const w = builder.constant(float32(2, 3), Float32Array.of(1, 2, 3, 4, 5, 6));
  const b = builder.constant(float32(3), Float32Array.of(10, 20, 30));
  const y = builder.add(builder.matmul(x, w), b);
  return { y, graph: await builder.build({ y }) };
}

test('one graph serves all sizes', async () => {
  const { y, graph } = await affine();
  assert.deepEqual(y.shape, ['batch', 3]);
  assert.ok(Object.isFrozen(y.shape));
  for (const batch of [1, 2, 5, 1, 300]) {
    const { y } = await run(graph, { x: { shape: [batch, 2] } });
    const expected = Array.from({ length: batch }, (_, i) => [2 * i, 2 * i + 1]).flatMap(([p, q]) => [p + 4 * q + 10, 2 * p + 5 * q + 20, 3 * p + 6 * q + 30]);
    assert.deepEqual(y, { shape: [batch, 3], values: expected });
  }
});

test('a size that recurs is not compiled again, and others do not pile up', async () => {
  const { graph } = await affine();
  for (let batch = 1; batch <= 40; batch++) {
    const { y } = await run(graph, { x: { shape: [batch, 2] } });
    assert.equal(y.values.length, 3 * batch);
  }
});

test('names of dimensions and of those that are computed', () => {
  const builder = dynamicBuilder(context);
  const a = builder.input('a', float32('rows', 'columns'));
  const b = builder.input('b', float32('rows', 3));
  const product = builder.matmul(builder.transpose(a), b);
  assert.deepEqual(product.shape, ['columns', 3]);
  assert.deepEqual(builder.reduceSum(a, { axes: [0], keepDimensions: true }).shape, [1, 'columns']);
  assert.deepEqual(builder.add(a, builder.input('row', float32('columns'))).shape, ['rows', 'columns']);
  const joined = builder.concat([a, builder.input('c', float32('more', 'columns'))], 0);
  const [made, columns] = joined.shape;
  assert.ok(typeof made === 'string' && !['rows', 'columns', 'more'].includes(made), `${made}`);
  assert.equal(columns, 'columns');
  assert.notEqual(builder.concat([a, a], 0).shape[0], made);
  // Only one of the two can be 4, or both: the result is known.
  assert.deepEqual(builder.add(a, builder.input('d', float32(4, 4))).shape, [4, 4]);
});

test('dimensions of different names may have the same size or broadcast', async () => {
  const builder = dynamicBuilder(context);
  const y = builder.add(builder.input('a', float32('m')), builder.input('b', float32('n')));
  const graph = await builder.build({ y });
  const [one, two] = [
    { shape: [1], values: [5] },
    { shape: [2], values: [1, 2] },
  ];
  assert.deepEqual((await run(graph, { a: one, b: two })).y, { shape: [2], values: [6, 7] });
  assert.deepEqual((await run(graph, { a: two, b: one })).y, { shape: [2], values: [6, 7] });
  assert.deepEqual((await run(graph, { a: two, b: two })).y, { shape: [2], values: [2, 4] });
  assert.deepEqual((await run(graph, { a: one, b: one })).y, { shape: [1], values: [10] });
  assert.throws(() => graph.computeShapes({ a: [2], b: [3] }), typeError(/^computeShapes: add: .*\[2\] and \[3\].*, with "m" = 2, "n" = 3$/));
});

test('sizes that do not fit are told by name', async () => {
  const builder = dynamicBuilder(context);
  const [a, b] = [builder.input('a', float32('n', 2)), builder.input('b', float32('n'))];
  const y = builder.softmax(builder.slice(a, [0, 0], [3, 2], { label: 'head' }), 1);
  const z = builder.neg(b);
  const graph = await builder.build({ y, z });
  /** @type {[any, RegExp][]} */
  const cases = [
    [{ a: [4, 2], b: [5] }, /^computeShapes: input "b" needs \["n"\], it has \[5\]: dimension "n" is 5 at axis 0, and 4 in input "a"$/],
    [{ a: [4, 3], b: [4] }, /^computeShapes: input "a" needs \["n", 2\], it has \[4, 3\]$/],
    [{ a: [4], b: [4] }, /^computeShapes: input "a" needs \["n", 2\], it has \[4\]$/],
    [{ a: [0, 2], b: [0] }, /0 is not a dimension between 1 and 2147483647$/],
    [{ a: [2 ** 31, 2], b: [2 ** 31] }, /2147483648 is not a dimension/],
    [{ a: [2 ** 31 - 1, 2], b: [2 ** 31 - 1] }, /^computeShapes: input "a": the tensor has shape \[2147483647, 2\], more than/],
    [{ a: [2, 2], b: [2] }, /^computeShapes: \[head\] slice: .*, with "n" = 2$/],
    [{ a: [4, 2] }, /^computeShapes: inputs do not match the graph: "b" missing; the graph has "a", "b"$/],
    [{ a: [4, 2], b: [4], c: [1] }, /"c" unknown/],
    [{ a: [4, 2], b: ['4x'] }, /inputShapes\["b"\]\[0\] is "4x", expected an integer/],
    [{ a: [4, 2], b: 4 }, /expected an iterable object/],
    [null, /inputShapes is null, expected an object/],
  ];
  for (const [shapes, pattern] of cases) {
    assert.throws(() => graph.computeShapes(shapes), typeError(pattern));
  }
  assert.throws(() => /** @type {any} */ (graph).computeShapes(), typeError(/1 argument required/));
  assert.throws(() => /** @type {any} */ (graph.computeShapes).call({}, {}), typeError(/MLGraph/));
  const tensors = { a: await filled([1, 2, 3, 4, 5, 6, 7, 8], 4, 2), b: await filled([1, 2, 3, 4, 5], 5) };
  const outputs = { y: await context.createTensor(floats(3, 2)), z: await context.createTensor(floats(4)) };
  assert.throws(() => context.dispatch(graph, tensors, outputs), typeError(/^dispatch: input "b" .*dimension "n" is 5 at axis 0, and 4 in input "a"$/));
  tensors.b = await filled([1, 2, 3, 4], 4);
  assert.throws(() => context.dispatch(graph, tensors, { ...outputs, z: tensors.a }), typeError(/more than once/));
  const wrong = await context.createTensor(floats(5));
  assert.throws(
    () => context.dispatch(graph, tensors, { ...outputs, z: wrong }),
    typeError(/^dispatch: output "z" needs float32 \[4\], the tensor is float32 \[5\]$/),
  );
  const integers = await context.createTensor({ ...floats(4), dataType: 'int32' });
  assert.throws(() => context.dispatch(graph, { ...tensors, b: integers }, outputs), typeError(/input "b" needs float32 \[n\], the tensor is int32 \[4\]/));
  context.dispatch(graph, tensors, outputs);
  assert.deepEqual([...new Float32Array(await context.readTensor(outputs.z))], [-1, -2, -3, -4]);
});

test('what no sizes make possible is refused when it is added', () => {
  const builder = dynamicBuilder(context);
  const x = builder.input('x', float32('n', 3));
  /** @type {[() => unknown, RegExp][]} */
  const refused = [
    [() => builder.reshape(x, [4]), /^reshape: .*; no sizes of the named dimensions fit, for example "n" = 24$/],
    [() => builder.matmul(x, builder.input('w', float32(4, 'n'))), /^matmul: /],
    [() => builder.conv2d(x, x), /^conv2d: input has rank 2, expected 4$/],
    [() => builder.add(x, builder.input('i', { dataType: 'int32', shape: ['n', 3] }), { label: 'sum' }), /^\[sum\] add: b has data type int32/],
    [() => builder.slice(x, [0, 1], [1, 3]), /^slice: /],
  ];
  for (const [call, pattern] of refused) {
    assert.throws(call, typeError(pattern));
  }
  // These fit for some sizes.
  assert.deepEqual(builder.reshape(x, [6]).shape, [6]);
  assert.deepEqual(builder.slice(x, [1000, 0], [500, 3]).shape, [500, 3]);
  assert.equal(builder.split(x, 7).length, 7);
  const image = builder.input('image', float32(1, 4, 'height', 'width'));
  const window = builder.constant(float32(8, 4, 1, 700), new Float32Array(8 * 4 * 700));
  const convolved = builder.conv2d(image, window);
  assert.deepEqual(
    convolved.shape.map((dimension) => typeof dimension),
    ['number', 'number', 'string', 'string'],
  );
});

test('names are strings that are not empty', () => {
  const builder = dynamicBuilder(context);
  const input = (...shape) => builder.input('x', float32(...shape));
  assert.throws(() => input(''), typeError(/^input: descriptor.shape is "", expected a name of a dimension that is not empty$/));
  for (const garbage of [null, undefined]) {
    assert.throws(() => input(garbage), typeError(/^input: descriptor.shape\[0\] is \w+, expected a size or a name$/));
    assert.throws(() => input('n', garbage, 2), typeError(/^input: descriptor.shape\[1\] is \w+, expected a size or a name$/));
  }
  for (const garbage of [0, -1, 1.5e10, NaN, {}, [], 3n, Symbol('n'), () => 'n']) {
    assert.throws(() => input(garbage), typeError(/^input: descriptor/));
  }
  assert.throws(() => input(...Array(9).fill('n')), typeError(/dimensions/));
  assert.throws(() => input('n', 2 ** 31 - 1), typeError(/maxTensorByteLength/));
  assert.deepEqual(input('3', '\ud800', 'constructor', 2).shape, ['3', '\ufffd', 'constructor', 2]);
  assert.throws(() => builder.constant(float32('n'), new Float32Array(1)), typeError(/shape\[0\] is "n"/));
});

test('a graph can be destroyed, with its context or alone', async () => {
  const own = await ml.createContext({ accelerated: false, extensions: ['dynamic-shapes'] });
  const builder = dynamicBuilder(own);
  const graph = await builder.build({ y: builder.neg(builder.input('x', float32('n'))) });
  const { graph: other } = await affine();
  other.destroy();
  other.destroy();
  assert.throws(() => other.computeShapes({ x: [1, 2] }), exception('InvalidStateError', /destroyed/));
  assert.throws(() => builder.input('z', float32('n')), exception('InvalidStateError'));
  const late = dynamicBuilder(own);
  const y = late.neg(late.input('x', float32('n')));
  const building = late.build({ y });
  own.destroy();
  await assert.rejects(building, exception('InvalidStateError', /lost/));
  assert.throws(() => graph.computeShapes({ x: [1] }), exception('InvalidStateError'));
});

test('graphs of sizes alone, and what tells about graphs', async () => {
  const builder = dynamicBuilder(context);
  const graph = await builder.build({ y: builder.neg(builder.input('x', float32(2, 3))) });
  assert.deepEqual(graph.computeShapes({ x: [2, 3] }), { y: [2, 3] });
  assert.throws(() => graph.computeShapes({ x: [3, 2] }), typeError(/^computeShapes: input "x" needs float32 \[2, 3\], it has \[3, 2\]$/));
  const { graph: dynamic } = await affine();
  for (const one of [graph, dynamic]) {
    assert.ok(one instanceof interfaces.MLGraph);
    assert.equal(one.constructor, interfaces.MLGraph);
    assert.deepEqual(one.devices, ['cpu']);
    assert.equal(`${one}`, '[object MLGraph]');
  }
  assert.throws(() => describeGraph(dynamic), exception('NotSupportedError', /named dimensions.*first dispatch it and read a result$/));
});

test('a description is of the sizes that were used last', async () => {
  const builder = dynamicBuilder(context);
  const graph = await builder.build({ y: builder.relu(builder.neg(builder.input('x', float32('n', 2)))) });
  for (const n of [3, 5, 3]) {
    await run(graph, { x: { shape: [n, 2] } });
    const { source, steps, devices } = describeGraph(graph);
    assert.deepEqual(
      source.nodes.map(({ operator }) => operator),
      ['neg', 'relu'],
    );
    assert.ok(
      source.values.every(({ shape }) => shape[0] === n),
      `${n}`,
    );
    assert.ok(steps.length >= 1);
    assert.deepEqual(devices, graph.devices);
  }
  const [x, y] = [await filled([1, 2], 1, 2), await context.createTensor(floats(1, 2))];
  await assert.rejects(profileGraph(context, graph, { x }, { y }), exception('NotSupportedError', /^profileGraph: the graph has named dimensions/));
  graph.destroy();
  assert.throws(() => describeGraph(graph), exception('InvalidStateError', /destroyed/));
});

test('without the extension the draft is kept to the letter', async () => {
  for (const extensions of [undefined, []]) {
    const plain = await ml.createContext({ accelerated: false, extensions });
    const builder = dynamicBuilder(plain);
    assert.throws(() => builder.input('x', float32('n')), typeError(/^input: descriptor.shape\[0\] is "n", expected an integer/));
    assert.deepEqual(builder.input('x', float32('3')).shape, [3]);
    const graph = await builder.build({ y: builder.neg(builder.input('z', float32(2))) });
    assert.equal('computeShapes' in graph, false);
  }
  const names = ['Dynamic-Shapes', '', 'x', 1, null];
  for (const name of names) {
    await assert.rejects(
      ml.createContext({ extensions: [wrong(name)] }),
      typeError(/^createContext: options.extensions\[0\] is ".*", expected one of "donation", "dynamic-shapes", "int4"$/),
    );
  }
  await assert.rejects(ml.createContext({ extensions: wrong('dynamic-shapes') }), typeError(/iterable/));
});

test('nothing that is given for a shape is more than a TypeError', async () => {
  const { graph } = await affine();
  const builder = dynamicBuilder(context);
  const checked = (work, what) => {
    try {
      work();
    } catch (error) {
      checkException(error, what);
    }
  };
  for (const [at, make] of GARBAGE.entries()) {
    checked(() => builder.input(`shape${at}`, { dataType: 'float32', shape: make() }), `shape ${at}`);
    checked(() => builder.input(`dimension${at}`, { dataType: 'float32', shape: ['n', make()] }), `dimension ${at}`);
    checked(() => graph.computeShapes(make()), `shapes ${at}`);
    checked(() => graph.computeShapes({ x: make() }), `shape of x ${at}`);
    checked(() => graph.computeShapes({ x: [make(), 2] }), `size of x ${at}`);
  }
  const loud = {
    get x() {
      throw new RangeError('mine');
    },
  };
  assert.throws(() => graph.computeShapes(wrong(loud)), RangeError);
});

test('sizes that make a tensor too large are refused', async () => {
  const builder = dynamicBuilder(context);
  const x = builder.input('x', { dataType: 'uint8', shape: ['n'] });
  const wide = builder.concat([x, x, x, x], 0);
  const graph = await builder.build({ y: builder.tile(wide, [1000], { label: 'wide' }) });
  assert.deepEqual(graph.computeShapes({ x: [1000] }), { y: [4_000_000] });
  for (const n of [2 ** 29, 2 ** 31 - 1, 2 ** 20]) {
    assert.throws(() => graph.computeShapes({ x: [n] }), typeError(/^computeShapes: (concat|\[wide\] tile): .*, with "n" = /));
  }
  // The error leaves the graph as it was.
  assert.deepEqual(graph.computeShapes({ x: [1] }), { y: [4000] });
});

test('many names take no time worth telling', () => {
  const builder = dynamicBuilder(context);
  const many = Array.from({ length: 300 }, (_, at) => builder.input(`i${at}`, float32(...Array.from({ length: 8 }, (_, axis) => `${at} ${axis}`))));
  const start = process.cpuUsage();
  const joined = builder.concat(many, 3);
  assert.equal(joined.shape.length, 8);
  const other = many.map((operand, at) => builder.reshape(operand, [at + 1]));
  assert.throws(() => builder.concat([...many, other[0]], 0), TypeError);
  assert.ok(process.cpuUsage(start).user < 10e6);
});

test('models can be imported beside names, on operands that depend on sizes alone', async () => {
  const model = writeModel({
    inputs: [value('in', FLOAT, [1, 2])],
    outputs: [value('out', FLOAT, [1, 2])],
    nodes: [node('Neg', ['in'], ['out'])],
  });
  const builder = dynamicBuilder(context);
  const x = builder.input('x', float32('n', 2));
  for (const operand of [x, builder.reshape(x, [1, 2])]) {
    assert.throws(() => importModel(builder, model, { in: operand }), typeError(/^importModel: the operand for "in" depends on named dimensions/));
  }
  const { out } = importModel(builder, model, { in: builder.input('fixed', float32(1, 2)) });
  const graph = await builder.build({ y: builder.add(x, out) });
  const { y } = await run(graph, { x: { shape: [2, 2] }, fixed: { shape: [1, 2], values: [10, 20] } });
  assert.deepEqual(y, { shape: [2, 2], values: [-10, -19, -8, -17] });
});
