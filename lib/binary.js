'use strict';

/** Finds and loads the native binary. */

const fs = require('node:fs');
const { createRequire } = require('node:module');
const path = require('node:path');

const { engines, version } = require('../package.json');

const packageDirectory = path.dirname(__dirname);

/**
 * The environment variable with the path of a file to load instead: for bundles, single executables and custom builds.
 */
const PATH_VARIABLE = 'WEBNN_NATIVE_LIBRARY_PATH';

/** The platforms that have packages, as written in file and package names. */
const PLATFORMS = ['darwin-arm64', 'darwin-x64', 'linux-arm64-gnu', 'linux-arm64-musl', 'linux-x64-gnu', 'linux-x64-musl', 'win32-arm64', 'win32-x64'];

/** Deno's global; undefined in other runtimes, even if a program there imitates it. */
const deno = process.versions.deno === undefined ? undefined : /** @type {any} */ (globalThis).Deno;

/** Architectures as written in the file name of musl's loader. */
/** @type {Record<string, string>} */
const MUSL_ARCHITECTURES = { arm64: 'aarch64', x64: 'x86_64' };

/** @returns {'gnu' | 'musl'} the C library of this Linux system */
function linuxLibc() {
  // Deno knows its build target. Reading files would require a permission that nothing else here does.
  const target = deno?.build.target;
  if (target !== undefined) {
    return target.includes('musl') ? 'musl' : 'gnu';
  }
  try {
    // A script that names its library. musl can also be installed on a glibc system.
    const ldd = fs.readFileSync('/usr/bin/ldd', 'latin1');
    if (/musl|GNU C Library|GLIBC/.test(ldd)) {
      return ldd.includes('musl') ? 'musl' : 'gnu';
    }
  } catch {
    // Minimal images have no ldd and only one library: looks for musl's loader.
  }
  return fs.existsSync(`/lib/ld-musl-${MUSL_ARCHITECTURES[process.arch] ?? process.arch}.so.1`) ? 'musl' : 'gnu';
}

/** @returns {string} platform, architecture and, on Linux, C library, as written in file and package names */
function platformName() {
  const { platform, arch } = process;
  return platform === 'linux' ? `${platform}-${arch}-${linuxLibc()}` : `${platform}-${arch}`;
}

/** @returns {string | undefined} the value of {@link PATH_VARIABLE}; undefined if it is empty */
function pathFromEnvironment() {
  // Deno throws if the program may not read the variable: it was then not meant for this package.
  const permission = deno?.permissions.querySync({ name: 'env', variable: PATH_VARIABLE });
  return permission === undefined || permission.state === 'granted' ? process.env[PATH_VARIABLE] || undefined : undefined;
}

/**
 * Returns the native exports if they belong to this version: the functions between JavaScript and the binary are
 * private, and change with every version.
 *
 * @param {import('./internal.js').Binding} binding
 * @returns {import('./internal.js').Binding}
 * @throws {Error} with both versions
 */
function ofThisVersion(binding) {
  const found = typeof binding.version === 'function' ? binding.version() : undefined;
  if (found === version) {
    return binding;
  }
  const what = found === undefined ? 'is not a native binary of webnn-node' : `is the native binary of webnn-node ${found}`;
  throw new Error(`it ${what}, and this is webnn-node ${version}`);
}

/**
 * Loads a file. Unlike `require` in a bundle or a single executable, this accepts any path.
 *
 * @param {string} file
 */
function loadFile(file) {
  return ofThisVersion(createRequire(file)(file));
}

/**
 * Loads the package of a platform. The names are literals: bundlers and file tracers see which packages may be needed.
 * Errors are caught here, by which these tools accept that packages may be absent.
 *
 * @param {string} platform
 * @param {(error: NodeJS.ErrnoException) => void} onError
 * @returns {import('./internal.js').Binding | undefined} the native exports
 */
function loadPackage(platform, onError) {
  try {
    switch (platform) {
      case 'darwin-arm64':
        return ofThisVersion(require('webnn-node-darwin-arm64'));
      case 'darwin-x64':
        return ofThisVersion(require('webnn-node-darwin-x64'));
      case 'linux-arm64-gnu':
        return ofThisVersion(require('webnn-node-linux-arm64-gnu'));
      case 'linux-arm64-musl':
        return ofThisVersion(require('webnn-node-linux-arm64-musl'));
      case 'linux-x64-gnu':
        return ofThisVersion(require('webnn-node-linux-x64-gnu'));
      case 'linux-x64-musl':
        return ofThisVersion(require('webnn-node-linux-x64-musl'));
      case 'win32-arm64':
        return ofThisVersion(require('webnn-node-win32-arm64'));
      case 'win32-x64':
        return ofThisVersion(require('webnn-node-win32-x64'));
    }
  } catch (error) {
    onError(/** @type {NodeJS.ErrnoException} */ (error));
  }
  return undefined;
}

/**
 * The system's message, without the stack of requires that follows "Cannot find module".
 *
 * @param {string} place
 * @param {Error} error
 */
function reason(place, error) {
  return `  ${place}: ${error.message.split('\n')[0]}`;
}

/**
 * Lists installed packages of other platforms, to distinguish a copied folder from an incomplete one.
 *
 * @param {string} platform
 */
function otherPackages(platform) {
  if (deno !== undefined) {
    return []; // looking for them requires a permission, and throws without it
  }
  const folders = [path.join(packageDirectory, '..'), path.join(packageDirectory, 'node_modules')];
  const installed = (/** @type {string} */ name) => folders.some((folder) => fs.existsSync(path.join(folder, name)));
  return PLATFORMS.filter((other) => other !== platform)
    .map((other) => `webnn-node-${other}`)
    .filter(installed);
}

/**
 * Advice for a binary that exists but cannot be loaded.
 *
 * @param {Error[]} errors
 */
function adviceForRefused(errors) {
  if (!errors.some(({ message }) => message.includes('GLIBC'))) {
    return 'The file may be damaged or built for another system: reinstall it.';
  }
  // Deno's report requires a permission, and throws without it.
  const version = deno === undefined ? ` (${/** @type {any} */ (process.report.getReport()).header.glibcVersionRuntime})` : '';
  return [`It needs a newer glibc than this system has${version}:`, 'use a newer system, or build webnn-node on this one.'].join(' ');
}

/**
 * Advice for a missing binary.
 *
 * @param {string} platform
 */
function adviceForMissing(platform) {
  if (!PLATFORMS.includes(platform)) {
    return `There are packages for ${PLATFORMS.join(', ')}. For other platforms, build webnn-node from its source.`;
  }
  const others = otherPackages(platform);
  return [
    `Install it with: npm install webnn-node-${platform}@${version}`,
    '(Package managers leave it out when optional dependencies are omitted, or when the lockfile was',
    'written on another platform.)',
    ...(others.length > 0 ? [`Installed for other platforms: ${others.join(', ')}`] : []),
  ].join('\n');
}

/**
 * @param {{error: NodeJS.ErrnoException}[]} failures
 * @param {string} platform
 * @returns {string} what to do about them
 */
function adviceFor(failures, platform) {
  const errors = failures.map(({ error }) => error);
  if (errors.some(({ message }) => message.includes('--allow-ffi'))) {
    return 'Deno may not load native binaries: run the program with --allow-ffi.';
  }
  const refused = errors.filter(({ code }) => code === 'ERR_DLOPEN_FAILED');
  return refused.length > 0 ? adviceForRefused(refused) : adviceForMissing(platform);
}

/**
 * Loads the binary that {@link PATH_VARIABLE} names, and nothing else.
 *
 * @param {string} named
 * @throws {Error} with the variable and the system's message
 */
function loadNamed(named) {
  const file = path.resolve(named);
  try {
    return loadFile(file);
  } catch (error) {
    const where = `${PATH_VARIABLE} is "${named}", which cannot be loaded as the native binary of webnn-node:`;
    throw new Error(`${where}\n${reason(file, /** @type {Error} */ (error))}`, { cause: error });
  }
}

/**
 * Checks the version of Node. Without this, an older one fails at the first function that it lacks. Deno and Bun name
 * the version that they imitate, which says little about what they have.
 *
 * @throws {Error} with both versions
 */
function requireNode() {
  const { node, deno, bun } = process.versions;
  const needed = engines.node.replace('>=', '');
  const [major, minor] = node.split('.').map(Number);
  const [neededMajor, neededMinor] = needed.split('.').map(Number);
  if (deno === undefined && bun === undefined && (major < neededMajor || (major === neededMajor && minor < neededMinor))) {
    throw new Error(`webnn-node needs Node ${needed} or newer, this is Node ${node}`);
  }
}

/**
 * Loads the binary in the package root if there is one, otherwise the one in the platform's package.
 *
 * @returns {import('./internal.js').Binding} the native exports
 * @throws {Error} for an old Node; or with the platform, the package to install and all messages of the system
 */
function loadBinding() {
  requireNode();
  const named = pathFromEnvironment();
  if (named !== undefined) {
    return loadNamed(named);
  }
  const platform = platformName();
  const file = path.join(packageDirectory, `webnn-node.${platform}.node`);
  const failures = /** @type {{place: string, error: NodeJS.ErrnoException}[]} */ ([]);
  // Does not check for the file first: Deno may allow loading a file but not looking at it.
  try {
    return loadFile(file);
  } catch (caught) {
    const error = /** @type {NodeJS.ErrnoException} */ (caught);
    // In an installed package, only the platform's package has the binary.
    if (error.code !== 'MODULE_NOT_FOUND') {
      failures.push({ place: file, error });
    }
  }
  const binding = loadPackage(platform, (error) => failures.push({ place: `webnn-node-${platform}`, error }));
  if (binding !== undefined) {
    return binding;
  }
  throw new Error(
    [
      `webnn-node has no usable native binary for ${platform}.`,
      adviceFor(failures, platform),
      ...(failures.length > 0 ? ['Tried:', ...failures.map(({ place, error }) => reason(place, error))] : []),
      `To load a binary from another path, set the environment variable ${PATH_VARIABLE} to it.`,
    ].join('\n'),
    { cause: failures[0]?.error },
  );
}

module.exports = { PATH_VARIABLE, PLATFORMS, loadBinding };
