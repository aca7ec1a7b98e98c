// What was measured, in the form in which people compare it.

import { forShares } from '../limits.mjs';
import { OURS } from '../peers.mjs';
import { geometricMean, summarizeSamples } from 'webnn-node-cli/lib/statistics.mjs';
import { shareOfLimit } from '../work.mjs';

/**
 * @typedef {object} Measurement of one model with one number of threads
 * @property {string} name
 * @property {import('../types.mjs').Kind} kind
 * @property {number} weightBytes
 * @property {number} threads
 * @property {import('../types.mjs').Work | null} work of this package's graph; null where it has none
 * @property {import('../measure.mjs').Result[]} results
 */

/**
 * @typedef {object} Run everything that one run of the benchmark has measured
 * @property {string} date
 * @property {ReturnType<typeof import('../machine.mjs').describeMachine>} machine
 * @property {string[]} engines this package first
 * @property {Record<string, string>} versions by engine
 * @property {import('../limits.mjs').Limits[] | null} limits
 * @property {Measurement[]} models
 * @property {Measurement[]} calls the smallest model
 */

/**
 * @typedef {ReturnType<typeof summarizeSamples> & { total: number, ratio: number | null }} Summary `total`: the number of samples;
 *   `ratio`: how many times as fast as this engine webnn-node is, by the fastest clean samples
 * @typedef {{ status: import('../types.mjs').Status } & (Summary | { [K in keyof Summary]?: undefined })} Times of one engine;
 *   only the status where it has no samples
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
 * A row of the table of times.
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
 * The fastest clean sample of an engine that computes rightly, in milliseconds; null of others.
 *
 * @param {Times} times
 */
export const rightTime = ({ status, fastest }) => (status === 'ok' && fastest !== undefined ? fastest : null);

/**
 * How many times as fast as each peer webnn-node is, over all models that both compute rightly.
 *
 * @param {ReturnType<typeof rowOf>[]} rows
 * @param {string} peer
 * @param {number} threads
 * @returns {{ mean: number | null, ahead: number, models: number }} the geometric mean; on how many models of how many it is
 *   at least as fast
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
 * What is to be told about engines that did not compute a model rightly, once for each reason.
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
 * The versions of engines, as far as they have told them.
 *
 * @param {{ engine: string, version?: string }[]} results
 * @returns {Record<string, string>}
 */
export function versionsOf(results) {
  return Object.fromEntries(results.flatMap(({ engine, version }) => (version ? [[engine, version]] : [])));
}
