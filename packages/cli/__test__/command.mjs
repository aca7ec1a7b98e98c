import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { endOf } from '../../../__test__/lib/processes.mjs';
import { root } from '../../../scripts/process.mjs';

/** The program that `npx webnn-node` starts. */
export const PROGRAM = fileURLToPath(new URL('../bin/webnn-node.js', import.meta.url));

/** Path of a file that files/make.py wrote. */
export const file = (name) => fileURLToPath(new URL(`files/${name}`, import.meta.url));

/** Starts the program; its streams are pipes. */
export function start(args, options = {}) {
  return spawn(process.execPath, [PROGRAM, ...args], { cwd: root, ...options });
}

/**
 * Runs the program to its end.
 * @param {...string} args
 */
export function webnn(...args) {
  return webnnWith({}, ...args);
}

/** As `webnn`, with options of `spawn()`. */
export const webnnWith = (options, ...args) => endOf(start(args, options));

/** Runs the program with --json; fails unless it ends well with one document and nothing on standard error. */
export async function webnnJson(...args) {
  const { code, stdout, stderr } = await webnn(...args, '--json');
  if (code !== 0 || stderr !== '') throw new Error(`exit code ${code}: ${stderr}`);
  return JSON.parse(stdout);
}
