// Summarizes a profile: medians over its runs, shares and rates. No presentation.

import { group, max, median, min, quantile, sum } from 'd3-array';

/** A statistic of at least one number, which is therefore defined. */
const known = (/** @type {number | undefined} */ value) => /** @type {number} */ (value);

/** The bytes that a step reads and writes, according to its description. */
const bytesOf = (/** @type {import('webnn-node/inspect').StepDescription} */ { bytesRead, bytesWritten }) => bytesRead + bytesWritten;

/**
 * Returns `amount` per nanosecond, that is, in 1e9 per second. `null` if nothing is counted, or if the time is below
 * the clock's resolution.
 */
const rate = (/** @type {number} */ amount, /** @type {number} */ nanoseconds) => (amount === 0 || nanoseconds === 0 ? null : amount / nanoseconds);

/**
 * Returns GFLOP/s and GB/s of work that took `time` nanoseconds; one multiply-add is two floating-point operations.
 * @param {{ multiplyAdds: number, bytes: number }} work
 * @param {number} time
 */
function rates({ multiplyAdds, bytes }, time) {
  return { gflops: rate(2 * multiplyAdds, time), gigabytesPerSecond: rate(bytes, time) };
}

/**
 * Returns the operators that a step computes: those of a fused chain, or one operator with its epilogue.
 * @param {import('webnn-node/inspect').GraphDescription} description
 */
function operatorsOf({ compiled, source }) {
  const nodes = new Map(compiled.nodes.map((node) => [node.id, node]));
  const given = new Map(source.nodes.map(({ id, operator }) => [id, operator]));
  return (/** @type {import('webnn-node/inspect').StepDescription} */ { operator, node: id }) => {
    const node = id === null ? undefined : nodes.get(id);
    if (node === undefined) {
      return [operator];
    }
    return operator === 'fused' ? node.origins.map((origin) => String(given.get(origin))) : [operator, ...node.epilogue];
  };
}

/**
 * Returns the name of a step in a summary: `conv2d + relu`, `fused: div · add`.
 * @param {{ operator: string, operators: string[] }} step
 */
export function stepName({ operator, operators }) {
  return operator === 'fused' ? `fused: ${operators.join(' · ')}` : operators.join(' + ');
}

/**
 * @param {import('webnn-node/inspect').GraphProfile} profile
 * @throws {RangeError} for a profile that cannot be summarized: no runs, or runs that do not fit the steps
 */
function check({ description, runs }) {
  if (runs.length === 0) {
    throw new RangeError('the profile has no runs, expected at least 1');
  }
  const misfit = runs.findIndex(({ steps }) => steps.length !== description.steps.length);
  if (misfit >= 0) {
    throw new RangeError(`run ${misfit} of the profile has ${runs[misfit].steps.length} steps, expected ${description.steps.length}`);
  }
}

/**
 * Returns the distribution of the durations of runs, and of the time in runs that belongs to no step, in nanoseconds.
 * @param {import('webnn-node/inspect').GraphProfile} profile
 * @returns {import('./data.mjs').RunsSummary}
 */
function summarizeRuns({ description, runs }) {
  const durations = runs.map(({ duration }) => duration);
  const middle = known(median(durations));
  const work = { multiplyAdds: sum(description.steps, (step) => step.multiplyAdds), bytes: sum(description.steps, bytesOf) };
  return {
    count: runs.length,
    median: middle,
    fastest: known(min(durations)),
    slowest: known(max(durations)),
    p95: known(quantile(durations, 0.95)),
    betweenSteps: known(median(runs, ({ duration, steps }) => duration - sum(steps, (step) => step.duration))),
    ...work,
    ...rates(work, middle),
  };
}

/**
 * Returns the medians of a profile. Times are in nanoseconds, shares are fractions (0 to 1) of the median duration of a
 * run. The shares of all steps do not add up to 1: the rest is time between steps, and the difference between a sum of
 * medians and the median of sums.
 *
 * @param {import('webnn-node/inspect').GraphProfile} profile
 * @returns {import('./data.mjs').Summary} `gflops` is 2 · multiply-adds / time,
 *   and `null` for work without multiply-adds
 * @throws {RangeError} when the profile has no runs, or a run has another number of steps than the description
 */
export function summarize(profile) {
  check(profile);
  const { description, runs } = profile;
  const total = summarizeRuns(profile);
  const share = (/** @type {number} */ time) => (total.median === 0 ? 0 : time / total.median);

  const operators = operatorsOf(description);
  const perStep = description.steps.map((step, i) => {
    const time = known(median(runs, (run) => run.steps[i].duration));
    const { index, kernel, operator, label, node, multiplyAdds } = step;
    const work = { multiplyAdds, bytes: bytesOf(step) };
    return { index, kernel, operator, operators: operators(step), label, node, median: time, share: share(time), ...work, ...rates(work, time) };
  });

  const places = group(description.steps.keys(), (i) => description.steps[i].operator);
  const perOperator = Array.from(places, ([operator, indices]) => {
    const time = known(median(runs, (run) => sum(indices, (i) => run.steps[i].duration)));
    const work = { multiplyAdds: sum(indices, (i) => perStep[i].multiplyAdds), bytes: sum(indices, (i) => perStep[i].bytes) };
    const kernels = [...new Set(indices.map((i) => description.steps[i].kernel))];
    return { operator, kernels, steps: indices.length, median: time, share: share(time), ...work, ...rates(work, time) };
  }).sort((a, b) => b.median - a.median);

  return { runs: total, perStep, perOperator };
}
