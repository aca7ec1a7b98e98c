// `.ci/run`: everything that must pass before a change is accepted, as named steps, cheap ones first.
//
//   .ci/run             all steps; stops at the first that fails
//   .ci/run STEP...     these steps, after those that they need
//   .ci/run --list      the steps
//
// Needs Node, Rust with rustfmt and clippy, a C linker and Python 3.11. On Debian, installs missing packages that a
// step needs (scripts/install-debian-packages.sh). A step whose data are outside of the repository, and absent, is
// skipped; with CI=true, or if it was named, that is a failure.

import { existsSync, readdirSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { entry, Failure, isProgram, outputOf, root, run } from './process.mjs';
import { pythonEnvironment } from './python.mjs';
import { installPackages } from './setup.mjs';

/** Data outside of the repository, relative to its root. */
const OUTSIDE = {
  vectors: '../shared/conformance',
  models: '../shared/models',
  generators: '../shared/bench',
  wpt: relative(root, resolve(root, process.env.WPT_DIR ?? '../wpt')),
};

/** Steps that test the same with data that anybody can have. */
const INSTEAD = { vectors: 'wpt', models: 'search' };

/** Lets contexts on GPUs use software Vulkan. */
const SOFTWARE_GPU = { WEBNN_GPU_SOFTWARE: '1' };

/** Crates with lock files and profiles of their own. */
const LIMITS = '--manifest-path bench/limits/Cargo.toml';
const LOOM = '--manifest-path loom/Cargo.toml';

/** Checks the files that GitHub and Docker read, and workflows for unsafe constructs. */
async function checkForms() {
  const programs = dirname(await pythonEnvironment('workflows'));
  const filesOf = (/** @type {string} */ folder) => readdirSync(join(root, folder)).map((name) => `${folder}/${name}`);
  const forms = [
    ['vendor.github-workflows', ...filesOf('.github/workflows')],
    ['vendor.github-actions', '.github/actions/toolchain/action.yml'],
    ['vendor.github-issue-forms', ...filesOf('.github/ISSUE_TEMPLATE').filter((file) => !file.endsWith('/config.yml'))],
    ['vendor.github-issue-config', '.github/ISSUE_TEMPLATE/config.yml'],
    ['vendor.dependabot', '.github/dependabot.yml'],
    ['vendor.citation-file-format', 'CITATION.cff'],
    ['vendor.compose-spec', 'deploy/compose.yaml'],
  ];
  for (const [schema, ...files] of forms) {
    await run(`form of ${files.join(', ')}`, join(programs, 'check-jsonschema'), ['--builtin-schema', schema, ...files]);
  }
  await run('form of the image', join(programs, 'hadolint'), ['deploy/Dockerfile']);
  await run('safety of the workflows', join(programs, 'zizmor'), ['--offline', '.github']);
}

/**
 * @typedef {object} Step
 * @property {string} name
 * @property {string} title
 * @property {(string | (() => Promise<void>))[]} run command lines, one after the other
 * @property {Record<string, string>} [env]
 * @property {string[]} [needs] steps that must have passed
 * @property {(keyof typeof OUTSIDE)[]} [outside]
 * @property {string[]} [debian] arguments of scripts/install-debian-packages.sh
 * @property {string} [subcommand] a subcommand of cargo: if it is not installed, the step is skipped
 * @property {boolean} [beside] runs concurrently with the following steps, until one needs it
 * @property {boolean} [onlyNamed] runs only if it is named
 */

/** @type {Step[]} */
export const STEPS = [
  {
    name: 'format',
    title: 'formatting of JavaScript and Rust',
    run: ['npx biome format', ...['', LIMITS, LOOM, '--manifest-path fuzz/Cargo.toml'].map((crate) => `cargo fmt --check ${crate}`)],
  },
  { name: 'lint', title: 'Biome', run: ['npm run --silent lint'] },
  { name: 'types', title: 'tsc over JavaScript and the declarations', run: ['node scripts/test.mjs --prebuilt __test__/types/types.test.mjs'] },
  { name: 'github', title: 'workflows, their safety, and files for GitHub and Docker', debian: ['venv'], run: [checkForms] },
  { name: 'deny', title: 'licenses and sources of crates', subcommand: 'deny', run: ['cargo deny check bans licenses sources'] },
  // Most of the optimized build runs on one core.
  { name: 'addon', title: 'npm packages and the addon', beside: true, run: ['npm run --silent setup'] },
  {
    name: 'clippy',
    title: 'cargo clippy',
    run: [
      'cargo clippy --all-targets -- -D warnings',
      `cargo clippy ${LIMITS} --target-dir target/bench/limits -- -D warnings`,
      `cargo clippy --all-targets ${LOOM} --target-dir target/loom -- -D warnings`,
    ],
  },
  { name: 'rust-build', title: 'build of the Rust tests', run: ['cargo test --no-run --lib --no-default-features'] },
  { name: 'js', title: 'JavaScript tests', needs: ['addon'], run: ['npm test -- --only js'] },
  { name: 'rust', title: 'Rust tests; the step gpu has them too', onlyNamed: true, run: ['npm test -- --only rust'] },
  { name: 'loom', title: 'threads in every order in which they can run', run: [`cargo test ${LOOM} --target-dir target/loom`] },
  { name: 'pack', title: 'all packages, each tried in an empty project', needs: ['addon'], run: ['npm run pack:local'] },
  { name: 'models', title: 'trained models', needs: ['addon'], outside: ['models'], run: ['npm run test:models'] },
  {
    name: 'gpu',
    title: 'Rust tests, and JavaScript tests on software Vulkan',
    needs: ['addon', 'rust-build'],
    debian: ['vulkan'],
    run: ['npm test -- --gpu'],
  },
  { name: 'browser', title: 'HTML pages in Chromium', needs: ['addon'], debian: ['chromium'], run: ['npm run test:browser'] },
  { name: 'site', title: 'the site of the documentation, built and read in Chromium', needs: ['addon'], debian: ['chromium'], run: ['npm run test:site'] },
  {
    name: 'conformance',
    title: 'conformance vectors',
    needs: ['addon'],
    outside: ['vectors'],
    run: [`node __test__/conformance/run.mjs ${OUTSIDE.vectors}`],
  },
  {
    name: 'conformance-gpu',
    title: 'conformance vectors on software Vulkan',
    needs: ['addon'],
    outside: ['vectors'],
    debian: ['vulkan'],
    env: SOFTWARE_GPU,
    run: [`node __test__/conformance/run.mjs ${OUTSIDE.vectors} --accelerated`],
  },
  {
    name: 'wpt',
    title: 'Web Platform Tests from a checkout',
    needs: ['addon'],
    outside: ['wpt'],
    run: [`node __test__/wpt/run.mjs --wpt ${OUTSIDE.wpt}`],
  },
  { name: 'runtimes', title: 'Node, Deno and Bun', needs: ['addon'], run: ['npm run test:runtimes'] },
  { name: 'onnx-node', title: 'single-operator tests of onnx', needs: ['addon'], debian: ['venv'], run: ['npm run onnx-node-tests -- --quiet'] },
  { name: 'onnx-contrib', title: 'models that onnxruntime wrote', needs: ['addon'], debian: ['venv'], run: ['npm run test:onnx-contrib'] },
  {
    name: 'onnx-models',
    title: "the benchmark's models",
    needs: ['addon'],
    run: ['npm run test:onnx-models'],
  },
  {
    name: 'bench',
    title: 'the benchmark, as far as it needs no other engine',
    needs: ['onnx-models'],
    run: ['npm run bench -- --filter gru_denoise --against none --threads 1 --samples 2 --loads 1'],
  },
  { name: 'clients', title: 'client libraries', needs: ['addon'], run: ['npm run test:clients'] },
  {
    name: 'serve',
    title: 'the server with clients of other people, Redis, Prometheus, nginx and Caddy',
    needs: ['addon'],
    debian: ['venv', 'redis', 'prometheus', 'nginx', 'caddy'],
    run: ['npm run test:serve', 'npm run soak:hostile -- --messages 2000 --health-ms 30000'],
  },
  {
    name: 'ort-programs',
    title: 'programs written for onnxruntime-node',
    needs: ['addon'],
    outside: ['generators'],
    debian: ['venv', 'speech'],
    run: ['npm run test:ort-programs'],
  },
  {
    name: 'text',
    title: 'texts of language models',
    needs: ['addon'],
    debian: ['venv'],
    run: ['npm run test:text-generation', 'npm run soak:text -- --types fp32,q4,q4f16'],
  },
  {
    name: 'text-gpu',
    title: 'texts of language models on software Vulkan',
    needs: ['addon'],
    debian: ['venv', 'vulkan'],
    env: SOFTWARE_GPU,
    run: ['npm run test:text-generation -- --gpu'],
  },
  { name: 'examples', title: 'each example in an empty project', needs: ['addon'], debian: ['venv', 'redis'], run: ['npm run test:examples'] },
  {
    name: 'coverage-js',
    title: 'coverage of the JavaScript tests, as a report',
    needs: ['addon'],
    onlyNamed: true,
    run: ['npm test -- --only js --coverage'],
  },
  {
    name: 'coverage-rust',
    title: 'coverage of the Rust tests, as a report',
    subcommand: 'llvm-cov',
    onlyNamed: true,
    run: ['cargo llvm-cov --lib --no-default-features -- --skip on_software_vulkan'],
  },
  { name: 'search', title: 'semantic search', needs: ['addon'], debian: ['venv'], run: ['npm run test:semantic-search'] },
];

const USAGE = 'usage: .ci/run [STEP...] | --list';

/**
 * The steps to run, in order: the named ones and those that they need, or all.
 *
 * @param {string[]} names
 * @param {Step[]} [steps] all known steps
 * @throws {Failure} with exit status 2 for an unknown name
 */
export function selectSteps(names, steps = STEPS) {
  const wanted = new Set(names.length > 0 ? names : steps.filter(({ onlyNamed }) => !onlyNamed).map(({ name }) => name));
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

/**
 * What keeps a step from running: absent data, of its own or of a step that it needs, or a missing cargo subcommand.
 *
 * @param {Step} step
 * @returns {string[]}
 */
function obstacles({ outside = [], needs = [], subcommand }) {
  const absent = outside.map((name) => OUTSIDE[name]).filter((path) => !existsSync(join(root, path)));
  const tools = subcommand === undefined || outputOf('cargo', [subcommand, '--version']) !== undefined ? [] : [`cargo ${subcommand}`];
  return [...absent, ...tools, ...STEPS.filter(({ name }) => needs.includes(name)).flatMap(obstacles)];
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
  const lines = [...rows, { name: 'all', result: '', seconds }];
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
    if (debian.length > 0 && process.platform === 'linux') await run(`packages that ${name} needs`, 'scripts/install-debian-packages.sh', debian);
    for (const command of commands) {
      await (typeof command === 'string' ? run(name, command, [], { env, shell: true }) : command());
    }
    return row('passed');
  } catch (error) {
    return { ...row('FAILED'), error };
  }
}

/**
 * Runs steps up to the first one that fails.
 *
 * @param {Step[]} steps
 * @param {Row[]} rows takes the results
 * @throws what the step failed with
 */
async function performAll(steps, rows) {
  /** @type {Map<string, ReturnType<typeof perform>>} */
  const running = new Map();
  const finish = async (/** @type {string} */ name) => {
    const performed = running.get(name);
    if (performed === undefined) return;
    running.delete(name);
    const { error, ...row } = await performed;
    rows.push(row);
    console.log(`\n=== ${name}: ${row.result} in ${shown(row.seconds)}`);
    if (error !== undefined) throw error;
  };
  try {
    for (const step of steps) {
      for (const name of step.needs ?? []) await finish(name);
      running.set(step.name, perform(step));
      if (!step.beside) await finish(step.name);
    }
    for (const name of running.keys()) await finish(name);
  } finally {
    // After a failure, the steps that run concurrently end first.
    for (const { error: _, ...row } of await Promise.all(running.values())) rows.push(row);
  }
}

/**
 * Returns the steps that can run; prints why the others cannot.
 *
 * @param {Step[]} steps
 * @param {string[]} named
 * @throws {Failure} for a step that was named, and in CI for absent data
 */
function runnable(steps, named) {
  return steps.filter((step) => {
    const missing = obstacles(step);
    if (missing.length === 0) return true;
    const instead = step.outside?.flatMap((name) => Object.entries(INSTEAD).filter(([data]) => data === name)).map(([, other]) => other) ?? [];
    const takes = instead.length > 0 ? `; the step ${instead.join(' and ')} takes its place` : '';
    const what = `${step.name} needs ${missing.join(', ')}, which is not there, seen from ${root}${takes}`;
    if (named.includes(step.name) || (process.env.CI === 'true' && step.subcommand === undefined)) throw new Failure(what);
    console.log(`=== not run: ${what}`);
    return false;
  });
}

async function main() {
  const { values, positionals } = parseArgs({ allowPositionals: true, options: { list: { type: 'boolean' }, help: { type: 'boolean', short: 'h' } } });
  if (values.help) throw new Failure(USAGE, 0);
  if (values.list) {
    for (const { name, title, onlyNamed } of STEPS) console.log(`${name.padEnd(16)}${title}${onlyNamed ? ' (only if it is named)' : ''}`);
    return;
  }
  const start = performance.now();
  const selected = selectSteps(positionals);
  const steps = runnable(selected, positionals);
  await installPackages();
  /** @type {Row[]} */
  const rows = [];
  try {
    await performAll(steps, rows);
  } finally {
    const without = selected.filter(({ name }) => rows.every((row) => row.name !== name));
    rows.push(...without.map((step) => ({ name: step.name, result: steps.includes(step) ? 'not reached' : `not run: no ${obstacles(step).join(', ')}` })));
    console.log(`\n${summary(rows, (performance.now() - start) / 1000)}`);
  }
}

if (isProgram(import.meta.url)) {
  await entry(main);
}
