// `npm test`: set-up, then every test of the repository. Stops at the first step that fails and names it.
//
//   npm test                        everything
//   npm test -- --only rust         Rust tests (needs no npm package and no addon)
//   npm test -- --only js           generated files and JavaScript tests
//   npm test -- --name softmax      only tests whose name matches
//   npm test -- FILE...             only these JavaScript test files
//   npm test -- --models            only the tests on trained models beside the repository

import { existsSync, readdirSync } from 'node:fs';
import { join, relative, sep } from 'node:path';
import { parseArgs } from 'node:util';
import { entry, Failure, outputOf, root, run, say } from './process.mjs';
import { checkRust, setUp } from './setup.mjs';

const USAGE = 'usage: npm test -- [--only rust|js] [--name PATTERN] [--models | FILE...]';

/** Reads the command line. @throws {Failure} with exit status 2 when it cannot be understood */
function readArguments() {
  let parsed;
  try {
    parsed = parseArgs({
      allowPositionals: true,
      options: {
        only: { type: 'string' },
        name: { type: 'string' },
        models: { type: 'boolean', default: false },
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
  if (values.models && (files.length > 0 || values.only !== undefined)) {
    throw new Failure(`--models goes with neither --only nor files\n${USAGE}`, 2);
  }
  const missing = files.find((file) => !existsSync(join(root, file)));
  if (missing !== undefined) {
    throw new Failure(`${missing}: no such file in ${root}`, 2);
  }
  const { name, models } = values;
  return { only: values.only ?? (files.length > 0 || models ? 'js' : undefined), name, files, models };
}

/** Tests on trained models, which are not in the repository: `npm run test:models` runs them. */
const MODEL_TESTS = '__test__/models/';

/** Paths of the JavaScript test files, relative to the root, sorted. Listed here because Node 20 knows no globs. */
function testFiles({ models }) {
  return readdirSync(join(root, '__test__'), { recursive: true, withFileTypes: true })
    .filter((file) => file.isFile() && file.name.endsWith('.test.mjs'))
    .map((file) => relative(root, join(file.parentPath ?? file.path, file.name)).split(sep).join('/'))
    .filter((file) => file.startsWith(MODEL_TESTS) === models)
    .sort();
}

/**
 * The Rust tests, which all stand beside the code that they test. They are built without the `napi` feature, because a test binary has no Node to link with.
 * A name is a substring here; that none matches is an error only where no JavaScript tests follow.
 */
async function testRust({ only, name }) {
  checkRust();
  const filter = name === undefined ? [] : [name];
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
async function testJavaScript({ name, files, models }) {
  const pattern = name === undefined ? [] : [`--test-name-pattern=${name}`];
  await run('JavaScript tests', process.execPath, ['--expose-gc', '--test', ...pattern, ...(files.length > 0 ? files : testFiles({ models }))]);
}

await entry(async () => {
  const options = readArguments();
  if (options.only !== 'js') {
    await testRust(options);
  }
  if (options.only !== 'rust') {
    await setUp();
    if (options.name === undefined && options.files.length === 0 && !options.models) {
      await checkGenerated();
    }
    await testJavaScript(options);
  }
});
