// The npm packages that are published: `webnn-node`, which is plain JavaScript, and one package per platform, which holds
// the addon and nothing else. npm installs the one that fits, because they are optional dependencies of the former with
// the fields `os`, `cpu` and `libc`.
//
// The package.json of a checkout does not name them: there, the addon is built, and a lock file could not hold packages
// that are yet to be published. It is private, so that what is published is always what this program writes.
//
//   node scripts/packages.mjs build PLATFORM          builds the addon for a platform, into the repository root
//   node scripts/packages.mjs stage [--repository URL]
//                                                     writes all packages to dist/npm/, from the addons in the root
//   node scripts/packages.mjs publish [--dry-run]     publishes what lies there, `webnn-node` last
//
// Building needs rustup, and for Linux also Python: cargo-zigbuild and zig are packages of it (scripts/python/cross.txt).

import { cpSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { delimiter, dirname, join } from 'node:path';
import { parseArgs } from 'node:util';
import { entry, Failure, isProgram, npmOutput, npmResult, root, run, runNpm, say } from './process.mjs';
import { pythonEnvironment } from './python.mjs';
import { buildLibrary, isAtLeast, replaceFile } from './setup.mjs';

const USAGE = 'usage: node scripts/packages.mjs build PLATFORM | stage [--repository URL] | publish [--dry-run]';

/** Platforms as `lib/binary.js` names them. */
export const PLATFORMS = /** @type {string[]} */ (createRequire(import.meta.url)('../lib/binary.js').PLATFORMS);

/** Where the packages are written. */
export const STAGE = join(root, 'dist', 'npm');

/** The oldest glibc that the addons may need: the oldest one that Rust supports, older than that of any Node. */
const OLDEST_GLIBC = '2.17';

/**
 * Rust's names of architectures and systems.
 *
 * @type {Record<string, string>}
 */
const RUST_CPUS = { arm64: 'aarch64', x64: 'x86_64' };
/** @type {Record<string, string>} */
const RUST_SYSTEMS = {
  darwin: 'apple-darwin',
  'linux-gnu': 'unknown-linux-gnu',
  'linux-musl': 'unknown-linux-musl',
  win32: 'pc-windows-msvc',
};

/**
 * npm's names of C libraries.
 *
 * @type {Record<string, string>}
 */
const NPM_LIBCS = { gnu: 'glibc', musl: 'musl' };

/**
 * @param {string} platform
 * @returns {string} Rust's target triple of a platform
 */
export function rustTarget(platform) {
  const [system, cpu, libc] = platform.split('-');
  return `${RUST_CPUS[cpu]}-${RUST_SYSTEMS[libc === undefined ? system : `${system}-${libc}`]}`;
}

/**
 * @param {string} platform
 * @returns {string} file name of a platform's addon
 */
export function addonName(platform) {
  return `webnn-node.${platform}.node`;
}

const packageName = (/** @type {string} */ platform) => `webnn-node-${platform}`;
const readManifest = (/** @type {string} */ directory) => JSON.parse(readFileSync(join(directory, 'package.json'), 'utf8'));
const repositoryField = (/** @type {string | undefined} */ url) => (url === undefined ? {} : { repository: { type: 'git', url } });

/**
 * The manifest of `webnn-node` as it is published.
 *
 * @param {Record<string, any>} manifest that of the checkout
 * @param {string} [repository] its address, which npm compares with where a package with provenance was built
 */
export function mainManifest(manifest, repository) {
  const { private: _, scripts, devDependencies, files, ...published } = manifest;
  return {
    ...published,
    ...repositoryField(repository),
    files: files.filter((/** @type {string} */ pattern) => !pattern.endsWith('.node')),
    optionalDependencies: Object.fromEntries(PLATFORMS.map((platform) => [packageName(platform), manifest.version])),
  };
}

/**
 * The manifest of a platform's package.
 *
 * @param {string} platform
 * @param {Record<string, any>} manifest that of the checkout
 * @param {string} [repository]
 */
export function platformManifest(platform, manifest, repository) {
  const [os, cpu, libc] = platform.split('-');
  return {
    name: packageName(platform),
    version: manifest.version,
    description: `The native binary of webnn-node for ${platform}`,
    license: manifest.license,
    ...repositoryField(repository),
    main: addonName(platform),
    files: [addonName(platform), 'LICENSE-*'],
    engines: manifest.engines,
    os: [os],
    cpu: [cpu],
    ...(libc !== undefined && { libc: [NPM_LIBCS[libc]] }),
  };
}

/**
 * The newest version of glibc of which a Linux library needs symbols; undefined where it needs none.
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

/** Files that `npm pack` takes from the checkout, but for addons. */
function filesOfMain() {
  const [{ files }] = JSON.parse(npmOutput('list of files', ['pack', '--dry-run', '--json', '--ignore-scripts']));
  return files.map((/** @type {{ path: string }} */ { path }) => path).filter((/** @type {string} */ path) => !path.endsWith('.node'));
}

/**
 * Writes `webnn-node` and packages of platforms as folders that can be packed or published.
 *
 * @param {string} directory replaced if it exists
 * @param {Record<string, string>} addons paths of the addons by platform
 * @param {{ repository?: string }} [options]
 * @returns {string[]} the folders, that of `webnn-node` last
 */
export function stage(directory, addons, { repository } = {}) {
  const manifest = readManifest(root);
  rmSync(directory, { recursive: true, force: true });
  const folders = Object.entries(addons).map(([platform, addon]) => {
    const folder = join(directory, packageName(platform));
    mkdirSync(folder, { recursive: true });
    cpSync(addon, join(folder, addonName(platform)));
    for (const licence of ['LICENSE-APACHE', 'LICENSE-MIT']) {
      cpSync(join(root, licence), join(folder, licence));
    }
    const readme = `The native binary of webnn-node for ${platform}, which installs it where it fits.\n`;
    writeFileSync(join(folder, 'README.md'), readme);
    writeManifest(folder, platformManifest(platform, manifest, repository));
    return folder;
  });
  const main = join(directory, manifest.name);
  for (const file of filesOfMain()) {
    mkdirSync(dirname(join(main, file)), { recursive: true });
    cpSync(join(root, file), join(main, file));
  }
  writeManifest(main, mainManifest(manifest, repository));
  return [...folders, main];
}

/**
 * Packs a folder.
 * @param {string} folder
 * @param {string} destination
 * @returns {{ name: string, file: string, size: number, unpackedSize: number, files: { path: string }[] }} the path of the tarball, its
 *   bytes, those of what it holds, and that
 */
export function pack(folder, destination) {
  mkdirSync(destination, { recursive: true });
  const args = ['pack', folder, '--json', '--ignore-scripts', '--pack-destination', destination];
  const [packed] = JSON.parse(npmOutput(`packing of ${folder}`, args));
  return { ...packed, file: join(destination, packed.filename) };
}

/**
 * Flags of rustc for a platform, as the environment variable that cargo takes them from.
 * @param {string} platform
 * @param {string} target
 * @returns {Record<string, string>}
 */
function rustFlags(platform, target) {
  /** @type {Record<string, string>} */
  const flags = {
    // Without it, Rust links musl into the library: a second C library in the process, beside that of Node.
    musl: '-C target-feature=-crt-static',
    // With it, the library needs no runtime of Visual C++, which Node does not bring and Windows does not have.
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

/**
 * Writes all packages, from addons that must lie in the repository root.
 * @param {string | undefined} repository
 */
function stageAll(repository) {
  const addons = Object.fromEntries(PLATFORMS.map((platform) => [platform, join(root, addonName(platform))]));
  for (const [platform, addon] of Object.entries(addons)) {
    const advice = `build it with node scripts/packages.mjs build ${platform}`;
    if (!existsSync(addon)) {
      throw new Failure(`${addon} is missing: ${advice}`);
    }
    const glibc = platform.endsWith('-gnu') ? neededGlibc(addon) : undefined;
    if (glibc !== undefined && !isAtLeast(OLDEST_GLIBC, glibc)) {
      throw new Failure(`${addon} needs glibc ${glibc}, and may need ${OLDEST_GLIBC} at most: ${advice}`);
    }
  }
  for (const folder of stage(STAGE, addons, { repository })) {
    say(folder);
  }
}

/**
 * Whether the registry has this version of a package: a publication that was broken off is taken up again.
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
 * Publishes the packages; `webnn-node` last, so that whoever can install it can install what it depends on.
 * @param {boolean} dryRun
 */
async function publish(dryRun) {
  const { version } = readManifest(root);
  const tag = version.includes('-') ? 'next' : 'latest';
  const how = ['--access', 'public', '--ignore-scripts', '--tag', tag, dryRun ? '--dry-run' : '--provenance'];
  for (const name of [...PLATFORMS.map(packageName), 'webnn-node']) {
    const folder = join(STAGE, name);
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

/** Reads the command line. @throws {Failure} with exit status 2 when it cannot be understood */
function readArguments() {
  let parsed;
  try {
    parsed = parseArgs({
      allowPositionals: true,
      options: { repository: { type: 'string' }, 'dry-run': { type: 'boolean', default: false } },
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
    const { command, platform, repository, 'dry-run': dryRun } = readArguments();
    /** @type {Record<string, () => unknown>} */
    const commands = { build: () => build(platform), stage: () => stageAll(repository), publish: () => publish(dryRun) };
    await commands[command]();
  });
}
