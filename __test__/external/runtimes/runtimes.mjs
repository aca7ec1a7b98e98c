/** The runtimes, how they are started, and what each of them lacks. */

import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** Where the runtimes are installed, as npm packages. */
export const HERE = fileURLToPath(new URL('.', import.meta.url));

/** Milliseconds for one test: other programs may hold all cores. */
const PATIENCE = 300_000;

/** What Deno's permissions allow to tests that start processes and write temporary files. */
const DENO_TESTS = ['ffi', 'read', 'write', 'env', 'run', 'sys'].map((name) => `--allow-${name}`);

/**
 * @typedef {object} Runtime
 * @property {string} name
 * @property {string} command path of the executable
 * @property {boolean} float16Array whether it has Float16Array
 * @property {(file: string, permissions: string[]) => string[]} program arguments that run a file; the permissions are
 *   Deno's
 * @property {(files: string[], report: string) => string[]} tests arguments that run test files and write a JUnit
 *   report
 */

/** @typedef {Pick<Runtime, 'program' | 'tests'>} Start */

/** @type {Start} */
const node = {
  program: (file) => [file],
  tests: (files, report) => ['--expose-gc', '--test', '--test-reporter=junit', `--test-reporter-destination=${report}`, ...files],
};

/** @type {Start} */
const deno = {
  program: (file, permissions) => ['run', '--no-prompt', '--no-lock', ...permissions, file],
  tests: (files, report) => ['test', '--no-prompt', '--no-lock', '--no-check', '--v8-flags=--expose-gc', ...DENO_TESTS, `--junit-path=${report}`, ...files],
};

/** @type {Start} */
const bun = {
  program: (file) => [file],
  // A path that does not begin with a dot would be a pattern.
  tests: (files, report) => ['test', `--timeout=${PATIENCE}`, '--reporter=junit', `--reporter-outfile=${report}`, ...files.map((file) => `./${file}`)],
};

const installed = (/** @type {string[]} */ ...path) => join(HERE, '..', 'node_modules', ...path);
const nodeVersion = (/** @type {number} */ major, /** @type {boolean} */ float16Array) => ({
  name: `node-${major}`,
  command: installed(`node-${major}`, 'bin', 'node'),
  float16Array,
  ...node,
});

/** @type {Runtime[]} */
export const RUNTIMES = [
  nodeVersion(20, false),
  nodeVersion(22, false),
  nodeVersion(24, true),
  nodeVersion(26, true),
  { name: 'deno', command: installed('@deno', 'linux-x64-glibc', 'deno'), float16Array: true, ...deno },
  { name: 'bun', command: installed('@oven', 'bun-linux-x64', 'bin', 'bun'), float16Array: true, ...bun },
];

/**
 * The tests that cannot pass in a runtime for want of something in the runtime itself. Each of them is run, and one
 * that passes is an error.
 *
 * @type {{runtime: string, suite: string, test: string, lacks: string, evidence: string}[]}
 */
export const LACKING = ['tensor', 'constant tensor', 'graph'].map((name) => ({
  runtime: 'bun',
  suite: 'endings',
  test: `a ${name} that is destroyed weighs nothing`,
  lacks: 'napi_adjust_external_memory with a negative number has no effect',
  evidence: 'JavaScriptCore has no way to take memory back, says oven-sh/bun#34142; 58 to 97 collections instead of 0 or 1',
}));
