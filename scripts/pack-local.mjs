// `npm run pack:local`: packs the packages to publish for this platform into dist/, installs each into an empty project
// outside the repository as a user would, without Rust on the PATH, and tries it there (smoke-tests.mjs). Prints sizes and
// the time of an import. `-- --prebuilt` packs the addon in the repository root, however it was built.

import { lstatSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { checkNotices } from './notices.mjs';
import { lintPackage } from './package-lint.mjs';
import { addonName, neededGlibc, pack, readManifest, stage, STAGE } from './packages.mjs';
import { entry, Failure, isProgram, root, say, WORKSPACES } from './process.mjs';
import { installPackages, setUp, thisPlatform } from './setup.mjs';
import { Project, SMOKE_TESTS } from './smoke-tests.mjs';

/** Maximum bytes of `node_modules` after installing `webnn-node` into an empty project. */
export const INSTALLED_BYTES = 25e6;

/** Maximum CPU time of an import, as a share of Node's start. (Milliseconds depend on the machine and its load.) */
const IMPORT_SHARE = 0.5;

/** Number of processes started to measure an import. */
const IMPORTS = 21;

/**
 * Returns the bytes of all files below a folder; links are not followed.
 * @param {string} path
 * @returns {number}
 */
export function bytesOf(path) {
  const stats = lstatSync(path);
  return stats.isDirectory() ? readdirSync(path).reduce((sum, name) => sum + bytesOf(join(path, name)), 0) : stats.size;
}

/**
 * Returns medians over fresh processes, in milliseconds: of the time and the CPU time of `require('webnn-node')`, and
 * of the CPU time of Node's start.
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

/**
 * The sizes that pages state for Linux x64, in megabytes, installed and downloaded.
 *
 * @type {{ page: string, pattern: RegExp, kind: 'installed' | 'downloaded' }[]}
 */
const CLAIMS = [
  { page: 'README.md', pattern: /with (\d+) MB installed/, kind: 'installed' },
  { page: 'README.md', pattern: /\| Installed \| (\d+) MB/, kind: 'installed' },
  { page: 'docs/comparison.md', pattern: /\| Installed \| (\d+) MB/, kind: 'installed' },
  { page: 'docs/install.md', pattern: /take (\d+) MB installed/, kind: 'installed' },
  { page: 'docs/install.md', pattern: /are (\d+) MB to download/, kind: 'downloaded' },
];

/**
 * Checks what pages claim, in whole megabytes.
 *
 * @param {Record<(typeof CLAIMS)[number]['kind'], number>} bytes
 * @throws {Failure}
 */
function checkClaims(bytes) {
  const wrong = CLAIMS.flatMap(({ page, pattern, kind }) => {
    const claimed = pattern.exec(readFileSync(join(root, page), 'utf8'))?.[1];
    return Number(claimed) === Math.round(bytes[kind] / 1e6) ? [] : [`${page} claims ${claimed} MB ${kind}, and ${megabytes(bytes[kind])} were measured`];
  });
  if (wrong.length > 0) throw new Failure(wrong.join('\n'));
}

const megabytes = (/** @type {number} */ bytes) => `${(bytes / 1e6).toFixed(1)} MB`;

/**
 * Packs all packages with the addon in the repository root; of the platform packages, only this platform's.
 *
 * @param {string} staged folder for the package contents; replaced if it exists
 * @param {string} destination folder for the tarballs
 * @returns {Packed[]}
 */
export function packThisPlatform(staged, destination) {
  const platform = thisPlatform();
  return stage(staged, { [platform]: join(root, addonName(platform)) }).map((folder) => pack(folder, destination));
}

/** @typedef {ReturnType<typeof pack>} Packed */

/**
 * Returns the tarballs that a user of a package installs: its own, and those of its dependencies.
 *
 * @param {string} name
 * @param {Packed[]} packed
 */
export function tarballsFor(name, packed) {
  const folder = WORKSPACES.find((workspace) => readManifest(join(root, workspace)).name === name);
  const dependencies = folder === undefined ? [] : Object.keys(readManifest(join(root, folder)).dependencies);
  const names = ['webnn-node', `webnn-node-${thisPlatform()}`, name, ...dependencies];
  return packed.filter((one) => names.includes(one.name)).map(({ file }) => file);
}

/**
 * Checks `webnn-node` alone: it must install nothing but its addon, and stay within the limits of size and import time.
 *
 * @param {Project} project
 * @returns {number} the bytes that are installed
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
  return installed;
}

async function main() {
  const { prebuilt } = parseArgs({ options: { prebuilt: { type: 'boolean', default: false } } }).values;
  await (prebuilt ? installPackages() : setUp());
  checkNotices();
  const packed = packThisPlatform(STAGE, join(root, 'dist'));
  for (const { name, file, size, unpackedSize } of packed) {
    console.log(`${name}: ${megabytes(size)} packed, ${megabytes(unpackedSize)} unpacked: ${file}`);
    await lintPackage(file);
  }
  const tarballs = Object.fromEntries(packed.map(({ name, file }) => [name, file]));
  for (const [name, attempt] of Object.entries(SMOKE_TESTS)) {
    const project = new Project();
    try {
      say(`${name} in ${project.folder}`);
      project.install(tarballsFor(name, packed));
      console.log(`${name}: ${attempt(project, tarballs)}`);
      if (name === 'webnn-node') {
        const installed = checkMain(project);
        const downloaded = packed.filter((one) => project.packages.includes(one.name)).reduce((sum, { size }) => sum + size, 0);
        // Pages claim what an optimized build has, and another one may lie there.
        if (!prebuilt && thisPlatform() === 'linux-x64-gnu') checkClaims({ installed, downloaded });
      }
    } finally {
      project.remove();
    }
  }
}

if (isProgram(import.meta.url)) {
  await entry(main);
}
