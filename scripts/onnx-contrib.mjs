// `npm run test:onnx-contrib`: writes small models of the com.microsoft operators with onnxruntime's results once under
// target/, then loads and runs them all.

import { createHash } from 'node:crypto';
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { entry, root, run } from './process.mjs';
import { pythonEnvironment } from './python.mjs';
import { setUp } from './setup.mjs';

const DIRECTORY = join(root, 'target', 'onnx-contrib');
const GENERATOR = join(root, 'scripts', 'python', 'contrib_models.py');

/** Writes the models unless the current generator has already written them. */
async function writeModels() {
  const stamp = join(DIRECTORY, 'generator.sha256');
  const hash = createHash('sha256').update(readFileSync(GENERATOR)).digest('hex');
  if (existsSync(stamp) && readFileSync(stamp, 'utf8') === hash) return;
  rmSync(DIRECTORY, { recursive: true, force: true });
  await run('writing of the models', await pythonEnvironment('models'), [GENERATOR, DIRECTORY]);
  // Written last: after a failure, the models are written again.
  writeFileSync(stamp, hash);
}

await entry(async () => {
  await setUp();
  await writeModels();
  const env = { ONNX_CONTRIB: DIRECTORY };
  await run('tests of the operators of com.microsoft', process.execPath, ['--test', '__test__/onnx-contrib/contrib.test.mjs'], { env });
});
