// The published npm packages: `webnn-node`, which is plain JavaScript; one package per platform, which holds only the
// addon; and those of packages/, which use `webnn-node`. The platform packages are optional dependencies of
// `webnn-node` with the fields `os`, `cpu` and `libc`: npm installs the matching addon. The package.json of a checkout
// does not name them: the addon is built there, and a lock file could not contain packages that are not published yet.
// All are private: only packages that this program writes can be published.
//
//   node scripts/packages.mjs build PLATFORM          builds the addon for a platform, into the repository root
//   node scripts/packages.mjs stage                   writes all packages to dist/npm/, from the addons in the root
//   node scripts/packages.mjs publish [--dry-run]     publishes them in dependency order
// Building needs rustup, and for Linux also Python: cargo-zigbuild and zig are Python packages
// (scripts/python/cross.txt).

import { spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { delimiter, dirname, join } from 'node:path';
import { parseArgs } from 'node:util';
import { checkNotices, NOTICES } from './notices.mjs';
import { PLATFORMS, rustTarget } from './platforms.mjs';
import { entry, Failure, isProgram, npmOutput, npmResult, root, run, runNpm, say, WORKSPACES } from './process.mjs';
import { pythonEnvironment } from './python.mjs';
import { buildLibrary, installPackages, isAtLeast, replaceFile } from './setup.mjs';

const USAGE = 'usage: node scripts/packages.mjs build PLATFORM | stage | publish [--dry-run]';

/** Where the packages are written. */
export const STAGE = join(root, 'dist', 'npm');

/**
 * The newest glibc that the addons may require: the oldest that Rust supports, which is older than that of any Node.
 */
const OLDEST_GLIBC = '2.17';

/**
 * npm's names of C libraries.
 *
 * @type {Record<string, string>}
 */
const NPM_LIBCS = { gnu: 'glibc', musl: 'musl' };

/**
 * @param {string} platform
 * @returns {string} file name of a platform's addon
 */
export function addonName(platform) {
  return `webnn-node.${platform}.node`;
}

const LICENSES = ['LICENSE-APACHE', 'LICENSE-MIT'];

const packageName = (/** @type {string} */ platform) => `webnn-node-${platform}`;
/** The package.json of a folder. */
export const readManifest = (/** @type {string} */ directory) => JSON.parse(readFileSync(join(directory, 'package.json'), 'utf8'));

/**
 * Returns the manifest of a published package, without fields for the checkout only.
 *
 * @param {Record<string, any>} manifest that of the checkout
 * @returns {Record<string, any>}
 */
export function publishedManifest(manifest) {
  const { private: _, scripts, devDependencies, workspaces, ...published } = manifest;
  return published;
}

/**
 * Returns the published manifest of `webnn-node`, with its addons as optional dependencies.
 *
 * @param {Record<string, any>} manifest that of the checkout
 * @returns {Record<string, any>}
 */
export function mainManifest(manifest) {
  return {
    ...publishedManifest(manifest),
    files: manifest.files.filter((/** @type {string} */ pattern) => !pattern.endsWith('.node')),
    optionalDependencies: Object.fromEntries(PLATFORMS.map((platform) => [packageName(platform), manifest.version])),
  };
}

/**
 * Returns the manifest of a platform's package.
 *
 * @param {string} platform
 * @param {Record<string, any>} manifest that of the checkout
 */
export function platformManifest(platform, manifest) {
  const [os, cpu, libc] = platform.split('-');
  const { version, homepage, bugs, repository, author, license } = manifest;
  return {
    name: packageName(platform),
    version,
    description: `The native binary of webnn-node for ${platform}`,
    homepage,
    bugs,
    repository,
    author,
    license,
    type: 'commonjs',
    main: addonName(platform),
    files: [addonName(platform), ...LICENSES, NOTICES],
    engines: manifest.engines,
    os: [os],
    cpu: [cpu],
    ...(libc !== undefined && { libc: [NPM_LIBCS[libc]] }),
  };
}

/**
 * Returns the newest glibc version whose symbols a Linux library needs; undefined if it needs none.
 * @param {string} file
 */
export function neededGlibc(file) {
  const versions = [...readFileSync(file, 'latin1').matchAll(/GLIBC_(\d+(?:\.\d+)+)/g)].map(([, version]) => version);
  const newer = (/** @type {string} */ a, /** @type {string} */ b) => (isAtLeast(a, b) ? a : b);
  return versions.length === 0 ? undefined : versions.reduce(newer);
}

/**
 * @param {string} directory
 * @param {object} manifest
 */
function writeManifest(directory, manifest) {
  writeFileSync(join(directory, 'package.json'), `${JSON.stringify(manifest, null, 2)}\n`);
}

/**
 * Copies the files that `npm pack` would take from a folder of the checkout, except addons and the manifest.
 *
 * @param {string} source
 * @param {string} folder
 */
function copyPackage(source, folder) {
  const [{ files }] = JSON.parse(npmOutput('list of files', ['pack', '--dry-run', '--json', '--ignore-scripts'], { cwd: source }));
  const paths = /** @type {{ path: string }[]} */ (files).map(({ path }) => path).filter((path) => path !== 'package.json' && !path.endsWith('.node'));
  for (const path of paths) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    cpSync(join(source, path), join(folder, path));
  }
}

/**
 * Writes the declarations of a package whose types are in comments, if it has a tsconfig.json.
 *
 * @param {string} source
 * @param {string} folder
 */
function writeDeclarations(source, folder) {
  if (!existsSync(join(source, 'tsconfig.json'))) return;
  const compiler = join(root, 'node_modules', 'typescript', 'bin', 'tsc');
  const { status, stdout } = spawnSync(process.execPath, [compiler, '--project', source, '--outDir', join(folder, 'lib')], { encoding: 'utf8' });
  if (status !== 0) {
    throw new Failure(`declarations of ${source} failed:\n${stdout}`);
  }
}

/** @param {string} folder */
function copyLicenses(folder) {
  for (const license of LICENSES) {
    cpSync(join(root, license), join(folder, license));
  }
}

/**
 * Writes packages as folders to pack or publish: the platform packages, `webnn-node` and those that use it.
 *
 * @param {string} directory replaced if it exists
 * @param {Record<string, string>} addons addons paths by platform
 * @returns {string[]} the folders in dependency order
 */
export function stage(directory, addons) {
  const manifest = readManifest(root);
  rmSync(directory, { recursive: true, force: true });
  const platforms = Object.entries(addons).map(([platform, addon]) => {
    const folder = join(directory, packageName(platform));
    mkdirSync(folder, { recursive: true });
    cpSync(addon, join(folder, addonName(platform)));
    copyLicenses(folder);
    cpSync(join(root, NOTICES), join(folder, NOTICES));
    const readme = `The native binary of webnn-node for ${platform}. webnn-node installs it on that platform.\n`;
    writeFileSync(join(folder, 'README.md'), readme);
    writeManifest(folder, platformManifest(platform, manifest));
    return folder;
  });
  const main = join(directory, manifest.name);
  copyPackage(root, main);
  writeManifest(main, mainManifest(manifest));
  const others = WORKSPACES.map((path) => {
    const source = join(root, path);
    const own = readManifest(source);
    const folder = join(directory, own.name);
    copyPackage(source, folder);
    writeDeclarations(source, folder);
    copyLicenses(folder);
    writeManifest(folder, { ...publishedManifest(own), ...(own.files && { files: [...own.files, ...LICENSES] }) });
    return folder;
  });
  return [...platforms, main, ...others];
}

/**
 * Packs a folder.
 * @param {string} folder
 * @param {string} destination
 * @returns {{ name: string, file: string, size: number, unpackedSize: number, files: { path: string }[] }} name, path
 *   of the tarball, its bytes, unpacked bytes, and files
 */
export function pack(folder, destination) {
  mkdirSync(destination, { recursive: true });
  const args = ['pack', folder, '--json', '--ignore-scripts', '--pack-destination', destination];
  const [packed] = JSON.parse(npmOutput(`packing of ${folder}`, args));
  return { ...packed, file: join(destination, packed.filename) };
}

/**
 * Returns rustc flags for a platform, as the environment variable that cargo reads.
 * @param {string} platform
 * @param {string} target
 * @returns {Record<string, string>}
 */
function rustFlags(platform, target) {
  /** @type {Record<string, string>} */
  const flags = {
    // Otherwise, Rust links musl statically: a second C library in the process, in addition to Node's.
    musl: '-C target-feature=-crt-static',
    // Links the Visual C++ runtime statically: neither Node nor Windows brings it.
    win32: '-C target-feature=+crt-static',
  };
  const key = Object.keys(flags).find((part) => platform.split('-').includes(part));
  const variable = `CARGO_TARGET_${target.toUpperCase().replaceAll('-', '_')}_RUSTFLAGS`;
  return key === undefined ? {} : { [variable]: flags[key] };
}

/**
 * Builds the addon of a platform into the repository root.
 * @param {string} platform
 */
async function build(platform) {
  const target = rustTarget(platform);
  await run(`installation of Rust's standard library for ${target}`, 'rustup', ['target', 'add', target]);
  /** @type {{ command?: string, target: string, env: Record<string, string> }} */
  const options = { target, env: rustFlags(platform, target) };
  if (platform.startsWith('linux-')) {
    // zig has the headers and stubs of every glibc and of musl.
    options.command = 'zigbuild';
    options.env.PATH = `${dirname(await pythonEnvironment('cross'))}${delimiter}${process.env.PATH}`;
    options.target += platform.endsWith('-gnu') ? `.${OLDEST_GLIBC}` : '';
  }
  replaceFile(await buildLibrary(options), join(root, addonName(platform)));
  say(`${addonName(platform)} is built`);
}

/** Writes all packages, from addons in the repository root. */
async function stageAll() {
  await installPackages(); // for the TypeScript compiler
  checkNotices();
  const addons = Object.fromEntries(PLATFORMS.map((platform) => [platform, join(root, addonName(platform))]));
  for (const [platform, addon] of Object.entries(addons)) {
    const advice = `build it with node scripts/packages.mjs build ${platform}`;
    if (!existsSync(addon)) {
      throw new Failure(`${addon} is missing: ${advice}`);
    }
    const glibc = platform.endsWith('-gnu') ? neededGlibc(addon) : undefined;
    if (glibc !== undefined && !isAtLeast(OLDEST_GLIBC, glibc)) {
      throw new Failure(`${addon} needs glibc ${glibc}, expected at most ${OLDEST_GLIBC}: ${advice}`);
    }
  }
  for (const folder of stage(STAGE, addons)) {
    say(folder);
  }
}

/**
 * Whether the registry has this version of a package: an interrupted publication can be resumed.
 * @param {{ name: string, version: string }} published
 */
function isPublished({ name, version }) {
  const { status, stdout, stderr } = npmResult(['view', name, 'versions', '--json']);
  if (status !== 0 && !`${stderr}${stdout}`.includes('E404')) {
    throw new Failure(`look-up of ${name} failed:\n${stderr}${stdout}`);
  }
  return status === 0 && [JSON.parse(stdout)].flat().includes(version);
}

/**
 * Publishes the packages in dependency order: a package can always be installed with its dependencies.
 * @param {boolean} dryRun publishes nothing, and takes what `npm run pack:local` staged: one platform
 */
async function publish(dryRun) {
  const { version } = readManifest(root);
  const tag = version.includes('-') ? 'next' : 'latest';
  const how = ['--access', 'public', '--ignore-scripts', '--tag', tag, dryRun ? '--dry-run' : '--provenance'];
  const others = WORKSPACES.map((path) => readManifest(join(root, path)).name);
  for (const name of [...PLATFORMS.map(packageName), 'webnn-node', ...others]) {
    const folder = join(STAGE, name);
    if (dryRun && !existsSync(folder) && PLATFORMS.some((platform) => packageName(platform) === name)) {
      say(`${name} is not staged: its addon was not built here`);
      continue;
    }
    if (!existsSync(folder) || readManifest(folder).version !== version) {
      throw new Failure(`${folder} does not hold version ${version}. Write it with: node scripts/packages.mjs stage`);
    }
    if (isPublished({ name, version })) {
      say(`${name}@${version} is published already`);
    } else {
      await runNpm(`publication of ${name}`, ['publish', folder, ...how]);
    }
  }
}

/** Reads the command line. @throws {Failure} with exit status 2 when it is invalid */
function readArguments() {
  let parsed;
  try {
    parsed = parseArgs({
      allowPositionals: true,
      options: { 'dry-run': { type: 'boolean', default: false } },
    });
  } catch (error) {
    throw new Failure(`${/** @type {Error} */ (error).message}\n${USAGE}`, 2);
  }
  const [command, platform, ...rest] = parsed.positionals;
  const known = ['build', 'stage', 'publish'].includes(command);
  if (!known || rest.length > 0 || (platform !== undefined) !== (command === 'build')) {
    throw new Failure(USAGE, 2);
  }
  if (command === 'build' && !PLATFORMS.includes(platform)) {
    throw new Failure(`the platform is "${platform}", expected ${PLATFORMS.join(', ')}`, 2);
  }
  return { command, platform, ...parsed.values };
}

if (isProgram(import.meta.url)) {
  await entry(async () => {
    const { command, platform, 'dry-run': dryRun } = readArguments();
    /** @type {Record<string, () => unknown>} */
    const commands = { build: () => build(platform), stage: stageAll, publish: () => publish(dryRun) };
    await commands[command]();
  });
}
