// `npm run suite -- onnx-models`: writes the benchmark's models with onnxruntime's results once under target/, then loads and runs them all.
//
//   npm run suite -- onnx-models                all models (1.6 GB under target/)
//   npm run suite -- onnx-models --only a,b     these
//   npm run suite -- onnx-models --gpu          on a GPU; WEBNN_GPU_SOFTWARE=1 lets it be a CPU

import { parseArgs } from 'node:util';
import { CATALOG } from '../../bench/zoo/catalog.mjs';
import { MODELS, writeModels } from '../../bench/zoo/write.mjs';
import { entry, Failure, run, say } from '../process.mjs';
import { setUp } from '../setup.mjs';

const USAGE = 'usage: npm run suite -- onnx-models [--only MODEL,...] [--gpu]';

/** Reads the command line. @returns {{ names: string[], gpu: boolean }} names of models @throws {Failure} with exit status 2 when it is invalid */
function readArguments() {
  let values;
  try {
    ({ values } = parseArgs({ options: { only: { type: 'string' }, gpu: { type: 'boolean', default: false }, help: { type: 'boolean', short: 'h' } } }));
  } catch (error) {
    throw new Failure(`${/** @type {Error} */ (error).message}\n${USAGE}`, 2);
  }
  if (values.help) {
    throw new Failure(USAGE, 0);
  }
  const all = Object.keys(CATALOG);
  const names = values.only?.split(',') ?? all;
  const unknown = names.find((name) => !all.includes(name));
  if (unknown !== undefined) {
    throw new Failure(`--only: there is no model ${unknown}; there are ${all.join(', ')}`, 2);
  }
  return { names, gpu: values.gpu };
}

/**
 * Whether the memory test can run: it needs Linux, and the largest model.
 *
 * @param {string[]} names
 */
function measuresMemory(names) {
  if (process.platform !== 'linux') {
    say('memory is not measured: only Linux reports resident memory');
    return false;
  }
  return names.includes('gpt2_decode');
}

await entry(async () => {
  const { names, gpu } = readArguments();
  await setUp();
  await writeModels(names);
  const env = { ONNX_MODELS: MODELS, ONNX_MODELS_NAMES: names.join(','), ONNX_MODELS_DEVICE: gpu ? 'gpu' : 'cpu' };
  const tests = ['__test__/onnx-models/models.test.mjs'];
  if (!gpu && measuresMemory(names)) {
    tests.push('__test__/onnx-models/memory.test.mjs');
  }
  // One by one: each holds large models.
  await run('tests of the models', process.execPath, ['--test', '--test-concurrency=1', ...tests], { env });
});
