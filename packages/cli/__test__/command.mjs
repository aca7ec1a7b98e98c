import { spawn } from 'node:child_process';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

/** The repository's root folder. */
export const ROOT = fileURLToPath(new URL('../../..', import.meta.url));

/** The program that `npx webnn-node` starts. */
export const PROGRAM = fileURLToPath(new URL('../bin/webnn-node.js', import.meta.url));

/** Path of a file that files/make.py wrote. */
export const file = (name) => fileURLToPath(new URL(`files/${name}`, import.meta.url));

/** Starts the program; its streams are pipes. */
export function start(args, options = {}) {
  return spawn(process.execPath, [PROGRAM, ...args], { cwd: ROOT, ...options });
}

/**
 * Runs the program to its end.
 * @param {...string} args
 * @returns {Promise<{ code: number | null, signal: string | null, stdout: string, stderr: string }>}
 */
export function webnn(...args) {
  return webnnWith({}, ...args);
}

/** As `webnn`, with options of `spawn()`. */
export function webnnWith(options, ...args) {
  const child = start(args, options);
  const text = { stdout: '', stderr: '' };
  for (const stream of ['stdout', 'stderr']) child[stream].setEncoding('utf8').on('data', (part) => { text[stream] += part; });
  return new Promise((resolve, reject) => {
    child.on('error', reject);
    child.on('close', (code, signal) => resolve({ code, signal, ...text }));
  });
}

/** Runs the program with --json; fails unless it ends well with one document and nothing on standard error. */
export async function webnnJson(...args) {
  const { code, stdout, stderr } = await webnn(...args, '--json');
  if (code !== 0 || stderr !== '') throw new Error(`exit code ${code}: ${stderr}`);
  return JSON.parse(stdout);
}
