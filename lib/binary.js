'use strict';

/** Finds and loads the native binary. */

const fs = require('node:fs');
const { createRequire } = require('node:module');
const path = require('node:path');

const { version } = require('../package.json');

const packageDirectory = path.dirname(__dirname);

/** The environment variable that says which file to load instead: for bundles, single executables and own builds. */
const PATH_VARIABLE = 'WEBNN_NATIVE_LIBRARY_PATH';

/** The platforms that there are packages for, as they stand in file and package names. */
const PLATFORMS = [
  'darwin-arm64',
  'darwin-x64',
  'linux-arm64-gnu',
  'linux-arm64-musl',
  'linux-x64-gnu',
  'linux-x64-musl',
  'win32-arm64',
  'win32-x64',
];

/** What Deno adds; not that of a program elsewhere which imitates a part of it. */
const deno = process.versions.deno === undefined ? undefined : /** @type {any} */ (globalThis).Deno;

/** Architectures as they stand in the file name of musl's loader. */
/** @type {Record<string, string>} */
const MUSL_ARCHITECTURES = { arm64: 'aarch64', x64: 'x86_64' };

/** @returns {'gnu' | 'musl'} the C library of this Linux system */
function linuxLibc() {
  // Deno says what it was built for. Reading files would need a permission that nothing else here needs.
  const target = deno?.build.target;
  if (target !== undefined) {
    return target.includes('musl') ? 'musl' : 'gnu';
  }
  try {
    // A script that names its library; a glibc system can have musl installed beside it.
    const ldd = fs.readFileSync('/usr/bin/ldd', 'latin1');
    if (/musl|GNU C Library|GLIBC/.test(ldd)) {
      return ldd.includes('musl') ? 'musl' : 'gnu';
    }
  } catch {
    // Minimal images have no ldd: there, the loader of the only library tells.
  }
  return fs.existsSync(`/lib/ld-musl-${MUSL_ARCHITECTURES[process.arch] ?? process.arch}.so.1`) ? 'musl' : 'gnu';
}

/** @returns {string} platform, architecture and, on Linux, C library, as they stand in file and package names */
function platformName() {
  const { platform, arch } = process;
  return platform === 'linux' ? `${platform}-${arch}-${linuxLibc()}` : `${platform}-${arch}`;
}

/** @returns {string | undefined} what {@link PATH_VARIABLE} says; nothing where it is empty */
function pathFromEnvironment() {
  // Deno throws where a program may not read the variable: nobody there can have meant it for this package.
  const permission = deno?.permissions.querySync({ name: 'env', variable: PATH_VARIABLE });
  return permission === undefined || permission.state === 'granted' ? process.env[PATH_VARIABLE] || undefined : undefined;
}

/**
 * The native exports, if they are those of this version: the functions between JavaScript and the binary are private, and
 * change with every version.
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
  const what = found === undefined ? 'is no native binary of webnn-node' : `is the native binary of webnn-node ${found}`;
  throw new Error(`it ${what}, and this is webnn-node ${version}`);
}

/**
 * Loads a file; unlike `require` of a bundle or of a single executable, this takes any path.
 *
 * @param {string} file
 */
function loadFile(file) {
  return ofThisVersion(createRequire(file)(file));
}

/**
 * Loads the package of a platform. Bundlers and tracers of files see which packages may be needed, because the names are
 * literals, and take it that they may be absent, because that is caught right here.
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
 * What the system said, without the stack of requires that follows "Cannot find module".
 *
 * @param {string} place
 * @param {Error} error
 */
function reason(place, error) {
  return `  ${place}: ${error.message.split('\n')[0]}`;
}

/**
 * Packages of other platforms that are installed here, which tells a copied folder from an incomplete one.
 *
 * @param {string} platform
 */
function otherPackages(platform) {
  if (deno !== undefined) {
    return []; // to look for them would need a permission, and throw without it
  }
  const folders = [path.join(packageDirectory, '..'), path.join(packageDirectory, 'node_modules')];
  const installed = (/** @type {string} */ name) => folders.some((folder) => fs.existsSync(path.join(folder, name)));
  return PLATFORMS.filter((other) => other !== platform).map((other) => `webnn-node-${other}`).filter(installed);
}

/**
 * What to do about a binary that is there, but that the system does not load.
 *
 * @param {Error[]} errors
 */
function adviceForRefused(errors) {
  if (!errors.some(({ message }) => message.includes('GLIBC'))) {
    return 'The file may be damaged, or made for another system: install it anew.';
  }
  // Deno's report needs a permission, and throws without it.
  const version = deno === undefined ? ` (${/** @type {any} */ (process.report.getReport()).header.glibcVersionRuntime})` : '';
  return [
    `It needs a newer glibc than that of this system${version}:`,
    'use a newer system, or build webnn-node on this one.',
  ].join(' ');
}

/**
 * What to do about a binary that is not there.
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
 * Loads the binary that {@link PATH_VARIABLE} names, and nothing else.
 *
 * @param {string} named
 * @throws {Error} that names the variable and what the system said
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
 * Loads the binary beside the package root if there is one, else the one in the platform's package.
 *
 * @returns {import('./internal.js').Binding} the native exports
 * @throws {Error} that names the platform, what to install and every reason that the system gave
 */
function loadBinding() {
  const named = pathFromEnvironment();
  if (named !== undefined) {
    return loadNamed(named);
  }
  const platform = platformName();
  const file = path.join(packageDirectory, `webnn-node.${platform}.node`);
  const failures = /** @type {{place: string, error: NodeJS.ErrnoException}[]} */ ([]);
  // Tried without a look at the file first: Deno allows to load what it does not allow to look at.
  try {
    return loadFile(file);
  } catch (caught) {
    const error = /** @type {NodeJS.ErrnoException} */ (caught);
    // In an installed package, the binary is in the platform's package only.
    if (error.code !== 'MODULE_NOT_FOUND') {
      failures.push({ place: file, error });
    }
  }
  const binding = loadPackage(platform, (error) => failures.push({ place: `webnn-node-${platform}`, error }));
  if (binding !== undefined) {
    return binding;
  }
  const refused = failures.map(({ error }) => error).filter(({ code }) => code === 'ERR_DLOPEN_FAILED');
  throw new Error(
    [
      `webnn-node has no usable native binary for ${platform}.`,
      refused.length > 0 ? adviceForRefused(refused) : adviceForMissing(platform),
      ...(failures.length > 0 ? ['Tried:', ...failures.map(({ place, error }) => reason(place, error))] : []),
      `A binary in another place is named by the environment variable ${PATH_VARIABLE}.`,
    ].join('\n'),
    { cause: failures[0]?.error },
  );
}

module.exports = { PATH_VARIABLE, PLATFORMS, loadBinding };
