// `npm run test:onnx-models`: writes the benchmark models with their reference results once under target/, then
// loads and runs them all.
//
//   npm run test:onnx-models                       all models (1.4 GB under target/)
//   npm run test:onnx-models -- --only a,b         these
//   npm run test:onnx-models -- --generator FILE   with another make_models.py than ../shared/bench/make_models.py

import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { entry, Failure, outputOf, root, run, say } from './process.mjs';
import { pythonEnvironment } from './python.mjs';
import { setUp } from './setup.mjs';

const USAGE = 'usage: npm run test:onnx-models -- [--only MODEL,...] [--generator make_models.py]';
const DIRECTORY = join(root, 'target', 'onnx-models');
const GENERATOR = join(root, '..', 'shared', 'bench', 'make_models.py');

/** Reads the command line. @throws {Failure} with exit status 2 when it cannot be understood */
function readArguments() {
  let values;
  try {
    ({ values } = parseArgs({
      options: {
        only: { type: 'string' },
        generator: { type: 'string', default: GENERATOR },
        help: { type: 'boolean', short: 'h' },
      },
    }));
  } catch (error) {
    throw new Failure(`${/** @type {Error} */ (error).message}\n${USAGE}`, 2);
  }
  if (values.help) {
    throw new Failure(USAGE, 0);
  }
  if (!existsSync(values.generator)) {
    throw new Failure(`The program that writes the models is missing: ${resolve(values.generator)}\nName it with --generator FILE.`, 2);
  }
  return { only: values.only?.split(','), generator: resolve(values.generator) };
}

/**
 * Writes the models that are not there yet, or were written by another generator.
 *
 * @param {{ only?: string[], generator: string }} options
 */
async function writeModels({ only, generator }) {
  const python = await pythonEnvironment('models');
  const all = outputOf(python, [generator, '--list'])?.split(/\r?\n/);
  if (all === undefined) {
    throw new Failure(`${generator} --list fails`);
  }
  const unknown = only?.find((name) => !all.includes(name));
  if (unknown !== undefined) {
    throw new Failure(`--only: there is no model ${unknown}; there are ${all.join(', ')}`, 2);
  }
  const stamp = join(DIRECTORY, 'generator.sha256');
  const manifest = join(DIRECTORY, 'manifest.json');
  const hash = createHash('sha256').update(readFileSync(generator)).digest('hex');
  if (!existsSync(stamp) || readFileSync(stamp, 'utf8') !== hash) {
    rmSync(DIRECTORY, { recursive: true, force: true });
    mkdirSync(DIRECTORY, { recursive: true });
    writeFileSync(stamp, hash);
  }
  // The generator adds a model to the manifest when all its files are written.
  const written = existsSync(manifest) ? Object.keys(JSON.parse(readFileSync(manifest, 'utf8'))) : [];
  const missing = (only ?? all).filter((name) => !written.includes(name));
  if (missing.length > 0) {
    await run('writing of the models', python, [generator, DIRECTORY, '--only', missing.join(',')]);
  }
}

/**
 * Whether the test of memory can run: it needs Linux, and the largest model.
 *
 * @param {{ only?: string[] }} options
 */
function measuresMemory({ only }) {
  if (process.platform !== 'linux') {
    say('memory is not measured: only Linux says how much of it is resident');
    return false;
  }
  return only === undefined || only.includes('gpt2_decode');
}

await entry(async () => {
  const options = readArguments();
  await setUp();
  await writeModels(options);
  const env = { ONNX_MODELS: DIRECTORY, ...(options.only && { ONNX_MODELS_ONLY: options.only.join(',') }) };
  const tests = ['__test__/onnx-models/models.test.mjs'];
  if (measuresMemory(options)) {
    tests.push('__test__/onnx-models/memory.test.mjs');
  }
  // One after the other: both hold large models.
  await run('tests of the models', process.execPath, ['--test', '--test-concurrency=1', ...tests], { env });
});
