// Every error code is provoked, and has the exception that the native table says.
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import test, { after, before } from 'node:test';
import { ml } from '../../index.js';
import { loadModel } from '../../onnx.js';
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

test('the stack of an error of a load has the line that asked for it', async () => {
  const { stack } = await loadModel('missing.onnx').catch((error) => error);
  assert.match(
    stack,
    /^OnnxError: loadModel: there is no file "missing\.onnx" in the working directory ".*"\n {4}at load .*\n {4}at async .*codes\.test\.mjs:\d+/,
  );
});

test('the reason of an abort keeps its stack', async () => {
  const path = new URL('../../packages/cli/__test__/files/colors.onnx', import.meta.url);
  const controller = new AbortController();
  const reason = new Error('changed my mind');
  const { stack } = reason;
  const loading = loadModel(path, { signal: controller.signal });
  controller.abort(reason);
  await assert.rejects(loading, (error) => error === reason);
  // The aborted load ends in the background, before a later one.
  (await loadModel(path)).destroy();
  assert.equal(reason.stack, stack);
});
