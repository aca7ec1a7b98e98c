// The table of error codes, which the native side has, in the types and in their documentation.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { test } from 'node:test';

const { errorCodes } = createRequire(import.meta.url)('../../lib/native.js');
const types = readFileSync(new URL('../../onnx.d.ts', import.meta.url), 'utf8');

test('OnnxErrorCode is the table, in its order', () => {
  const [, union] = /export type OnnxErrorCode =([^;]*);/.exec(types);
  assert.deepEqual([...union.matchAll(/'(\w+)'/g)].map(([, code]) => code), errorCodes.map(({ code }) => code));
});

test('the meaning of every code is documented', () => {
  for (const { code, meaning } of errorCodes) {
    assert.ok(types.includes(` * - \`${code}\`: ${meaning}\n`), `${code}: ${meaning}`);
  }
});

test('every code comes with an exception', () => {
  const exceptions = ['TypeError', 'InvalidStateError', 'NotSupportedError', 'OperationError', 'UnknownError', 'OnnxError'];
  assert.deepEqual(errorCodes.filter(({ code, exception }) => !/^ERR_WEBNN_[A-Z_]+$/.test(code) || !exceptions.includes(exception)), []);
});
