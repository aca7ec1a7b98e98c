// `npm test`: setup, then every test of the repository. Stops at the first step that fails and names it.
//
//   npm test                        everything but the suites below
//   npm test -- --only rust         Rust tests (needs no npm package and no addon)
//   npm test -- --only js           generated files and JavaScript tests
//   npm test -- --name softmax      only tests whose name matches
//   npm test -- FILE...             only these JavaScript test files
//   npm test -- --gpu               all Rust tests, and JavaScript tests of GPUs and on GPUs, with software Vulkan
//   npm test -- --models            only the tests on trained models outside of the repository
//   npm test -- --prebuilt          with the addon that lies in the repository root, whatever built it
//   npm test -- --browser           only the tests of HTML pages in Chromium
//   npm test -- --coverage          also says which lines the JavaScript tests ran

import { existsSync, readdirSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join, relative, sep } from 'node:path';
import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { entry, Failure, outputOf, root, run, say, WORKSPACES } from './process.mjs';
import { checkRust, installPackages, setUp } from './setup.mjs';

const USAGE =
  'usage: npm test -- [--only rust|js] [--name PATTERN] [--prebuilt] [--coverage] [--gpu | --models | --browser | FILE...]\n' +
  '--gpu can be combined with --only, the other suites and files cannot';

/** Folders of tests that need more than the toolchain: trained models outside the repository, Chromium, Vulkan. */
const SUITES = { models: '__test__/models/', browser: 'packages/cli/__test__/browser/', gpu: '__test__/gpu/' };

/** Folders whose tests run on the CPU and again on the GPU. */
const ON_BOTH = ['__test__/extensions/', '__test__/inspect/', '__test__/interfaces/', '__test__/onnx/', '__test__/runtime/'];

/** Makes Rust tests of operators also run on software Vulkan. */
const RUST_ON_GPU = { WEBNN_TEST_GPU: 'software' };

/** Part of the names of Rust tests that run only there. */
const RUST_GPU_TESTS = 'on_software_vulkan';

/** Lets contexts of JavaScript tests that ask for a GPU use software Vulkan. */
const WITH_GPU = { WEBNN_GPU_SOFTWARE: '1' };

/** Makes contexts of all processes of a test ask for a GPU where the test leaves it open. */
const askingForGpu = () => {
  const module = pathToFileURL(join(root, '__test__/lib/on-gpu.mjs'));
  return { NODE_OPTIONS: `${process.env.NODE_OPTIONS ?? ''} --import=${module}` };
};

/** Reads the command line. @throws {Failure} with exit status 2 when it is invalid */
function readArguments() {
  let parsed;
  try {
    parsed = parseArgs({
      allowPositionals: true,
      options: {
        only: { type: 'string' },
        name: { type: 'string' },
        prebuilt: { type: 'boolean', default: false },
        gpu: { type: 'boolean', default: false },
        models: { type: 'boolean', default: false },
        browser: { type: 'boolean', default: false },
        coverage: { type: 'boolean', default: false },
        help: { type: 'boolean', short: 'h' },
      },
    });
  } catch (error) {
    throw new Failure(`${/** @type {Error} */ (error).message}\n${USAGE}`, 2);
  }
  const { values, positionals: files } = parsed;
  if (values.help) {
    throw new Failure(USAGE, 0);
  }
  if (values.only !== undefined && !['rust', 'js'].includes(values.only)) {
    throw new Failure(`--only is "${values.only}", expected rust or js\n${USAGE}`, 2);
  }
  if (files.length > 0 && values.only === 'rust') {
    throw new Failure(`--only rust takes no files\n${USAGE}`, 2);
  }
  const suites = /** @type {(keyof typeof SUITES)[]} */ (Object.keys(SUITES)).filter((suite) => values[suite]);
  const hasOnly = values.only !== undefined && !values.gpu;
  if (suites.length > 0 && (suites.length > 1 || files.length > 0 || hasOnly)) {
    throw new Failure(`--${suites[0]} goes with no other suite${suites[0] === 'gpu' ? '' : ', --only'} or files\n${USAGE}`, 2);
  }
  const missing = files.find((file) => !existsSync(join(root, file)));
  if (missing !== undefined) {
    throw new Failure(`${missing}: no such file in ${root}`, 2);
  }
  const [suite] = suites;
  const isJavaScript = files.length > 0 || (suite !== undefined && !values.gpu);
  const { name, prebuilt, coverage } = values;
  return { only: values.only ?? (isJavaScript ? 'js' : undefined), name, files, suite, prebuilt, coverage };
}

/** Tests that need Python or npm packages of their own; each folder has its own npm script. */
const PACKAGE_TESTS = [
  'external/clients',
  'external/ort-programs',
  'external/serve',
  'onnx-contrib',
  'onnx-models',
  'packaged-models',
  'semantic-search',
  'site',
  'text-generation',
].map((name) => `__test__/${name}/`);

/**
 * Returns the paths of the JavaScript test files, relative to the root, sorted. Listed here because Node 20 does not
 * support globs.
 * @param {(file: string) => boolean} isWanted
 */
function testFiles(isWanted) {
  return ['.', ...WORKSPACES]
    .map((folder) => join(root, folder, '__test__'))
    .filter((folder) => existsSync(folder))
    .flatMap((folder) => readdirSync(folder, { recursive: true, withFileTypes: true }))
    .filter((file) => file.isFile() && file.name.endsWith('.test.mjs'))
    .map((file) => relative(root, join(file.parentPath, file.name)).split(sep).join('/'))
    .filter((file) => !file.includes('/node_modules/') && isWanted(file))
    .filter((file) => !PACKAGE_TESTS.some((folder) => file.startsWith(folder)))
    .sort();
}

/**
 * Runs the Rust tests, which are all unit tests. They are built without the `napi` feature, because a test binary has
 * no Node to link with. A name matches as a substring; if none matches, that is an error only if no JavaScript tests
 * follow. Tests that need Vulkan run only in the GPU suite.
 * @param {ReturnType<typeof readArguments>} options
 */
async function testRust({ only, name, suite }) {
  checkRust();
  const isOnGpu = suite === 'gpu';
  const env = isOnGpu ? RUST_ON_GPU : {};
  const filter = name === undefined ? [] : [name];
  if (outputOf('cargo', ['nextest', '--version']) === undefined) {
    say('cargo-nextest is not installed: the Rust tests run with cargo test');
    const skipped = isOnGpu ? [] : ['--skip', RUST_GPU_TESTS];
    await run('Rust tests', 'cargo', ['test', '--lib', '--no-default-features', ...filter, '--', ...skipped], { env });
    return;
  }
  const skipped = isOnGpu ? [] : ['-E', `not test(${RUST_GPU_TESTS})`];
  const whenEmpty = name !== undefined && only === undefined ? ['--no-tests=pass'] : [];
  await run('Rust tests', 'cargo', ['nextest', 'run', '--lib', '--no-default-features', ...whenEmpty, ...skipped, ...filter], { env });
}

/** Checks that the files generated from the IDL and the rules are current. */
async function checkGenerated() {
  await run('check of the generated operator table', process.execPath, ['scripts/generate-operators.mjs', '--check']);
  await run('check of the tables in the documentation', process.execPath, ['scripts/support-table.mjs', '--check']);
}

/** Tests with bounds for times: they run after the others, one after the other. @param {string} file */
const isTimed = (file) => file.endsWith('.timing.test.mjs');

/**
 * Runs the JavaScript tests. `--expose-gc` lets them check that memory is freed.
 * @param {ReturnType<typeof readArguments>} options
 */
async function testJavaScript({ name, files, suite, coverage }) {
  const flags = [...(name === undefined ? [] : [`--test-name-pattern=${name}`]), ...(coverage ? ['--experimental-test-coverage'] : [])];
  const runFiles = async (/** @type {string} */ what, /** @type {string[]} */ paths, env = {}) => {
    const [timed, others] = [paths.filter(isTimed), paths.filter((path) => !isTimed(path))];
    const runAtOnce = (/** @type {string} */ name, /** @type {number} */ count, /** @type {string[]} */ these) =>
      run(name, process.execPath, ['--expose-gc', '--test', `--test-concurrency=${count}`, ...flags, ...these], { env });
    // Node's own default leaves one core out, which is half of a small machine, and many tests wait for processes.
    if (others.length > 0) await runAtOnce(what, availableParallelism(), others);
    if (timed.length > 0) await runAtOnce(`${what}, of times`, 1, timed);
  };
  if (files.length > 0) return runFiles('JavaScript tests', files);
  const suiteOf = (/** @type {string} */ file) => Object.entries(SUITES).find(([, folder]) => file.startsWith(folder))?.[0];
  const ofSuite = testFiles((file) => suiteOf(file) === suite);
  if (suite !== 'gpu') return runFiles('JavaScript tests', ofSuite);
  await runFiles('JavaScript tests of the GPU', ofSuite, WITH_GPU);
  const onBoth = testFiles((file) => ON_BOTH.some((folder) => file.startsWith(folder)));
  await runFiles('JavaScript tests on the GPU', onBoth, { ...WITH_GPU, ...askingForGpu() });
}

await entry(async () => {
  const options = readArguments();
  if (options.only !== 'js') {
    await testRust(options);
  }
  if (options.only !== 'rust') {
    await (options.prebuilt ? installPackages() : setUp());
    if (options.name === undefined && options.files.length === 0 && options.suite === undefined) {
      await checkGenerated();
    }
    await testJavaScript(options);
  }
});
