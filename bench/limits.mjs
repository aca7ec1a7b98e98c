// Peak rates of the machine: runs the program in limits/.

import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Failure, root, run } from '../scripts/process.mjs';

const MANIFEST = fileURLToPath(new URL('limits/Cargo.toml', import.meta.url));
const TARGET = join(root, 'target', 'bench', 'limits');
const PROGRAM = join(TARGET, 'release', process.platform === 'win32' ? 'machine-limits.exe' : 'machine-limits');

/**
 * @typedef {object} Limits of a number of threads together
 * @property {number} threads
 * @property {number} fmaGflops float32 multiply-adds, each counted as two operations
 * @property {number | null} int8Gops uint8 times int8; null without such an instruction
 * @property {number | null} bf16Gflops bfloat16; null without such an instruction
 * @property {{ bytes: number, pages: 'small' | 'huge', gbps: number }[]} reading read bandwidth of memory
 */

/** Builds the program. */
export async function buildLimits() {
  const args = ['build', '--release', '--quiet', '--manifest-path', MANIFEST, '--target-dir', TARGET];
  await run('build of the program that measures the machine', 'cargo', args);
}

/**
 * Measures the machine.
 *
 * @param {number[]} threads
 * @returns {Limits[]} in this order
 */
export function measureLimits(threads) {
  const { status, stdout, stderr } = spawnSync(PROGRAM, ['--json', ...threads.map(String)], { encoding: 'utf8' });
  if (status !== 0) {
    throw new Failure(`The machine cannot be measured: ${stderr}`);
  }
  return JSON.parse(stdout);
}

/**
 * @param {number | null} a
 * @param {number | null} b
 */
const larger = (a, b) => (a === null || b === null ? (a ?? b) : Math.max(a, b));

/**
 * Returns the larger of each number in two measurements with the same threads: other load can only lower them.
 *
 * @param {Limits[]} first
 * @param {Limits[]} second
 * @returns {Limits[]}
 */
export function strongest(first, second) {
  return first.map((a, i) => {
    const b = second[i];
    return {
      threads: a.threads,
      fmaGflops: Math.max(a.fmaGflops, b.fmaGflops),
      int8Gops: larger(a.int8Gops, b.int8Gops),
      bf16Gflops: larger(a.bf16Gflops, b.bf16Gflops),
      reading: a.reading.map((reading, j) => ({ ...reading, gbps: Math.max(reading.gbps, b.reading[j].gbps) })),
    };
  });
}

/**
 * Returns the limits for `shareOfLimit`, with the fastest memory read of all measurements.
 *
 * @param {Pick<Limits, 'fmaGflops' | 'int8Gops' | 'reading'>} limits
 * @param {{ cacheBytes: number }} machine
 */
export function forShares({ fmaGflops, int8Gops, reading }, { cacheBytes }) {
  return { fmaGflops, int8Gops, cacheBytes, readGbps: Math.max(...reading.map(({ gbps }) => gbps)) };
}
