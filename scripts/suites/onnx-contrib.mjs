// `npm run suite -- onnx-contrib [--classical]`: writes small models with onnxruntime's results once under target/ (operators of
// com.microsoft and ai.onnx.ml, strings and maps, doubles, networks that onnxruntime optimized, Resize, and exports of
// scikit-learn, XGBoost and LightGBM), then loads and runs them all.

import { createHash } from 'node:crypto';
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { parseArgs } from 'node:util';
import { entry, root, run, withUsage } from '../process.mjs';
import { pythonEnvironment } from '../python.mjs';

const DIRECTORY = join(root, 'target', 'onnx-contrib');
const PROGRAMS = join(root, 'scripts', 'python');

/** The programs that write models, and the environments that they need, by the folder for the models. */
const GENERATORS = {
  operators: ['contrib_models.py', 'models'],
  optimized: ['optimized_models.py', 'models'],
  resize: ['resize_models.py', 'models'],
  ml: ['ml_models.py', 'models'],
  texts: ['text_models.py', 'models'],
  double: ['double_models.py', 'models'],
  classical: ['classical_models.py', 'classical'],
};

/**
 * Writes models unless the current generator has already written them.
 *
 * @param {string} directory where they go
 * @param {string} generator name of the program
 * @param {string} environment that it needs
 */
async function writeModels(directory, generator, environment) {
  const stamp = join(directory, 'generator.sha256');
  const files = [generator, 'model_cases.py', `${environment}.txt`].map((name) => readFileSync(join(PROGRAMS, name)));
  const hash = createHash('sha256').update(Buffer.concat(files)).digest('hex');
  if (existsSync(stamp) && readFileSync(stamp, 'utf8') === hash) return;
  rmSync(directory, { recursive: true, force: true });
  await run('writing of the models', await pythonEnvironment(environment), [join(PROGRAMS, generator), directory]);
  // Written last: after a failure, the models are written again.
  writeFileSync(stamp, hash);
}

await entry(async () => {
  const options = /** @type {const} */ ({ classical: { type: 'boolean', default: false } });
  const { classical } = withUsage('usage: npm run suite -- onnx-contrib [--classical]', () => parseArgs({ options }).values);
  const folders = [];
  for (const [name, [generator, environment]] of Object.entries(GENERATORS)) {
    // Its packages take 1.1 GB.
    if (name === 'classical' && !classical) continue;
    folders.push(join(DIRECTORY, name));
    await writeModels(join(DIRECTORY, name), generator, environment);
  }
  const names = join(DIRECTORY, 'names');
  await writeModels(names, 'operator_names.py', 'models');
  const env = { ONNX_CONTRIB: folders.join(delimiter), ONNX_OPERATORS: join(names, 'operators.json') };
  await run('tests of models that onnxruntime wrote', process.execPath, ['--test', '__test__/onnx-contrib/contrib.test.mjs'], { env });
});
