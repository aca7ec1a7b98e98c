// The drafts from 2023 to October 2024: the steps of compute(), and the forms that operands, descriptors and options had.

import assert from 'node:assert/strict';
import test, { describe } from 'node:test';
import vm from 'node:vm';
import { exception } from '../../../__test__/lib/exceptions.mjs';
import { assertClose, convolution, draft2024, gruStep, mean, numbers, require } from './helpers.mjs';

const { ml, ML, MLActivation, MLContext, MLGraph, MLGraphBuilder, MLOperand } = draft2024;
const webnn = require('webnn-node');

const X = [1, 2, 3, 4];
const float32 = (...shape) => ({ dataType: /** @type {const} */ ('float32'), shape });

/** A context and the graph y = 2 * x, z = x + w. */
async function twoOutputs() {
  const context = await ml.createContext();
  const builder = new MLGraphBuilder(context);
  const x = builder.input('x', float32(2, 2));
  const w = builder.input('w', float32(2));
  const graph = await builder.build({ y: builder.mul(x, builder.constant('float32', 2)), z: builder.add(x, w) });
  return { context, graph };
}

const feeds = () => ({ x: Float32Array.from(X), w: Float32Array.of(10, 20) });

/** Builds a graph of one result from operands with data, and computes it. */
async function evaluate(build, length, type = /** @type {any} */ (Float32Array)) {
  const context = await ml.createContext();
  const builder = new MLGraphBuilder(context);
  const inputs = {};
  const of = (values, shape) => {
    const name = `input ${Object.keys(inputs).length}`;
    inputs[name] = Float32Array.from(values);
    return builder.input(name, { dataType: 'float32', shape });
  };
  const graph = await builder.build({ result: build(builder, of) });
  const { outputs } = await context.compute(graph, inputs, { result: new type(length) });
  return [...outputs.result];
}

describe('interfaces', () => {
  test('are those of the draft', () => {
    assert.deepEqual(Object.keys(ML.prototype), ['createContext']);
    assert.deepEqual(Object.keys(MLContext.prototype), ['compute', 'opSupportLimits']);
    assert.equal(MLContext.prototype.compute.length, 3);
    for (const Interface of [ML, MLContext, MLActivation, MLGraph, MLOperand])
      assert.throws(() => new Interface(), { name: 'TypeError', message: /Illegal constructor/ });
    assert.equal(String(new Object(MLGraphBuilder.prototype)), '[object MLGraphBuilder]');
    assert.equal(MLGraph, webnn.MLGraph);
    assert.notEqual(MLOperand, webnn.MLOperand);
    assert.deepEqual(Object.keys(MLOperand.prototype), ['dataType', 'shape']);
    assert.notEqual(MLContext, webnn.MLContext);
  });

  test('have every method of today that builds', () => {
    for (const name of Object.keys(webnn.MLGraphBuilder.prototype)) assert.equal(typeof MLGraphBuilder.prototype[name], 'function', name);
  });

  test('opSupportLimits are those of today', async () => {
    const context = await webnn.ml.createContext();
    assert.deepEqual((await ml.createContext()).opSupportLimits(), context.opSupportLimits());
    assert.throws(() => MLContext.prototype.opSupportLimits.call(context), {
      name: 'TypeError',
      message: /Illegal invocation/,
    });
    context.destroy();
  });

  test('contexts and builders of today are others', async () => {
    const context = await webnn.ml.createContext();
    assert.throws(() => new MLGraphBuilder(context), { name: 'TypeError', message: /expected an MLContext/ });
    assert.throws(() => new MLGraphBuilder(), { name: 'TypeError', message: /1 argument required/ });
    const builder = new webnn.MLGraphBuilder(context);
    const graph = await builder.build({ y: builder.neg(builder.input('x', float32(1))) });
    await assert.rejects((await ml.createContext()).compute(graph, {}, {}), {
      name: 'TypeError',
      message: /graph is not an MLGraph of a builder of this draft/,
    });
    context.destroy();
  });

  test('deviceType is cpu, gpu or npu', async () => {
    for (const deviceType of ['cpu', 'gpu', 'npu', undefined]) assert.ok((await ml.createContext({ deviceType })) instanceof MLContext);
    await assert.rejects(ml.createContext({ deviceType: 'tpu' }), {
      name: 'TypeError',
      message: /options.deviceType is "tpu", expected one of "cpu", "gpu", "npu"/,
    });
    await assert.rejects(ml.createContext({ powerPreference: 'low' }), {
      name: 'TypeError',
      message: /powerPreference/,
    });
    await assert.rejects(ML.prototype.createContext.call({}), { name: 'TypeError', message: /Illegal invocation/ });
  });

  test('contexts of a GPUDevice are not supported', async () => {
    class GPUDevice {}
    Object.assign(globalThis, { GPUDevice });
    try {
      await assert.rejects(ml.createContext(new GPUDevice()), exception('NotSupportedError', /GPUDevice/));
    } finally {
      Reflect.deleteProperty(globalThis, 'GPUDevice');
    }
  });
});

describe('operands', () => {
  test('tell their data type and shape by methods, whatever made them', async () => {
    const builder = new MLGraphBuilder(await ml.createContext());
    const x = builder.input('x', float32(2, 4));
    const w = (...shape) => builder.constant(float32(...shape), new Float32Array(shape.reduce((a, b) => a * b, 1)));
    const gru = builder.gru(builder.reshape(x, [2, 1, 4]), w(1, 9, 4), w(1, 9, 3), 2, 3, { returnSequence: true });
    /** @type {[any, string, number[]][]} */
    const operands = [
      [x, 'float32', [2, 4]],
      [w(3), 'float32', [3]],
      [builder.constant('int8', 2), 'int8', []],
      [builder.constant(2), 'float32', []],
      [builder.add(x, w(4)), 'float32', [2, 4]],
      [builder.relu(x), 'float32', [2, 4]],
      [builder.cast(x, 'int32'), 'int32', [2, 4]],
      [builder.argMax(x, { axes: [1] }), 'int32', [2]],
      [builder.pad(x, [0, 1], [0, 0], { mode: 'symmetric' }), 'float32', [2, 5]],
      [builder.pad(x, [0, 0], [0, 0], { mode: 'symmetric' }), 'float32', [2, 4]],
      [builder.conv2d(builder.reshape(x, [1, 1, 2, 4]), w(1, 1, 2, 2), { activation: builder.relu() }), 'float32', [1, 1, 1, 3]],
      [builder.maxPool2d(builder.reshape(x, [1, 1, 2, 4]), { roundingType: 'ceil' }), 'float32', [1, 1, 1, 1]],
      [builder.softmax(x), 'float32', [2, 4]],
      ...builder.split(x, 2, { axis: 1 }).map((part) => /** @type {[any, string, number[]]} */ ([part, 'float32', [2, 2]])),
      [gru[0], 'float32', [1, 1, 3]],
      [gru[1], 'float32', [2, 1, 1, 3]],
    ];
    for (const [operand, dataType, shape] of operands) {
      assert.ok(operand instanceof MLOperand);
      assert.deepEqual([operand.dataType(), operand.shape()], [dataType, shape]);
      operand.shape().push(7);
      assert.deepEqual(operand.shape(), shape, 'each list is new');
    }
    assert.throws(() => x.shape.call({}), { name: 'TypeError', message: /Illegal invocation/ });
  });

  test('of every method that builds are those of the draft', () => {
    const { prototype } = MLGraphBuilder;
    const inherited = Object.keys(webnn.MLGraphBuilder.prototype).filter((name) => !Object.hasOwn(prototype, name));
    assert.deepEqual(inherited, []);
  });
});

describe('builders', () => {
  /** Computes y of a graph with the input x. */
  const compute = async (context, graph, x) => (await context.compute(graph, { x: Float32Array.of(x) }, { y: new Float32Array(1) })).outputs.y[0];

  test('build several graphs, with operands from before and after a build', async () => {
    const context = await ml.createContext();
    const builder = new MLGraphBuilder(context);
    const x = builder.input('x', float32(1));
    const three = builder.constant(float32(1), Float32Array.of(3));
    const tripled = builder.mul(x, three);
    const first = await builder.build({ y: tripled });
    const second = await builder.build({ y: tripled });
    const [third, fourth] = await Promise.all([builder.build({ y: builder.add(tripled, three) }), builder.build({ y: builder.neg(builder.neg(tripled)) })]);
    for (const [graph, expected] of /** @type {const} */ ([
      [first, 6],
      [second, 6],
      [third, 9],
      [fourth, 6],
    ])) {
      assert.equal(await compute(context, graph, 2), expected);
    }
    first.destroy();
    assert.equal(await compute(context, second, 3), 9, 'graphs end on their own');
  });

  test('stay as they are when a build fails', async () => {
    const context = await ml.createContext();
    const builder = new MLGraphBuilder(context);
    const x = builder.input('x', float32(1));
    await assert.rejects(builder.build({}), { name: 'TypeError' });
    await assert.rejects(builder.build({ x }), { name: 'TypeError', message: /is an input/ });
    assert.equal(await compute(context, await builder.build({ y: builder.neg(x) }), 2), -2);
  });

  test('have inputs of the same name for different graphs, one for each', async () => {
    const context = await ml.createContext();
    const builder = new MLGraphBuilder(context);
    const [scalar, pair, again, other] = [float32(1), float32(2), float32(1), float32(1)].map((descriptor, i) =>
      builder.input(i < 3 ? 'x' : 'x (2)', descriptor),
    );
    const first = await builder.build({ y: builder.neg(scalar) });
    const second = await builder.build({ y: builder.reduceSum(pair) });
    const third = await builder.build({ y: builder.sub(again, other) });
    assert.equal(await compute(context, first, 5), -5);
    const { outputs, inputs } = await context.compute(second, { x: Float32Array.of(1, 2) }, { y: new Float32Array(1) });
    assert.deepEqual([outputs.y[0], [...inputs.x]], [3, [1, 2]]);
    const difference = await context.compute(third, { x: Float32Array.of(5), 'x (2)': Float32Array.of(2) }, { y: new Float32Array(1) });
    assert.equal(difference.outputs.y[0], 3);
    await assert.rejects(context.compute(second, {}, {}), { name: 'TypeError', message: /input "x" is missing/ });
    await assert.rejects(builder.build({ y: builder.add(scalar, pair) }), { name: 'TypeError', message: /two inputs of the graph have the name "x"/ });
  });
});

describe('compute', () => {
  test('gives the views back on the memory that moved away from those that were given', async () => {
    const { context, graph } = await twoOutputs();
    const memory = new ArrayBuffer(64);
    const inputs = { x: new Float32Array(memory, 8, 4), w: Float32Array.of(10, 20) };
    inputs.x.set(X);
    const given = { y: new Float32Array(4), z: new Float32Array(4) };
    const promise = context.compute(graph, inputs, given);
    for (const view of [inputs.x, inputs.w, given.y, given.z]) assert.equal(view.buffer.byteLength, 0, 'moved when the call returns');
    const result = await promise;
    assert.deepEqual(Object.keys(result), ['inputs', 'outputs']);
    assert.deepEqual([...result.outputs.y], [2, 4, 6, 8]);
    assert.deepEqual([...result.outputs.z], [11, 22, 13, 24]);
    assert.deepEqual([...result.inputs.x], X);
    assert.deepEqual([...result.inputs.w], [10, 20]);
    assert.equal(Object.getPrototypeOf(result.inputs.x), Float32Array.prototype);
    assert.equal(result.inputs.x.byteOffset, 8);
    assert.equal(result.inputs.x.buffer.byteLength, 64);
  });

  test('results can be computed with again, as loops over frames do', async () => {
    const { context, graph } = await twoOutputs();
    let views = { inputs: feeds(), outputs: { y: new Float32Array(4) } };
    for (let round = 0; round < 5; round++) {
      views = await context.compute(graph, views.inputs, views.outputs);
      views.inputs.x.set(views.outputs.y);
    }
    assert.deepEqual(
      [...views.outputs.y],
      X.map((value) => 32 * value),
    );
  });

  test('gives only what is asked for, and takes inputs that the graph has not', async () => {
    const { context, graph } = await twoOutputs();
    const { inputs, outputs } = await context.compute(graph, { ...feeds(), other: new DataView(new ArrayBuffer(6), 2, 3) }, { z: new Float32Array(4) });
    assert.deepEqual(Object.keys(outputs), ['z']);
    assert.deepEqual([...outputs.z], [11, 22, 13, 24]);
    assert.deepEqual([inputs.other.byteOffset, inputs.other.byteLength, inputs.other.buffer.byteLength], [2, 3, 6]);
    assert.deepEqual((await context.compute(graph, feeds(), {})).outputs, {});
  });

  test('can run many times at once', async () => {
    const { context, graph } = await twoOutputs();
    const runs = Array.from({ length: 20 }, (_, i) => context.compute(graph, { ...feeds(), x: new Float32Array(4).fill(i) }, { y: new Float32Array(4) }));
    const results = await Promise.all(runs);
    assert.deepEqual(
      results.map(({ outputs }) => outputs.y[3]),
      runs.map((_, i) => 2 * i),
    );
  });

  test('takes views of other realms, and makes views of this one', async () => {
    const { context, graph } = await twoOutputs();
    const [x, y] = vm.runInNewContext('[Float32Array.of(1, 2, 3, 4), new Float32Array(4)]');
    const { outputs } = await context.compute(graph, { ...feeds(), x }, { y });
    assert.ok(outputs.y instanceof Float32Array);
    assert.deepEqual([...outputs.y], [2, 4, 6, 8]);
  });

  test('takes Uint16Array and Float16Array for float16, and views of 64-bit integers', async () => {
    const context = await ml.createContext();
    const builder = new MLGraphBuilder(context);
    const h = builder.neg(builder.input('h', { dataType: 'float16', shape: [1] }));
    const i = builder.neg(builder.input('i', { dataType: 'int64', shape: [1] }));
    const graph = await builder.build({ h, i });
    const { outputs } = await context.compute(
      graph,
      { h: Uint16Array.of(0x3c00), i: BigInt64Array.of(2n ** 60n) },
      { h: new Uint16Array(1), i: new BigInt64Array(1) },
    );
    assert.deepEqual([outputs.h[0], outputs.i[0]], [0xbc00, -(2n ** 60n)]);
    if (globalThis.Float16Array === undefined) return; // the rest is for newer engines
    const zero = () => new BigInt64Array(1);
    const newer = await context.compute(graph, { h: Float16Array.of(1), i: zero() }, { h: new Float16Array(1), i: zero() });
    assert.deepEqual(newer.outputs.h, Float16Array.of(-1));
  });

  test('rejects what does not fit with a TypeError, and moves nothing', async () => {
    const { context, graph } = await twoOutputs();
    const other = await twoOutputs();
    const shared = new Float32Array(8);
    const y = () => ({ y: new Float32Array(4) });
    const cases = [
      [/graph is not an MLGraph/, {}, feeds(), y()],
      [/graph belongs to another context/, other.graph, feeds(), y()],
      [/input "w" is missing/, graph, { x: feeds().x }, y()],
      [/input "x" is a Float64Array, expected a Float32Array for float32/, graph, { ...feeds(), x: Float64Array.from(X) }, y()],
      [/input "x" is a Uint8Array/, graph, { ...feeds(), x: new Uint8Array(16) }, y()],
      [/input "x" is a DataView/, graph, { ...feeds(), x: new DataView(new ArrayBuffer(16)) }, y()],
      [/input "x" has 12 bytes, expected the 16 bytes of float32 \[2, 2\]/, graph, { ...feeds(), x: new Float32Array(3) }, y()],
      [/output "v" is not in the graph, which has "y", "z"/, graph, feeds(), { ...y(), v: new Float32Array(4) }],
      [/output "y" is an Int32Array, expected a Float32Array for float32/, graph, feeds(), { y: new Int32Array(4) }],
      [/output "y" has 20 bytes, expected the 16 bytes/, graph, feeds(), { y: new Float32Array(5) }],
      [/two inputs or outputs are views of the same buffer/, graph, { ...feeds(), x: shared.subarray(0, 4) }, { y: shared.subarray(4) }],
      [/cannot be transferred/, graph, { ...feeds(), x: new Float32Array(new WebAssembly.Memory({ initial: 1 }).buffer, 0, 4) }, y()],
      [/inputs\["x"\] is not an ArrayBufferView/, graph, { ...feeds(), x: new ArrayBuffer(16) }, y()],
      [/inputs\["x"\] is backed by a SharedArrayBuffer/, graph, { ...feeds(), x: new Float32Array(new SharedArrayBuffer(16)) }, y()],
      [/can change its length/, graph, { ...feeds(), x: new Float32Array(new ArrayBuffer(16, { maxByteLength: 32 })) }, y()],
      [/outputs\["y"\] is not an ArrayBufferView/, graph, feeds(), { y: [1, 2, 3, 4] }],
      [/inputs is undefined, expected an object/, graph, undefined, y()],
    ];
    for (const [message, target, inputs, outputs] of cases) {
      await assert.rejects(context.compute(target, inputs, outputs), { name: 'TypeError', message });
      const views = [...Object.values(inputs ?? {}), ...Object.values(outputs)].filter(ArrayBuffer.isView);
      for (const view of views) assert.ok(view.buffer.byteLength > 0, `${message}`);
    }
    await assert.rejects(context.compute(graph, feeds()), {
      name: 'TypeError',
      message: /3 arguments required, 2 given/,
    });
    await assert.rejects(MLContext.prototype.compute.call({}, graph, feeds(), y()), {
      name: 'TypeError',
      message: /Illegal invocation/,
    });
  });

  test('rejects views whose buffers have moved before', async () => {
    const { context, graph } = await twoOutputs();
    const inputs = feeds();
    await context.compute(graph, inputs, { y: new Float32Array(4) });
    await assert.rejects(context.compute(graph, inputs, { y: new Float32Array(4) }), {
      name: 'TypeError',
      message: /input "x" has 0 bytes \(or is detached\)/,
    });
  });

  test('rejects for a graph that was destroyed', async () => {
    const { context, graph } = await twoOutputs();
    graph.destroy();
    const inputs = feeds();
    await assert.rejects(context.compute(graph, inputs, { y: new Float32Array(4) }), exception('InvalidStateError'));
    assert.equal(inputs.x.length, 4);
  });
});

describe('earlier forms', () => {
  test('descriptors with type and dimensions, alone or mixed with those of today', async () => {
    const context = await ml.createContext();
    const builder = new MLGraphBuilder(context);
    for (const [i, descriptor] of [
      { type: 'int32', dimensions: [2] },
      { dataType: 'int32', dimensions: [2] },
      { type: 'int32', shape: [2] },
    ].entries()) {
      const operands = [builder.input(`${i}`, descriptor), builder.constant(descriptor, new Int32Array(2))];
      for (const operand of operands) assert.deepEqual([operand.dataType(), operand.shape()], ['int32', [2]]);
    }
    assert.throws(() => builder.input('a', { dimensions: [2] }), {
      name: 'TypeError',
      message: /dataType is required/,
    });
    assert.throws(() => builder.input('a', { type: 'int4', dimensions: [2] }), {
      name: 'TypeError',
      message: /dataType is "int4", expected one of/,
    });
    assert.throws(() => builder.input('a', 5), { name: 'TypeError', message: /descriptor is 5/ });
  });

  test('descriptors of scalars have no dimensions', async () => {
    assert.deepEqual(await evaluate((b, of) => b.mul(of(X, [4]), b.constant({ dataType: 'float32' }, Float32Array.of(2))), 4), [2, 4, 6, 8]);
    const builder = new MLGraphBuilder(await ml.createContext());
    assert.deepEqual(builder.input('x', { type: 'int8' }).shape(), []);
    assert.throws(() => builder.constant({ dataType: 'float32' }, new Float32Array(2)), { name: 'TypeError', message: /8 bytes/ });
  });

  test('null for the size that a new shape leaves open', async () => {
    const values = numbers(12);
    const reshaped = (newShape, ...rest) =>
      evaluate((b, of) => {
        const operand = b.reshape(of(values, [3, 4]), newShape, ...rest);
        assert.deepEqual(operand.shape(), [2, 6]);
        return operand;
      }, 12);
    for (const newShape of [
      [2, null],
      [null, 6],
      [2, 6],
    ])
      assertClose(await reshaped(newShape), values);
    assertClose(await reshaped(new Set([2, null]), { label: 'halves' }), values);
    for (const [newShape, message] of /** @type {[any, RegExp][]} */ ([
      [[null, null], /newShape is \[null, null\], expected at most one null/],
      [[5, null], /newShape is \[5, null\], expected one for the 12 elements of \[3, 4\]/],
      [[0, null], /newShape is \[0, null\], expected/],
      [[-1, 6], /newShape\[0\] is -1/],
      [[2, 5], /reshape: /],
      [undefined, /newShape is undefined/],
    ])) {
      await assert.rejects(reshaped(newShape), { name: 'TypeError', message });
    }
  });

  test('constants take views of their data type only', async () => {
    const builder = new MLGraphBuilder(await ml.createContext());
    const constant = (dataType, buffer) => builder.constant({ dataType, dimensions: [4] }, buffer);
    assert.deepEqual(constant('float16', new Uint16Array(4)).dataType(), 'float16');
    assert.deepEqual(constant('int64', new BigInt64Array(4)).dataType(), 'int64');
    for (const [dataType, buffer, message] of /** @type {[string, any, RegExp][]} */ ([
      ['int8', new Uint8Array(4), /constant: buffer is a Uint8Array, expected an Int8Array for int8/],
      ['float16', new Float32Array(4), /is a Float32Array/],
      ['float32', new ArrayBuffer(16), /is not an ArrayBufferView/],
      ['float32', [1, 2, 3, 4], /is not an ArrayBufferView/],
      ['float32', new Float32Array(new SharedArrayBuffer(16)), /is backed by a SharedArrayBuffer/],
      ['float32', new Float32Array(3), /12 bytes/],
      ['float', new Float32Array(4), /dataType is "float"/],
    ])) {
      assert.throws(() => constant(dataType, buffer), { name: 'TypeError', message });
    }
  });

  test('constants by a number and a type', async () => {
    const builder = new MLGraphBuilder(await ml.createContext());
    const types = [builder.constant(2), builder.constant(2, 'int8'), builder.constant(2n, 'int64'), builder.constant('uint8', 2)].map((operand) =>
      operand.dataType(),
    );
    assert.deepEqual(types, ['float32', 'int8', 'int64', 'uint8']);
    assert.deepEqual(await evaluate((b, of) => b.mul(of(X, [4]), b.constant(0.5)), 4), [0.5, 1, 1.5, 2]);
    assert.throws(() => builder.constant('float32', 0, 10, 1), exception('NotSupportedError', /ranges of numbers/));
    assert.throws(() => builder.constant('float32'), { name: 'TypeError', message: /2 arguments required, 1 given/ });
  });

  test('roundingType of pooling', async () => {
    const options = { windowDimensions: [2, 2], strides: [2, 2] };
    const values = numbers(9);
    const pool = (more) => async (name, length) => evaluate((b, of) => b[name](of(values, [1, 1, 3, 3]), { ...options, ...more }), length);
    const windows = [[0, 1, 3, 4], [2, 5], [6, 7], [8]].map((places) => places.map((i) => values[i]));
    assert.deepEqual(await pool({ roundingType: 'floor' })('maxPool2d', 1), [Math.max(...windows[0])]);
    assert.deepEqual(
      await pool({ roundingType: 'ceil' })('maxPool2d', 4),
      windows.map((window) => Math.max(...window)),
    );
    assertClose(await pool({ roundingType: 'ceil' })('averagePool2d', 4), windows.map(mean));
    assertClose(
      await pool({ roundingType: 'ceil' })('l2Pool2d', 4),
      windows.map((window) => Math.hypot(...window)),
    );
    assert.deepEqual(await pool({ roundingType: 'ceil', outputShapeRounding: 'floor' })('maxPool2d', 1), [Math.max(...windows[0])], "today's name wins");
    await assert.rejects(pool({ roundingType: 'up' })('maxPool2d', 4), {
      name: 'TypeError',
      message: /outputShapeRounding is "up"/,
    });
  });

  test('symmetric padding', async () => {
    const pad = (mode) => evaluate((b, of) => b.pad(of([1, 2, 3, 4, 5, 6], [2, 3]), [1, 2], [1, 2], { mode }), 28);
    assert.deepEqual(await pad('symmetric'), [2, 1, 1, 2, 3, 3, 2, 2, 1, 1, 2, 3, 3, 2, 5, 4, 4, 5, 6, 6, 5, 5, 4, 4, 5, 6, 6, 5]);
    assert.deepEqual((await pad('edge')).slice(0, 7), [1, 1, 1, 2, 3, 3, 3]);
    await assert.rejects(
      evaluate((b, of) => b.pad(of(X, [4]), [5], [0], { mode: 'symmetric' }), 9),
      { name: 'TypeError', message: /expected at most 4/ },
    );
    await assert.rejects(
      evaluate((b, of) => b.pad(of(X, [4]), [1, 1], [0], { mode: 'symmetric' }), 9),
      { name: 'TypeError', message: /2 and 1 paddings, expected one for each of 1 dimension/ },
    );
    await assert.rejects(
      evaluate((b) => b.pad(5, [1], [0], { mode: 'symmetric' }), 9),
      { name: 'TypeError', message: /pad: input is not an MLOperand/ },
    );
  });

  test('softmax of rows without an axis', async () => {
    const rows = [X.slice(0, 2), X.slice(2)];
    const softmax = (row) => row.map((value) => Math.exp(value) / (Math.exp(row[0]) + Math.exp(row[1])));
    assertClose(await evaluate((b, of) => b.softmax(of(X, [2, 2])), 4), rows.flatMap(softmax));
    assertClose(await evaluate((b, of) => b.softmax(of(X, [2, 2]), { label: 'rows' }), 4), rows.flatMap(softmax));
    assertClose(
      await evaluate((b, of) => b.softmax(of(X, [2, 2]), 0), 4),
      [0, 1].flatMap(() => [0, 0]).map((_, i) => softmax([X[i % 2], X[(i % 2) + 2]])[i >> 1]),
    );
    await assert.rejects(
      evaluate((b, of) => b.softmax(of(X, [4])), 4),
      { name: 'TypeError', message: /softmax: input has shape \[4\], expected rank 2/ },
    );
    await assert.rejects(
      evaluate((b) => b.softmax(), 4),
      { name: 'TypeError', message: /softmax: input is not an MLOperand/ },
    );
  });

  test('argMin and argMax with a list of one axis', async () => {
    const best = (name, ...rest) => evaluate((b, of) => b[name](of([3, 1, 2, 4, 9, 7], [2, 3]), ...rest), 2, Int32Array);
    assert.deepEqual(await best('argMax', { axes: [1] }), [0, 1]);
    assert.deepEqual(await best('argMin', { axes: [1], keepDimensions: true }), [1, 0]);
    assert.deepEqual(await best('argMin', 1), [1, 0]);
    await assert.rejects(best('argMax'), exception('NotSupportedError', /options.axes must hold one axis/));
    await assert.rejects(best('argMax', { axes: [0, 1] }), exception('NotSupportedError', /must hold one axis/));
    await assert.rejects(best('argMax', { axes: [1], selectLastIndex: true }), exception('NotSupportedError', /without selectLastIndex/));
  });
});

describe('activations', () => {
  const image = numbers(16, 3);
  const filter = numbers(4, 4);
  const convolved = convolution(image, [1, 1, 4, 4], filter, [1, 1, 2, 2], {
    begin: [0, 0],
    outputShape: [1, 1, 3, 3],
  });
  /** @type {Record<string, [object[], (value: number) => number]>} */
  const FORMULAS = {
    clamp: [[{ minValue: -0.5, maxValue: 0.5 }], (value) => Math.min(Math.max(value, -0.5), 0.5)],
    elu: [[{ alpha: 2 }], (value) => (value < 0 ? 2 * Math.expm1(value) : value)],
    hardSigmoid: [[{ alpha: 0.5, beta: 0.25 }], (value) => Math.min(Math.max(0.5 * value + 0.25, 0), 1)],
    hardSwish: [[], (value) => (value * Math.min(Math.max(value + 3, 0), 6)) / 6],
    leakyRelu: [[], (value) => (value < 0 ? 0.01 * value : value)],
    linear: [[{ alpha: 2, beta: 1 }], (value) => 2 * value + 1],
    relu: [[], (value) => Math.max(value, 0)],
    sigmoid: [[], (value) => 1 / (1 + Math.exp(-value))],
    softplus: [[{ steepness: 2 }], (value) => Math.log1p(Math.exp(2 * value)) / 2],
    softsign: [[], (value) => value / (1 + Math.abs(value))],
    tanh: [[], Math.tanh],
  };

  for (const [name, [options, formula]] of Object.entries(FORMULAS)) {
    test(`${name} without an operand is one, which conv2d applies`, async () => {
      const result = await evaluate((b, of) => {
        const activation = b[name](...options);
        assert.ok(activation instanceof MLActivation);
        return b.conv2d(of(image, [1, 1, 4, 4]), of(filter, [1, 1, 2, 2]), { activation });
      }, 9);
      assertClose(result, convolved.map(formula));
    });

    test(`${name} with an operand is the operator`, async () => {
      assertClose(await evaluate((b, of) => b[name](of(image, [16]), ...options), 16), image.map(formula));
    });
  }

  test('softplus without a steepness is today\u2019s', async () => {
    const formula = (value) => Math.log1p(Math.exp(value));
    assertClose(await evaluate((b, of) => b.softplus(of(image, [16]), { label: 'plain' }), 16), image.map(formula));
    assertClose(
      await evaluate((b, of) => b.conv2d(of(image, [1, 1, 4, 4]), of(filter, [1, 1, 2, 2]), { activation: b.softplus() }), 9),
      convolved.map(formula),
    );
    await assert.rejects(
      evaluate((b, of) => b.softplus(of(image, [16]), { steepness: NaN }), 16),
      { name: 'TypeError', message: /options\.steepness is NaN/ },
    );
  });

  test('gelu is one', async () => {
    const plain = await evaluate((b, of) => b.gelu(of(convolved, [9])), 9);
    assertClose(await evaluate((b, of) => b.conv2d(of(image, [1, 1, 4, 4]), of(filter, [1, 1, 2, 2]), { activation: b.gelu() }), 9), plain);
  });

  test('transposed convolutions and batch normalization apply them', async () => {
    const relu = (values) => values.map((value) => Math.max(value, 0));
    const single = numbers(1, 9);
    assertClose(
      await evaluate((b, of) => b.convTranspose2d(of(image, [1, 1, 4, 4]), of(single, [1, 1, 1, 1]), { activation: b.relu() }), 16),
      relu(image.map((value) => value * single[0])),
    );
    const normalized = image.map((value) => value / Math.sqrt(1 + 1e-5));
    assertClose(
      await evaluate((b, of) => b.batchNormalization(of(image, [1, 1, 4, 4]), of([0], [1]), of([1], [1]), { activation: b.relu() }), 16),
      relu(normalized),
    );
    assertClose(await evaluate((b, of) => b.batchNormalization(of(image, [1, 1, 4, 4]), of([0], [1]), of([1], [1])), 16), normalized);
  });

  test('recurrent networks take relu, sigmoid and tanh, by name or as objects', async () => {
    const parts = {
      x: numbers(2, 1),
      hidden: numbers(2, 2),
      weight: numbers(12, 3),
      recurrent: numbers(12, 4),
      bias: numbers(6, 5),
      recurrentBias: numbers(6, 6),
    };
    const gru = (activations) =>
      evaluate(
        (b, of) =>
          b.gruCell(of(parts.x, [1, 2]), of(parts.weight, [6, 2]), of(parts.recurrent, [6, 2]), of(parts.hidden, [1, 2]), 2, {
            bias: of(parts.bias, [6]),
            recurrentBias: of(parts.recurrentBias, [6]),
            activations: activations(b),
          }),
        2,
      );
    const expected = gruStep({ ...parts, size: 2 });
    assertClose(await gru((b) => [b.sigmoid(), b.tanh()]), expected);
    assertClose(await gru((b) => ['sigmoid', b.tanh()]), expected);
    assertClose(await gru(() => undefined), expected);
    await assert.rejects(
      gru((b) => [b.sigmoid(), b.elu()]),
      exception('NotSupportedError', /gruCell: options.activations\[1\] is elu, expected one of relu, sigmoid, tanh/),
    );
    await assert.rejects(
      gru((b) => [b.sigmoid(), {}]),
      { name: 'TypeError', message: /activations\[1\] is not an MLActivation/ },
    );
  });

  test('those of gru, lstm and lstmCell arrive', async () => {
    const [x, h, c] = [numbers(2, 1), numbers(2, 2), numbers(2, 3)];
    const networks = {
      gru: (b, of, activations) => b.gru(of(x, [1, 1, 2]), of(numbers(12, 4), [1, 6, 2]), of(numbers(12, 5), [1, 6, 2]), 1, 2, { activations })[0],
      lstm: (b, of, activations) =>
        b.lstm(of(x, [1, 1, 2]), of(numbers(16, 4), [1, 8, 2]), of(numbers(16, 5), [1, 8, 2]), 1, 2, {
          activations,
        })[0],
      lstmCell: (b, of, activations) =>
        b.lstmCell(of(x, [1, 2]), of(numbers(16, 4), [8, 2]), of(numbers(16, 5), [8, 2]), of(h, [1, 2]), of(c, [1, 2]), 2, { activations })[0],
    };
    for (const [name, network] of Object.entries(networks)) {
      const count = name === 'gru' ? 2 : 3;
      const byName = await evaluate((b, of) => network(b, of, new Array(count).fill('relu')), 2);
      const asObjects = await evaluate(
        (b, of) =>
          network(
            b,
            of,
            Array.from({ length: count }, () => b.relu()),
          ),
        2,
      );
      const others = await evaluate((b, of) => network(b, of, undefined), 2);
      assert.deepEqual(asObjects, byName, name);
      assert.notDeepEqual(others, byName, name);
    }
  });

  test('of another builder, or that are none, are refused', async () => {
    const [first, second] = [new MLGraphBuilder(await ml.createContext()), new MLGraphBuilder(await ml.createContext())];
    const conv = (activation) =>
      first.conv2d(first.input(`${Math.random()}`, float32(1, 1, 4, 4)), first.constant(float32(1, 1, 2, 2), new Float32Array(4)), { activation });
    assert.throws(() => conv(second.relu()), {
      name: 'TypeError',
      message: /conv2d: options.activation belongs to another builder/,
    });
    assert.throws(() => conv('relu'), { name: 'TypeError', message: /options.activation is not an MLActivation/ });
    assert.throws(() => first.add(first.relu(), first.relu()), { name: 'TypeError', message: /expected an MLOperand/ });
    assert.throws(() => first.relu(5), { name: 'TypeError', message: /expected an MLOperand/ });
  });
});
