import assert from 'node:assert/strict';
import { test } from 'node:test';

import { exception, invalidState, rejects, typeError } from '../lib/exceptions.mjs';
import { newBuilder, recording, recordingNumber, require, webnn } from './helpers.mjs';

const { ml, MLGraph, MLGraphBuilder, MLOperand } = webnn();
const { dictionaries, operators } = require('../../lib/operators.js');

const DESCRIPTOR = { dataType: 'float32', shape: [2, 3] };

test('input converts name and descriptor', async () => {
  const { builder } = await newBuilder();
  const log = [];
  const name = {
    toString() {
      log.push('name');
      return 'x';
    },
  };
  const operand = builder.input(name, recording(log, { dataType: 'int8', shape: new Set([recordingNumber(log, 'dimension', 4)]) }));
  assert.deepEqual(log, ['name', 'dataType', 'shape', 'dimension']);
  assert.ok(operand instanceof MLOperand);
  assert.equal(operand.dataType, 'int8');
  assert.deepEqual(operand.shape, [4]);
  assert.deepEqual(builder.input('scalar', { dataType: 'uint64', shape: [] }).shape, []);
});

test('input checks its name', async () => {
  const { builder } = await newBuilder();
  assert.throws(() => builder.input('', DESCRIPTOR), typeError(/^input: name is empty$/));
  assert.throws(() => builder.input('a', DESCRIPTOR), typeError(/^input: there is already an input with the name "a"$/));
  assert.throws(() => builder.input(Symbol('s'), DESCRIPTOR), typeError(/^input: name is a symbol/));
  builder.input('\uD800', DESCRIPTOR);
  assert.throws(() => builder.input('\uFFFD', DESCRIPTOR), typeError(/already/));
  // A failed input leaves its name free.
  assert.throws(() => builder.input('c', { dataType: 'float32', shape: [0] }), TypeError);
  builder.input('c', DESCRIPTOR);
  // Names that mean something to objects are ordinary.
  const names = ['__proto__', 'constructor', 'toString'];
  names.forEach((name) => builder.input(name, DESCRIPTOR));
});

test('shapes are copied', async () => {
  const { builder } = await newBuilder();
  const shape = [2, 3];
  const operand = builder.input('x', { dataType: 'float32', shape });
  shape[0] = 9;
  assert.deepEqual(operand.shape, [2, 3]);
  assert.ok(!Object.isFrozen(shape));
});

test('constant tells its overloads apart', async () => {
  const { context, builder } = await newBuilder();
  const data = new Float32Array(6);
  const tensor = await context.createConstantTensor(DESCRIPTOR, data);

  assert.deepEqual(builder.constant(DESCRIPTOR, data).shape, [2, 3]);
  assert.deepEqual(
    builder.constant(
      Object.assign(() => {}, DESCRIPTOR),
      data,
    ).shape,
    [2, 3],
  );
  assert.deepEqual(builder.constant('int64', 5n).shape, []);
  assert.equal(builder.constant('int64', 5n).dataType, 'int64');
  assert.equal(builder.constant(tensor).dataType, 'float32');
  assert.deepEqual(builder.constant(tensor).shape, [2, 3]);

  assert.throws(() => builder.constant(DESCRIPTOR), typeError(/^constant: tensor is an object, expected an MLTensor$/));
  assert.throws(() => builder.constant('float32'), typeError(/^constant: tensor is "float32", expected an MLTensor$/));
  assert.throws(() => builder.constant(undefined, 1), typeError(/^constant: descriptor\.dataType is required$/));
  assert.throws(() => builder.constant(null, 1), typeError(/^constant: descriptor\.dataType is required$/));
  // With two arguments a tensor is read as a descriptor, like any object with these members.
  assert.deepEqual(builder.constant(tensor, data).shape, [2, 3]);
  assert.throws(() => builder.constant('float64', 1), typeError(/^constant: dataType is "float64"/));
  assert.throws(() => builder.constant(1, 1), typeError(/^constant: dataType is "1"/));
  assert.throws(() => builder.constant(Symbol('s'), 1), TypeError);
  assert.throws(() => builder.constant(DESCRIPTOR, undefined), typeError(/^constant: buffer is undefined/));
  assert.throws(() => builder.constant(DESCRIPTOR, [1, 2, 3, 4, 5, 6]), typeError(/^constant: buffer is an array, expected a typed array/));
});

test('scalar constants take numbers and bigints for every data type', async () => {
  const { builder } = await newBuilder();
  for (const dataType of ['float32', 'float16', 'int32', 'uint32', 'int64', 'uint64', 'int8', 'uint8']) {
    for (const value of [0, -0, 1.5, -1, NaN, Infinity, 2n ** 63n, -1n, '3', true, { valueOf: () => 4n }]) {
      assert.equal(builder.constant(dataType, value).dataType, dataType);
    }
  }
  assert.throws(() => builder.constant('float32', Symbol('s')), typeError(/^constant: value is a symbol, expected a number or bigint$/));
});

test('scalar constants are rounded once', async () => {
  const { context, builder } = await newBuilder();
  const cases = {
    half: ['float16', 1 + 2 ** -11 + 2 ** -40, [0x3c01]],
    integer: ['float32', 2n ** 60n + 2n ** 36n + 1n, [2 ** 60 + 2 ** 37]],
    long: ['float32', 2n ** 127n + 2n ** 103n + 1n, [2 ** 127 + 2 ** 104]],
    large: ['float32', 2n ** 128n, [Infinity]],
    small: ['float32', -(2n ** 5000n), [-Infinity]],
  };
  const outputs = {};
  const tensors = {};
  for (const [name, [dataType, value]] of Object.entries(cases)) {
    outputs[name] = builder.identity(builder.constant(dataType, value));
    tensors[name] = await context.createTensor({ dataType, shape: [], readable: true });
  }
  context.dispatch(await builder.build(outputs), {}, tensors);
  for (const [name, [dataType, , expected]] of Object.entries(cases)) {
    const bytes = await context.readTensor(tensors[name]);
    const View = dataType === 'float16' ? Uint16Array : Float32Array;
    assert.deepEqual([...new View(bytes)], expected, name);
  }
});

test('groups that convTranspose2d accepts and that do not exist are an error of build', async () => {
  const { builder } = await newBuilder();
  const input = builder.input('input', { dataType: 'float32', shape: [1, 1, 5, 5] });
  const filter = builder.input('filter', { dataType: 'float32', shape: [1, 1, 3, 3] });
  assert.throws(
    () => builder.convTranspose2d(input, filter, { groups: 0, label: 'up' }),
    typeError(/^\[up\] convTranspose2d: groups is 0, expected a number above 0$/),
  );
  const y = builder.convTranspose2d(input, filter, { groups: 3, label: 'up' });
  assert.deepEqual(y.shape, [1, 3, 7, 7]);
  await rejects(
    () => builder.build({ y }),
    (error) => {
      assert.match(error.message, /^build: \[up\] convTranspose2d: groups is 3, expected a divisor of 1 input channels$/);
      return exception('OperationError')(error);
    },
  );
});

test('constant copies the buffer', async () => {
  const { context, builder } = await newBuilder();
  const data = new Float32Array(6).fill(3);
  const constant = builder.constant(DESCRIPTOR, data);
  data.fill(0);
  const graph = await builder.build({ y: builder.identity(constant) });
  const y = await context.createTensor({ ...DESCRIPTOR, readable: true });
  context.dispatch(graph, {}, { y });
  assert.equal((await context.readTensor(y)).byteLength, 24);
});

test('constant of a tensor checks the tensor before the builder', async () => {
  const { context, builder, a } = await newBuilder();
  const constant = await context.createConstantTensor(DESCRIPTOR, new Float32Array(6));
  const plain = await context.createTensor(DESCRIPTOR);
  const foreign = await (await ml.createContext()).createConstantTensor(DESCRIPTOR, new Float32Array(6));
  const destroyed = await context.createConstantTensor(DESCRIPTOR, new Float32Array(6));
  destroyed.destroy();
  const bad = [
    [foreign, /another context/],
    [destroyed, /destroyed/],
    [plain, /not a constant tensor/],
  ];
  for (const [tensor, pattern] of bad) {
    assert.throws(() => builder.constant(tensor), typeError(pattern));
  }
  await builder.build({ y: builder.relu(a) });
  for (const [tensor, pattern] of bad) {
    assert.throws(() => builder.constant(tensor), typeError(pattern));
  }
  assert.throws(() => builder.constant(constant), invalidState);
});

test('operators read the members of their options in order', async () => {
  for (const { name, options, arguments: parameters } of operators) {
    const { builder, a } = await newBuilder();
    const log = [];
    const stop = new Error('conversion is complete');
    const members = dictionaries[options].map((member) => member.name);
    const last = members.at(-1);
    const source = {};
    for (const member of members) {
      Object.defineProperty(source, member, {
        get() {
          log.push(member);
          if (member === last) {
            throw stop;
          }
          return undefined;
        },
      });
    }
    const args = parameters.map(({ type }) => {
      if (type === 'MLOperand') return a;
      if (type === 'sequence<MLOperand>') return [a];
      if (type === 'MLOperandDataType') return 'float16';
      return type.startsWith('sequence') ? [1, 1] : 0;
    });
    assert.throws(
      () => builder[name](...args, source),
      (error) => error === stop,
      name,
    );
    assert.deepEqual(log, members, name);
  }
});

test('operators convert arguments from left to right, then options, then look at the builder', async () => {
  const { builder, a } = await newBuilder();
  const log = [];
  const axis = recordingNumber(log, 'axis', 1);
  assert.throws(() => builder.softmax({}, axis), typeError(/^softmax: input is an object, expected an MLOperand$/));
  assert.deepEqual(log, []);
  assert.throws(() => builder.softmax(a, axis, 1), typeError(/^softmax: options is 1, expected an object$/));
  assert.deepEqual(log, ['axis']);
  await builder.build({ y: builder.relu(a) });
  assert.throws(() => builder.softmax(a, axis, recording(log, {})), invalidState);
  assert.deepEqual(log, ['axis', 'axis', 'label']);
  assert.throws(() => builder.softmax(a, -1), typeError(/^softmax: axis is -1/));
});

test('operands are checked by brand and builder, wherever they stand', async () => {
  const { context, builder, a, b } = await newBuilder();
  const foreign = new MLGraphBuilder(context).input('x', DESCRIPTOR);
  assert.throws(() => builder.add(a, foreign), typeError(/^add: b belongs to another builder$/));
  assert.throws(() => builder.add(a, foreign, { label: 'sum' }), typeError(/^\[sum\] add: b belongs to another builder$/));
  assert.throws(() => builder.concat([a, foreign], 0), typeError(/^concat: inputs\[1\] belongs to another builder$/));
  assert.throws(() => builder.concat([a, {}], 0), typeError(/^concat: inputs\[1\] is an object, expected an MLOperand$/));
  assert.throws(() => builder.concat(a, 0), typeError(/^concat: inputs is an object, expected an iterable object$/));
  assert.throws(() => builder.gemm(a, b, { c: foreign }), typeError(/^gemm: c belongs to another builder$/));
  assert.throws(() => builder.gemm(a, b, { c: null }), typeError(/^gemm: options\.c is null, expected an MLOperand$/));
  for (const bad of [undefined, null, 1, {}, Object.create(a), new Proxy(a, {})]) {
    assert.throws(() => builder.relu(bad), typeError(/^relu: input is .*, expected an MLOperand$/));
  }
});

test('messages carry the sanitized label', async () => {
  const { builder } = await newBuilder();
  const indices = builder.input('indices', { dataType: 'int32', shape: [1] });
  assert.throws(() => builder.sigmoid(indices, { label: 'ev\u202Eil\n' }), typeError(/^\[evil\] sigmoid: /));
  assert.throws(() => builder.softmax(indices, 0), typeError(/^softmax: /));
  assert.throws(() => builder.relu(indices, { label: Symbol('s') }), typeError(/^relu: options\.label is a symbol/));
});

test('conversions of operator arguments follow their types', async () => {
  const { builder, a } = await newBuilder();
  assert.deepEqual(builder.reshape(a, new Uint8Array([3, 2])).shape, [3, 2]);
  assert.deepEqual(builder.reshape(a, ['6', { valueOf: () => 1.9 }]).shape, [6, 1]);
  assert.throws(() => builder.reshape(a, [6, -1]), typeError(/^reshape: newShape\[1\] is -1/));
  assert.throws(() => builder.reshape(a, 6), typeError(/^reshape: newShape is 6, expected an iterable object/));
  assert.equal(builder.cast(a, 'int8').dataType, 'int8');
  assert.throws(() => builder.cast(a, 'double'), typeError(/^cast: dataType is "double", expected one of/));
  assert.throws(() => builder.elu(a, { alpha: NaN }), typeError(/^elu: options\.alpha is NaN, expected a finite number/));
  assert.throws(() => builder.elu(a, { alpha: 1n }), typeError(/^elu: options\.alpha is 1n/));
  assert.throws(() => builder.resample2d(a, { scales: [1, 1e40] }), typeError(/^resample2d: options\.scales\[1\] is/));
  assert.throws(() => builder.triangular(a, { diagonal: 2 ** 31 }), typeError(/^triangular: options\.diagonal is/));
  assert.throws(() => builder.pad(a, [0, 0], [0, 0], { mode: 'wrap' }), typeError(/^pad: options\.mode is "wrap"/));
  assert.throws(() => builder.clamp(a, { minValue: Symbol('s') }), typeError(/^clamp: options\.minValue is a symbol/));
  assert.deepEqual(builder.clamp(a, { minValue: 0n, maxValue: Infinity }).shape, [2, 3]);
  assert.deepEqual(builder.triangular(a, { upper: 0, diagonal: -1.5 }).shape, [2, 3]);
});

test('split takes a count or sizes and returns an array', async () => {
  const { builder, a } = await newBuilder();
  for (const splits of [2, '2', [1, 1], new Set([1])]) {
    const parts = splits instanceof Set ? builder.split(a, [1, 1]) : builder.split(a, splits);
    assert.ok(Array.isArray(parts));
    assert.deepEqual(
      parts.map((part) => part.shape),
      [
        [1, 3],
        [1, 3],
      ],
    );
    assert.ok(parts.every((part) => part instanceof MLOperand));
  }
  assert.throws(() => builder.split(a, -1), typeError(/^split: splits is -1/));
  assert.throws(() => builder.split(a, [-1]), typeError(/^split: splits\[0\] is -1/));
});

test('missing options are the same as empty ones', async () => {
  const { builder, a } = await newBuilder();
  for (const options of [undefined, null, {}, () => {}]) {
    assert.deepEqual(builder.relu(a, options).shape, [2, 3]);
  }
  for (const options of [1, 'label', false, 1n]) {
    assert.throws(() => builder.relu(a, options), typeError(/^relu: options is .*, expected an object$/));
  }
});

test('properties added to Object.prototype are read as members only where Web IDL reads them', async () => {
  const { builder, a } = await newBuilder();
  const prototype = /** @type {any} */ (Object.prototype);
  prototype.zeroPoint = 'polluted';
  try {
    assert.deepEqual(builder.relu(a).shape, [2, 3]);
  } finally {
    delete prototype.zeroPoint;
  }
});

test('build resolves with a graph, once', async () => {
  const { builder, a } = await newBuilder();
  const y = builder.relu(a);
  const promise = builder.build({ y });
  assert.throws(() => builder.relu(a), invalidState);
  assert.throws(() => builder.input('late', DESCRIPTOR), invalidState);
  assert.throws(() => builder.constant('float32', 1), invalidState);
  assert.throws(() => builder.constant(DESCRIPTOR, new Float32Array(6)), invalidState);
  await rejects(() => builder.build({ y }), invalidState);
  await rejects(() => builder.build({}), invalidState);
  assert.ok((await promise) instanceof MLGraph);
  assert.deepEqual(y.shape, [2, 3]);
});

test('build checks its outputs and leaves the builder usable', async () => {
  const { context, builder, a } = await newBuilder();
  const y = builder.relu(a);
  const foreign = new MLGraphBuilder(context);
  const foreignOutput = foreign.relu(foreign.input('x', DESCRIPTOR));
  const constant = builder.constant('float32', 1);
  const tensorConstant = builder.constant(await context.createConstantTensor(DESCRIPTOR, new Float32Array(6)));
  for (const [outputs, pattern] of /** @type {[unknown, RegExp][]} */ ([
    [undefined, /^build: outputs is undefined, expected an object$/],
    ['y', /^build: outputs is "y", expected an object$/],
    [{}, /^build: outputs is empty$/],
    [[], /^build: outputs is empty$/],
    [{ '': y }, /^build: outputs has an empty name$/],
    [{ y: {} }, /^build: outputs\["y"\] is an object, expected an MLOperand$/],
    [{ y: undefined }, /^build: outputs\["y"\] is undefined/],
    [{ y: foreignOutput }, /^build: output "y" belongs to another builder$/],
    [{ y, a }, /^build: output "a" is an input/],
    [{ y: constant }, /^build: output "y" is a constant/],
    [{ y: tensorConstant }, /^build: output "y" is a constant/],
    [{ [Symbol('s')]: y }, /symbol/],
  ])) {
    await rejects(() => builder.build(outputs), typeError(pattern));
  }
  assert.ok((await builder.build({ y })) instanceof MLGraph);
});

test('names of outputs lose lone surrogates', async () => {
  const { context, builder, a } = await newBuilder();
  const graph = await builder.build({
    '\uD800': builder.relu(a),
    '\uDFFF': builder.tanh(a),
    ['__proto__']: builder.abs(a),
  });
  const [ta, t1, t2] = await Promise.all([0, 1, 2].map(() => context.createTensor(DESCRIPTOR)));
  context.dispatch(graph, { a: ta }, { '\uFFFD': t1, ['__proto__']: t2 });
});
