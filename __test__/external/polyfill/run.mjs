// Runs the tests of a checkout of webnn-polyfill on webnn-node-compat. See USAGE.

import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { installExternal } from '../../../scripts/external.mjs';
import { readCommandLine, regularExpression, runMain, UsageError } from '../../lib/runners.mjs';
import { CONTRADICTIONS } from './contradictions.mjs';

const USAGE = `usage: npm run suite -- polyfill --polyfill DIR [options]

Runs test/ops and test/api of DIR, a checkout of https://github.com/webmachinelearning/webnn-polyfill, with webnn-node-compat in place
of the polyfill.

  --draft YEAR    2024, for the last commit (default), or 2021, for commits until May 2022 such as 2bbcf40
  --filter RE     only tests whose title, like "test relu relu", matches

Tests that fail for other reasons than a defect are listed in __test__/external/polyfill/contradictions.mjs.

Exit status: 0 all passed or fail as listed; 1 a test failed, a listed one passed, or no test ran; 2 wrong usage.`;

const FOLDER = fileURLToPath(new URL('.', import.meta.url));

/** The drafts of webnn-node-compat. */
const DRAFTS = Object.keys(CONTRADICTIONS);

/** Folders of tests in a checkout. */
const SUITES = ['test/ops', 'test/api'];

/** Files that are for browsers only, as in the checkout's own package.json: service workers. */
const FOR_BROWSERS = ['relu_sw.js'];

/**
 * @param {string[]} args
 * @returns {{ directory: string, draft: string, filter: RegExp | undefined } | undefined} undefined where help is asked for
 * @throws {UsageError}
 */
function readArguments(args) {
  const { values } = readCommandLine({
    args,
    options: {
      polyfill: { type: 'string' },
      draft: { type: 'string', default: '2024' },
      filter: { type: 'string' },
      help: { type: 'boolean', short: 'h' },
    },
  });
  if (values.help) return undefined;
  if (!DRAFTS.includes(values.draft)) throw new UsageError(`--draft is "${values.draft}", expected ${DRAFTS.join(' or ')}`);
  if (values.polyfill === undefined) throw new UsageError('--polyfill DIR is missing');
  const directory = resolve(values.polyfill);
  const missing = [...SUITES, 'test/utils.js'].filter((part) => !existsSync(join(directory, part)));
  if (missing.length > 0) throw new UsageError(`--polyfill: ${values.polyfill} has no ${missing.join(', ')}`);
  return { directory, draft: values.draft, filter: regularExpression('filter', values.filter) };
}

/**
 * Runs mocha on files.
 *
 * @param {string[]} files
 * @param {{ draft: string, filter: RegExp | undefined }} options
 * @returns {{ passes: { fullTitle: string }[], failures: { fullTitle: string, err: { message?: string } }[], pending: unknown[] }}
 */
function runMocha(files, { draft, filter }) {
  const mocha = createRequire(import.meta.url).resolve('mocha/bin/mocha.js');
  const folder = mkdtempSync(join(tmpdir(), 'polyfill-'));
  try {
    const output = join(folder, 'results.json');
    const options = ['--require', join(FOLDER, 'setup.cjs'), '--reporter', 'json', '--reporter-option', `output=${output}`, '--exit'];
    const grep = filter === undefined ? [] : ['--grep', filter.source];
    const { status } = spawnSync(process.execPath, [mocha, ...options, ...grep, ...files], {
      env: { ...process.env, POLYFILL_DRAFT: draft },
      stdio: ['ignore', 'ignore', 'inherit'],
    });
    if (!existsSync(output)) throw new Error(`mocha ended with status ${status} and no results`);
    return JSON.parse(readFileSync(output, 'utf8'));
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** Runs everything that the command line asks for. @returns {Promise<number>} the exit status */
async function main(args) {
  const options = readArguments(args);
  if (options === undefined) {
    console.log(USAGE);
    return 0;
  }
  const { directory, draft } = options;
  await installExternal();
  const files = SUITES.flatMap((suite) => readdirSync(join(directory, suite)).map((name) => join(directory, suite, name)));
  const wanted = files.filter((file) => file.endsWith('.js') && !FOR_BROWSERS.some((name) => file.endsWith(name)));
  const { passes, failures, pending } = runMocha(wanted, options);

  const entryOf = (title) => CONTRADICTIONS[draft].find((entry) => entry.title.test(title));
  const isListed = ({ fullTitle, err }) => entryOf(fullTitle)?.message.test(err.message ?? '') === true;
  const unlisted = failures.filter((failure) => !isListed(failure));
  for (const { fullTitle, err } of unlisted) console.log(`FAILED  ${fullTitle}: ${err.message}`);
  const unexpected = passes.filter(({ fullTitle }) => entryOf(fullTitle) !== undefined);
  for (const { fullTitle } of unexpected) console.log(`passes, but is listed: ${fullTitle}`);
  const reasons = failures.filter(isListed).map(({ fullTitle }) => entryOf(fullTitle)?.reason);
  for (const reason of new Set(reasons)) console.log(`${reasons.filter((each) => each === reason).length} as listed: ${reason}`);
  const listed = failures.length - unlisted.length;
  console.log(`${passes.length} passed, ${unlisted.length} failed, ${listed} failed as listed, ${pending.length} skipped by themselves`);
  return unlisted.length > 0 || unexpected.length > 0 || passes.length === 0 ? 1 : 0;
}

await runMain(main, USAGE);
