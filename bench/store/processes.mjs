// Starts processes and files in the states that are measured.

import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { memoryOf, REST_MS } from './process-memory.mjs';

const pathOf = (/** @type {string} */ name) => fileURLToPath(new URL(name, import.meta.url));

export const WORKER = pathOf('worker.mjs');
export const START = pathOf('start.mjs');
export const EMPTY = pathOf('empty.mjs');

/** Removes pages of files from the cache; those that are not on the disk yet cannot be removed. */
const DROP = `
import os, sys
for path in sys.argv[1:]:
    file = os.open(path, os.O_RDONLY)
    os.fsync(file)
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
`;

/** Removes files from the page cache. Node has no function for it. @param {string[]} files */
export function dropFromCache(files) {
  execFileSync('python3', ['-c', DROP, ...files]);
}

/**
 * Runs a program to its end.
 *
 * @param {string} program
 * @param {object} parameters
 * @returns {Promise<{ ms: number, toResult: number }>} until it has ended, and until the time that it printed, if any
 * @throws {Error} if it fails
 */
export async function timeOf(program, parameters) {
  const start = process.hrtime.bigint();
  const child = spawn(process.execPath, [program, JSON.stringify(parameters)], { stdio: ['ignore', 'pipe', 'inherit'] });
  let text = '';
  child.stdout.on('data', (chunk) => {
    text += chunk;
  });
  const [status] = await once(child, 'close');
  const ms = Number(process.hrtime.bigint() - start) / 1e6;
  if (status !== 0) throw new Error(`${program} ended with ${status}`);
  return { ms, toResult: text === '' ? ms : Number(BigInt(JSON.parse(text).atNs) - start) / 1e6 };
}

/**
 * Starts processes, and returns the memory of each while all are alive: right after a run, and some seconds later.
 *
 * @param {number} count
 * @param {object} choice see the task `hold` of the worker
 * @returns {Promise<Record<'active' | 'resting', import('./types.d.mts').ProcessMemory[]>>}
 * @throws {Error} if one fails
 */
export async function memoryOfProcesses(count, choice) {
  const parameters = JSON.stringify({ task: 'hold', ...choice });
  const children = Array.from({ length: count }, () => spawn(process.execPath, [WORKER, parameters], { stdio: ['pipe', 'pipe', 'inherit'] }));
  const ends = children.map((child) => once(child, 'close'));
  const lines = children.map((child) => createInterface(child.stdout)[Symbol.asyncIterator]());
  const said = async (/** @type {number} */ i) => {
    if ((await lines[i].next()).done) throw new Error(`a process ended early: ${parameters}`);
  };
  const memories = () => children.map(({ pid }) => memoryOf(/** @type {number} */ (pid)));
  try {
    for (const i of children.keys()) await said(i);
    for (const [i, child] of children.entries()) {
      child.stdin.write('run\n');
      await said(i);
    }
    const active = memories();
    await sleep(REST_MS);
    return { active, resting: memories() };
  } finally {
    children.forEach((child) => child.stdin.end());
    await Promise.all(ends);
  }
}
