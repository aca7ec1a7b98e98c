import assert from 'node:assert/strict';
import test, { describe } from 'node:test';
import { exception } from '../../../__test__/lib/exceptions.mjs';
import { draft2021 } from './helpers.mjs';

describe('what cannot be built', () => {
  const newBuilder = () => new draft2021.MLGraphBuilder(draft2021.ml.createContext());
  const refuses = (call, message) => {
    const builder = newBuilder();
    const x = builder.input('x', { type: 'float32', dimensions: [2, 3] });
    assert.throws(() => call(builder, x), { name: 'TypeError', message });
  };

  test('is told by the method, with what came and what was expected', () => {
    refuses((b, x) => b.reshape(x, [4, -1]), /reshape: newShape is \[4, -1\], expected one for the 6 elements of \[2, 3\]/);
    refuses((b, x) => b.reshape(x, [-1, null]), /newShape is \[-1, null\], expected at most one -1 or null/);
    refuses((b, x) => b.squeeze(x, { axes: [-1] }), /squeeze: dimension 1 of \[2, 3\] has size 3, expected 1/);
    refuses((b, x) => b.reduceSum(x, { axes: [-3] }), /reduceSum: options.axes\[0\] is -3, expected -2 to 1/);
    refuses((b, x) => b.reduceSum(x, { axes: [1, -1] }), /options.axes is \[1, -1\], expected no axis twice/);
    refuses((b, x) => b.slice(x, [0, 2], [2, 2]), /slice: start 2 and size 2 do not fit dimension 1 of \[2, 3\]/);
    refuses((b, x) => b.slice(x, [0], [2]), /slice: 1 starts and 1 sizes, expected 2 of each/);
    refuses((b, x) => b.softmax(b.reshape(x, [6])), /softmax: x has shape \[6\], expected a matrix/);
    refuses(
      (b, x) => b.clamp(x, { minValue: b.constant({ type: 'float32', dimensions: [4, 1, 1] }, new Float32Array(4)) }),
      /clamp: the limits broadcast \[2, 3\] to \[4, 2, 3\]/,
    );
    refuses((b, x) => b.matmul(x, x), /matmul/);
    refuses((b, x) => b.add(x, b.constant(1, 'int32')), /add/);
    refuses((b, x) => b.split(x, 2, { axis: -1 }), /split/);
    refuses((b, x) => b.concat([x, x], 2), /concat: axis is 2, expected -2 to 1/);
    refuses((b) => b.concat([], 0), /concat: inputs is empty/);
    refuses((b, x) => b.resample(x), /resample: input has shape \[2, 3\], expected rank 4/);
    refuses((b, x) => b.resample(b.reshape(x, [1, 1, 2, 3]), { scales: [1, 0, 1, 1] }), /options.scales is \[1, 0, 1, 1\], expected four numbers above 0/);
    refuses((b, x) => b.conv2d(x, x), /conv2d: input has shape \[2, 3\], expected rank 4/);
    refuses(
      (b, x) => b.conv2d(b.reshape(x, [1, 1, 2, 3]), b.reshape(x, [1, 1, 2, 3]), { autoPad: 'same-upper', strides: [0, 1] }),
      /options.strides is \[0, 1\]/,
    );
    refuses(
      (b, x) => b.conv2d(b.reshape(x, [1, 1, 2, 3]), b.reshape(x, [1, 1, 2, 3]), { transpose: true, groups: 2 }),
      /options.groups is 2, expected a divisor of the 1 output channels/,
    );
    refuses((b) => b.relu(newBuilder().constant(1)), /relu: x belongs to another builder/);
    refuses((b, x) => b.concat([x, newBuilder().constant(1)], 0), /concat: inputs\[1\] belongs to another builder/);
    refuses((b, x) => b.gemm(x, x, { bTranspose: true, c: newBuilder().constant(1) }), /gemm: options.c belongs to another builder/);
    refuses((b, x) => b.build({ y: b.add(x, b.input('x', { type: 'float32' })) }), /build: two inputs of the graph have the name "x"/);
    refuses((b) => b.input('y', { dimensions: [1] }), /input: desc.type is required/);
    refuses((b) => b.constant({ type: 'float32', dimensions: [2] }, new Int32Array(2)), /bufferView is an Int32Array, expected a Float32Array for float32/);
    refuses((b) => b.constant({ type: 'float32', dimensions: [2] }, new Float32Array(3)), /bufferView has 3 elements, expected those of \[2\]/);
    refuses((b) => b.constant({ type: 'float32', dimensions: [-1, -1] }, new Float32Array(1)), /expected those of \[-1, -1\]/);
    refuses((b) => b.constant({ type: 'float32', dimensions: [2] }, new Float32Array(new SharedArrayBuffer(8))), /SharedArrayBuffer/);
    refuses((b) => b.constant({ type: 'float32', dimensions: [2] }, new ArrayBuffer(8)), /not an ArrayBufferView/);
    refuses((b) => b.constant(NaN), /constant: value is NaN, expected a finite number/);
    refuses((b) => b.build({}), /build: outputs is empty/);
    refuses((b) => b.build({ y: newBuilder().constant(1) }), /build: output "y" belongs to another builder/);
  });

  test('outputs of unknown shapes are counted before they are made', () => {
    const builder = newBuilder();
    const x = builder.input('x', { type: 'float32', dimensions: [-1] });
    assert.equal(builder.split(x, 8192).length, 8192);
    for (const [splits, count] of [
      [0, 0],
      [[], 0],
      [8193, 8193],
      [2 ** 32 - 1, 2 ** 32 - 1],
    ]) {
      const message = `split: splits asks for ${count} outputs, expected 1 to 8192`;
      assert.throws(() => builder.split(x, splits), { name: 'TypeError', message });
    }
  });

  test('padding is a constant of whole numbers, one pair for each dimension', () => {
    const padding = (b, values, dimensions = [2, 2]) => b.constant({ type: 'float32', dimensions }, Float32Array.from(values));
    refuses((b, x) => b.pad(x, padding(b, [1, 1], [1, 2])), /pad: padding has shape \[1, 2\], expected \[2, 2\]/);
    refuses((b, x) => b.pad(x, padding(b, [1, 1, 0.5, 1])), /padding holds 0.5, expected integers of at least 0/);
    refuses((b, x) => b.pad(x, padding(b, [1, 1, -1, 1])), /padding holds -1/);
    refuses((b, x) => b.pad(x, padding(b, [3, 0, 0, 0]), { mode: 'symmetric' }), /pad: padding of 3 and 0 in dimension 0 of \[2, 3\], expected at most 2/);
    const builder = newBuilder();
    const x = builder.input('x', { type: 'float32', dimensions: [2, 2] });
    assert.throws(() => builder.pad(x, x), exception('NotSupportedError', /padding is not a constant/));
  });

  test('a refused operator leaves the builder as it was', () => {
    const builder = newBuilder();
    const x = builder.input('x', { type: 'float32', dimensions: [2] });
    assert.throws(() => builder.reshape(x, [3]), TypeError);
    const y = new Float32Array(2);
    builder.build({ y: builder.neg(x) }).compute({ x: Float32Array.of(1, 2) }, { y });
    assert.deepEqual([...y], [-1, -2]);
  });
});
