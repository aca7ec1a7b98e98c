import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

/**
 * Returns name and version of the package that a file belongs to; not every package allows importing its package.json.
 *
 * @param {string} file
 * @returns {{ name: string, version: string }}
 */
export function packageOf(file) {
  const folder = dirname(file);
  const manifest = join(folder, 'package.json');
  const { name, version } = existsSync(manifest) ? JSON.parse(readFileSync(manifest, 'utf8')) : {};
  return name === undefined ? packageOf(folder) : { name, version };
}
