// `.ci/run`: what must pass before a change is accepted, as named steps in three tiers.
//
//   .ci/run                     the tier full; prints which steps of all it left out
//   .ci/run quick|full|all      a tier: some minutes; what a pull request needs; each night
//   .ci/run STEP...             these steps, after those that they need
//   .ci/run --list              the steps
//
// Stops at the first step that fails; with --keep-going, runs the others and fails at the end. A step that has passed with
// the same files and tools does not run again, unless --fresh is given.
//
// Needs Node, Rust with rustfmt and clippy, a C linker and Python 3.11. Debian packages that a step needs in addition
// (scripts/install-debian-packages.sh) are installed with --install, with CI=true, or where it runs as root; otherwise a
// step without them does not run. Nor does one whose data are outside of the repository, and absent, or one for another
// system. If the step was named, that is a failure.

import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { PassedSteps } from './gate/passed.mjs';
import { INSTEAD, OUTSIDE, STEPS, stepsOf, TIERS } from './gate/steps.mjs';
import { entry, Failure, isProgram, outputOf, root, run } from './process.mjs';
import { installPackages } from './setup.mjs';

/** @typedef {import('./gate/steps.mjs').Step} Step */

const USAGE = 'usage: .ci/run [quick|full|all|STEP...] [--keep-going] [--fresh] [--install] | --list';

const INSTALLER = 'scripts/install-debian-packages.sh';

/** @param {string} name @returns {name is typeof TIERS[number]} */
const isTier = (name) => TIERS.some((tier) => tier === name);

/**
 * The steps to run, in order: those of the named tiers, the named ones, and those that they need.
 *
 * @param {string[]} names of tiers and steps; the tier full if empty
 * @param {Step[]} [steps] all known steps
 * @throws {Failure} with exit status 2 for an unknown name
 */
export function selectSteps(names, steps = STEPS) {
  const wanted = new Set((names.length > 0 ? names : ['full']).flatMap((name) => (isTier(name) ? stepsOf(name, steps).map((step) => step.name) : [name])));
  // Iterating over a set also visits what the loop adds.
  for (const name of wanted) {
    const step = steps.find((one) => one.name === name);
    if (step === undefined) {
      throw new Failure(`There is no step ${name}; there are ${steps.map((one) => one.name).join(', ')}\n${USAGE}`, 2);
    }
    for (const needed of step.needs ?? []) wanted.add(needed);
  }
  return steps.filter(({ name }) => wanted.has(name));
}

/** The code name of this system's release. */
const codeName = () => (existsSync('/etc/os-release') ? /^VERSION_CODENAME=(.*)$/m.exec(readFileSync('/etc/os-release', 'utf8'))?.[1] : undefined);

/**
 * What keeps a step from running: absent data, of its own or of a step that it needs, missing packages, a missing
 * subcommand of cargo, or another system.
 *
 * @param {Step} step
 * @param {boolean} mayInstall
 * @returns {string[]}
 */
function obstacles({ outside = [], needs = [], subcommand, debian = [], release }, mayInstall) {
  const absent = outside
    .filter((name) => !existsSync(join(root, OUTSIDE[name])))
    .map((name) => (name in INSTEAD ? `${OUTSIDE[name]} (the step ${INSTEAD[/** @type {keyof typeof INSTEAD} */ (name)]} takes its place)` : OUTSIDE[name]));
  const tools = subcommand === undefined || outputOf('cargo', [subcommand, '--version']) !== undefined ? [] : [`cargo ${subcommand}`];
  const systems = release === undefined || (process.arch === 'x64' && codeName() === release) ? [] : [`Debian ${release} on x64`];
  const isAsked = !mayInstall && debian.length > 0 && process.platform === 'linux';
  const packages = isAsked ? (outputOf(INSTALLER, ['--missing', ...debian])?.split('\n') ?? []).filter((name) => name !== '') : [];
  const others = STEPS.filter(({ name }) => needs.includes(name)).flatMap((step) => obstacles(step, mayInstall));
  return [...absent, ...tools, ...systems, ...packages.map((name) => `the package ${name} (--install installs it)`), ...others];
}

/** @typedef {{ name: string, result: string, seconds?: number }} Row */

/**
 * @param {number} seconds
 */
const shown = (seconds) => `${Math.floor(seconds / 60)}:${String(Math.floor(seconds % 60)).padStart(2, '0')}`;

/**
 * The results as a table.
 *
 * @param {Row[]} rows
 * @param {number} seconds of the whole, less than the sum: steps run concurrently
 */
export function summary(rows, seconds) {
  const lines = [...rows, { name: 'total', result: '', seconds }];
  const width = Math.max(...lines.map(({ name }) => name.length));
  return lines
    .map(({ name, result, seconds: time }) => `${name.padEnd(width)}  ${(time === undefined ? '–' : shown(time)).padStart(6)}  ${result}`.trimEnd())
    .join('\n');
}

/**
 * Runs a step. Its error is part of the result: a step that runs concurrently is only waited for later.
 *
 * @param {Step} step
 * @returns {Promise<Row & { seconds: number, error?: unknown }>}
 */
async function perform({ name, title, run: commands, env = {}, debian = [] }) {
  console.log(`\n=== ${name}: ${title}`);
  const start = performance.now();
  const row = (/** @type {string} */ result) => ({ name, result, seconds: (performance.now() - start) / 1000 });
  try {
    if (debian.length > 0 && process.platform === 'linux') await run(`packages that ${name} needs`, INSTALLER, debian);
    for (const command of commands) {
      await (typeof command === 'string' ? run(name, command, [], { env, shell: true }) : command());
    }
    return row('passed');
  } catch (error) {
    return { ...row('FAILED'), error };
  }
}

/**
 * Runs steps, but for those that have passed before with the same inputs.
 *
 * @param {Step[]} steps
 * @param {{ keepGoing: boolean, fresh: boolean, passed: PassedSteps }} options `keepGoing`: also after a step that has failed
 * @param {Row[]} rows takes the results
 * @throws what a step failed with; in the end, if `keepGoing`
 */
export async function performAll(steps, { keepGoing, fresh, passed }, rows) {
  /** @type {Map<string, { key: string | undefined, ended: ReturnType<typeof perform> }>} */
  const running = new Map();
  /** @type {string[]} */
  const failed = [];
  const finish = async (/** @type {string} */ name) => {
    const performed = running.get(name);
    if (performed === undefined) return;
    running.delete(name);
    const { error, ...row } = await performed.ended;
    rows.push(row);
    console.log(`\n=== ${name}: ${row.result} in ${shown(row.seconds)}`);
    const { key } = performed;
    passed.keep(name, error === undefined && key !== undefined ? { key, ended: new Date().toISOString(), seconds: row.seconds } : undefined);
    if (error === undefined) return;
    if (!keepGoing) throw error;
    failed.push(name);
    console.log(error instanceof Failure ? error.message : error);
  };
  try {
    for (const step of steps) {
      for (const name of step.needs ?? []) await finish(name);
      const lacking = (step.needs ?? []).filter((name) => failed.includes(name));
      if (lacking.length > 0) {
        failed.push(step.name);
        rows.push({ name: step.name, result: `not run: without ${lacking.join(', ')}` });
        continue;
      }
      const key = passed.keyOf(step);
      const before = fresh ? undefined : passed.find(step, key);
      if (before !== undefined) {
        const times = `${before.ended.slice(0, 16).replace('T', ' ')} UTC, in ${shown(before.seconds)}`;
        console.log(`\n=== ${step.name}: not run again: passed with the same files and tools at ${times}; --fresh runs it`);
        rows.push({ name: step.name, result: `passed before, unchanged since (${times})` });
        continue;
      }
      running.set(step.name, { key, ended: perform(step) });
      if (!step.beside) await finish(step.name);
    }
    for (const name of running.keys()) await finish(name);
  } finally {
    // After a failure, the steps that run concurrently end first.
    for (const { ended } of running.values()) {
      const { error: _, ...row } = await ended;
      rows.push(row);
    }
  }
  if (failed.length > 0) throw new Failure(`failed: ${failed.join(', ')}`);
}

/**
 * Returns the steps that can run; prints why the others cannot.
 *
 * @param {Step[]} steps
 * @param {string[]} named
 * @param {boolean} mayInstall
 * @throws {Failure} for a step that was named
 */
function runnable(steps, named, mayInstall) {
  const able = steps.filter((step) => {
    const missing = obstacles(step, mayInstall);
    if (missing.length === 0) return true;
    const what = `${step.name} needs ${missing.join(', ')}, which is not there, seen from ${root}`;
    if (named.includes(step.name)) throw new Failure(what);
    console.log(`=== not run: ${what}`);
    return false;
  });
  return able.filter(({ name, within }) => named.includes(name) || !able.some((step) => step.name === within));
}

async function main() {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      'keep-going': { type: 'boolean', default: false },
      fresh: { type: 'boolean', default: false },
      install: { type: 'boolean', default: false },
      list: { type: 'boolean' },
      help: { type: 'boolean', short: 'h' },
    },
  });
  if (values.help) throw new Failure(USAGE, 0);
  if (values.list) {
    for (const { name, title, tier = 'if it is named' } of STEPS) console.log(`${name.padEnd(16)} ${tier.padEnd(16)}${title}`);
    return;
  }
  const start = performance.now();
  const selected = selectSteps(positionals);
  const named = positionals.filter((name) => !isTier(name));
  const mayInstall = values.install || process.env.CI === 'true' || process.getuid?.() === 0;
  const steps = runnable(selected, named, mayInstall);
  await installPackages();
  /** @type {Row[]} */
  const rows = [];
  try {
    await performAll(steps, { keepGoing: values['keep-going'], fresh: values.fresh, passed: new PassedSteps() }, rows);
  } finally {
    const without = selected.filter(({ name }) => rows.every((row) => row.name !== name));
    for (const step of without) {
      const missing = obstacles(step, mayInstall);
      const reason = missing.length > 0 ? `not run: no ${missing.join(', ')}` : steps.includes(step) ? 'not reached' : `part of ${step.within}`;
      rows.push({ name: step.name, result: reason });
    }
    console.log(`\n${summary(rows, (performance.now() - start) / 1000)}`);
    const left = stepsOf('all').filter((step) => !selected.includes(step));
    if (named.length === 0 && left.length > 0) console.log(`\nLeft for .ci/run all: ${left.map(({ name }) => name).join(', ')}`);
  }
}

if (isProgram(import.meta.url)) {
  await entry(main);
}
