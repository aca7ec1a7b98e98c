// One measurement of run.mjs, in its own process: node measure.mjs '{"engine", "file", "cell", "threads", "length",
// "from"}'. Prints the milliseconds of a run, of a run of another length, and the mean of the result as JSON.

import { median } from 'd3-array';
import { ENGINES } from '../../packages/cli/lib/bench/engines.mjs';
import { feedsOf } from './models.mjs';

/** How long runs of one length are repeated, in milliseconds. */
const DURATION = 500;

/** Number of runs of other lengths. */
const NEW_LENGTHS = 20;

const { engine: name, file, cell, threads, length, from } = JSON.parse(process.argv[2]);
const { load } = await import(ENGINES[name].href);
/** @type {import('../../packages/cli/lib/bench/types.mjs').LoadedEngine} */
const engine = await load({ model: file, threads, from });

/** Milliseconds of a run. */
async function timed(/** @type {import('../../packages/cli/lib/types.mjs').Tensors} */ feeds) {
  const start = performance.now();
  const [{ data }] = await engine.outputs(feeds);
  return { duration: performance.now() - start, data: /** @type {Float32Array} */ (data) };
}

const feeds = feedsOf({ cell }, length);
const { data } = await timed(feeds);
const mean = data.reduce((sum, x) => sum + Math.abs(x), 0) / data.length;
const durations = [];
for (const end = performance.now() + DURATION; performance.now() < end || durations.length < 3; ) {
  durations.push((await timed(feeds)).duration);
}
const others = [];
for (let more = 1; more <= NEW_LENGTHS; more++) {
  others.push((await timed(feedsOf({ cell }, length + more))).duration);
}
console.log(JSON.stringify({ ms: median(durations), newMs: median(others), mean }));
process.exit();
