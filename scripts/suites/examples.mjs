// `npm run suite -- examples`: packs the packages, copies each folder of examples/ that has a `start` script into an empty
// project, installs its dependencies, runs `npm start` there, and compares the output with the folder's expected.txt.
//
//   npm run suite -- examples --only add,http-endpoint    only these
//
// A package.json may say more under `example`:
//
//   "files": {"TO": "FROM"}  files of other examples, which its `prestart` copies in a checkout, and the runner here
//   "services": ["redis"]    servers that the runner starts for it, see SERVICES
//   "notRun": "..."          why this program cannot be run here; the runner prints the reason

import { cpSync, existsSync, readdirSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { parseArgs } from 'node:util';
import { packThisPlatform, tarballsFor } from '../pack-local.mjs';
import { entry, Failure, isProgram, npmResult, root, say, withUsage } from '../process.mjs';
import { startRedis } from '../services.mjs';
import { environmentWithoutRust, Project } from '../smoke-tests.mjs';

const EXAMPLES = join(root, 'examples');

/** Folder of all written files, except for the projects. */
const OUTPUT = join(root, 'target', 'examples');

/** What a run leaves in a folder. Downloaded models are copied: no project downloads them again. */
const LEFTOVERS = ['node_modules', 'out'];

/** Time limit of one program in milliseconds, including the download of its model. */
const PATIENCE = 300_000;

/**
 * @typedef {object} Manifest
 * @property {string} name
 * @property {boolean} private
 * @property {string} type
 * @property {Record<string, string>} [scripts]
 * @property {Record<string, string>} [dependencies]
 * @property {{ files?: Record<string, string>, services?: string[], notRun?: string }} [example]
 */

/**
 * The folders of examples/ that have a `start` script.
 * @returns {{ name: string, folder: string, manifest: Manifest }[]}
 */
export function findExamples() {
  const manifestOf = (/** @type {string} */ name) => join(EXAMPLES, name, 'package.json');
  return readdirSync(EXAMPLES)
    .filter((name) => existsSync(manifestOf(name)))
    .map((name) => ({ name, folder: join(EXAMPLES, name), manifest: JSON.parse(readFileSync(manifestOf(name), 'utf8')) }))
    .filter(({ manifest }) => manifest.scripts?.start !== undefined);
}

/** @type {Record<string, () => Promise<import('../services.mjs').Service>>} */
const SERVICES = { redis: startRedis };

/**
 * The differences between two texts, line by line; empty if they are equal.
 * @param {string} expected
 * @param {string} got
 */
export function differenceOf(expected, got) {
  if (expected === got) return '';
  const [wanted, printed] = [expected, got].map((text) => text.split('\n'));
  const lines = Array.from({ length: Math.max(wanted.length, printed.length) }, (_, i) => i).flatMap((i) =>
    wanted[i] === printed[i]
      ? []
      : [`line ${i + 1}: expected ${JSON.stringify(wanted[i])}`, `${' '.repeat(`line ${i + 1}:`.length)} got      ${JSON.stringify(printed[i])}`],
  );
  return lines.join('\n');
}

/** The end of a text: a failing program can print megabytes. */
const endOf = (/** @type {string} */ text) => text.slice(-4000);

/**
 * Runs an example in a project of its own.
 * @param {ReturnType<typeof findExamples>[number]} example
 * @param {ReturnType<typeof packThisPlatform>} packed
 * @throws {Failure} if it cannot be installed, fails, or prints something else
 */
async function tryExample({ folder, manifest }, packed) {
  const ours = Object.keys(manifest.dependencies ?? {}).filter((name) => packed.some((one) => one.name === name));
  const project = new Project();
  /** @type {import('../services.mjs').Service[]} */
  const services = [];
  try {
    cpSync(folder, project.folder, { recursive: true, filter: (path) => !LEFTOVERS.includes(basename(path)) });
    for (const [to, from] of Object.entries(manifest.example?.files ?? {})) cpSync(join(folder, from), join(project.folder, to));
    project.install([...new Set(ours.flatMap((name) => tarballsFor(name, packed)))], manifest, ['--ignore-scripts']);
    for (const name of manifest.example?.services ?? []) services.push(await SERVICES[name]());
    const env = Object.assign(environmentWithoutRust(), ...services.map((service) => service.env));
    const { status, stdout, stderr } = npmResult(['start', '--silent'], { cwd: project.folder, env, timeout: PATIENCE });
    if (status !== 0) throw new Failure(`npm start ended with ${status}\n${endOf(stdout)}${endOf(stderr)}`);
    const difference = differenceOf(readFileSync(join(folder, 'expected.txt'), 'utf8'), stdout);
    if (difference !== '') throw new Failure(`the output of npm start differs from expected.txt\n${endOf(difference)}\n${endOf(stderr)}`);
  } finally {
    for (const service of services) await service.stop();
    project.remove();
  }
}

async function main() {
  const { only } = withUsage('usage: npm run suite -- examples [--only NAME,...]', () => parseArgs({ options: { only: { type: 'string' } } }).values);
  const examples = findExamples();
  const chosen = only?.split(',') ?? examples.map(({ name }) => name);
  const unknown = chosen.find((name) => examples.every((example) => example.name !== name));
  if (unknown !== undefined) throw new Failure(`--only: there is no ${unknown}; there are ${examples.map(({ name }) => name).join(', ')}`, 2);
  const packed = packThisPlatform(join(OUTPUT, 'staged'), join(OUTPUT, 'packed'));
  const counts = { passed: 0, failed: 0 };
  for (const example of examples.filter(({ name }) => chosen.includes(name))) {
    const { notRun } = example.manifest.example ?? {};
    if (notRun !== undefined) {
      console.log(`${example.name}: not run: ${notRun}`);
      continue;
    }
    say(example.name);
    const start = performance.now();
    try {
      await tryExample(example, packed);
      counts.passed += 1;
      console.log(`${example.name}: passed (${((performance.now() - start) / 1000).toFixed(1)} s)`);
    } catch (error) {
      if (!(error instanceof Failure)) throw error;
      counts.failed += 1;
      console.log(`${example.name}: FAILED\n${error.message.replace(/^/gm, '    ')}`);
    }
  }
  console.log(`\n${counts.passed} passed, ${counts.failed} failed`);
  if (counts.failed > 0) process.exitCode = 1;
}

if (isProgram(import.meta.url)) {
  await entry(main);
}
