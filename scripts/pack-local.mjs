// `npm run pack:local`: packs what is published for this platform into dist/, installs each package into an empty project
// outside of the repository as a user would, with no Rust on the PATH, and tries it there (trials.mjs). Prints sizes, and how
// long an import takes. `-- --prebuilt` packs the addon that lies in the repository root, whatever built it.

import { lstatSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { addonName, neededGlibc, pack, stage, STAGE } from './packages.mjs';
import { entry, Failure, isProgram, root, say } from './process.mjs';
import { installPackages, setUp, thisPlatform } from './setup.mjs';
import { Project, TRIALS } from './trials.mjs';

/** Most bytes that `node_modules` may hold after `webnn-node` was installed into an empty project. */
export const INSTALLED_BYTES = 25e6;

/** How much of the processor time that starting Node takes an import may take. (Milliseconds depend on the machine and its load.) */
const IMPORT_SHARE = 0.5;

/** How many processes are started to measure an import. */
const IMPORTS = 21;

/**
 * Bytes of all files below a folder; links count as what they are.
 * @param {string} path
 * @returns {number}
 */
export function bytesOf(path) {
  const stats = lstatSync(path);
  return stats.isDirectory() ? readdirSync(path).reduce((sum, name) => sum + bytesOf(join(path, name)), 0) : stats.size;
}

/**
 * Milliseconds and milliseconds of processor time that `require('webnn-node')` takes, and those of a processor that Node takes to
 * start, in the middle of fresh processes.
 * @param {Project} project
 */
function importTimes(project) {
  const program = `
    const begin = { time: performance.now(), usage: process.cpuUsage() };
    require('webnn-node');
    const { user, system } = process.cpuUsage(begin.usage);
    const start = (begin.usage.user + begin.usage.system) / 1000;
    console.log(JSON.stringify([performance.now() - begin.time, (user + system) / 1000, start]));`;
  const samples = Array.from({ length: IMPORTS }, () => JSON.parse(project.run('import.cjs', program)));
  return [0, 1, 2].map((column) => samples.map((sample) => sample[column]).sort((a, b) => a - b)[IMPORTS >> 1]);
}

const megabytes = (/** @type {number} */ bytes) => `${(bytes / 1e6).toFixed(1)} MB`;

/**
 * Packs all packages, of those of platforms that of this one, from the addon in the repository root.
 *
 * @param {string} staged folder for what is packed; replaced if it exists
 * @param {string} destination folder for the tarballs
 * @returns {Packed[]}
 */
export function packThisPlatform(staged, destination) {
  const platform = thisPlatform();
  return stage(staged, { [platform]: join(root, addonName(platform)) }).map((folder) => pack(folder, destination));
}

/** @typedef {ReturnType<typeof pack>} Packed */

/**
 * The tarballs that a user of a package installs: its own, and those that it needs.
 *
 * @param {string} name
 * @param {Packed[]} packed
 */
export function tarballsFor(name, packed) {
  const names = ['webnn-node', `webnn-node-${thisPlatform()}`, name];
  return packed.filter((one) => names.includes(one.name)).map(({ file }) => file);
}

/**
 * What is asked of `webnn-node` alone: that it brings nothing but its addon, its size, and how long its import takes.
 *
 * @param {Project} project
 * @throws {Failure}
 */
function checkMain(project) {
  const platform = thisPlatform();
  const expected = ['webnn-node', `webnn-node-${platform}`];
  if (project.packages.join() !== expected.join()) {
    throw new Failure(`node_modules holds ${project.packages.join(', ')}, expected ${expected.join(', ')}`);
  }
  const installed = bytesOf(join(project.folder, 'node_modules'));
  console.log(`node_modules: ${megabytes(installed)}, at most ${megabytes(INSTALLED_BYTES)}; it holds ${expected.join(' and ')}`);
  const [time, processor, start] = importTimes(project);
  const most = IMPORT_SHARE * start;
  console.log(
    `import: ${time.toFixed(1)} ms, ${processor.toFixed(1)} ms of a processor, at most ${IMPORT_SHARE} of the ${start.toFixed(1)} ms of Node's start, ` +
      `in the middle of ${IMPORTS} processes`,
  );
  const glibc = platform.endsWith('-gnu') ? neededGlibc(join(root, addonName(platform))) : undefined;
  if (glibc !== undefined) {
    console.log(`The addon, built on this machine, needs glibc ${glibc} or newer.`);
  }
  if (installed > INSTALLED_BYTES) {
    throw new Failure(`node_modules holds ${installed} bytes, expected at most ${INSTALLED_BYTES}`);
  }
  if (processor > most) {
    throw new Failure(`an import takes ${processor} ms of a processor, expected at most ${most}`);
  }
}

async function main() {
  const { prebuilt } = parseArgs({ options: { prebuilt: { type: 'boolean', default: false } } }).values;
  await (prebuilt ? installPackages() : setUp());
  const packed = packThisPlatform(STAGE, join(root, 'dist'));
  for (const { name, file, size, unpackedSize } of packed) {
    console.log(`${name}: ${megabytes(size)} packed, ${megabytes(unpackedSize)} unpacked: ${file}`);
  }
  const tarballs = Object.fromEntries(packed.map(({ name, file }) => [name, file]));
  for (const [name, attempt] of Object.entries(TRIALS)) {
    const project = new Project();
    try {
      say(`${name} in ${project.folder}`);
      project.install(tarballsFor(name, packed));
      console.log(`${name}: ${attempt(project, tarballs)}`);
      if (name === 'webnn-node') checkMain(project);
    } finally {
      project.remove();
    }
  }
}

if (isProgram(import.meta.url)) {
  await entry(main);
}
