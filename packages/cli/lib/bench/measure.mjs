// Measures engines in turns: changes of the machine's state then affect all of them.
import os from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { median } from 'd3-array';

/**
 * Approximate length of a turn: shorter turns would measure cold caches, longer ones different states of the machine.
 */
const TURN_MS = 40;

/** Pause before a turn. An engine's worker threads may spin for a while after a run, and slow down the next engine. */
const SETTLE_MS = 15;

/** Maximum number of samples: more add nothing. */
const MAX_RUNS = 100_000;

/** @typedef {import('./process.mjs').EngineProcess} EngineProcess */

/** What is measured.
 * @template Sample of one run
 * @typedef {object} Subject
 * @property {(engine: EngineProcess, count: number) => Promise<Sample[]>} take runs `count` times
 * @property {(sample: Sample) => number} msOf the time of a run, in milliseconds
 * @property {number} minRuns of each engine, no matter how long one takes: a single slow run must not be the whole
 *   result
 */

/**
 * Runs of the model on the inputs that `load` received.
 * @type {Subject<number>}
 */
export const INFERENCE = {
  take: async (engine, iterations) => (await engine.request('times', { iterations })).ms,
  msOf: (ms) => ms,
  minRuns: 5,
};

/** Returns the CPU time that all processes of the machine have used, in milliseconds. */
function machineBusy() {
  return os.cpus().reduce((sum, { times }) => sum + times.user + times.nice + times.sys + times.irq, 0);
}

/**
 * Returns the CPU time of this process and the engines, in milliseconds.
 * @param {EngineProcess[]} engines
 */
async function ownBusy(engines) {
  const { user, system } = process.cpuUsage();
  const usages = await Promise.all(engines.map((engine) => engine.request('usage')));
  return usages.reduce((sum, { cpuMicroseconds }) => sum + cpuMicroseconds, user + system) / 1000;
}

/**
 * Warms up each engine.
 * @template Sample
 * @param {EngineProcess[]} engines
 * @param {Subject<Sample>} subject
 * @param {number} warmup
 * @returns {Promise<number[]>} the number of runs in a turn, per engine
 */
async function warmUp(engines, { take, msOf }, warmup) {
  const counts = [];
  for (const engine of engines) {
    // At least one run, which determines the length of a turn.
    const samples = await take(engine, Math.max(1, warmup));
    counts.push(Math.max(1, Math.round(TURN_MS / Math.max(median(samples, msOf) ?? 0, 1e-3))));
  }
  return counts;
}

/**
 * Measures engines in turns.
 * @template Sample
 * @param {EngineProcess[]} engines loaded
 * @param {Subject<Sample>} subject
 * @param {{ runs?: number, seconds: number, warmup: number }} plan `runs` of each engine, otherwise `seconds` of each
 * @param {(done: number) => void} advance called with the part (0 to 1) that is done
 * @returns {Promise<{ samples: Sample[][], othersShare: number }>} samples per engine, in order; the part (0 to 1) of
 *   the machine's CPU time that other processes took meanwhile
 */
export async function measure(engines, subject, { runs, seconds, warmup }, advance) {
  const perTurn = await warmUp(engines, subject, warmup);
  const samples = engines.map(() => /** @type {Sample[]} */ ([]));
  const spent = engines.map(() => 0);
  const start = { time: performance.now(), machine: machineBusy(), own: await ownBusy(engines) };
  const left = (/** @type {number} */ i) => {
    if (runs !== undefined) return runs - samples[i].length;
    const enough = spent[i] >= 1000 * seconds && samples[i].length >= subject.minRuns;
    return enough ? 0 : MAX_RUNS - samples[i].length;
  };
  while (engines.some((_, i) => left(i) > 0)) {
    for (const [i, engine] of engines.entries()) {
      const count = Math.min(perTurn[i], left(i));
      if (count <= 0) continue;
      await sleep(SETTLE_MS);
      for (const sample of await subject.take(engine, count)) {
        samples[i].push(sample);
        spent[i] += subject.msOf(sample);
      }
    }
    const done = engines.map((_, i) => (runs !== undefined ? samples[i].length / runs : spent[i] / (1000 * seconds)));
    advance(Math.min(1, ...done));
  }
  const capacity = (performance.now() - start.time) * os.cpus().length;
  const own = (await ownBusy(engines)) - start.own;
  const others = Math.max(0, machineBusy() - start.machine - own);
  return { samples, othersShare: Math.min(1, others / capacity) };
}
