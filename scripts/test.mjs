// `npm test`: set-up, then every test of the repository. Stops at the first step that fails and names it.
//
//   npm test                        everything
//   npm test -- --only rust         Rust tests (needs no npm package and no addon)
//   npm test -- --only js           generated files and JavaScript tests
//   npm test -- --name softmax      only tests whose name matches
//   npm test -- FILE...             only these JavaScript test files
//   npm test -- --gpu               the Rust tests, with the kernels for GPUs on software Vulkan
//   npm test -- --models            only the tests on trained models beside the repository
//   npm test -- --prebuilt          with the addon that lies in the repository root, whatever built it
//   npm test -- --browser           only the tests of HTML pages in Chromium

import { existsSync, readdirSync } from 'node:fs';
import { join, relative, sep } from 'node:path';
import { parseArgs } from 'node:util';
import { entry, Failure, outputOf, root, run, say } from './process.mjs';
import { checkRust, installPackages, setUp } from './setup.mjs';

const USAGE = 'usage: npm test -- [--only rust|js] [--name PATTERN] [--prebuilt] [--gpu | --models | --browser | FILE...]';

/** Folders of tests that need more than the toolchain: trained models beside the repository, Chromium. */
const SUITES = { models: '__test__/models/', browser: '__test__/browser/' };

/** Reads the command line. @throws {Failure} with exit status 2 when it cannot be understood */
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
        help: { type: 'boolean', short: 'h' },
      },
    });
  } catch (error) {
    throw new Failure(`${error.message}\n${USAGE}`, 2);
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
  const suites = Object.keys(SUITES).filter((suite) => values[suite]);
  if (suites.length > 0 && (suites.length > 1 || files.length > 0 || values.only !== undefined)) {
    throw new Failure(`--${suites[0]} goes with no other suite, --only or files\n${USAGE}`, 2);
  }
  if (values.gpu && (suites.length > 0 || files.length > 0 || values.only === 'js')) {
    throw new Failure(`--gpu goes with Rust tests only\n${USAGE}`, 2);
  }
  const missing = files.find((file) => !existsSync(join(root, file)));
  if (missing !== undefined) {
    throw new Failure(`${missing}: no such file in ${root}`, 2);
  }
  if (values.gpu) {
    return { only: 'rust', name: values.name, gpu: true };
  }
  const [suite] = suites;
  return { only: values.only ?? (files.length > 0 || suite !== undefined ? 'js' : undefined), name: values.name, files, suite, prebuilt: values.prebuilt };
}

/** Tests that need packages of Python or npm that are fetched for them; each folder has an npm script of its own. */
const PACKAGE_TESTS = ['__test__/clients/', '__test__/onnx-contrib/', '__test__/onnx-models/', '__test__/semantic-search/'];

/** Paths of the JavaScript test files, relative to the root, sorted. Listed here because Node 20 knows no globs. */
function testFiles({ suite }) {
  const suiteOf = (file) => Object.keys(SUITES).find((name) => file.startsWith(SUITES[name]));
  return readdirSync(join(root, '__test__'), { recursive: true, withFileTypes: true })
    .filter((file) => file.isFile() && file.name.endsWith('.test.mjs'))
    .map((file) => relative(root, join(file.parentPath ?? file.path, file.name)).split(sep).join('/'))
    .filter((file) => !file.includes('/node_modules/') && suiteOf(file) === suite)
    .filter((file) => !PACKAGE_TESTS.some((folder) => file.startsWith(folder)))
    .sort();
}

/**
 * The Rust tests, which all stand beside the code that they test. They are built without the `napi` feature, because a test binary has no Node to link with.
 * A name is a substring here; that none matches is an error only where no JavaScript tests follow.
 */
async function testRust({ only, name, gpu }) {
  checkRust();
  const filter = [...(gpu ? ['--features', 'gpu'] : []), ...(name === undefined ? [] : [name])];
  if (outputOf('cargo', ['nextest', '--version']) === undefined) {
    say('cargo-nextest is not installed: the Rust tests run with cargo test');
    await run('Rust tests', 'cargo', ['test', '--lib', '--no-default-features', ...filter]);
    return;
  }
  const whenEmpty = name !== undefined && only === undefined ? ['--no-tests=pass'] : [];
  await run('Rust tests', 'cargo', ['nextest', 'run', '--lib', '--no-default-features', ...whenEmpty, ...filter]);
}

/** Checks that what is generated from the IDL and from the rule rows is what the repository holds. */
async function checkGenerated() {
  await run('check of the generated operator table', process.execPath, ['scripts/generate-operators.mjs', '--check']);
  await run('check of the tables in README.md', process.execPath, ['scripts/support-table.mjs', '--check']);
}

/** The JavaScript tests. `--expose-gc` lets them see that memory is given back. */
async function testJavaScript({ name, files, suite }) {
  const pattern = name === undefined ? [] : [`--test-name-pattern=${name}`];
  await run('JavaScript tests', process.execPath, ['--expose-gc', '--test', ...pattern, ...(files.length > 0 ? files : testFiles({ suite }))]);
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
