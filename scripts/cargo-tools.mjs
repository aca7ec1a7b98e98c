// Subcommands of cargo that a script needs, installed under target/ if they are missing.

import { spawnSync } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { root, run } from './process.mjs';

const folder = join(root, 'target', 'cargo-tools');

/**
 * Installs a subcommand.
 *
 * @param {string} name as cargo takes it: `about` for cargo-about
 * @param {{ features?: string }} [options]
 * @returns {Promise<{ env: { PATH: string } }>} the environment in which cargo finds it
 */
export async function cargoTool(name, { features } = {}) {
  const env = { PATH: `${join(folder, 'bin')}${delimiter}${process.env.PATH}` };
  if (spawnSync('cargo', [name, '--version'], { env: { ...process.env, ...env } }).status !== 0) {
    mkdirSync(folder, { recursive: true });
    const extra = features === undefined ? [] : ['--features', features];
    await run(`installation of cargo-${name}`, 'cargo', ['install', `cargo-${name}`, '--locked', '--root', folder, ...extra]);
  }
  return { env };
}
