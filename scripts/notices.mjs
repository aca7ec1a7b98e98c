// The licenses of the crates that the native binary contains: THIRD-PARTY-LICENSES, which each package with a binary
// holds.
//
//   node scripts/notices.mjs           writes the file, with cargo-about: after each change of Cargo.lock
//   node scripts/notices.mjs --check   fails if the file does not name exactly the crates of Cargo.lock
// The file is committed: to write it takes minutes and a tool, which is installed under target/; to check it takes a
// second and cargo alone. Packing checks it.

import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { cargoTool } from './cargo-tools.mjs';
import { PLATFORMS, rustTarget } from './platforms.mjs';
import { entry, Failure, isProgram, outputOf, root, run } from './process.mjs';

/** The name of the file, in the root and in packages. */
export const NOTICES = 'THIRD-PARTY-LICENSES';

const file = join(root, NOTICES);
const settings = join(root, 'scripts', 'notices');

/** For cargo and its tools. */
const TARGETS = PLATFORMS.flatMap((platform) => ['--target', rustTarget(platform)]);

/**
 * The crates that notices name.
 *
 * @param {string} notices
 * @returns {string[]} names with versions
 */
export function cratesOf(notices) {
  return [...new Set([...notices.matchAll(/^- ([\w-]+) (\d\S*?)(?:,|$)/gm)].map(([, name, version]) => `${name} ${version}`))].sort();
}

/** The crates that the binaries are built from, as cargo knows them. @returns {string[]} names with versions */
function cratesOfBinaries() {
  const tree = outputOf('cargo', ['tree', '--locked', '--edges', 'normal', '--prefix', 'none', '--no-dedupe', ...TARGETS]);
  if (tree === undefined) throw new Failure('cargo tree failed: is cargo installed, and Cargo.lock current?');
  const [own, ...crates] = tree.split('\n').map((line) => line.split(' ').slice(0, 2).join(' ').replace(' v', ' '));
  return [...new Set(crates)].filter((crate) => crate !== own && crate !== '').sort();
}

/**
 * @param {string} notices
 * @param {string[]} crates
 * @returns {string[]} what the notices lack, and what they name in vain
 */
export function differences(notices, crates) {
  const named = cratesOf(notices);
  return [
    ...crates.filter((crate) => !named.includes(crate)).map((crate) => `${crate} is missing`),
    ...named.filter((crate) => !crates.includes(crate)).map((crate) => `${crate} is not in the binary`),
  ];
}

/** @throws {Failure} with the crates by which the file is not current */
export function checkNotices() {
  const found = differences(readFileSync(file, 'utf8'), cratesOfBinaries());
  if (found.length > 0) {
    throw new Failure(`${NOTICES} is not current: ${found.join(', ')}. Write it with: node scripts/notices.mjs`);
  }
}

async function write() {
  const { env } = await cargoTool('about', { features: 'cli' });
  // Without the network: it would only look for texts that a crate itself does not bring.
  const options = ['--frozen', '--fail', '--config', join(settings, 'about.toml'), '--output-file', file, ...TARGETS];
  await run('notices', 'cargo', ['about', 'generate', ...options, join(settings, 'notices.hbs')], { env });
  // Texts come with line ends of every system, and spaces at the ends of lines.
  const lines = readFileSync(file, 'utf8')
    .split(/\r?\n/)
    .map((line) => line.trimEnd());
  writeFileSync(file, `${lines.join('\n').trim()}\n`);
  checkNotices();
}

if (isProgram(import.meta.url)) {
  await entry(() => (parseArgs({ options: { check: { type: 'boolean' } } }).values.check ? checkNotices() : write()));
}
