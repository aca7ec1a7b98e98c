import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import test from 'node:test';
import { temporaryFolder } from '../../../__test__/lib/folders.mjs';
import { endOf } from '../../../__test__/lib/processes.mjs';
import { until } from '../../../__test__/lib/wait.mjs';
import { file, start } from './command.mjs';

test('an interrupt ends at once, with exit code 130 and without output, and leaves no files', async (t) => {
  const temporary = temporaryFolder(t);
  const env = { ...process.env, TMPDIR: temporary, TEMP: temporary, TMP: temporary };
  const child = start(['bench', file('conv.onnx'), '--seconds', '600'], { env });
  const ending = endOf(child);
  // The inputs are written: the engine begins.
  await until(() => readdirSync(temporary, { recursive: true }).some((name) => name.endsWith('.npy')), 'a file of inputs');
  const before = performance.now();
  child.kill('SIGINT');
  const { code, stdout, stderr } = await ending;
  assert.equal(code, 130);
  assert.equal(stdout + stderr, '');
  assert.ok(performance.now() - before < 1000);
  assert.deepEqual(readdirSync(temporary), []);
});
