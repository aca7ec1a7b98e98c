/** What a process holds, and whether that grows. */

import { readdirSync } from 'node:fs';
import { median } from 'd3-array';
import { Failure, say } from '../../scripts/process.mjs';

/**
 * What is looked at. `steady`: how much more at the end than after the warm-up is no growth; `perMinute`: and how much
 * in each minute. Devices that were lost wait for the collector of garbage, and allocators keep what they were given.
 * Idle threads of the pool that timelines run in end after ten seconds, so their number follows peaks; the hundreds of
 * contexts and devices of a run would leave hundreds of threads.
 */
export const LIMITS = {
  rss: { steady: 32, perMinute: 0.5, unit: 'MiB' },
  heap: { steady: 4, perMinute: 0.1, unit: 'MiB' },
  external: { steady: 4, perMinute: 0.1, unit: 'MiB' },
  handles: { steady: 4, perMinute: 0, unit: 'open files' },
  threads: { steady: 16, perMinute: 0, unit: 'threads' },
};

/** The part of a run that is for caches to fill. */
export const WARM_UP = 1 / 3;

/** Collects the garbage of this process. @throws {Error} without `--expose-gc` */
export function collectGarbage() {
  if (globalThis.gc === undefined) {
    throw new Error('there is no gc(), expected node --expose-gc');
  }
  globalThis.gc();
}

/**
 * @typedef {object} Sample what a process holds
 * @property {number} minutes since the start
 * @property {number} rss MiB that are resident
 * @property {number} heap MiB of JavaScript
 * @property {number} external MiB outside of the heap that belong to objects of JavaScript, as elements of typed arrays
 * @property {number} handles open files
 * @property {number} threads
 */

/**
 * What this process holds, after a collection of garbage.
 *
 * @param {number} start time of the first sample, as `performance.now()` has it
 * @returns {Promise<Sample>}
 */
export async function sample(start) {
  collectGarbage();
  // Finalizers run some turns of the event loop after a collection.
  await new Promise((resolve) => setTimeout(resolve, 5));
  collectGarbage();
  const { rss, heapUsed, external } = process.memoryUsage();
  return {
    minutes: (performance.now() - start) / 60_000,
    rss: rss / 2 ** 20,
    heap: heapUsed / 2 ** 20,
    external: external / 2 ** 20,
    handles: readdirSync('/proc/self/fd').length,
    threads: readdirSync('/proc/self/task').length,
  };
}

/** @param {Sample} sample */
export const shown = ({ minutes, rss, heap, external, handles, threads }) =>
  `${minutes.toFixed(1)} min: ${rss.toFixed(0)} MiB resident, heap ${heap.toFixed(1)} MiB, external ${external.toFixed(1)} MiB, ` +
  `${handles} open files, ${threads} threads`;

/**
 * The slope of a line through points that a few outliers do not turn: the median of the slopes of all pairs (Theil and
 * Sen).
 *
 * @param {[x: number, y: number][]} points with different x, at least two
 * @returns {number}
 */
export function slopeOf(points) {
  const slopes = points.flatMap(([x, y], i) => points.slice(i + 1).map(([x2, y2]) => (y2 - y) / (x2 - x)));
  return /** @type {number} */ (median(slopes));
}

/**
 * What grew after the warm-up.
 *
 * @param {Sample[]} samples in the order of time
 * @param {typeof LIMITS} [limits]
 * @returns {{ name: string, perMinute: number, growth: number, allowed: number, unit: string }[]} one for each of the
 *   limits: the slope, what it makes of the time after the warm-up, and how much of that is allowed
 */
export function growthOf(samples, limits = LIMITS) {
  const [first, last] = [samples[0].minutes, samples[samples.length - 1].minutes];
  const settled = samples.filter(({ minutes }) => minutes >= first + WARM_UP * (last - first));
  const duration = last - settled[0].minutes;
  const names = /** @type {(keyof typeof LIMITS)[]} */ (Object.keys(limits));
  return names.map((name) => {
    const { steady, perMinute, unit } = limits[name];
    const slope = slopeOf(settled.map((one) => [one.minutes, one[name]]));
    return { name, perMinute: slope, growth: slope * duration, allowed: steady + perMinute * duration, unit };
  });
}

/**
 * Prints what grew.
 *
 * @param {Sample[]} samples
 * @param {typeof LIMITS} [limits]
 * @throws {Failure} if that is more than allowed
 */
export function judge(samples, limits = LIMITS) {
  const all = growthOf(samples, limits);
  for (const { name, perMinute, growth, allowed, unit } of all) {
    const slope = `${growth.toFixed(2)} ${unit} more than after the warm-up (${perMinute.toFixed(3)} a minute)`;
    say(`${name}: ${slope}, ${allowed.toFixed(1)} allowed`);
  }
  const grown = all.filter(({ growth, allowed }) => growth > allowed).map(({ name }) => name);
  if (grown.length > 0) {
    throw new Failure(`What the process holds grows: ${grown.join(', ')}`);
  }
}
