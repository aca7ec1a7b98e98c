// Basics for every script: the repository root, running commands, stopping with a message. Uses only Node's built-ins:
// these run before `npm ci`.

import { spawn, spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, realpathSync } from 'node:fs';
import { delimiter, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** Absolute path of the repository root, without a trailing separator. */
export const root = fileURLToPath(new URL('..', import.meta.url)).replace(/[\\/]$/, '');

const packageOf = (/** @type {string} */ folder) => JSON.parse(readFileSync(join(root, folder, 'package.json'), 'utf8'));

/** Folders of the other packages, relative to the root: the npm workspaces. Each stands behind those that it depends on. */
export const WORKSPACES = readdirSync(join(root, 'packages'))
  .sort()
  .map((name) => `packages/${name}`)
  .filter((folder) => existsSync(join(root, folder, 'package.json')))
  .reduce((/** @type {string[]} */ sorted, folder, _, all) => {
    const place = (/** @type {string} */ one) => {
      if (sorted.includes(one)) return;
      for (const other of all) if (packageOf(other).name in packageOf(one).dependencies) place(other);
      sorted.push(one);
    };
    place(folder);
    return sorted;
  }, []);

/** A failure that its message fully explains: printed without a stack trace. */
export class Failure extends Error {
  /**
   * @param {string} message what went wrong and what to do about it
   * @param {number} [exitCode] exit status of the process; that of a failed command, otherwise 1
   */
  constructor(message, exitCode = 1) {
    super(message);
    this.exitCode = exitCode;
  }
}

/**
 * Prints one line about the current step on standard error, which keeps it in order with the tools' progress.
 * @param {string} text
 */
export function say(text) {
  process.stderr.write(`> ${text}\n`);
}

/**
 * Runs `command` with this process's standard streams.
 *
 * @param {string} step purpose of the command; names the step in the error
 * @param {string} command
 * @param {string[]} args
 * @param {{ cwd?: string, env?: Record<string, string>, shell?: boolean }} [options] the folder, the repository root when
 *   absent; `env` is added to the environment
 * @throws {Failure} with the command's exit status, when it cannot be started or fails
 */
export async function run(step, command, args, { cwd = root, env = {}, shell = false } = {}) {
  say([command, ...args].join(' '));
  const child = spawn(command, args, { cwd, stdio: 'inherit', env: { ...process.env, ...env }, shell });
  const status = await new Promise((resolve, reject) => {
    child.on('error', (error) => reject(new Failure(`${step}: cannot run ${command}: ${error.message}`)));
    child.on('close', (code, signal) => resolve(code ?? signal));
  });
  if (status !== 0) {
    throw new Failure(
      `${step} failed: ${command} ended with ${typeof status === 'number' ? `exit code ${status}` : status}`,
      typeof status === 'number' ? status : 1,
    );
  }
}

/**
 * Returns npm's program: that of the npm that started this process, the target of the command's link, or Node's own on
 * Windows.
 */
function npmProgram() {
  const folders = process.env.PATH?.split(delimiter) ?? [];
  const link = folders.map((folder) => join(folder, 'npm')).find((file) => existsSync(file));
  const candidates = [
    process.env.npm_execpath,
    ...(link === undefined ? [] : [realpathSync(link)]),
    join(dirname(process.execPath), 'node_modules', 'npm', 'bin', 'npm-cli.js'),
  ];
  return candidates.find((file) => file !== undefined && /npm-cli\.c?js$/.test(file) && existsSync(file));
}

/**
 * Returns how to start npm: its program with this Node if it is known, which does not depend on PATH; otherwise the
 * command.
 * @param {string[]} args
 */
function npmCommand(args) {
  const program = npmProgram();
  if (program !== undefined) {
    return { command: process.execPath, args: [program, ...args], shell: false };
  }
  // On Windows npm is a .cmd file, which only a shell can start.
  return { command: 'npm', args, shell: process.platform === 'win32' };
}

/**
 * Runs npm, whether or not npm started this process. See {@link run}.
 * @param {string} step
 * @param {string[]} npmArgs
 * @param {{ cwd?: string, env?: Record<string, string> }} [options]
 */
export function runNpm(step, npmArgs, options) {
  const { command, args, shell } = npmCommand(npmArgs);
  return run(step, command, args, { ...options, shell });
}

/**
 * Runs npm and waits for it.
 *
 * @param {string[]} npmArgs
 * @param {{ cwd?: string, env?: NodeJS.ProcessEnv, timeout?: number }} [options] the folder, the repository root when absent;
 *   the whole environment, this process's when absent; and milliseconds after which it is ended
 * @returns {{ status: number | null, stdout: string, stderr: string }}
 */
export function npmResult(npmArgs, { cwd = root, env = process.env, timeout } = {}) {
  const { command, args, shell } = npmCommand(npmArgs);
  const { status, stdout, stderr, error } = spawnSync(command, args, { cwd, env, shell, timeout, encoding: 'utf8', maxBuffer: 64 << 20 });
  return { status, stdout: stdout ?? '', stderr: error?.message ?? stderr };
}

/**
 * Returns npm's standard output. See {@link npmResult}.
 * @param {string} step purpose of the npm run; names the step in the error
 * @param {string[]} args
 * @param {{ cwd?: string, env?: NodeJS.ProcessEnv }} [options]
 * @throws {Failure} with npm's output, when it cannot be started or fails
 */
export function npmOutput(step, args, options) {
  const { status, stdout, stderr } = npmResult(args, options);
  if (status !== 0) {
    throw new Failure(`${step} failed: npm ${args.join(' ')}\n${stderr}${stdout}`);
  }
  return stdout;
}

/**
 * Reads this process's command line. Its --help prints the usage.
 *
 * @template T
 * @param {string} usage
 * @param {() => T} read throws what is wrong
 * @returns {T}
 * @throws {Failure} with the usage: exit status 2 when the command line is invalid, 0 when help was requested
 */
export function withUsage(usage, read) {
  if (process.argv.slice(2).some((word) => word === '--help' || word === '-h')) throw new Failure(usage, 0);
  try {
    return read();
  } catch (error) {
    throw new Failure(`${/** @type {Error} */ (error).message}\n\n${usage}`, 2);
  }
}

/**
 * Returns the trimmed standard output of `command`, or `undefined` if it cannot be run or fails.
 * @param {string} command
 * @param {string[]} args
 * @param {{ env?: Record<string, string> }} [options] `env` is added to the environment
 */
export function outputOf(command, args, { env = {} } = {}) {
  const result = spawnSync(command, args, { cwd: root, encoding: 'utf8', env: { ...process.env, ...env } });
  return result.status === 0 ? result.stdout.trim() : undefined;
}

/**
 * Whether the module with this `import.meta.url` is the program that Node was asked to run.
 * @param {string} moduleUrl
 */
export function isProgram(moduleUrl) {
  // Node resolves links in the module's address but not in its own argument.
  return process.argv[1] !== undefined && realpathSync(process.argv[1]) === fileURLToPath(moduleUrl);
}

/**
 * Runs `main` and turns a {@link Failure} into its message and exit status.
 * @param {() => unknown} main
 */
export async function entry(main) {
  try {
    await main();
  } catch (error) {
    if (!(error instanceof Failure)) {
      throw error;
    }
    process.stderr.write(`\n${error.message}\n`);
    process.exitCode = error.exitCode;
  }
}
