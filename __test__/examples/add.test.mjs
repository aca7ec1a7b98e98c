import assert from 'node:assert/strict';
import test from 'node:test';
import { runExample } from './run-example.mjs';

test('the first program prints four ones', async () => {
  const { code, stdout, stderr } = await runExample('add.mjs');
  assert.equal(stderr, '');
  assert.equal(code, 0);
  // 0.2 has no exact float32, so a value may be one unit in the last place beside 1.
  const values = stdout.slice(stdout.indexOf('[') + 1, stdout.indexOf(']')).split(',').map(Number);
  assert.equal(values.length, 4);
  for (const value of values) assert.ok(Math.abs(value - 1) < 2e-7, stdout);
});
