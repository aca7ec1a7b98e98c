// Resize of integers: how values between them become integers.

import assert from 'node:assert/strict';
import test, { after, before } from 'node:test';
import { ml } from '../../index.js';
import { loadModel } from '../../onnx.js';
import { INT8, INT32, node, UINT8, value, weight, writeModel } from './model-writer.mjs';

let context;
before(async () => {
  context = await ml.createContext();
});
after(() => context.destroy());

const mode = (name) => ({ s: new TextEncoder().encode(name) });
const ANTIALIAS = { i: 1 };

async function resized(type, data, shape, sizes, attributes) {
  const model = await loadModel(
    writeModel({
      inputs: [value('x', type, ['h', 'w'])],
      outputs: [value('y', type, ['k', 'l'])],
      weights: [weight('sizes', [2], BigInt64Array.from(sizes.map(BigInt)))],
      nodes: [node('Resize', ['x', '', '', 'sizes'], ['y'], { mode: mode('linear'), ...attributes })],
      opset: 18,
    }),
    { context },
  );
  try {
    const { y } = await model.run({ x: { data, shape } });
    return [...y.data];
  } finally {
    model.destroy();
  }
}

test('antialiasing rounds bytes after each dimension, the last one first', async () => {
  const antialias = { antialias: ANTIALIAS };
  assert.deepEqual(await resized(UINT8, Uint8Array.of(0, 1), [1, 2], [1, 1], antialias), [1], 'one half rounds up');
  assert.deepEqual(await resized(UINT8, Uint8Array.of(0, 1, 0, 0), [2, 2], [1, 1], antialias), [1], 'twice');
  assert.deepEqual(await resized(UINT8, Uint8Array.of(0, 0, 1), [1, 3], [1, 1], antialias), [0]);
  assert.deepEqual(await resized(INT8, Int8Array.of(-3, -4), [1, 2], [1, 1], antialias), [-3]);
  assert.deepEqual(await resized(INT32, Int32Array.of(-3, -4, 1000, 1001), [2, 2], [2, 1], antialias), [-4, 1001]);
  const cubic = { mode: mode('cubic'), antialias: ANTIALIAS };
  assert.deepEqual(await resized(UINT8, Uint8Array.of(0, 255), [1, 2], [1, 4], cubic), [0, 58, 197, 255], 'within the range');
});

test('without antialiasing, the fraction is dropped', async () => {
  assert.deepEqual(await resized(UINT8, Uint8Array.of(0, 3), [1, 2], [1, 4], {}), [0, 0, 2, 3]);
  assert.deepEqual(await resized(INT8, Int8Array.of(0, -3), [1, 2], [1, 4], {}), [0, 0, -2, -3]);
  assert.deepEqual(await resized(INT32, Int32Array.of(0, -3), [1, 2], [1, 4], {}), [0, 0, -2, -3]);
});

test('large dimensions are resized in blocks of places, whose edges show nowhere', async () => {
  const ramp = Int32Array.from({ length: 768 }, (_, i) => 8 * i);
  const antialias = { antialias: ANTIALIAS };
  // Of a ramp, all places but those at the ends are at every third element.
  const expected = Array.from({ length: 254 }, (_, i) => 24 * (i + 1) + 8);
  assert.deepEqual((await resized(INT32, ramp, [1, 768], [1, 256], antialias)).slice(1, -1), expected);
  assert.deepEqual((await resized(INT32, ramp, [768, 1], [256, 1], antialias)).slice(1, -1), expected);
});
