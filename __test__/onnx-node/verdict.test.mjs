import assert from 'node:assert/strict';
import test from 'node:test';
import { judge, tableProblems } from './verdict.mjs';

const INDEX = [
  { name: 'test_a', dataTypes: ['double'], operators: { Cast: 1 }, emptyTensors: [], opset: { '': 7 } },
  { name: 'test_b', dataTypes: ['float'], operators: { Unique: 1 }, emptyTensors: ['y'], opset: { '': 1 } },
];

test('a true table has no problems', () => {
  const table = [
    { reason: 'double', dataType: 'double', tests: ['test_a'] },
    { reason: 'unique', operator: 'Unique', opset: 1, emptyTensors: true, tests: ['test_b'] },
  ];
  assert.deepEqual(tableProblems(table, INDEX), []);
});

test('false claims, unknown names and doubles are found', () => {
  const table = [
    { reason: 'r', dataType: 'double', operator: 'Cast', opset: 7, tests: ['test_b', 'test_c'] },
    { reason: 's', emptyTensors: true, tests: ['test_a', 'test_b'] },
  ];
  assert.deepEqual(tableProblems(table, INDEX), [
    'test_b: has no double ("r")',
    'test_b: has no Cast ("r")',
    'test_b: is not of opset 7 ("r")',
    'test_c: there is no such test ("r")',
    'test_a: has no empty tensor ("s")',
    'test_b: is in the table twice ("s")',
  ]);
});

const PLAIN = { corrected: null };

test('a test that is not in the table has to agree', () => {
  assert.deepEqual(judge({ outcome: 'agrees' }, PLAIN), { status: 'passed' });
  assert.deepEqual(judge({ outcome: 'agrees' }, { corrected: 'c' }), { status: 'passed as corrected', message: 'c' });
  for (const outcome of ['differs', 'refused', 'loaded', 'error']) {
    for (const test of [PLAIN, { corrected: 'c' }]) {
      assert.deepEqual(judge({ outcome, message: 'm' }, test), { status: 'failed', message: `${outcome}: m` });
    }
  }
});

test('a test of the table has to be refused', () => {
  assert.deepEqual(judge({ outcome: 'refused', message: 'm' }, PLAIN, { reason: 'why' }), { status: 'not expressible', message: 'why' });
  for (const outcome of ['agrees', 'differs', 'loaded', 'error']) {
    assert.equal(judge({ outcome, message: 'm' }, PLAIN, { reason: 'why' }).status, 'failed', outcome);
  }
});

test('random numbers without a seed may agree by chance', () => {
  const entry = { reason: 'why', random: true, unseeded: true };
  for (const outcome of [{ outcome: 'agrees' }, { outcome: 'differs', message: 'y: 2 of 10 elements differ' }]) {
    assert.equal(judge(outcome, { corrected: null }, entry).status, 'not expressible');
  }
  assert.equal(judge({ outcome: 'differs', message: 'y: is float32 [2], expected float32 [3]' }, { corrected: null }, entry).status, 'failed');
});

test('random numbers have to differ, and not the type or shape', () => {
  const entry = { reason: 'why', random: true };
  const differs = { outcome: 'differs', message: 'y: 3 of 10 elements differ, the first is [0]: got 1, expected 0' };
  assert.deepEqual(judge(differs, PLAIN, entry), { status: 'not expressible', message: 'why' });
  const shape = { outcome: 'differs', message: 'y: is float32 [2], expected float32 [3]' };
  for (const outcome of [shape, ...['agrees', 'refused', 'loaded', 'error'].map((outcome) => ({ outcome, message: 'm' }))]) {
    assert.equal(judge(outcome, PLAIN, entry).status, 'failed');
  }
});
