import assert from 'node:assert/strict';
import { test } from 'node:test';

import { compareRuns, findFaults } from './faults.mjs';

const passed = { name: 'a', outcome: 'passed', message: '' };
const failed = { name: 'b', outcome: 'failed', message: 'no\nbut' };

test('a test that fails or is skipped is a fault', () => {
  assert.deepEqual(findFaults([passed], []), []);
  assert.deepEqual(findFaults([passed, failed, { name: 'c', outcome: 'skipped', message: '' }], []), ['b: failed\nno\nbut', 'c: skipped']);
});

test('a test that cannot pass must fail', () => {
  assert.deepEqual(findFaults([passed, failed], [{ test: 'b' }]), []);
  assert.match(findFaults([passed, failed], [{ test: 'a' }, { test: 'b' }])[0], /^a: passed, although/);
  assert.match(findFaults([{ ...failed, outcome: 'skipped' }], [{ test: 'b' }])[0], /^b: skipped, although/);
  assert.match(findFaults([passed], [{ test: 'gone' }])[0], /^gone: .* no such test$/);
});

test('all runtimes run the same tests', () => {
  const run = (runtime, names, float16Array = false) => ({ runtime, float16Array, names });
  assert.deepEqual(compareRuns([run('one', ['a', 'b']), run('two', ['b', 'a'])], false), []);
  assert.deepEqual(compareRuns([run('one', ['a', 'b']), run('two', ['a'])], false), ['two: "b" ran elsewhere and not here']);
});

test('tests of Float16Array run exactly where it is', () => {
  const withTests = ['a', 'Float16Array: x'];
  const run = (float16Array, names) => ({ runtime: 'one', float16Array, names });
  assert.deepEqual(compareRuns([run(true, withTests), run(false, ['a'])], true), []);
  assert.deepEqual(compareRuns([run(true, ['a'])], true), ['one: the tests of Float16Array did not run']);
  assert.deepEqual(compareRuns([run(false, withTests)], true), ['one: the tests of Float16Array ran']);
  assert.deepEqual(compareRuns([run(true, ['a'])], false), []);
});
