// The table of error codes, which the native side has, in the types and on their page. ../robustness/codes.test.mjs
// provokes each.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { test } from 'node:test';
import { root } from '../../scripts/process.mjs';
import { errorAnchor, errorsTable } from '../../scripts/support-table.mjs';
import { anchorsOf } from '../documentation/page.mjs';
import { defined } from '../lib/types.mjs';

const require = createRequire(import.meta.url);
const { helpOf } = require('../../lib/errors.js');
const { errorCodes } = require('../../lib/native.js');
/** The declarations, without line breaks in lists. */
const types = readFileSync(new URL('../../onnx.d.ts', import.meta.url), 'utf8').replaceAll('\n *   ', ' ');

test('OnnxErrorCode is the table, in its order', () => {
  const [, union] = defined(/export type OnnxErrorCode =([^;]*);/.exec(types));
  assert.deepEqual(
    [...union.matchAll(/'(\w+)'/g)].map(([, code]) => code),
    errorCodes.map(({ code }) => code),
  );
});

test('the meaning of every code is documented', () => {
  for (const { code, meaning } of errorCodes) {
    assert.ok(types.includes(` * - \`${code}\`: ${meaning}\n`), `${code}: ${meaning}`);
  }
});

test('every code has a row and a section on its page, and `help` leads there', () => {
  const { repository } = require('../../package.json');
  const address = `${repository.url.replace(/^git\+|\.git$/g, '')}/blob/main/`;
  const file = 'docs/errors.md';
  const page = readFileSync(join(root, file), 'utf8');
  const anchors = anchorsOf(page);
  assert.ok(page.includes(errorsTable(errorCodes)));
  assert.ok(page.includes(helpOf('ERR_WEBNN_SHAPE')));
  for (const { code } of errorCodes) {
    assert.ok(anchors.has(errorAnchor(code)), code);
    assert.equal(helpOf(code), `${address}${file}#${errorAnchor(code)}`);
  }
});

test('every code comes with an exception', () => {
  const exceptions = ['TypeError', 'InvalidStateError', 'NotSupportedError', 'OperationError', 'UnknownError', 'OnnxError'];
  assert.deepEqual(
    errorCodes.filter(({ code, exception }) => !/^ERR_WEBNN_[A-Z_]+$/.test(code) || !exceptions.includes(exception)),
    [],
  );
});
