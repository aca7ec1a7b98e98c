// The program `bench/gpu/driver`, which calls Vulkan without wgpu, and the drivers of Debian's packages.

import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { Failure, root, run } from '../process.mjs';

/** Where Debian's packages put the descriptions of drivers. */
const DRIVERS = '/usr/share/vulkan/icd.d';

/** Arguments of cargo for the program. */
export const DRIVER_CRATE = '--manifest-path bench/gpu/driver/Cargo.toml';
const TARGET = 'target/bench/driver';

/**
 * The environment in which programs find one driver only.
 *
 * @param {'lvp' | 'radeon' | 'swiftshader'} name
 * @returns {Record<string, string>}
 */
export function onlyDriver(name) {
  const folder = name === 'swiftshader' ? '/usr/lib/chromium' : DRIVERS;
  const files = existsSync(folder) ? readdirSync(folder) : [];
  const file = files.find((one) => new RegExp(`^(vk_)?${name}_icd.*\\.json$`).test(one));
  if (file === undefined) throw new Failure(`there is no driver ${name} in ${folder}; scripts/install-debian-packages.sh vulkan chromium installs it`);
  return { VK_ICD_FILENAMES: join(folder, file) };
}

/** Builds the program. */
export const buildProbe = () => run('build of bench/gpu/driver', 'cargo', ['build', ...DRIVER_CRATE.split(' '), '--target-dir', TARGET]);

/**
 * Runs the program, which has been built.
 *
 * @param {string[]} args
 * @param {Record<string, string>} env
 * @returns {string} what it writes
 */
export function probe(args, env) {
  const { status, signal, stdout, stderr, error } = spawnSync(join(root, TARGET, 'debug', 'driver-probe'), args, {
    encoding: 'utf8',
    env: { ...process.env, ...env },
    maxBuffer: 64 << 20,
  });
  if (status !== 0) throw new Failure(`driver-probe ${args[0]} ended with ${status ?? signal}: ${error?.message ?? stderr.trim()}`);
  return stdout;
}
