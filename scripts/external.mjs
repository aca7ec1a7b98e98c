// The npm packages of __test__/external: libraries, programs, clients and runtimes of other projects.

import { existsSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { root } from './process.mjs';
import { installLocked } from './setup.mjs';

export const EXTERNAL = join(root, '__test__', 'external');

/**
 * Installs the packages if they are missing or older than the lock file.
 *
 * @param {{ runtimes?: boolean }} [options] `runtimes`: also Node, Deno and Bun, half a gigabyte
 */
export async function installExternal({ runtimes = false } = {}) {
  const modules = join(EXTERNAL, 'node_modules');
  // Without its own lock file, an installation is not complete.
  if (runtimes && !existsSync(join(modules, 'node-20'))) rmSync(join(modules, '.package-lock.json'), { force: true });
  await installLocked('the packages of __test__/external', EXTERNAL, runtimes ? [] : ['--omit=dev']);
}
