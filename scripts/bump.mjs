// Gives all packages another version: node scripts/bump.mjs 0.2.0
//
// The version stands in Cargo.toml, in every package.json with what the packages need of each other, in the lock files,
// and in pages, examples and files for containers. Tools for this (npm version, bumpp) change the field `version` only.

import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { entry, Failure, isProgram, root, run, runNpm, say } from './process.mjs';

/** Where the version stands: files of git. Lock files follow, and results of measurements keep the version that was measured. */
const FILES = [
  'package.json',
  'packages/**/package.json',
  'examples/*/package.json',
  'Cargo.toml',
  'README.md',
  'docs/*.md',
  'packages/*/README.md',
  'deploy/**',
];

/**
 * Replaces a version where it is one of this repository: after the name of a package or image, or as the version of the file.
 *
 * @param {string} text
 * @param {string} from
 * @param {string} to
 */
export function bumped(text, from, to) {
  const version = from.replaceAll('.', '\\.');
  const places = [
    `(?<=\\bwebnn-node(?:-[a-z]+)*"?(?:[:@-]| ?: ")[\\^"{]*)${version}(?!\\w|\\.\\d)`, // webnn-node-ort@^0.1.0, webnn-node-{0.1.0,…}
    `(?<=webnn-node-\\{[\\w,.-]*-)${version}(?=[,}])`, // webnn-node-{…,linux-x64-gnu-0.1.0,…}
    `(?<=webnn-node-\\{[\\w,]*\\}-)${version}(?=\\.tgz)`, // webnn-node-{text,cli}-0.1.0.tgz
    `(?<=^(?:  "version": |version = )")${version}(?=")`,
    `(?<=\\bVERSION=)${version}(?!\\w|\\.\\d)`,
    `(?<=\`v)${version}(?=\`)`,
  ];
  return text.replaceAll(new RegExp(places.join('|'), 'gm'), to);
}

async function main() {
  const [to] = process.argv.slice(2);
  if (!/^\d+\.\d+\.\d+(-[\w.]+)?$/.test(to ?? '')) throw new Failure('usage: node scripts/bump.mjs VERSION, such as 0.2.0 or 0.2.0-rc.0', 2);
  const { version: from } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  const names = execFileSync('git', ['ls-files', '--', ...FILES.map((pattern) => `:(glob)${pattern}`)], { cwd: root, encoding: 'utf8' });
  for (const name of names.trim().split('\n')) {
    const text = readFileSync(join(root, name), 'utf8');
    const changed = bumped(text, from, to);
    if (changed === text) continue;
    writeFileSync(join(root, name), changed);
    say(name);
  }
  await runNpm('package-lock.json', ['install', '--package-lock-only', '--ignore-scripts', '--no-audit', '--no-fund']);
  await run('Cargo.lock', 'cargo', ['update', '--workspace', '--offline']);
}

if (isProgram(import.meta.url)) await entry(main);
