/** Constants of 4-bit integers: the extension "int4". */

import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { after, describe, test } from 'node:test';
import { generator } from '../lib/random.mjs';
import { typeError } from '../lib/exceptions.mjs';
import { describeGraph } from '../../inspect.js';
import { importModel } from '../../onnx.js';
import { FLOAT, UINT8, node, value, writeModel } from '../onnx/model-writer.mjs';
import { GARBAGE } from '../robustness/random.mjs';
import { checkException } from '../robustness/support.mjs';
import { floats, ml } from '../runtime/helpers.mjs';
import { int4Builder } from './builders.mjs';
import { wrong } from '../lib/types.mjs';

const nibbles = (dataType, ...shape) => ({ dataType, shape });
const float32 = (...shape) => ({ dataType: /** @type {const} */ ('float32'), shape });
const count = (shape) => shape.reduce((a, b) => a * b, 1);
const random = generator(20261124);

/** The bytes of integers, of which the low 4 bits count. */
const packed = (integers) =>
  Uint8Array.from({ length: Math.ceil(integers.length / 2) }, (_, at) => (integers[2 * at] & 15) | ((integers[2 * at + 1] ?? 0) << 4));

/** Random integers of a type. */
const integers = (dataType, shape) => Array.from({ length: count(shape) }, () => random.below(16) - (dataType === 'int4' ? 8 : 0));

/** The outputs of a graph for float32 inputs: all numbers. */
async function run(context, graph, inputs, shapes) {
  const given = {};
  for (const [name, [shape, values]] of Object.entries(inputs)) {
    given[name] = await context.createTensor(floats(...shape));
    context.writeTensor(given[name], Float32Array.from(values));
  }
  const made = {};
  for (const [name, shape] of Object.entries(shapes)) {
    made[name] = await context.createTensor(floats(...shape));
  }
  context.dispatch(graph, given, made);
  const read = {};
  for (const [name, tensor] of Object.entries(made)) {
    read[name] = [...new Float32Array(await context.readTensor(tensor))];
  }
  return read;
}

const close = (got, expected, what) => {
  assert.equal(got.length, expected.length, what);
  expected.forEach((number, at) =>
    assert.ok(Math.abs(got[at] - number) <= 1e-4 * (1 + Math.abs(number)), `${what}: element ${at} is ${got[at]}, expected ${number}`),
  );
};

for (const accelerated of [false, true]) {
  describe(accelerated ? 'on the default device' : 'on the CPU', async () => {
    const context = await ml.createContext({ accelerated, extensions: ['int4'] });
    after(() => context.destroy());

    for (const dataType of ['int4', 'uint4']) {
      test(`${dataType} is dequantized, whatever the shape`, async () => {
        for (const [shape, blocks] of [
          [[], []],
          [[1], [1]],
          [[7], [1]],
          [[7], [7]],
          [
            [3, 5],
            [3, 1],
          ],
          [
            [3, 5],
            [1, 5],
          ],
          [
            [2, 3, 6],
            [2, 1, 3],
          ],
        ]) {
          const builder = int4Builder(context);
          const [numbers, zeros] = [integers(dataType, shape), integers(dataType, blocks)];
          const scales = zeros.map((_, at) => 0.5 + at);
          const y = builder.dequantizeLinear(
            builder.constant(nibbles(dataType, ...shape), packed(numbers)),
            builder.input('scale', float32(...blocks)),
            builder.constant(nibbles(dataType, ...blocks), packed(zeros).buffer),
          );
          assert.deepEqual([y.dataType, ...y.shape], ['float32', ...shape]);
          const expected = numbers.map((number, at) => {
            let [block, stride, rest] = [0, 1, at];
            for (let axis = shape.length - 1; axis >= 0; axis--) {
              block += Math.floor((rest % shape[axis]) / (shape[axis] / blocks[axis])) * stride;
              stride *= blocks[axis];
              rest = Math.floor(rest / shape[axis]);
            }
            return (number - zeros[block]) * scales[block];
          });
          const graph = await builder.build({ y });
          assert.deepEqual((await run(context, graph, { scale: [blocks, scales] }, { y: shape })).y, expected, `[${shape}]`);
        }
      });

      test(`${dataType} weights, in blocks and transposed`, async () => {
        for (const [rows, columns, blocks, size, depth] of /** @type {[number[], number, number, number, number][]} */ ([
          [[1], 5, 2, 16, 32],
          [[2, 3], 8, 2, 16, 27],
          [[4], 3, 1, 5, 5],
          [[1, 2], 33, 4, 32, 128],
        ])) {
          const numbers = integers(dataType, [columns, blocks, size]);
          const zeros = integers(dataType, [columns, blocks]);
          const scales = zeros.map(() => 0.01 + random.next());
          const x = Array.from({ length: count(rows) * depth }, () => random.next() - 0.5);
          const builder = int4Builder(context);
          let weights = builder.dequantizeLinear(
            builder.constant(nibbles(dataType, columns, blocks, size), packed(numbers)),
            builder.reshape(builder.constant(float32(columns * blocks), Float32Array.from(scales)), [columns, blocks, 1]),
            builder.constant(nibbles(dataType, columns, blocks, 1), packed(zeros)),
          );
          weights = builder.reshape(weights, [columns, blocks * size]);
          if (depth < blocks * size) {
            weights = builder.slice(weights, [0, 0], [columns, depth]);
          }
          const y = builder.matmul(builder.input('x', float32(...rows, depth)), builder.transpose(weights));
          const graph = await builder.build({ y });
          const expected = Array.from({ length: count(rows) * columns }, (_, at) => {
            const [row, column] = [Math.floor(at / columns), at % columns];
            let sum = 0;
            for (let k = 0; k < depth; k++) {
              const block = column * blocks + Math.floor(k / size);
              sum += x[row * depth + k] * (numbers[column * blocks * size + k] - zeros[block]) * scales[block];
            }
            return sum;
          });
          const { y: got } = await run(context, graph, { x: [[...rows, depth], x] }, { y: [...rows, columns] });
          close(got, expected, `${columns} columns of ${blocks} blocks of ${size}`);
          if (graph.devices[0] === 'cpu') {
            const kept = describeGraph(graph).compiled.values.filter((other) => other.dataType === dataType);
            assert.ok(kept.length > 0, 'the weights are still packed');
          }
        }
      });
    }

    test('scalars and constant tensors', async () => {
      const builder = int4Builder(context);
      const tensor = await context.createConstantTensor(nibbles('int4', 3), Uint8Array.of(0x9f, 0x07));
      assert.deepEqual([tensor.dataType, tensor.constant, ...tensor.shape], ['int4', true, 3]);
      const constant = builder.constant(tensor);
      assert.deepEqual([constant.dataType, ...constant.shape], ['int4', 3]);
      const scale = builder.constant(float32(1), Float32Array.of(1));
      const y = builder.dequantizeLinear(constant, scale, builder.constant(nibbles('int4', 1), Int8Array.of(0)));
      const scalars = [-3, 99, -99, 7n].map((number) => builder.constant('int4', number));
      assert.deepEqual([scalars[0].dataType, scalars[0].shape.length], ['int4', 0]);
      const sum = scalars
        .map((scalar) => builder.dequantizeLinear(scalar, builder.constant('float32', 1), builder.constant('int4', 0)))
        .map((scalar) => builder.reshape(scalar, [1]));
      const graph = await builder.build({ y, scalars: builder.concat(sum, 0) });
      assert.deepEqual(await run(context, graph, {}, { y: [3], scalars: [4] }), { y: [-1, -7, 7], scalars: [-3, 7, -8, 7] });
      for (const [name, call] of /** @type {[string, () => Promise<unknown>][]} */ ([
        ['readTensor', () => context.readTensor(tensor)],
        ['writeTensor', async () => context.writeTensor(tensor, new Uint8Array(2))],
        ['dispatch', async () => context.dispatch(graph, { x: tensor }, { y: tensor })],
      ])) {
        await assert.rejects(call(), typeError(new RegExp(`^${name}: `)));
      }
      tensor.destroy();
      assert.throws(() => int4Builder(context).constant(tensor), typeError(/destroyed/));
    });

    test('the limits say so', () => {
      const limits = context.opSupportLimits();
      for (const { dataTypes } of [limits.constant, limits.dequantizeLinear.input, limits.dequantizeLinear.zeroPoint]) {
        assert.ok(dataTypes.includes(wrong('int4')) && dataTypes.includes(wrong('uint4')));
      }
      const {
        constant,
        dequantizeLinear: { input, zeroPoint, ...rest },
        ...others
      } = limits;
      assert.doesNotMatch(JSON.stringify([rest, others]), /int4/);
    });
  });
}

describe('what is refused', async () => {
  const context = await ml.createContext({ accelerated: false, extensions: ['int4', 'dynamic-shapes'] });
  const builder = int4Builder(context);
  const constant = builder.constant(nibbles('uint4', 3), Uint8Array.of(1, 2));

  test('buffers of another length or type', async () => {
    for (const [dataType, shape, buffer, pattern] of /** @type {[string, number[], Uint8Array, RegExp][]} */ ([
      ['int4', [3], new Uint8Array(3), /^constant: buffer has 3 bytes, expected the 2 bytes of int4 \[3\]$/],
      ['uint4', [4], new Uint8Array(1), /^constant: buffer has 1 byte, expected the 2 bytes of uint4 \[4\]$/],
      ['uint4', [], new ArrayBuffer(0), /expected the 1 byte of uint4 \[\]$/],
      ['int4', [4], new Uint16Array(1), /^constant: buffer is a Uint16Array, expected a Uint8Array or an Int8Array for int4, or a buffer of bytes$/],
      ['int4', [2 ** 31 - 1, 2 ** 31 - 1], new Uint8Array(1), /^constant: /],
    ])) {
      assert.throws(() => builder.constant(nibbles(dataType, ...shape), buffer), typeError(pattern));
      await assert.rejects(context.createConstantTensor(nibbles(dataType, ...shape), buffer), typeError(/^createConstantTensor: /));
    }
  });

  test('anything but constants', async () => {
    for (const dataType of ['int4', 'uint4']) {
      const refusal = new RegExp(`dataType is "${dataType}", expected one of "float32",.* "uint8"$`);
      assert.throws(() => builder.input('x', nibbles(dataType, 2)), typeError(refusal));
      assert.throws(() => builder.input('x', nibbles(dataType, 'n')), typeError(refusal));
      assert.throws(() => builder.cast(builder.input(`cast to ${dataType}`, float32(2)), wrong(dataType)), typeError(/is "u?int4"/));
      await assert.rejects(context.createTensor(nibbles(dataType, 2)), typeError(refusal));
    }
    for (const other of ['int2', 'Int4', '', null, undefined]) {
      assert.throws(() => builder.constant(nibbles(other, 2), new Uint8Array(1)), typeError(/expected one of "float32",.* "int4", "uint4"$|is required/));
    }
    await assert.rejects(builder.build({ constant }), typeError(/is a constant, use identity/));
  });

  test('operators but dequantizeLinear', () => {
    const scale = builder.constant(float32(1), Float32Array.of(1));
    const zero = builder.constant(nibbles('uint4', 1), Uint8Array.of(0));
    assert.equal(builder.dequantizeLinear(constant, scale, zero).dataType, 'float32');
    const signed = builder.constant(nibbles('int4', 1), Uint8Array.of(0));
    assert.throws(() => builder.dequantizeLinear(constant, scale, signed), typeError(/zeroPoint has data type int4, expected uint4/));
    assert.throws(() => builder.dequantizeLinear(constant, zero, zero), typeError(/scale has data type uint4/));
    const { operators } = createRequire(import.meta.url)('../../lib/operators.js');
    for (const { name, arguments: parameters } of operators.filter(({ name }) => name !== 'dequantizeLinear')) {
      const argument = (type) =>
        ({ MLOperand: constant, 'sequence<MLOperand>': [constant], MLOperandDataType: 'uint8' })[type] ??
        (type.startsWith('sequence') || type.startsWith('(') ? [1] : 1);
      assert.throws(() => builder[name](...parameters.map(({ type }) => argument(type))), TypeError, name);
    }
  });

  test('bindings of models', () => {
    for (const type of [FLOAT, UINT8, 21]) {
      const model = writeModel({
        inputs: [value('in', type, [3])],
        outputs: [value('out', type)],
        nodes: [node('Identity', ['in'], ['out'])],
      });
      assert.throws(() => importModel(builder, model, { in: constant }), { name: /Error/, message: /['"]in['"] is of type uint4/ });
    }
  });

  test('garbage', () => {
    for (const [at, make] of GARBAGE.entries()) {
      for (const call of [
        () => builder.constant(nibbles(make(), 2), new Uint8Array(1)),
        () => builder.constant(nibbles('int4', make()), new Uint8Array(1)),
        () => builder.constant(nibbles('int4', 2), make()),
        () => builder.constant('uint4', make()),
      ]) {
        try {
          call();
        } catch (error) {
          checkException(error, `garbage ${at}`);
        }
      }
    }
  });
});

test('without the extension the draft is kept to the letter', async () => {
  for (const extensions of /** @type {import('../../index.js').MLContextOptions['extensions'][]} */ ([undefined, [], ['dynamic-shapes']])) {
    const plain = await ml.createContext({ accelerated: false, extensions });
    const builder = int4Builder(plain);
    for (const dataType of ['int4', 'uint4']) {
      const refusal = new RegExp(`is "${dataType}", expected one of "float32",.* "uint8"$`);
      assert.throws(() => builder.constant(nibbles(dataType, 2), new Uint8Array(1)), typeError(refusal));
      assert.throws(() => builder.constant(wrong(dataType), 1), typeError(refusal));
      await assert.rejects(plain.createConstantTensor(nibbles(dataType, 2), new Uint8Array(1)), typeError(refusal));
    }
    assert.doesNotMatch(JSON.stringify(plain.opSupportLimits()), /int4/);
  }
});

test('contexts of auto have it, also with other extensions', async () => {
  await import('../../auto.js');
  for (const options of /** @type {(import('../../index.js').MLContextOptions | undefined)[]} */ ([
    undefined,
    { accelerated: false },
    { accelerated: false, extensions: ['dynamic-shapes', 'int4'] },
  ])) {
    const context = await globalThis.navigator.ml.createContext(options);
    const builder = int4Builder(context);
    assert.equal(builder.constant(nibbles('int4', 2), new Uint8Array(1)).dataType, 'int4');
    if (options?.extensions !== undefined) {
      assert.deepEqual(builder.input('x', float32('n')).shape, ['n']);
    }
    context.destroy();
  }
});

test('beside named dimensions', async () => {
  const context = await ml.createContext({ accelerated: false, extensions: ['dynamic-shapes', 'int4'] });
  const builder = int4Builder(context);
  const numbers = integers('int4', [4, 16]);
  const weights = builder.dequantizeLinear(
    builder.constant(nibbles('int4', 4, 16), packed(numbers)),
    builder.constant(float32(4, 1), new Float32Array(4).fill(1)),
    builder.constant(nibbles('int4', 4, 1), new Uint8Array(2)),
  );
  const graph = await builder.build({ y: builder.matmul(builder.input('x', float32('batch', 'rows', 16)), builder.transpose(weights)) });
  for (const [batch, rows] of [
    [1, 1],
    [2, 3],
    [1, 5],
  ]) {
    const ones = new Array(batch * rows * 16).fill(1);
    const { y } = await run(context, graph, { x: [[batch, rows, 16], ones] }, { y: [batch, rows, 4] });
    const sums = [0, 1, 2, 3].map((column) => numbers.slice(16 * column, 16 * column + 16).reduce((a, b) => a + b));
    close(
      y,
      Array.from({ length: batch * rows * 4 }, (_, at) => sums[at % 4]),
      `${batch} ${rows}`,
    );
  }
});
