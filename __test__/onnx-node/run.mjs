// Runs the prepared single-operator tests of the onnx package. See USAGE; `npm run suite -- onnx-node` prepares them first.

import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { mapConcurrently, positiveInteger, readCommandLine, regularExpression, runMain, UsageError } from '../lib/runners.mjs';
import { INEXPRESSIBLE } from './inexpressible.mjs';
import { judge, tableProblems } from './verdict.mjs';

const USAGE = `usage: node __test__/onnx-node/run.mjs DIR [options]

Loads and runs the tests that scripts/python/prepare_onnx_node_tests.py wrote to DIR, and compares the results.

  --filter RE    only tests whose name matches the regular expression
  --json FILE    write the results to FILE
  --jobs N       tests in flight at the same time (default: 4)
  --quiet        print the failed tests only

Exit status: 0 all passed or cannot be expressed; 1 a test failed, the table of inexpressible tests is wrong, or no
test ran; 2 wrong usage.`;

/** So many of all tests have to pass. */
const REQUIRED_PASSES = 1650;

/**
 * Reads the command line.
 * @param {string[]} args
 * @returns {{ directory: string, index: string, filter: RegExp | undefined, json?: string, jobs: number, quiet: boolean } | undefined} undefined where help is asked for
 * @throws {UsageError}
 */
function readArguments(args) {
  const { values, positionals } = readCommandLine({
    args,
    allowPositionals: true,
    options: {
      filter: { type: 'string' },
      json: { type: 'string' },
      jobs: { type: 'string', default: '4' },
      quiet: { type: 'boolean', default: false },
      help: { type: 'boolean', short: 'h' },
    },
  });
  if (values.help) return undefined;
  if (positionals.length !== 1) throw new UsageError(`expected one folder, got ${positionals.length}`);
  const index = join(positionals[0], 'index.json');
  if (!existsSync(index)) throw new UsageError(`${index} does not exist`);
  const jobs = positiveInteger('jobs', values.jobs);
  const filter = regularExpression('filter', values.filter);
  return { directory: positionals[0], index, filter, json: values.json, jobs, quiet: values.quiet };
}

/** Runs the tests, at most `jobs` at a time. @returns {Promise<{ name: string, status: string, message?: string }[]>} in their order */
async function runTests({ directory, jobs }, tests) {
  const { ml } = await import('webnn-node');
  const { runCase } = await import('./cases.mjs');
  const entries = new Map(INEXPRESSIBLE.flatMap((entry) => entry.tests.map((name) => [name, entry])));
  const context = await ml.createContext();
  const results = await mapConcurrently(tests, jobs, async (test) => {
    const outcome = await runCase(directory, test, context);
    return { name: test.name, ...judge(outcome, test, entries.get(test.name)), outcome };
  });
  context.destroy();
  return results;
}

/** Runs everything that the command line asks for. @returns {Promise<number>} the exit status */
async function main(args) {
  const options = readArguments(args);
  if (options === undefined) {
    console.log(USAGE);
    return 0;
  }
  const index = JSON.parse(readFileSync(options.index, 'utf8'));
  const problems = tableProblems(INEXPRESSIBLE, index);
  problems.forEach((problem) => console.log(`table of inexpressible tests: ${problem}`));
  const tests = index.filter(({ name }) => options.filter?.test(name) ?? true);
  const results = await runTests(options, tests);
  for (const { name, status, message } of results) {
    if (status === 'failed' || !options.quiet) {
      console.log(`${status.padEnd(19)}  ${name}${message === undefined ? '' : `: ${message}`}`);
    }
  }
  const count = (wanted) => results.filter(({ status }) => status === wanted).length;
  const [passed, corrected, failed, inexpressible] = ['passed', 'passed as corrected', 'failed', 'not expressible'].map(count);
  if (options.json !== undefined) {
    writeFileSync(options.json, `${JSON.stringify({ passed, corrected, failed, inexpressible, tableProblems: problems, results }, null, 1)}\n`);
  }
  console.log(`\n${tests.length} tests: ${passed} passed, ${corrected} passed with corrected expectations, ${failed} failed, ${inexpressible} not expressible`);
  const tooFew = options.filter === undefined && passed < REQUIRED_PASSES;
  if (tooFew) console.log(`fewer than ${REQUIRED_PASSES} passed`);
  if (tests.length === 0) console.log('no test ran');
  return failed > 0 || problems.length > 0 || tooFew || tests.length === 0 ? 1 : 0;
}

await runMain(main, USAGE);
