/** Processes that tests start and wait for. */

import { spawn } from 'node:child_process';
import { PATIENCE } from './wait.mjs';

/**
 * How a process ended.
 *
 * @typedef {object} Ending
 * @property {number | null} code
 * @property {string | null} signal
 * @property {string} stdout
 * @property {string} stderr
 * @property {number} ended when it was gone, as of `Date.now()`
 */

/**
 * Waits for the end of a process whose streams are pipes.
 *
 * @param {import('node:child_process').ChildProcess} child
 * @returns {Promise<Ending>} rejected if the process cannot be started
 */
export function endOf(child) {
  const output = { stdout: '', stderr: '' };
  let ended = 0;
  for (const name of /** @type {const} */ (['stdout', 'stderr'])) {
    child[name]?.setEncoding('utf8').on('data', (text) => {
      output[name] += text;
    });
  }
  return new Promise((resolve, reject) => {
    child.on('error', reject);
    child.on('exit', () => {
      ended = Date.now();
    });
    child.on('close', (code, signal) => resolve({ code, signal, ...output, ended }));
  });
}

/**
 * Runs a command until it ends, however it ends. It is killed if it takes longer than a test may wait.
 *
 * @param {string} command
 * @param {readonly string[]} args
 * @param {{ cwd?: string, env?: NodeJS.ProcessEnv, input?: string }} [options] `env` is added to the environment, from which
 *   `undefined` takes a variable, and `input` is what it can read
 */
export function runCommand(command, args, { cwd, env, input = '' } = {}) {
  const child = spawn(command, args, {
    cwd,
    // The test runner's own variable would make the child's output part of its report.
    env: { ...process.env, NODE_TEST_CONTEXT: undefined, ...env },
    timeout: PATIENCE,
    killSignal: 'SIGKILL',
  });
  // A program that has ended does not read any more.
  child.stdin.on('error', (error) => {
    if (/** @type {NodeJS.ErrnoException} */ (error).code !== 'EPIPE') throw error;
  });
  child.stdin.end(input);
  return endOf(child);
}

/**
 * Runs the runtime of the tests with these arguments. See {@link runCommand}.
 *
 * @param {readonly string[]} args
 * @param {Parameters<typeof runCommand>[2]} [options]
 */
export const runNode = (args, options) => runCommand(process.execPath, args, options);
