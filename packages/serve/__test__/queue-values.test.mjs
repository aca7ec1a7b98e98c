// What the functions of a queue's worker give a model.

import assert from 'node:assert/strict';
import test from 'node:test';
import { tensorsOf, valuesOf } from '../lib/queue/values.js';

test('texts and numbers, with and without their shape, become tensors and come back', () => {
  const values = {
    texts: ['a', 'é'],
    rows: { data: ['a', 'b', 'c', 'd'], shape: [2, 2] },
    numbers: Float32Array.of(1, 2),
    halves: { data: Uint16Array.of(0x3c00), datatype: 'FP16', shape: [1, 1] },
  };
  assert.deepEqual(valuesOf(tensorsOf(values)), {
    texts: { datatype: 'BYTES', shape: [2], data: values.texts },
    rows: { datatype: 'BYTES', ...values.rows },
    numbers: { datatype: 'FP32', shape: [2], data: values.numbers },
    halves: values.halves,
  });
});

test('what is no tensor is the fault of the job, which is not tried again', () => {
  for (const value of /** @type {any[]} */ ([
    null,
    undefined,
    5,
    'text',
    {},
    [1, 2],
    ['a', null],
    { data: [1] },
    { data: 'abc' },
    new DataView(new ArrayBuffer(4)),
  ])) {
    assert.throws(() => tensorsOf({ x: value }), { kind: 'invalid', message: 'input "x" is not a typed array or a list of strings' });
  }
  for (const data of [['a', 'b'], Float32Array.of(1, 2)]) {
    assert.throws(() => tensorsOf({ x: { data, shape: [3, 1] } }), { kind: 'invalid', message: 'input "x" is [3, 1] and has 2 elements' });
  }
});
