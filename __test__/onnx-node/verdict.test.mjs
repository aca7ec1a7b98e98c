import assert from 'node:assert/strict';
import test from 'node:test';
import { judge, tableProblems } from './verdict.mjs';

const INDEX = [
  { name: 'test_a', dataTypes: ['double'], operators: { Cast: 1 }, emptyTensors: [] },
  { name: 'test_b', dataTypes: ['float'], operators: { Unique: 1 }, emptyTensors: ['y'] },
];

test('a true table has no problems', () => {
  const table = [
    { reason: 'double', dataType: 'double', tests: ['test_a'] },
    { reason: 'unique', operator: 'Unique', emptyTensors: true, tests: ['test_b'] },
  ];
  assert.deepEqual(tableProblems(table, INDEX), []);
});

test('false claims, unknown names and doubles are found', () => {
  const table = [
    { reason: 'r', dataType: 'double', operator: 'Cast', emptyTensors: true, tests: ['test_b', 'test_c'] },
    { reason: 's', emptyTensors: true, tests: ['test_a', 'test_b'] },
  ];
  assert.deepEqual(tableProblems(table, INDEX), [
    'test_b: has no double ("r")',
    'test_b: has no Cast ("r")',
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
  assert.deepEqual(judge({ outcome: 'refused', message: 'm' }, PLAIN, 'why'), { status: 'not expressible', message: 'why' });
  for (const outcome of ['agrees', 'differs', 'loaded', 'error']) {
    assert.equal(judge({ outcome, message: 'm' }, PLAIN, 'why').status, 'failed', outcome);
  }
});
