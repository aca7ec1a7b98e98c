// docs/architecture.md names every part of the code, and LICENSES.md every folder with models, pictures and recordings.

import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { dirname, join, relative, sep } from 'node:path';
import test from 'node:test';
import { root, WORKSPACES } from '../../scripts/process.mjs';
import { read } from './pages.mjs';

test('docs/architecture.md names each package, and each folder and file of src/', () => {
  const page = read('docs/architecture.md');
  const sources = readdirSync(join(root, 'src'), { withFileTypes: true })
    .filter(({ name }) => name !== 'lib.rs')
    .map((entry) => `src/${entry.name}${entry.isDirectory() ? '/' : ''}`);
  assert.deepEqual(
    [...sources, ...WORKSPACES.map((folder) => `${folder}/`)].filter((path) => !page.includes(`\`${path}`)),
    [],
  );
});

test('LICENSES.md covers each folder with models, pictures and recordings', () => {
  const page = read('LICENSES.md');
  const folders = ['__test__', 'bench', 'examples', 'packages']
    .flatMap((folder) => readdirSync(join(root, folder), { recursive: true, withFileTypes: true }))
    .filter((entry) => entry.isFile() && /\.(onnx|npy|npz|jpg|png|wav)$/.test(entry.name))
    .map((entry) =>
      relative(root, dirname(join(entry.parentPath, entry.name)))
        .split(sep)
        .join('/'),
    )
    .filter((folder) => !/node_modules|\/target\/|examples\/[\w-]+\/model\b/.test(folder));
  assert.ok(folders.length > 10);
  // The folder or one around it.
  const isCovered = (/** @type {string} */ folder) => folder !== '.' && (page.includes(folder) || isCovered(dirname(folder)));
  assert.deepEqual(
    [...new Set(folders)].filter((folder) => !isCovered(folder)),
    [],
  );
});
