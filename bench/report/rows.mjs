// Measurements as rows to compare.

import { forShares } from '../limits.mjs';
import { OURS } from '../peers.mjs';
import { geometricMean, summarizeSamples } from '../../packages/cli/lib/statistics.mjs';
import { shareOfLimit } from '../work.mjs';

/**
 * @typedef {object} Measurement of one model with one number of threads
 * @property {string} name
 * @property {import('../types.mjs').Kind} kind
 * @property {number} weightBytes
 * @property {number} threads
 * @property {import('../types.mjs').Work | null} work of this package's graph; null if there is none
 * @property {import('../measure.mjs').Result[]} results
 */

/**
 * @typedef {object} Run all measurements of one run of the benchmark
 * @property {string} date
 * @property {ReturnType<typeof import('../machine.mjs').describeMachine>} machine
 * @property {string[]} engines this package first
 * @property {Record<string, string>} versions by engine
 * @property {import('../limits.mjs').Limits[] | null} limits
 * @property {Measurement[]} models
 * @property {Measurement[]} calls measurements of the smallest model
 */

/**
 * @typedef {ReturnType<typeof summarizeSamples> & { total: number, ratio: number | null }} Summary `total`: the number
 *   of samples; `ratio`: speed of webnn-node relative to this engine, by the fastest clean samples
 * @typedef {{ status: import('../types.mjs').Status } & (Summary | { [K in keyof Summary]?: undefined })} Times of one
 *   engine; only the status if it has no samples
 */

/**
 * @param {import('../measure.mjs').Result} result
 * @param {import('../measure.mjs').Result | undefined} ours
 * @returns {Times}
 */
function timesOf(result, ours) {
  if (result.samples === undefined || result.samples.length === 0) {
    return { status: result.status };
  }
  const summary = summarizeSamples(result.samples);
  const ratio = result === ours || ours?.samples === undefined ? null : summary.fastest / summarizeSamples(ours.samples).fastest;
  return { status: result.status, total: result.samples.length, ratio, ...summary };
}

/**
 * Returns a row of the table of times.
 *
 * @param {Omit<Measurement, 'weightBytes'>} measurement
 * @param {Pick<Run, 'limits' | 'machine'>} run
 * @returns {{ name: string, threads: number, times: Record<string, Times>, limit: ReturnType<typeof shareOfLimit> | null }}
 */
export function rowOf({ name, kind, threads, work, results }, { limits, machine }) {
  const ours = results.find(({ engine }) => engine === OURS);
  const times = Object.fromEntries(results.map((result) => [result.engine, timesOf(result, ours)]));
  const ofThreads = limits?.find((one) => one.threads === threads);
  const fastest = times[OURS]?.fastest;
  const known = ofThreads !== undefined && work !== null && fastest !== undefined;
  return { name, threads, times, limit: known ? shareOfLimit(work, kind, forShares(ofThreads, machine), fastest) : null };
}

/**
 * Returns the fastest clean sample of an engine with correct outputs, in milliseconds; null for others.
 *
 * @param {Times} times
 */
export const rightTime = ({ status, fastest }) => (status === 'ok' && fastest !== undefined ? fastest : null);

/**
 * Returns the speed of webnn-node relative to a peer, over all models that both compute correctly.
 *
 * @param {ReturnType<typeof rowOf>[]} rows
 * @param {string} peer
 * @param {number} threads
 * @returns {{ mean: number | null, ahead: number, models: number }} the geometric mean, and on how many of how many
 *   models it is at least as fast
 */
export function comparedWith(rows, peer, threads) {
  const ratios = rows
    .filter(({ times, threads: count }) => count === threads && times[OURS].status === 'ok' && times[peer].status === 'ok')
    .map(({ times }) => times[peer].ratio)
    .filter((ratio) => typeof ratio === 'number');
  return { mean: geometricMean(ratios), ahead: ratios.filter((ratio) => ratio >= 1).length, models: ratios.length };
}

/**
 * @typedef {object} Outcomes of engines on a model
 * @property {string} name
 * @property {number} [threads]
 * @property {{ engine: string, status: import('../types.mjs').Status, reason?: string }[]} results
 */

/**
 * Returns notes about engines that did not compute a model correctly, once for each reason.
 *
 * @param {Outcomes[]} measurements
 */
export function notesOf(measurements) {
  const notes = measurements.flatMap(({ name, results }) =>
    results.filter(({ status }) => status !== 'ok').map(({ engine, status, reason }) => `${engine}, ${name}: ${status}: ${reason}`),
  );
  return [...new Set(notes)];
}

/**
 * Returns the versions of engines, as far as they are known.
 *
 * @param {{ engine: string, version?: string }[]} results
 * @returns {Record<string, string>}
 */
export function versionsOf(results) {
  return Object.fromEntries(results.flatMap(({ engine, version }) => (version ? [[engine, version]] : [])));
}
