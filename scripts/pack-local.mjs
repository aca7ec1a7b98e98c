// `npm run pack:local`: packs what is published for this platform into dist/, installs it into an empty project outside of
// the repository as a user would, and runs the WebNN program of README.md there, with no Rust on the PATH. Prints sizes,
// and how long an import takes. `-- --prebuilt` packs the addon that lies in the repository root, whatever built it.

import { spawnSync } from 'node:child_process';
import { existsSync, lstatSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { parseArgs } from 'node:util';
import { addonName, neededGlibc, pack, stage, STAGE } from './packages.mjs';
import { entry, Failure, isProgram, npmOutput, root, say } from './process.mjs';
import { installPackages, setUp, thisPlatform } from './setup.mjs';

/** Most bytes that `node_modules` may hold after `webnn-node` was installed into an empty project. */
export const INSTALLED_BYTES = 25e6;

/** How much of the processor time that starting Node takes an import may take. (Milliseconds depend on the machine and its load.) */
const IMPORT_SHARE = 0.5;

/** How many processes are started to measure an import. */
const IMPORTS = 21;

/** The program of README.md that needs no file, and what it prints according to the block below it. */
export function readmeProgram() {
  const readme = readFileSync(join(root, 'README.md'), 'utf8');
  const [, program, printed] = /** @type {RegExpExecArray} */ (/## WebNN\n\n```js\n(.*?)```.*?```text\n(.*?)\n```/s.exec(readme));
  return { program, printed };
}

/** This process's environment without the folders of the Rust toolchain on the PATH. */
export function environmentWithoutRust() {
  const name = Object.keys(process.env).find((key) => key.toUpperCase() === 'PATH') ?? 'PATH';
  const tools = ['cargo', 'rustc', 'cargo.exe', 'rustc.exe'];
  const holdsRust = (/** @type {string} */ folder) => tools.some((tool) => existsSync(join(folder, tool)));
  const folders = (process.env[name] ?? '').split(delimiter).filter((folder) => !holdsRust(folder));
  return { ...process.env, [name]: folders.join(delimiter) };
}

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
 * Runs a program of a project.
 * @param {string} project
 * @param {string} name
 * @param {string} program
 * @returns {string} what it printed, trimmed
 * @throws {Failure} with its error
 */
function runProgram(project, name, program) {
  writeFileSync(join(project, name), program);
  const { status, stdout, stderr } = spawnSync(process.execPath, [name], { cwd: project, env: environmentWithoutRust(), encoding: 'utf8' });
  if (status !== 0) {
    throw new Failure(`${name} failed in ${project}:\n${stderr}`);
  }
  return stdout.trim();
}

/**
 * Milliseconds and milliseconds of processor time that `require('webnn-node')` takes, and those of a processor that Node takes to
 * start, in the middle of fresh processes.
 * @param {string} project
 */
function importTimes(project) {
  const program = `
    const begin = { time: performance.now(), usage: process.cpuUsage() };
    require('webnn-node');
    const { user, system } = process.cpuUsage(begin.usage);
    const start = (begin.usage.user + begin.usage.system) / 1000;
    console.log(JSON.stringify([performance.now() - begin.time, (user + system) / 1000, start]));`;
  const samples = Array.from({ length: IMPORTS }, () => JSON.parse(runProgram(project, 'import.cjs', program)));
  return [0, 1, 2].map((column) => samples.map((sample) => sample[column]).sort((a, b) => a - b)[IMPORTS >> 1]);
}

const megabytes = (/** @type {number} */ bytes) => `${(bytes / 1e6).toFixed(1)} MB`;

/**
 * Packs `webnn-node` and the package of this platform, from the addon in the repository root.
 *
 * @param {string} staged folder for what is packed; replaced if it exists
 * @param {string} destination folder for the tarballs
 * @returns {ReturnType<typeof pack>[]}
 */
export function packThisPlatform(staged, destination) {
  const platform = thisPlatform();
  return stage(staged, { [platform]: join(root, addonName(platform)) }).map((folder) => pack(folder, destination));
}

/**
 * Makes an empty folder a project, and installs tarballs into it as a user would.
 * @param {string} project
 * @param {string[]} tarballs
 * @throws {Failure}
 */
export function installInto(project, tarballs) {
  writeFileSync(join(project, 'package.json'), '{ "private": true }\n');
  const args = ['install', '--prefer-offline', '--no-audit', '--no-fund', ...tarballs];
  npmOutput('installation', args, { cwd: project, env: environmentWithoutRust() });
}

async function main() {
  const { prebuilt } = parseArgs({ options: { prebuilt: { type: 'boolean', default: false } } }).values;
  await (prebuilt ? installPackages() : setUp());
  const platform = thisPlatform();
  const tarballs = packThisPlatform(STAGE, join(root, 'dist'));
  const project = mkdtempSync(join(tmpdir(), 'webnn-user-'));
  try {
    say(`npm install in ${project}`);
    installInto(project, tarballs.map(({ file }) => file));
    const { program, printed } = readmeProgram();
    const output = runProgram(project, 'first.mjs', program);
    if (output !== printed) {
      throw new Failure(`the WebNN program of README.md printed ${output}, expected ${printed}`);
    }
    console.log(`The WebNN program of README.md prints ${output}`);
    for (const { name, file, size, unpackedSize } of tarballs) {
      console.log(`${name}: ${megabytes(size)} packed, ${megabytes(unpackedSize)} unpacked: ${file}`);
    }
    const installed = bytesOf(join(project, 'node_modules'));
    console.log(`node_modules: ${megabytes(installed)} with all dependencies, at most ${megabytes(INSTALLED_BYTES)}`);
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
  } finally {
    rmSync(project, { recursive: true, force: true });
  }
}

if (isProgram(import.meta.url)) {
  await entry(main);
}
