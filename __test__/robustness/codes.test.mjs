// Every error code is provoked, and has the exception that the native table says.
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import test, { after, before } from 'node:test';
import { ml } from '../../index.js';
import { ON_GPU, PROVOCATIONS, checkCode } from './provocations.mjs';

const { errorCodes } = createRequire(import.meta.url)('../../lib/native.js');

let context;
before(async () => {
  context = await ml.createContext({ accelerated: false });
});
after(() => context.destroy());

test('every code of the native table is provoked', () => {
  assert.deepEqual(
    Object.keys(PROVOCATIONS),
    errorCodes.map(({ code }) => code),
  );
  assert.ok(ON_GPU.every((code) => code in PROVOCATIONS));
});

for (const row of errorCodes.filter(({ code }) => code in PROVOCATIONS && !ON_GPU.includes(code))) {
  test(`${row.code}: ${row.meaning}`, () => checkCode(row, context));
}
