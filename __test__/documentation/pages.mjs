// The pages of the documentation.

import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join, relative, sep } from 'node:path';
import { root, WORKSPACES } from '../../scripts/process.mjs';

/** Paths of the pages whose code is run, relative to the repository. */
export const PAGES = [
  'README.md',
  ...readdirSync(join(root, 'docs'))
    .filter((name) => name.endsWith('.md'))
    .sort()
    .map((name) => `docs/${name}`),
  ...WORKSPACES.map((folder) => `${folder}/README.md`).filter((page) => existsSync(join(root, page))),
];

/** Paths of all Markdown files of the repository whose links are checked. */
export const LINKED = [
  ...PAGES,
  ...['CHANGELOG', 'CODE_OF_CONDUCT', 'CONTRIBUTING', 'GOVERNANCE', 'LICENSES', 'SECURITY', 'SUPPORT'].map((name) => `${name}.md`),
  '.github/GOOD_FIRST_ISSUES.md',
  ...['bench', 'examples']
    // With types, because links are followed without: the one in node_modules leads back here.
    .flatMap((folder) => readdirSync(join(root, folder), { recursive: true, withFileTypes: true }))
    .filter((file) => file.isFile() && file.name.endsWith('.md'))
    .map((file) => relative(root, join(file.parentPath, file.name)).split(sep).join('/'))
    .filter((name) => !name.includes('node_modules/')),
];

/** The text of a file of the repository. */
export const read = (path) => readFileSync(join(root, path), 'utf8');
