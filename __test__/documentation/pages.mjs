// The pages of the documentation.

import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { root } from '../../scripts/process.mjs';

/** Paths of the pages whose code is run, relative to the repository. */
export const PAGES = ['README.md', ...readdirSync(join(root, 'docs')).filter((name) => name.endsWith('.md')).sort().map((name) => `docs/${name}`)];

/** Paths of all Markdown files of the repository whose links are checked. */
export const LINKED = [
  ...PAGES,
  'CHANGELOG.md',
  ...['bench', 'examples']
    .flatMap((folder) => readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' }).map((name) => `${folder}/${name.replaceAll('\\', '/')}`))
    .filter((name) => name.endsWith('.md') && !name.includes('node_modules/')),
];

/** The text of a file of the repository. */
export const read = (path) => readFileSync(join(root, path), 'utf8');
