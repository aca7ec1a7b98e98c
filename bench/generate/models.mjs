// Writes the models of the text generation benchmark.

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { root, run } from '../../scripts/process.mjs';
import { pythonEnvironment } from '../../scripts/python.mjs';
import { rewriteIfStale } from '../../scripts/rewrite-stale.mjs';

const GENERATOR = join(root, 'scripts', 'python', 'generate_models.py');

/** Everything that determines the models. */
const SOURCES = ['generate_models.py', 'generate_decoder.py', 'generate_graph.py', 'generate_whisper.py', 'generate.txt'];

/**
 * Writes the models if their generator has changed.
 *
 * @param {{ tiny: boolean }} options `tiny`: small sizes, for tests
 * @returns {Promise<string>} the folder of the models
 */
export async function writeModels({ tiny }) {
  const folder = join(root, 'target', 'generate-models', tiny ? 'tiny' : 'full');
  const source = SOURCES.map((file) => readFileSync(join(root, 'scripts', 'python', file), 'utf8')).join();
  await rewriteIfStale(folder, source, async () => {
    const python = await pythonEnvironment('generate');
    await run('writing of the models', python, [GENERATOR, folder, ...(tiny ? ['--tiny'] : [])], { env: { PYTHONDONTWRITEBYTECODE: '1' } });
  });
  return folder;
}
