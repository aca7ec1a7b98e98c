import assert from 'node:assert/strict';
import test, { after, before, describe } from 'node:test';
import { MLGraphBuilder, ml } from '../../index.js';
import { importModel, inspectModel, loadModel } from '../../onnx.js';
import {
  BOOL,
  DOUBLE,
  FLOAT,
  INT16,
  INT32,
  INT4,
  INT64,
  UINT16,
  UINT4,
  UINT8,
  externalWeight,
  node,
  sequenceValue,
  value,
  weight,
  writeModel,
} from './model-writer.mjs';

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

const BFLOAT16 = 16;

describe('types of ONNX that WebNN does not have', () => {
  /** @type {[import('../../onnx.js').OnnxDataType, number, Float64Array | Int16Array | Uint16Array, string][]} */
  const cases = [
    ['bfloat16', BFLOAT16, Uint16Array.of(0x3f80, 0xc020, 0x7f80, 0xff80, 0x7fc0, 0x0001, 0x8000), 'tensor(bfloat16)'],
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
      const shape = [data.length];
      assert.deepEqual(y, { data, shape, dataType: name });
      const again = await model.run({ x: y });
      assert.deepEqual(again.y.data, data);
      // Bytes are the elements, wherever they begin.
      const bytes = new Uint8Array(data.byteLength + 1);
      bytes.set(new Uint8Array(data.buffer), 1);
      assert.deepEqual((await model.run({ x: bytes.subarray(1) })).y.data, data);
      assert.deepEqual((await model.run({ x: { data: data.buffer, shape, dataType: name } })).y.data, data);
      assert.deepEqual((await model.run({ x: empty })).y.data, empty);
      await assert.rejects(model.run({ x: Float32Array.of(1) }), {
        code: 'ERR_WEBNN_TYPE',
        message: new RegExp(`is a Float32Array, expected an? ${data.constructor.name} for `),
      });
      await assert.rejects(model.run({ x: bytes.subarray(0, 1) }), { code: 'ERR_WEBNN_SHAPE', message: /1 byte, expected a whole number of elements/ });
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

  test('constants of them serve as inputs, and tensors do not', async () => {
    const bytes = writeModel({
      inputs: [value('x', DOUBLE, ['n']), value('z', DOUBLE, ['n'])],
      outputs: [value('y', DOUBLE, ['n'])],
      nodes: [node('Sub', ['x', 'z'], ['y'])],
    });
    const model = await loadModel(bytes, { context, constants: { z: { data: Float64Array.of(1, 2), shape: [2] } } });
    const tensor = await context.createTensor({ dataType: 'float32', shape: [2], writable: true });
    await assert.rejects(model.run({ x: tensor }), { code: 'ERR_WEBNN_TYPE', message: /float32, expected float64, which only arrays can have/ });
    const x = Float64Array.of(5, 5);
    await assert.rejects(model.run({ x }, { y: 'tensor' }), { code: 'ERR_WEBNN_TYPE', message: /float64, which only arrays can have/ });
    assert.deepEqual((await model.run({ x })).y, { data: Float64Array.of(4, 3), shape: [2], dataType: 'double' });
    model.destroy();
  });

  test('compiled, they are tensors of types that WebNN has', async () => {
    // On a GPU, doubles cut the model, which has no single graph then.
    const cpu = await ml.createContext({ accelerated: false });
    const model = await loadModel(
      writeModel({
        inputs: [value('x', DOUBLE, ['n']), value('z', DOUBLE, ['n'])],
        outputs: [value('y', DOUBLE, ['n'])],
        nodes: [node('Sub', ['x', 'z'], ['y'])],
      }),
      { context: cpu, constants: { z: { data: Float64Array.of(1, 2), shape: [2] } } },
    );
    await model.run({ x: Float64Array.of(5, 5) });
    const { graph, inputs, outputs } = await model.compile({ x: [2] });
    assert.deepEqual([inputs.x.dataType, outputs.y.dataType], ['float32', 'float32']);
    const [x, y] = await Promise.all([inputs.x, outputs.y].map((descriptor) => cpu.createTensor({ ...descriptor, readable: true, writable: true })));
    cpu.writeTensor(x, Float32Array.of(5, 5));
    cpu.dispatch(/** @type {import('../../index.js').MLGraph} */ (graph), { x }, { y });
    assert.deepEqual(new Float32Array(await cpu.readTensor(y)), Float32Array.of(4, 3));
    model.destroy();
    cpu.destroy();
  });

  test('imported, they are operands of types that WebNN has', () => {
    const { y } = importModel(new MLGraphBuilder(context), difference(DOUBLE, Float64Array.of(1), [2]));
    assert.deepEqual([y.dataType, y.shape], ['float32', [2]]);
  });
});

/**
 * The warnings of the process while `act` runs, as `[code, message]`.
 *
 * @param {() => Promise<unknown>} act
 */
async function warningsOf(act) {
  /** @type {[string, string][]} */
  const warnings = [];
  const keep = (/** @type {NodeJS.ErrnoException} */ warning) => warnings.push([warning.code ?? '', warning.message]);
  process.on('warning', keep);
  try {
    await act();
    // Warnings are events of the next tick.
    await new Promise((resolve) => setImmediate(resolve));
  } finally {
    process.off('warning', keep);
  }
  return warnings;
}

describe('doubles', () => {
  test('are computed in float64', async () => {
    const timestamps = writeModel({
      inputs: [value('seconds', DOUBLE, ['n'])],
      outputs: [value('hours', DOUBLE, ['n']), value('late', BOOL, ['n'])],
      weights: [weight('hour', [], Float64Array.of(3600), DOUBLE), weight('limit', [], Float64Array.of(1.7e9 / 3600), DOUBLE)],
      nodes: [node('Div', ['seconds', 'hour'], ['hours']), node('Greater', ['hours', 'limit'], ['late'])],
    });
    const warnings = await warningsOf(async () => {
      const model = await loadModel(timestamps, { context });
      const seconds = Float64Array.of(1.7e9, 1.7e9 + 1);
      const { hours, late } = await model.run({ seconds });
      assert.deepEqual(
        hours.data,
        seconds.map((time) => time / 3600),
      );
      assert.deepEqual(late.data, Uint8Array.of(0, 1));
      model.destroy();
    });
    assert.deepEqual(warnings, []);
  });

  test('are warned about where an operator computes them in float32, with the names', async () => {
    const modulo = writeModel({
      inputs: [value('seconds', DOUBLE, ['n'])],
      outputs: [value('rest', DOUBLE, ['n'])],
      weights: [weight('hour', [], Float64Array.of(3600), DOUBLE)],
      nodes: [node('Mod', ['seconds', 'hour'], ['rest'], { fmod: { i: 1 } }, 'modulo')],
    });
    const expected = { inputs: ['seconds'], outputs: ['rest'], nodes: ['modulo'], nodeCount: 1 };
    const warnings = await warningsOf(async () => {
      const model = await loadModel(modulo, { context });
      assert.deepEqual(model.computedAsFloat32, expected);
      // This is why.
      const { rest } = await model.run({ seconds: Float64Array.of(1.7e9, 1.7e9 + 1) });
      assert.equal(rest.data[0], rest.data[1]);
      model.destroy();
    });
    assert.deepEqual(inspectModel(modulo).computedAsFloat32, expected);
    assert.deepEqual(warnings, [
      ['WARN_WEBNN_FLOAT32', 'the model computes doubles in float32, with 24 bits of precision: input "seconds"; output "rest"; node "modulo"'],
    ]);
  });

  test('are not worth a warning where they are exact or known', async () => {
    const bytes = writeModel({
      inputs: [value('x', FLOAT, ['n', 4])],
      outputs: [value('y', FLOAT)],
      weights: [weight('half', [], Float64Array.of(0.5), DOUBLE)],
      nodes: [
        node('Shape', ['x'], ['shape']),
        node('Cast', ['shape'], ['sizes'], { to: { i: DOUBLE } }),
        node('Mul', ['sizes', 'half'], ['halves']),
        node('Cast', ['halves'], ['starts'], { to: { i: INT64 } }),
        node('Cast', ['half'], ['factor'], { to: { i: FLOAT } }),
        node('Slice', ['x', 'starts', 'shape'], ['part']),
        node('Mul', ['part', 'factor'], ['y']),
      ],
    });
    const nothing = { inputs: [], outputs: [], nodes: [], nodeCount: 0 };
    const warnings = await warningsOf(async () => {
      const model = await loadModel(bytes, { context });
      assert.deepEqual(model.computedAsFloat32, nothing);
      assert.deepEqual((await model.run({ x: { data: new Float32Array(16).fill(3), shape: [4, 4] } })).y, {
        data: new Float32Array(4).fill(1.5),
        shape: [2, 2],
        dataType: 'float32',
      });
      model.destroy();
    });
    assert.deepEqual(warnings, []);
  });
});

describe('casts to 16-bit integers', () => {
  // As onnxruntime 1.23 computes them on x64.
  const floats = [0, 1.9, -1.9, 32767.4, 32768, 40000, 65535, 65536, -32769, -40000, 1e6, 1e9, 3e9, -3e9, 1e20, Infinity, -Infinity, NaN, 70000.7];
  const fromFloats = [0, 1, -1, 32767, -32768, -25536, -1, 0, 32767, 25536, 16960, -13824, 0, 0, 0, 0, 0, 0, 4464];
  const integers = [0n, 32767n, 32768n, 65536n, -1n, -32769n, 2147483647n, -2147483648n];
  const fromIntegers = [0, 32767, -32768, 0, -1, 32767, -1, 0];
  for (const [elementType, Elements] of /** @type {const} */ ([
    [INT16, Int16Array],
    [UINT16, Uint16Array],
  ])) {
    const casts = (/** @type {number} */ from) =>
      writeModel({
        inputs: [value('x', from, ['n'])],
        outputs: [value('y', elementType, ['n']), value('next', INT64, ['n'])],
        // The model goes on with the same numbers.
        nodes: [node('Cast', ['x'], ['y'], { to: { i: elementType } }), node('Cast', ['y'], ['next'], { to: { i: INT64 } })],
      });
    test(`are ${Elements.name}s with the lowest 16 bits`, async () => {
      for (const [from, x, expected] of /** @type {const} */ ([
        [FLOAT, Float32Array.from(floats), fromFloats],
        [DOUBLE, Float64Array.from(floats), fromFloats],
        [INT64, BigInt64Array.from(integers), fromIntegers],
        [INT32, Int32Array.from(integers, Number), fromIntegers],
        [UINT8, Uint8Array.of(0, 200, 255), [0, 200, 255]],
      ])) {
        const model = await loadModel(casts(from), { context });
        const { y, next } = await model.run({ x });
        assert.deepEqual(y.data, Elements.from(expected), `from ${from}`);
        assert.deepEqual(next.data, BigInt64Array.from(Elements.from(expected), BigInt), `from ${from}`);
        model.destroy();
      }
    });

    test(`of constants are ${Elements.name}s as well`, async () => {
      for (const [x, from, expected] of /** @type {const} */ ([
        [Float64Array.from(floats), DOUBLE, fromFloats],
        [Float32Array.from(floats), FLOAT, fromFloats],
        [BigInt64Array.from(integers), INT64, fromIntegers],
      ])) {
        const bytes = writeModel({
          outputs: [value('y', elementType, [expected.length])],
          weights: [weight('x', [expected.length], x, from)],
          nodes: [node('Cast', ['x'], ['y'], { to: { i: elementType } })],
        });
        const model = await loadModel(bytes, { context });
        assert.deepEqual((await model.run({})).y.data, Elements.from(expected));
        model.destroy();
      }
    });
  }
});

test('results are rounded to the nearest bfloat16, halfway to the even one', async () => {
  const model = await loadModel(
    writeModel({ inputs: [value('x', FLOAT, ['n'])], outputs: [value('y', BFLOAT16, ['n'])], nodes: [node('Cast', ['x'], ['y'], { to: { i: BFLOAT16 } })] }),
    { context },
  );
  const words = Uint32Array.of(0x3f800000, 0x3f807fff, 0x3f808000, 0x3f808001, 0x3f818000, 0xbf818000, 0x7f7fffff, 0x7f800001, 0xff800000, 0x00000001);
  const { y } = await model.run({ x: new Float32Array(words.buffer) });
  assert.deepEqual(y.data, Uint16Array.of(0x3f80, 0x3f80, 0x3f80, 0x3f81, 0x3f82, 0xbf82, 0x7f80, 0x7fc0, 0xff80, 0));
  model.destroy();
});

describe('large constants of types that WebNN does not have are read as their numbers', () => {
  const [ROWS, COLUMNS] = [64, 401];
  const COUNT = ROWS * COLUMNS;
  const random = (/** @type {number} */ at) => ((at * 7919 + 13) % 251) - 125;
  const [UINT2, INT2, FLOAT8, FLOAT4] = [25, 26, 17, 23];

  /** Numbers of some bits, packed from the lowest bits on. */
  const packed = (/** @type {number} */ bits) => {
    const bytes = new Uint8Array(Math.ceil((COUNT * bits) / 8));
    for (let at = 0; at < COUNT; at++) {
      bytes[Math.floor((at * bits) / 8)] |= (random(at) & ((1 << bits) - 1)) << ((at * bits) % 8);
    }
    return bytes;
  };
  const part = (/** @type {number} */ bits, /** @type {boolean} */ isSigned) => (/** @type {number} */ at) => {
    const low = random(at) & ((1 << bits) - 1);
    return isSigned && low >> (bits - 1) === 1 ? low - (1 << bits) : low;
  };
  /** The numbers of E2M1, and of E4M3FN but for its NaN. */
  const FOURS = [0, 0.5, 1, 1.5, 2, 3, 4, 6].flatMap((value, at, all) => (at === 7 ? [value, ...all.map((other) => -other)] : [value]));
  const eight = (/** @type {number} */ bits) => {
    const [sign, exponent, fraction] = [bits >> 7 ? -1 : 1, (bits >> 3) & 15, bits & 7];
    return sign * (exponent === 0 ? fraction * 2 ** -9 : (8 + fraction) * 2 ** (exponent - 10));
  };
  const pattern = (/** @type {number} */ at) => ((random(at) & 0x7f) === 0x7f ? 0 : random(at) & 0xff);
  const numbers = (/** @type {(at: number) => number} */ numberAt) => Array.from({ length: COUNT }, (_, at) => numberAt(at));
  const halves = Uint16Array.from(new Uint32Array(Float32Array.from(numbers(random)).buffer), (bits) => bits >> 16);

  /** @type {[name: string, elementType: number, data: ArrayBufferView, numberAt: (at: number) => number, quantized: boolean][]} */
  const cases = [
    ['bfloat16', BFLOAT16, halves, random, false],
    ['double', DOUBLE, Float64Array.from(numbers((at) => random(at) / 8)), (at) => random(at) / 8, false],
    ['int16', INT16, Int16Array.from(numbers((at) => 100 * random(at))), (at) => 100 * random(at), true],
    ['uint16', UINT16, Uint16Array.from(numbers((at) => 30000 + random(at))), (at) => 30000 + random(at), true],
    ['int4', INT4, packed(4), part(4, true), true],
    ['uint4', UINT4, packed(4), part(4, false), true],
    ['int2', INT2, packed(2), part(2, true), true],
    ['uint2', UINT2, packed(2), part(2, false), true],
    ['float8e4m3fn', FLOAT8, Uint8Array.from({ length: COUNT }, (_, at) => pattern(at)), (at) => eight(pattern(at)), true],
    ['float4e2m1', FLOAT4, packed(4), (at) => FOURS[random(at) & 15], true],
  ];
  for (const [name, elementType, data, numberAt, isQuantized] of cases) {
    test(name, async () => {
      const dequantized = isQuantized ? [node('DequantizeLinear', ['w', 'scale'], ['v'])] : [node('Identity', ['w'], ['v'])];
      const bytes = writeModel({
        inputs: [value('x', FLOAT, [1, ROWS]), value('row', INT64, [1])],
        outputs: [value('y', FLOAT), value('picked', FLOAT), value('all', FLOAT)],
        weights: [weight('w', [ROWS, COLUMNS], data, elementType), weight('scale', [], Float32Array.of(0.5)), weight('half', [1], Float32Array.of(0.5))],
        // A product packs the constant, a table is read by rows, and a sum in place.
        nodes: [...dequantized, node('MatMul', ['x', 'v'], ['y']), node('Gather', ['v', 'row'], ['picked']), node('Mul', ['v', 'half'], ['all'])],
        opset: 21,
      });
      const model = await loadModel(bytes, { context });
      const x = Float32Array.from({ length: ROWS }, (_, at) => (at % 5) - 2);
      const { y, picked, all } = await model.run({ x, row: BigInt64Array.of(BigInt(ROWS - 1)) });
      model.destroy();
      const scale = isQuantized ? 0.5 : 1;
      const element = (/** @type {number} */ row, /** @type {number} */ column) => scale * numberAt(row * COLUMNS + column);
      const columns = Array.from({ length: COLUMNS }, (_, column) => column);
      // All products and sums are exact in float32.
      assert.deepEqual(
        [...y.data],
        columns.map((column) => x.reduce((sum, factor, row) => sum + factor * element(row, column), 0)),
      );
      assert.deepEqual(
        [...picked.data],
        columns.map((column) => element(ROWS - 1, column)),
      );
      assert.deepEqual(
        [...all.data],
        numbers((at) => 0.5 * scale * numberAt(at)),
      );
    });
  }
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
      [{}, { code: 'ERR_WEBNN_MODEL_INVALID', message: /"weights\/1\.bin": load the model from a path to find it, or pass it as externalData/ }],
      [{ 'weights/2.bin': file }, { code: 'ERR_WEBNN_MODEL_INVALID' }],
      [{ 'weights/1.bin': file.subarray(1) }, { code: 'ERR_WEBNN_MODEL_INVALID', message: /needs 8 bytes at 4, "weights\/1\.bin" has 8/ }],
      [{ 'weights/1.bin': '/no/such/file' }, { code: 'ERR_WEBNN_MODEL_NOT_FOUND', message: /externalData "weights\/1\.bin"/ }],
      [{ 'weights/1.bin': 5 }, { name: 'TypeError', code: 'ERR_WEBNN_TYPE' }],
      ['text', { name: 'TypeError', code: 'ERR_WEBNN_TYPE', message: /externalData is "text", expected an object/ }],
    ];
    for (const [externalData, expected] of cases) {
      await assert.rejects(loadModel(model, { context, externalData }), expected);
    }
  });
});

test('a Buffer is copied like any other view', async () => {
  // Node allocates small Buffers from one block: their memory starts anywhere, and slice() does not copy them.
  const shifted = (/** @type {ArrayBufferView} */ view) => {
    const whole = Buffer.alloc(view.byteLength + 1);
    whole.set(new Uint8Array(view.buffer, view.byteOffset, view.byteLength), 1);
    return whole.subarray(1);
  };
  for (const [type, data] of /** @type {const} */ ([
    [DOUBLE, Float64Array.of(1.5, -2)],
    [INT16, Int16Array.of(-7, 9)],
    [UINT16, Uint16Array.of(7, 65535)],
    [FLOAT, Float32Array.of(0.5, 3)],
    [INT64, BigInt64Array.of(-1n, 5n)],
  ])) {
    const model = await loadModel(identity(type), { context });
    const { y } = await model.run({ x: shifted(data) });
    assert.deepEqual(y.data, data);
    model.destroy();
    const sum = writeModel({
      inputs: [value('x', type, [2]), value('c', type, [2])],
      outputs: [value('y', type, [2])],
      nodes: [node('Where', ['no', 'x', 'c'], ['y'])],
      weights: [weight('no', [1], Uint8Array.of(0), BOOL)],
    });
    for (const bytes of [shifted(data), Buffer.from(data.slice().buffer), new Uint8Array(data.slice().buffer), sharedCopy(data)]) {
      const loading = loadModel(sum, { context, constants: { c: bytes } });
      bytes.fill(0);
      const fixed = await loading;
      assert.deepEqual((await fixed.run({ x: data })).y.data, data, String(bytes.constructor.name));
      fixed.destroy();
    }
  }
});

/** The bytes of `view` in shared memory. */
function sharedCopy(/** @type {ArrayBufferView} */ view) {
  const bytes = new Uint8Array(new SharedArrayBuffer(view.byteLength));
  bytes.set(new Uint8Array(view.buffer, view.byteOffset, view.byteLength));
  return bytes;
}

test('a model without outputs is refused when it is loaded, unless outputs are named', async () => {
  for (const shape of [['n'], [2]]) {
    const bytes = writeModel({ inputs: [value('x', FLOAT, shape)], nodes: [node('Relu', ['x'], ['y'])] });
    await assert.rejects(loadModel(bytes, { context }), { name: 'OnnxError', code: 'ERR_WEBNN_MODEL_INVALID', message: /no outputs.*option outputs/ });
    const model = await loadModel(bytes, { context, outputs: ['y'] });
    assert.deepEqual((await model.run({ x: Float32Array.of(-1, 2) })).y.data, Float32Array.of(0, 2));
    model.destroy();
  }
});

test('sparse initializers are weights, and inside the memory of the file', async () => {
  const sparse = (/** @type {number[]} */ dims) => ({
    values: weight('w', [2], Float32Array.of(5, 7)),
    indices: weight('', [2], BigInt64Array.of(1n, 3n)),
    dims,
  });
  const graph = (/** @type {object} */ tensor) =>
    writeModel({ inputs: [value('x', FLOAT, [1])], outputs: [value('y', FLOAT)], nodes: [node('Add', ['x', 'w'], ['y'])], sparse: [tensor] });
  const model = await loadModel(graph(sparse([2, 2])), { context });
  assert.deepEqual((await model.run({ x: Float32Array.of(1) })).y, { data: Float32Array.of(1, 6, 1, 8), shape: [2, 2], dataType: 'float32' });
  model.destroy();
  await assert.rejects(loadModel(graph(sparse([2 ** 15, 2 ** 15])), { context }), { name: 'OnnxError', message: /too many for a model of this size/ });
  await assert.rejects(loadModel(graph(sparse([3])), { context }), { code: 'ERR_WEBNN_MODEL_INVALID', message: /\[3\] is outside of the shape \[3\]/ });
});
