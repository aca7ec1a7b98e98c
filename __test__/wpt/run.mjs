// Runs the tests of WebNN of a checkout of the Web Platform Tests. See USAGE.

import { setMaxListeners } from 'node:events';
import { closeSync, openSync, writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { resolve } from 'node:path';
import { mapConcurrently, positiveInteger, readCommandLine, regularExpression, runMain, UsageError } from '../lib/runners.mjs';
import { findTests, missingParts, revisionOf } from './checkout.mjs';
import { CONTRADICTIONS } from './contradictions.mjs';
import { execute } from './execute.mjs';
import { formatListed, formatTotals, linesOf, totalsOf, wptReport } from './report.mjs';
import { judge, unusedEntries } from './verdict.mjs';

const USAGE = `usage: npm run wpt -- --wpt DIR [options]

Runs webnn/ of DIR, a checkout of https://github.com/web-platform-tests/wpt, each test in a process of its own.

  --filter RE     only tests whose address, like /webnn/conformance_tests/abs.https.any.html?cpu, matches
  --device NAME   only variants for this device: cpu, gpu or npu (default: all); tests without variants run as well
  --json FILE     write the results to FILE in the form of wptreport
  --jobs N        tests in flight at the same time (default: the number of cores)

Tests that contradict the draft are listed in __test__/wpt/contradictions.mjs, with its clauses.

Exit status: 0 all passed or fail as listed; 1 a test failed, crashed or took too long, a listed one passed whose entry does
not allow that, or is missing, or no test ran; 2 wrong usage.`;

const DEVICES = ['cpu', 'gpu', 'npu'];

/**
 * Reads the command line.
 * @param {string[]} args
 * @returns {{ directory: string, filter: RegExp | undefined, device: string | undefined, json?: string, jobs: number } | undefined} undefined where help is asked for
 * @throws {UsageError}
 */
function readArguments(args) {
  const { values } = readCommandLine({
    args,
    options: {
      wpt: { type: 'string' },
      filter: { type: 'string' },
      device: { type: 'string' },
      json: { type: 'string' },
      jobs: { type: 'string', default: String(availableParallelism()) },
      help: { type: 'boolean', short: 'h' },
    },
  });
  if (values.help) return undefined;
  if (values.wpt === undefined) throw new UsageError('--wpt DIR is missing');
  const missing = missingParts(values.wpt);
  if (missing.length > 0) throw new UsageError(`--wpt: ${values.wpt} has no ${missing.join(', ')}`);
  if (values.device !== undefined && !DEVICES.includes(values.device)) {
    throw new UsageError(`--device is "${values.device}", expected ${DEVICES.join(', ')}`);
  }
  const jobs = positiveInteger('jobs', values.jobs);
  const filter = regularExpression('filter', values.filter);
  const { wpt, device, json } = values;
  return { directory: resolve(wpt), filter, device, json, jobs };
}

/** Finds out before the tests run whether their report can be written. @throws {UsageError} */
function requireWritable(file) {
  try {
    closeSync(openSync(file, 'a'));
  } catch (error) {
    throw new UsageError(`--json: ${/** @type {Error} */ (error).message}`);
  }
}

/** A signal that aborts when this process is asked to end, so that no test outlives it. */
function interruption() {
  const controller = new AbortController();
  setMaxListeners(0, controller.signal); // one per test in flight
  for (const [signal, number] of Object.entries({ SIGINT: 2, SIGTERM: 15 })) {
    process.on(signal, () => {
      controller.abort();
      process.exit(128 + number);
    });
  }
  return controller.signal;
}

/** Runs the tests, at most `jobs` at a time, and prints each as it ends. @returns {Promise<import('./report.mjs').Outcome[]>} in their order */
function runTests({ directory, jobs }, tests) {
  const signal = interruption();
  return mapConcurrently(tests, jobs, async (test) => {
    const result = await execute(directory, test, signal);
    const verdict = judge(result, CONTRADICTIONS);
    console.log(linesOf(result, verdict));
    return { result, verdict };
  });
}

/** Entries of the table that no test of a complete run stands for. Prints them. */
function reportUnused({ filter, device }, verdicts) {
  if (filter !== undefined || device !== undefined) return [];
  const unused = unusedEntries(CONTRADICTIONS, verdicts);
  for (const { files, subtests } of unused) {
    console.log(`table of contradictions: nothing fails as listed for ${files} ${subtests ?? 'as a whole'}`);
  }
  return unused;
}

/** Runs everything that the command line asks for. @returns {Promise<number>} the exit status */
async function main(args) {
  const options = readArguments(args);
  if (options === undefined) {
    console.log(USAGE);
    return 0;
  }
  if (options.json !== undefined) requireWritable(options.json);
  const all = findTests(options.directory);
  const isForDevice = (device) => [undefined, device].includes(options.device) || device === undefined;
  const wanted = all.filter(({ url, device }) => isForDevice(device) && (options.filter?.test(url) ?? true));
  const tests = wanted.filter(({ isInNode }) => isInNode);
  const revision = revisionOf(options.directory);
  console.log(`${tests.length} tests of ${options.directory}${revision === undefined ? '' : `, commit ${revision}`}`);
  console.log('interfaces/webnn.idl is replaced by spec/webnn.idl, the interfaces of the draft that is implemented');
  if (tests.length < wanted.length) {
    console.log(`${wanted.length - tests.length} tests are for shared and service workers, which Node lacks: not run`);
  }
  const begin = Date.now();
  const outcomes = await runTests(options, tests);
  const end = Date.now();
  if (options.json !== undefined) {
    writeFileSync(options.json, `${JSON.stringify(wptReport(outcomes, { revision, begin, end }))}\n`);
  }
  const verdicts = outcomes.map(({ verdict }) => verdict);
  const unused = reportUnused(options, verdicts);
  const clauses = formatListed(verdicts);
  if (clauses !== '') console.log(`\nFail as listed in __test__/wpt/contradictions.mjs:\n${clauses}`);
  console.log(`\n${formatTotals(totalsOf(outcomes))}`);
  const count = (wanted) => outcomes.filter(({ result }) => result.status === wanted).length;
  const failed = verdicts.filter(({ failures }) => failures.length > 0).length;
  const seconds = Math.round((end - begin) / 1000);
  const [crashed, late] = ['CRASH', 'TIMEOUT'].map(count);
  console.log(`\n${tests.length} tests in ${seconds} s: ${failed} with failures, ${crashed} crashed, ${late} took too long`);
  return failed > 0 || unused.length > 0 || tests.length === 0 ? 1 : 0;
}

await runMain(main, USAGE);
