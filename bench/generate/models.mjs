// Writes the models of the text generation benchmark.

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { root, run } from '../../scripts/process.mjs';
import { pythonEnvironment } from '../../scripts/python.mjs';
import { rewriteIfStale } from '../../scripts/rewrite-stale.mjs';

const GENERATOR = join(root, 'scripts', 'python', 'generate_models.py');

const SOURCES = ['generate_models.py', 'generate_decoder.py', 'generate_graph.py', 'generate_whisper.py', 'generate.txt'];

/** Everything that determines the models. */
export const sources = () => SOURCES.map((file) => readFileSync(join(root, 'scripts', 'python', file), 'utf8')).join();

/**
 * Runs the program that writes the models.
 *
 * @param {string} folder
 * @param {string[]} options see the program
 */
export async function generateModels(folder, options) {
  const python = await pythonEnvironment('generate');
  await run('writing of the models', python, [GENERATOR, folder, ...options], { env: { PYTHONDONTWRITEBYTECODE: '1' } });
}

/**
 * Writes the models if their generator has changed.
 *
 * @param {{ tiny: boolean }} options `tiny`: small sizes, for tests
 * @returns {Promise<string>} the folder of the models
 */
export async function writeModels({ tiny }) {
  const folder = join(root, 'target', 'generate-models', tiny ? 'tiny' : 'full');
  await rewriteIfStale(folder, sources(), () => generateModels(folder, tiny ? ['--tiny'] : []));
  return folder;
}
