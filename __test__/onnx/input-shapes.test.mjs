// inputShapes(): what follows for the inputs of a model from what is known of some.

import assert from 'node:assert/strict';
import test from 'node:test';
import { inputShapes } from 'webnn-node/onnx';
import { wrong } from '../lib/types.mjs';

const INPUTS = [
  { name: 'ids', shape: ['batch', 'sequence'] },
  { name: 'mask', shape: ['batch', 'sequence'] },
  { name: 'scale', shape: [2] },
  { name: 'any', shape: null },
];

test('nothing follows from nothing', () => {
  const { shapes, freeDimensions } = inputShapes(INPUTS);
  assert.deepEqual(shapes, { ids: ['batch', 'sequence'], mask: ['batch', 'sequence'], scale: [2], any: null });
  assert.deepEqual(freeDimensions, {});
});

test('dimensions of one name have one size', () => {
  const { shapes, freeDimensions } = inputShapes(INPUTS, { freeDimensions: { batch: 3 }, shapes: { mask: [3, 7], any: [1] } });
  assert.deepEqual(shapes, { ids: [3, 7], mask: [3, 7], scale: [2], any: [1] });
  assert.deepEqual(freeDimensions, { batch: 3, sequence: 7 });
});

test('from a number of elements follows one size, not two', () => {
  const { shapes, freeDimensions } = inputShapes(INPUTS, { freeDimensions: { batch: 3 }, elements: { ids: 12 } });
  assert.deepEqual([shapes.mask, freeDimensions], [[3, 4], { batch: 3, sequence: 4 }]);
  assert.deepEqual(inputShapes(INPUTS, { elements: { ids: 12 } }).shapes.ids, ['batch', 'sequence']);
});

test('names that JavaScript has a meaning for are names', () => {
  const inputs = [{ name: '__proto__', shape: ['constructor'] }];
  const { shapes, freeDimensions } = inputShapes(inputs, { shapes: JSON.parse('{"__proto__": [5]}') });
  assert.deepEqual(Object.entries(shapes), [['__proto__', [5]]]);
  assert.deepEqual(Object.entries(freeDimensions), [['constructor', 5]]);
});

test('what does not fit is an error that says where', () => {
  for (const [known, code, message] of /** @type {[any, string, RegExp][]} */ ([
    [{ shapes: { ids: [1] } }, 'ERR_WEBNN_SHAPE', /"ids"/],
    [{ shapes: { ids: [1, 2], mask: [1, 3] } }, 'ERR_WEBNN_SHAPE', /"mask"/],
    [{ shapes: { scale: [3] } }, 'ERR_WEBNN_SHAPE', /"scale"/],
    [{ freeDimensions: { batch: 5 }, elements: { ids: 12 } }, 'ERR_WEBNN_SHAPE', /"ids"/],
    [{ shapes: { other: [1] } }, 'ERR_WEBNN_UNKNOWN_FEED', /shapes has "other", the inputs are "ids", "mask", "scale", "any"/],
    [{ elements: { other: 1 } }, 'ERR_WEBNN_UNKNOWN_FEED', /elements has "other"/],
    [{ sizes: {} }, 'ERR_WEBNN_UNKNOWN_OPTION', /there is no option "sizes"/],
  ])) {
    assert.throws(() => inputShapes(INPUTS, known), { code, message }, JSON.stringify(known));
  }
});

test('hostile values are errors of their type', () => {
  /** @type {any[]} */
  const values = [
    null,
    1,
    'text',
    Symbol('s'),
    10n,
    () => {},
    {
      get name() {
        return 1n;
      },
    },
  ];
  for (const value of values) {
    for (const call of [
      () => inputShapes(value),
      () => inputShapes([{ name: 'x', shape: value }]),
      () =>
        inputShapes([
          { name: 'x', shape: [value] },
          { name: wrong(Symbol('s')), shape: [] },
        ]),
      () => inputShapes(INPUTS, { shapes: { ids: value } }),
      () => inputShapes(INPUTS, { shapes: { ids: [value, -1] } }),
      () => inputShapes(INPUTS, { elements: { ids: -1, mask: value } }),
      () => inputShapes(INPUTS, { freeDimensions: { batch: value, sequence: NaN } }),
    ]) {
      // A shape that is null is one that nothing is known of.
      if (value === null && String(call).includes('shape: value')) continue;
      assert.throws(call, TypeError, `${String(value?.toString?.())} in ${call}`);
    }
  }
});
