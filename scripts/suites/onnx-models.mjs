// `npm run suite -- onnx-models`: writes the benchmark models with their reference results once under target/, then
// loads and runs them all.
//
//   npm run suite -- onnx-models                     all models (1.6 GB under target/)
//   npm run suite -- onnx-models --only a,b          these
//   npm run suite -- onnx-models --generator FILE    with another make_models.py than ../shared/bench/make_models.py
//
// scripts/python/bench_models.py adds models to those of make_models.py, whose module it uses.

import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { entry, Failure, outputOf, root, run, say } from '../process.mjs';
import { pythonEnvironment } from '../python.mjs';

const USAGE = 'usage: npm run suite -- onnx-models [--only MODEL,...] [--generator make_models.py]';
const DIRECTORY = join(root, 'target', 'onnx-models');
const GENERATOR = join(root, '..', 'shared', 'bench', 'make_models.py');
const OWN_GENERATOR = join(root, 'scripts', 'python', 'bench_models.py');

/** Reads the command line. @throws {Failure} with exit status 2 when it is invalid */
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
 * Writes the models that are missing or were written by other generators.
 *
 * @param {{ only?: string[], generator: string }} options
 */
async function writeModels({ only, generator }) {
  const python = await pythonEnvironment('models');
  // Nothing may be written into the folder of make_models.py.
  const env = { PYTHONPATH: dirname(generator), PYTHONDONTWRITEBYTECODE: '1' };
  const generators = [generator, OWN_GENERATOR];
  const namesOf = new Map(
    generators.map((file) => {
      const names = outputOf(python, [file, '--list'], { env })?.split(/\r?\n/);
      if (names === undefined) {
        throw new Failure(`${file} --list fails`);
      }
      return [file, names];
    }),
  );
  const all = [...namesOf.values()].flat();
  const unknown = only?.find((name) => !all.includes(name));
  if (unknown !== undefined) {
    throw new Failure(`--only: there is no model ${unknown}; there are ${all.join(', ')}`, 2);
  }
  const stamp = join(DIRECTORY, 'generators.sha256');
  const manifest = join(DIRECTORY, 'manifest.json');
  const hash = createHash('sha256')
    .update(Buffer.concat(generators.map((file) => readFileSync(file))))
    .digest('hex');
  if (!existsSync(stamp) || readFileSync(stamp, 'utf8') !== hash) {
    rmSync(DIRECTORY, { recursive: true, force: true });
    mkdirSync(DIRECTORY, { recursive: true });
    writeFileSync(stamp, hash);
  }
  // A generator adds a model to the manifest after writing all its files.
  const written = existsSync(manifest) ? Object.keys(JSON.parse(readFileSync(manifest, 'utf8'))) : [];
  for (const [file, names] of namesOf) {
    const missing = names.filter((name) => (only ?? all).includes(name) && !written.includes(name));
    if (missing.length > 0) {
      await run('writing of the models', python, [file, DIRECTORY, '--only', missing.join(',')], { env });
    }
  }
}

/**
 * Whether the memory test can run: it needs Linux, and the largest model.
 *
 * @param {{ only?: string[] }} options
 */
function measuresMemory({ only }) {
  if (process.platform !== 'linux') {
    say('memory is not measured: only Linux reports resident memory');
    return false;
  }
  return only === undefined || only.includes('gpt2_decode');
}

await entry(async () => {
  const options = readArguments();
  await writeModels(options);
  const env = { ONNX_MODELS: DIRECTORY, ...(options.only && { ONNX_MODELS_ONLY: options.only.join(',') }) };
  const tests = ['__test__/onnx-models/models.test.mjs'];
  if (measuresMemory(options)) {
    tests.push('__test__/onnx-models/memory.test.mjs');
  }
  // One by one: each holds large models.
  await run('tests of the models', process.execPath, ['--test', '--test-concurrency=1', ...tests], { env });
});
