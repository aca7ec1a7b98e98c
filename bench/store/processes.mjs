// Starts processes and files in the states that are measured.

import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { memoryOf } from './process-memory.mjs';

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

/** Threads of some engines spin for a moment after a run. */
const SPIN_MS = 20;

/**
 * Processes that wait for each other: each says when its model is loaded, and then does something when it is asked.
 *
 * @template T
 * @param {object[]} all the parameters of the worker, one for each process
 * @param {(asks: (() => Promise<string>)[], pids: number[]) => Promise<T>} work gets a function for each that asks and returns the answer
 * @returns {Promise<T>}
 * @throws {Error} if one fails
 */
async function withProcesses(all, work) {
  const children = all.map((parameters) => spawn(process.execPath, [WORKER, JSON.stringify(parameters)], { stdio: ['pipe', 'pipe', 'inherit'] }));
  const ends = children.map((child) => once(child, 'close'));
  const lines = children.map((child) => createInterface(child.stdout)[Symbol.asyncIterator]());
  const answerOf = async (/** @type {number} */ i) => {
    const { done, value } = await lines[i].next();
    if (done) throw new Error(`a process ended early: ${JSON.stringify(all[i])}`);
    return value;
  };
  try {
    for (const i of children.keys()) await answerOf(i);
    const asks = children.map((child, i) => () => {
      child.stdin.write('go\n');
      return answerOf(i);
    });
    return await work(
      asks,
      children.map(({ pid }) => /** @type {number} */ (pid)),
    );
  } finally {
    children.forEach((child) => child.stdin.end());
    await Promise.all(ends);
  }
}

/** After this time without a run, a process has given back what later runs would use. */
const REST_MS = 7000;

/**
 * Returns the memory of processes while all are alive: right after a run, and some seconds later.
 *
 * @param {number} count
 * @param {object} choice see the task `hold` of the worker
 * @returns {Promise<Record<'active' | 'resting', import('./types.d.mts').ProcessMemory[]>>}
 * @throws {Error} if one fails
 */
export function memoryOfProcesses(count, choice) {
  return withProcesses(Array(count).fill({ task: 'hold', ...choice }), async (asks, pids) => {
    for (const ask of asks) await ask();
    const active = pids.map(memoryOf);
    await sleep(REST_MS);
    return { active, resting: pids.map(memoryOf) };
  });
}

/**
 * The times of runs in processes that are alive at the same time, and run in turns: whatever slows the machine slows all of them.
 *
 * @param {object[]} choices see the task `turns` of the worker
 * @param {number} turns of each
 * @returns {Promise<number[][]>} for each turn, the milliseconds of a run in each process
 * @throws {Error} if one fails
 */
export function runsInTurns(choices, turns) {
  const all = choices.map((choice) => ({ task: 'turns', ...choice }));
  return withProcesses(all, async (asks) => {
    const taken = [];
    for (let turn = 0; turn < turns; turn++) {
      /** @type {number[]} */
      const times = [];
      const order = [...asks.keys()];
      for (const i of turn % 2 === 0 ? order : order.toReversed()) {
        await sleep(SPIN_MS);
        times[i] = Number(await asks[i]());
      }
      taken.push(times);
    }
    return taken;
  });
}
