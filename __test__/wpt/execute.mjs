// Runs one test in a process of its own and tells what became of it, whatever that is.

import { fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const CHILD = fileURLToPath(new URL('child.mjs', import.meta.url));

/** Names of the numbers that testharness.js uses for the states of a file and of a test. */
const HARNESS_STATUS = ['OK', 'ERROR', 'TIMEOUT', 'PRECONDITION_FAILED'];
const TEST_STATUS = ['PASS', 'FAIL', 'TIMEOUT', 'NOTRUN', 'PRECONDITION_FAILED'];

/** `Test.phases.INITIAL` of testharness.js: the test is known and has not begun. */
const INITIAL = 0;

/** How much of the end of a process's error output is kept for the message of a crash, in characters. */
const KEPT_OUTPUT = 2000;

/** Collects what the harness in a process tells. */
class Progress {
  #tests = new Map();
  harness;

  take({ type, test, status }) {
    if (type === 'complete') {
      this.harness = status;
    } else if (test !== undefined) {
      this.#tests.set(test.index, test);
    }
  }

  /** @param {string} unfinished status of tests that began and did not end */
  subtests(unfinished) {
    return [...this.#tests.values()].map(({ name, phase, status, message, hasResult }) => ({
      name,
      status: hasResult ? TEST_STATUS[status] : phase === INITIAL ? 'NOTRUN' : unfinished,
      message: message ?? null,
    }));
  }
}

/** What the end of a process means. */
function outcomeOf({ harness }, { code, signal, isLate, output }, timeout) {
  if (isLate) {
    return { status: 'TIMEOUT', message: `not done after ${timeout / 1000} s` };
  }
  if (signal !== null || code !== 0) {
    const end = signal === null ? `exit code ${code}` : signal;
    return { status: 'CRASH', message: `the process ended with ${end}${output === '' ? '' : `: ${output}`}` };
  }
  if (harness === undefined) {
    return { status: 'TIMEOUT', message: 'the process had nothing left to wait for, but the tests were not done' };
  }
  return { status: HARNESS_STATUS[harness.status], message: harness.message ?? null };
}

/**
 * @typedef {object} Result
 * @property {import('./meta.mjs').Test} test
 * @property {string} status
 * @property {string | null} message
 * @property {number} duration
 * @property {{ name: string, status: string, message: string | null }[]} subtests
 */

/**
 * Runs a test.
 *
 * @param {string} directory of the checkout
 * @param {import('./meta.mjs').Test} test
 * @param {AbortSignal} [signal] kills the process
 * @returns {Promise<Result>} statuses are those of wptreport; a
 *   process that does not end in the test's time is killed (TIMEOUT), one that ends otherwise than with exit code 0 has
 *   crashed (CRASH), and both have the results until then; `duration` is in milliseconds
 */
export function execute(directory, test, signal) {
  const begin = performance.now();
  const job = JSON.stringify({ directory, test });
  const child = fork(CHILD, [job], { stdio: ['ignore', 'pipe', 'pipe', 'ipc'], execArgv: [] });
  const progress = new Progress();
  const end = { code: null, signal: null, isLate: false, output: '' };
  const kill = () => child.kill('SIGKILL');
  const timer = setTimeout(() => {
    end.isLate = true;
    kill();
  }, test.timeout);
  signal?.addEventListener('abort', kill);
  for (const stream of [child.stdout, child.stderr]) {
    stream?.setEncoding('utf8').on('data', (text) => {
      end.output = (end.output + text).slice(-KEPT_OUTPUT);
    });
  }
  child.on('message', (/** @type {any} */ message) => {
    const { type, test: subtest } = message;
    progress.take(subtest === undefined ? message : { ...message, test: { ...subtest, hasResult: type === 'result' } });
  });
  return new Promise((resolve, reject) => {
    child.on('error', reject);
    child.on('close', (code, exitSignal) => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', kill);
      const outcome = outcomeOf(progress, { ...end, code, signal: exitSignal }, test.timeout);
      const subtests = progress.subtests(outcome.status === 'CRASH' ? 'ERROR' : 'TIMEOUT');
      resolve({ test, ...outcome, duration: Math.round(performance.now() - begin), subtests });
    });
  });
}
