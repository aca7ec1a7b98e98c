// `npm run suite -- onnx-node`: the single-operator tests of the onnx package. Prepares them once under target/.

import { existsSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { entry, root, run } from '../process.mjs';
import { runPython } from '../python.mjs';

const DIRECTORY = join(root, 'target', 'onnx-node-tests');
const PREPARE = join(root, 'scripts', 'python', 'prepare_onnx_node_tests.py');
const REQUIREMENTS = join(root, 'scripts', 'python', 'models.txt');

/** Whether the prepared tests are missing or older than their generator. */
function isStale() {
  const index = join(DIRECTORY, 'index.json');
  return !existsSync(index) || [PREPARE, REQUIREMENTS].some((file) => statSync(file).mtimeMs > statSync(index).mtimeMs);
}

await entry(async () => {
  if (isStale()) {
    await runPython('preparation of the onnx tests', 'models', [PREPARE, DIRECTORY]);
  }
  await run('onnx tests', process.execPath, ['__test__/onnx-node/run.mjs', DIRECTORY, ...process.argv.slice(2)]);
});
