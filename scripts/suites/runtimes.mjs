// `npm run suite -- runtimes`: the conformance vectors and interface tests in Node, Deno and Bun, which npm installs into
// __test__/external/node_modules. For Linux on x64.
//
//   npm run suite -- runtimes                    everything
//   npm run suite -- runtimes --only deno,bun    these runtimes
//   npm run suite -- runtimes --suite vectors    these suites

import { spawn } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { dirname, join } from 'node:path';
import { parseArgs } from 'node:util';
import { runBundles } from '../../__test__/external/runtimes/bundles.mjs';
import { runFrameworks } from '../../__test__/external/runtimes/frameworks.mjs';
import { compareRuns, findFaults } from '../../__test__/external/runtimes/faults.mjs';
import { HERE, LACKING, RUNTIMES } from '../../__test__/external/runtimes/runtimes.mjs';
import { addonName } from '../packages.mjs';
import { TESTS as CLIENT_TESTS } from './clients.mjs';
import { installExternal } from '../external.mjs';
import { packThisPlatform, tarballsFor } from '../pack-local.mjs';
import { entry, Failure, outputOf, root, run, say } from '../process.mjs';
import { thisPlatform } from '../setup.mjs';
import { Project } from '../smoke-tests.mjs';

/** @typedef {import('../../__test__/external/runtimes/runtimes.mjs').Runtime} Runtime */
/** @typedef {{text: string, names?: string[], faults: string[]}} Result */
/** Folder and variables of a suite, and how to clean up after it.
 * @typedef {{cwd?: string, env?: Record<string, string>, tidy?: () => void}} Prepared
 */

const USAGE = 'usage: npm run suite -- runtimes [--only RUNTIME,...] [--suite SUITE,...]';
const VECTORS = join(root, '..', 'shared', 'conformance');
const OUTPUT = join(root, 'target', 'runtimes');

/** Permissions for Deno in the repository; an installed package needs only its addon. */
const READ_AND_LOAD = ['--allow-ffi', '--allow-read'];
const LOAD = ['--allow-ffi=node_modules'];

/** Returns paths of test files by their names without extension. */
const testFiles = (/** @type {string[]} */ ...names) => names.map((name) => `__test__/${name}.test.mjs`);

/** Returns the test files directly in a folder. */
const testsIn = (/** @type {string} */ folder) =>
  readdirSync(join(root, folder))
    .filter((name) => name.endsWith('.test.mjs'))
    .sort()
    .map((name) => `${folder}/${name}`);

/** Time limit of one suite in one runtime, in milliseconds. */
const PATIENCE = 900_000;

/**
 * Runs a command to its end.
 * @param {string} command
 * @param {string[]} args
 * @param {Prepared} [where]
 * @returns {Promise<{code: number | string | null, output: string}>}
 */
function outcomeOf(command, args, { cwd = root, env = {} } = {}) {
  const child = spawn(command, args, {
    cwd,
    // The test runner's variable would make the reports of children part of its own report.
    env: { ...process.env, NO_COLOR: '1', NODE_TEST_CONTEXT: undefined, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: PATIENCE,
    killSignal: 'SIGKILL',
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text) => {
      output += text;
    });
  }
  return new Promise((resolve, reject) => {
    child.on('error', (error) => reject(new Failure(`cannot run ${command}: ${error.message}`)));
    child.on('close', (code, signal) => resolve({ code: code ?? signal, output }));
  });
}

/**
 * Runs the conformance vectors: all must pass.
 * @param {Runtime} runtime
 * @param {Prepared} where
 * @returns {Promise<Result>}
 */
async function runVectors(runtime, where) {
  const { cases } = JSON.parse(readFileSync(join(VECTORS, 'index.json'), 'utf8')).totals;
  const args = [...runtime.program('__test__/conformance/run.mjs', READ_AND_LOAD), VECTORS];
  const { code, output } = await outcomeOf(runtime.command, args, where);
  const [, passed, failed] = (/^(\d+) passed, (\d+) failed$/m.exec(output) ?? []).map(Number);
  const isGood = code === 0 && passed === cases && failed === 0;
  return { text: `${passed ?? 0} of ${cases} cases passed`, faults: isGood ? [] : [`ended with ${code}\n${output}`] };
}

/**
 * Runs test files. A test may fail only if it needs something that the table lists as missing.
 * @param {Runtime} runtime
 * @param {string} suite
 * @param {string[]} files
 * @param {Prepared} [where]
 * @returns {Promise<Result>}
 */
async function runTests(runtime, suite, files, where) {
  const { readReport } = await import('../../__test__/external/runtimes/report.mjs');
  const report = join(OUTPUT, `${runtime.name}-${suite}.xml`);
  rmSync(report, { force: true });
  const { code, output } = await outcomeOf(runtime.command, runtime.tests(files, report), where);
  if (!existsSync(report)) {
    return { text: 'no report', names: [], faults: [`ended with ${code} and without a report\n${output}`] };
  }
  const tests = readReport(readFileSync(report, 'utf8'));
  const lacking = LACKING.filter((row) => row.suite === suite && row.runtime === runtime.name);
  const faults = findFaults(tests, lacking);
  if (faults.length === 0 && (code !== 0) !== lacking.length > 0) {
    faults.push(`ended with ${code} although nothing else is wrong\n${output}`);
  }
  const passed = tests.filter(({ outcome }) => outcome === 'passed').length;
  const known = lacking.length > 0 ? `, ${lacking.length} cannot pass there` : '';
  return { text: `${passed} of ${tests.length} tests passed${known}`, names: tests.map(({ name }) => name), faults };
}

/** Installs this platform's packages, as published, into an empty folder. @returns {Prepared} */
function installPackage() {
  const project = new Project();
  const packed = packThisPlatform(join(project.folder, 'staged'), join(project.folder, 'packed'));
  project.install(tarballsFor('webnn-node-compat', packed));
  cpSync(join(HERE, 'installed.mjs'), join(project.folder, 'installed.mjs'));
  return { cwd: project.folder, tidy: () => project.remove() };
}

/** As {@link installPackage}, with a model. @returns {Prepared & { cwd: string }} */
function installWithModel() {
  const { cwd, tidy } = /** @type {Prepared & { cwd: string }} */ (installPackage());
  cpSync(join(root, 'packages', 'cli', '__test__', 'files', 'colors.onnx'), join(cwd, 'colors.onnx'));
  return { cwd, tidy };
}

/** As {@link installWithModel}, with the addon beside the model. */
function installForBundles() {
  const prepared = installWithModel();
  cpSync(join(root, addonName(thisPlatform())), join(prepared.cwd, 'webnn-node.node'));
  return prepared;
}

/**
 * Runs a program that uses the installed package.
 * @param {Runtime} runtime
 * @param {Prepared} where
 * @returns {Promise<Result>}
 */
async function runInstalled(runtime, where) {
  const { code, output } = await outcomeOf(runtime.command, runtime.program('installed.mjs', LOAD), where);
  const isGood = code === 0 && output.trim() === 'installed';
  return { text: isGood ? 'loads and computes' : 'fails', faults: isGood ? [] : [`ended with ${code}\n${output}`] };
}

/** Builds the addon that forbids external buffers. @returns {Promise<Prepared>} with the variables to use it */
async function buildHook() {
  const addon = join(OUTPUT, 'no-external-buffers.node');
  // Node's npm package includes its headers.
  const include = join(dirname(dirname(RUNTIMES[0].command)), 'include', 'node');
  const options = ['-O1', '-Wall', '-Wextra', '-Werror', '-shared', '-fPIC', `-I${include}`];
  await run('compilation of the addon that forbids external buffers', 'cc', [...options, '-o', addon, join(HERE, 'no-external-buffers.c')]);
  const nodeOptions = `--require ${JSON.stringify(join(HERE, 'no-external-buffers.cjs'))}`;
  return { env: { WEBNN_TEST_HOOK: addon, NODE_OPTIONS: nodeOptions } };
}

/**
 * @typedef {object} Suite
 * @property {() => Prepared | Promise<Prepared | void>} [prepare] creates, once, the second argument of `run`
 * @property {(runtime: Runtime, where: Prepared) => Promise<Result>} run
 * @property {string[]} [only] the runtimes of the suite, if not all
 * @property {boolean} [readsVectors] whether it needs the vectors beside the repository
 * @property {boolean} [hasFloat16Tests] whether it has tests that need Float16Array
 * @property {boolean} [isMeasured] whether it measures times and memory: nothing else runs at the same time
 */

/**
 * The suites by name.
 *
 * @type {Record<string, Suite>}
 */
const SUITES = {
  package: { prepare: installPackage, run: runInstalled },
  bundles: {
    only: ['node-26', 'bun'],
    prepare: installForBundles,
    run: async (runtime, { cwd }) => runBundles(runtime, /** @type {string} */ (cwd), addonName(thisPlatform())),
  },
  'test frameworks': {
    only: ['node-26'],
    prepare: installWithModel,
    run: async (runtime, { cwd }) => runFrameworks(runtime, /** @type {string} */ (cwd)),
  },
  vectors: { readsVectors: true, run: runVectors },
  interfaces: { run: (runtime) => runTests(runtime, 'interfaces', testsIn('__test__/interfaces')), hasFloat16Tests: true },
  additions: {
    run: (runtime) => runTests(runtime, 'additions', testFiles('onnx/run', 'inspect/describe', 'inspect/profile')),
  },
  drafts: { run: (runtime) => runTests(runtime, 'drafts', testsIn('packages/compat/__test__')) },
  timelines: {
    isMeasured: true,
    run: (runtime) =>
      runTests(runtime, 'timelines', testFiles(...['destroy', 'dispatch.timing', 'order', 'realms', 'threads'].map((name) => `runtime/${name}`))),
  },
  // `npm test` has run the next two in Node.
  processes: {
    only: ['node-24', 'deno', 'bun'],
    isMeasured: true,
    run: (runtime) => runTests(runtime, 'processes', testFiles('runtime/processes', 'runtime/workers')),
  },
  endings: {
    only: ['deno', 'bun'],
    isMeasured: true,
    run: (runtime) => runTests(runtime, 'endings', testFiles('runtime/exit.timing', 'runtime/memory')),
  },
  // The only runtime with its own WebGPU.
  'contexts of a GPUDevice': {
    only: ['deno'],
    run: (runtime) => runTests(runtime, 'contexts of a GPUDevice', ['__test__/external/runtimes/gpu-device.mjs']),
  },
  // `npm run suite -- clients` tests the current Node. The libraries use Float16Array if there is one.
  clients: {
    only: ['node-24', 'node-26'],
    run: (runtime) => runTests(runtime, 'clients', CLIENT_TESTS),
  },
  // The versions of Node in today's Electron.
  'vectors without external buffers': { only: ['node-22', 'node-24'], readsVectors: true, prepare: buildHook, run: runVectors },
  'interfaces without external buffers': {
    only: ['node-22', 'node-24'],
    prepare: buildHook,
    run: (runtime, where) => runTests(runtime, 'interfaces', testsIn('__test__/interfaces'), where),
    hasFloat16Tests: true,
  },
};

/**
 * Splits and checks a list of names.
 * @param {string} option
 * @param {string | undefined} text
 * @param {string[]} names all known names
 * @throws {Failure} for an unknown name
 */
function chosen(option, text, names) {
  const list = text?.split(',') ?? names;
  const unknown = list.find((name) => !names.includes(name));
  if (unknown !== undefined) {
    throw new Failure(`--${option}: there is no ${unknown}; there are ${names.join(', ')}\n${USAGE}`, 2);
  }
  return list;
}

/** The suites whose data are there. */
function possibleSuites() {
  const names = Object.keys(SUITES);
  if (existsSync(VECTORS)) return names;
  say(`suites of conformance vectors are left out: there is no ${VECTORS}`);
  return names.filter((name) => !SUITES[name].readsVectors);
}

/** Reads the command line. @throws {Failure} with exit status 2 when it is invalid */
function readArguments() {
  let values;
  try {
    ({ values } = parseArgs({
      options: { only: { type: 'string' }, suite: { type: 'string' }, help: { type: 'boolean', short: 'h' } },
    }));
  } catch (error) {
    throw new Failure(`${/** @type {Error} */ (error).message}\n${USAGE}`, 2);
  }
  if (values.help) {
    throw new Failure(`${USAGE}\nruntimes: ${RUNTIMES.map(({ name }) => name).join(', ')}\nsuites: ${Object.keys(SUITES).join(', ')}`, 0);
  }
  const only = chosen(
    'only',
    values.only,
    RUNTIMES.map(({ name }) => name),
  );
  return {
    runtimes: RUNTIMES.filter(({ name }) => only.includes(name)),
    suites: values.suite === undefined ? possibleSuites() : chosen('suite', values.suite, Object.keys(SUITES)),
  };
}

/** Installs the runtimes if they are missing or older than the lock file. */
async function installRuntimes() {
  if (process.platform !== 'linux' || process.arch !== 'x64') {
    throw new Failure(`The runtimes are installed for linux-x64 only; this is ${process.platform}-${process.arch}.`);
  }
  await installExternal({ runtimes: true });
}

/**
 * Runs a suite in one runtime and prints a line and the faults.
 * @param {Runtime} runtime
 * @param {string} name of the suite
 * @param {Prepared} prepared
 */
async function runIn(runtime, name, prepared) {
  const start = performance.now();
  const result = await SUITES[name].run(runtime, prepared);
  const seconds = ((performance.now() - start) / 1000).toFixed(1);
  const verdict = result.faults.length === 0 ? 'ok    ' : 'FAILED';
  console.log(`${runtime.name.padEnd(8)} ${name.padEnd(36)} ${verdict} ${result.text} (${seconds} s)`);
  result.faults.forEach((fault) => console.log(fault.replace(/^/gm, '    ')));
  return result;
}

/**
 * Runs one suite in all its runtimes, as many at once as there are cores.
 * @param {string} name
 * @param {Runtime[]} runtimes
 * @returns {Promise<string[]>} the faults
 */
async function runSuite(name, runtimes) {
  const { only, prepare, isMeasured = false, hasFloat16Tests = false } = SUITES[name];
  const prepared = (await prepare?.()) ?? {};
  /** @type {string[]} */
  const faults = [];
  /** @type {Parameters<typeof compareRuns>[0]} */
  const runs = [];
  const waiting = runtimes.filter((candidate) => only?.includes(candidate.name) ?? true);
  const work = async () => {
    for (let runtime = waiting.shift(); runtime !== undefined; runtime = waiting.shift()) {
      const result = await runIn(runtime, name, prepared);
      faults.push(...result.faults);
      if (result.names !== undefined) {
        runs.push({ runtime: runtime.name, float16Array: runtime.float16Array, names: result.names });
      }
    }
  };
  try {
    await Promise.all(Array.from({ length: isMeasured ? 1 : availableParallelism() }, work));
  } finally {
    prepared.tidy?.();
  }
  const differences = compareRuns(runs, hasFloat16Tests);
  differences.forEach((difference) => console.log(`    ${difference}`));
  return [...faults, ...differences];
}

await entry(async () => {
  const { runtimes, suites } = readArguments();
  await installRuntimes();
  mkdirSync(OUTPUT, { recursive: true });
  for (const { name, command } of runtimes) {
    const version = outputOf(command, ['--version'])?.split('\n')[0];
    if (version === undefined) {
      throw new Failure(`${name} cannot be run: ${command}`);
    }
    say(`${name} is ${version}`);
  }
  const faults = [];
  for (const suite of suites) {
    faults.push(...(await runSuite(suite, runtimes)));
  }
  const lacking = LACKING.filter(({ runtime, suite }) => suites.includes(suite) && runtimes.some(({ name }) => name === runtime));
  for (const { runtime, test, lacks, evidence } of lacking) {
    console.log(`${runtime}: "${test}" cannot pass: ${lacks} (${evidence})`);
  }
  console.log(`\n${runtimes.length} runtimes, ${suites.length} suites, ${faults.length} faults`);
  if (faults.length > 0) {
    throw new Failure(`${faults.length} faults in the runtimes`);
  }
});
