// Makes a checkout usable: installs npm packages and builds the addon in release mode, if missing or stale. Run by `npm
// start`, `npm test` and `npm run setup`. With --packages, only installs npm packages.

import { spawn } from 'node:child_process';
import { existsSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { entry, Failure, isProgram, outputOf, root, runNpm, say } from './process.mjs';

/**
 * Whether version `actual` (`1.95.0`, `v20.3.1`, `1.96.0-nightly`) is at least `wanted` (`1.90`, `20`). Components
 * missing in `wanted` may have any value.
 * @param {string} actual
 * @param {string} wanted
 */
export function isAtLeast(actual, wanted) {
  const numbers = (/** @type {string} */ version) => version.replace(/^v/, '').split('-')[0].split('.').map(Number);
  const [have, need] = [numbers(actual), numbers(wanted)];
  for (let i = 0; i < need.length; i++) {
    if ((have[i] ?? 0) !== need[i]) {
      return (have[i] ?? 0) > need[i];
    }
  }
  return true;
}

/**
 * Returns a platform's name in addons and packages, the one that `lib/binary.js` looks for: `linux-x64-gnu`,
 * `darwin-arm64`, `win32-x64`.
 *
 * @param {string} platform as `process.platform`
 * @param {string} arch as `process.arch`
 * @param {boolean} glibc whether Node runs on glibc; relevant on Linux only
 */
export function platformName(platform, arch, glibc) {
  const libc = platform === 'linux' ? (glibc ? '-gnu' : '-musl') : '';
  return `${platform}-${arch}${libc}`;
}

/** Returns the platform of this Node. */
export function thisPlatform() {
  return platformName(process.platform, process.arch, /** @type {any} */ (process.report.getReport()).header.glibcVersionRuntime !== undefined);
}

/** @throws {Failure} when this Node is older than package.json requires */
function checkNode() {
  const { engines } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  const wanted = engines.node.replace(/^>=/, '');
  if (!isAtLeast(process.version, wanted)) {
    throw new Failure(`webnn-node needs Node ${wanted} or newer; this is Node ${process.version}.`);
  }
}

/**
 * Whether node_modules does not match package-lock.json. npm writes its own lock file into node_modules last: that
 * file's time is the time of the last complete installation.
 *
 * @param {string} directory the folder of package-lock.json
 */
export function packagesAreStale(directory) {
  const installed = join(directory, 'node_modules', '.package-lock.json');
  return !existsSync(installed) || statSync(join(directory, 'package-lock.json')).mtimeMs > statSync(installed).mtimeMs;
}

/**
 * Installs the npm packages of a folder's lock file if they are missing or older. Install scripts do not run: none is
 * needed, and some would download GPU libraries, or files that the packages already contain.
 *
 * @param {string} what name of the packages in the error
 * @param {string} directory the folder of package-lock.json
 * @param {string[]} [flags] of `npm ci`
 */
export async function installLocked(what, directory, flags = []) {
  if (packagesAreStale(directory)) {
    await runNpm(`installation of ${what}`, ['ci', '--ignore-scripts', '--no-audit', '--no-fund', ...flags], { cwd: directory });
  }
}

/** Installs the npm packages that development needs. */
export async function installPackages() {
  checkNode();
  await installLocked('npm packages', root);
}

/**
 * @throws {Failure} when cargo or rustc is missing, or rustc is older than Cargo.toml requires
 */
export function checkRust() {
  const howTo = 'Install the Rust toolchain from https://rustup.rs and start again in a new terminal.';
  if (outputOf('cargo', ['--version']) === undefined) {
    throw new Failure(`webnn-node is built with cargo, which cannot be run.\n${howTo}`);
  }
  const rustc = outputOf(process.env.RUSTC ?? 'rustc', ['--version']);
  if (rustc === undefined) {
    throw new Failure(`webnn-node is built with rustc, which cannot be run.\n${howTo}`);
  }
  const [, wanted] = /** @type {RegExpExecArray} */ (/^rust-version\s*=\s*"([^"]+)"/m.exec(readFileSync(join(root, 'Cargo.toml'), 'utf8')));
  if (!isAtLeast(rustc.split(' ')[1], wanted)) {
    throw new Failure(`webnn-node needs Rust ${wanted} or newer; this is ${rustc}.\nUpdate it with: rustup update stable`);
  }
}

/** Returns advice for a build that failed without a linker; empty if there is one. */
function linkerAdvice() {
  if (process.platform === 'win32' || outputOf('cc', ['--version']) !== undefined) {
    return '';
  }
  const install = process.platform === 'darwin' ? 'xcode-select --install' : 'apt install gcc libc6-dev (Debian), apk add build-base (Alpine)';
  return `\nNo C compiler "cc" is found, and Rust links with it. Install one: ${install}`;
}

/**
 * Runs `cargo build --release`, which rebuilds only what is stale.
 *
 * @param {{ command?: string, target?: string, env?: Record<string, string> }} [options] another command of cargo,
 *   Rust's name of another platform, and additions to the environment
 * @returns {Promise<string>} path of the shared library
 * @throws {Failure} when the build fails
 */
export async function buildLibrary({ command = 'build', target, env = {} } = {}) {
  const platform = target === undefined ? [] : ['--target', target];
  const args = [command, '--release', '--lib', ...platform, '--message-format=json-render-diagnostics'];
  say(`cargo ${args.join(' ')}`);
  // Cargo's messages come on standard output; progress and diagnostics go to standard error.
  const cargo = spawn('cargo', args, { cwd: root, stdio: ['ignore', 'pipe', 'inherit'], env: { ...process.env, ...env } });
  const ended = new Promise((resolve, reject) => {
    cargo.on('error', (error) => reject(new Failure(`build of the addon: cannot run cargo: ${error.message}`)));
    cargo.on('close', resolve);
  });
  let library;
  for await (const line of createInterface({ input: cargo.stdout })) {
    const message = JSON.parse(line);
    if (message.reason === 'compiler-artifact' && message.target.name === 'webnn_node') {
      library = message.filenames.find((/** @type {string} */ name) => /\.(so|dylib|dll)$/.test(name)) ?? library;
    }
  }
  const code = await ended;
  if (code !== 0) {
    throw new Failure(`build of the addon failed: cargo ended with ${code}${linkerAdvice()}`, code ?? 1);
  }
  if (library === undefined) {
    throw new Failure('build of the addon: cargo named no shared library');
  }
  return library;
}

/**
 * Copies `source` to `target` by renaming: a process that has loaded the old file keeps it. Does nothing if both have
 * the same content.
 * @param {string} source
 * @param {string} target
 * @returns {boolean} whether the file was replaced
 */
export function replaceFile(source, target) {
  const content = readFileSync(source);
  if (existsSync(target) && readFileSync(target).equals(content)) {
    return false;
  }
  const temporary = `${target}.${process.pid}.tmp.node`;
  try {
    writeFileSync(temporary, content, { mode: 0o755 });
    renameSync(temporary, target);
  } catch (error) {
    rmSync(temporary, { force: true });
    throw new Failure(`cannot write ${target}: ${/** @type {Error} */ (error).message}\nIf a program that uses the addon is running, end it first.`);
  }
  return true;
}

/** Builds the addon and puts it into the repository root, where `lib/binary.js` finds it. */
export async function buildAddon() {
  checkRust();
  const library = await buildLibrary();
  const name = `webnn-node.${thisPlatform()}.node`;
  say(replaceFile(library, join(root, name)) ? `${name} is new` : `${name} is current`);
}

/** Runs the whole setup: npm packages, then the addon. */
export async function setUp() {
  await installPackages();
  await buildAddon();
}

if (isProgram(import.meta.url)) {
  await entry(process.argv.includes('--packages') ? installPackages : setUp);
}
