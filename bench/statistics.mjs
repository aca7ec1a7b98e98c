// Numbers about samples.

import { mean, median } from 'd3-array';

/**
 * A sample in which others kept more than this many processors busy is dirty: it says more about them. CPU time comes in
 * ticks of 10 ms, and a sample lasts 150 ms or more, so two ticks that fall on the wrong side stay below.
 */
export const DIRTY_ABOVE = 0.15;

/**
 * @typedef {object} Sample
 * @property {number} ms time of one run, in milliseconds
 * @property {number} iterations runs that it is the average of
 * @property {number} foreign processors that others kept busy meanwhile, on average
 */

/** @param {Sample} sample */
export const isDirty = ({ foreign }) => foreign > DIRTY_ABOVE;

/**
 * Samples in a few numbers.
 *
 * @param {Sample[]} samples at least one
 * @returns {{ median: number, fastest: number, clean: number, foreign: number }} milliseconds: the median of all samples,
 *   the fastest clean one, or of all where none is clean; the number of clean samples; the mean foreign load
 */
export function summarize(samples) {
  const clean = samples.filter((sample) => !isDirty(sample));
  const considered = clean.length > 0 ? clean : samples;
  return {
    median: /** @type {number} */ (median(samples, ({ ms }) => ms)),
    fastest: Math.min(...considered.map(({ ms }) => ms)),
    clean: clean.length,
    foreign: /** @type {number} */ (mean(samples, ({ foreign }) => foreign)),
  };
}

/**
 * Geometric mean of positive numbers; null of none.
 *
 * @param {number[]} values
 */
export function geometricMean(values) {
  const exponent = mean(values, Math.log);
  return exponent === undefined ? null : Math.exp(exponent);
}
