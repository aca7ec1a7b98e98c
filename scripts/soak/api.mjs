// `npm run soak -- api`: creates, uses and destroys contexts, tensors and graphs at random for a while, compares their results
// with the CPU's, and watches the process's resources. Fails when these grow, or anything else goes wrong.
//
//   npm run soak -- api --minutes 10                   on the CPU
//   npm run soak -- api --minutes 10 --device gpu      on a GPU; WEBNN_GPU_SOFTWARE=1 lets it be a CPU
//   npm run soak -- api --seed 7                       the same actions again
//   npm run soak -- api --minutes 1 --graphs 20        few different graphs, which drivers have soon compiled
//   npm run soak -- api --without worker,loseDevice    leaves actions out, to find the culprit
//   npm run soak -- api --json FILE                    writes the samples

import { writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { ACTIONS, Churn } from '../../__test__/soak/actions.mjs';
import { judge, sample, shown } from '../../__test__/soak/growth.mjs';
import { generator } from '../../__test__/lib/random.mjs';
import { ml } from '../../__test__/runtime/helpers.mjs';
import { entry, Failure, say } from '../process.mjs';

const USAGE = `usage: npm run soak -- api [--minutes N] [--device cpu|gpu] [--seed N] [--graphs N] [--without ACTION,...]
                              [--json FILE]
actions: ${Object.keys(ACTIONS).join(', ')}`;

/** Maximum number of concurrent actions. */
const MAX_TOGETHER = 3;

/** Number of samples in a run, and the minimum milliseconds between them. */
const [SAMPLES, MIN_INTERVAL] = [200, 500];

/** Interval of progress lines, in milliseconds. */
const PROGRESS = 15_000;

const wrong = (/** @type {string} */ message) => new Failure(`${message}\n${USAGE}`, 2);

/**
 * @typedef {{
 *   minutes: number, seed: number, graphs: number, device: 'cpu' | 'gpu', without: string[], json?: string,
 * }} Options
 */

/** @returns {Options} */
function readOptions() {
  let values;
  try {
    ({ values } = parseArgs({
      options: {
        minutes: { type: 'string', default: '10' },
        device: { type: 'string', default: 'cpu' },
        seed: { type: 'string', default: '1' },
        graphs: { type: 'string', default: '300' },
        without: { type: 'string', default: '' },
        json: { type: 'string' },
        help: { type: 'boolean', short: 'h', default: false },
      },
    }));
  } catch (error) {
    throw wrong(/** @type {Error} */ (error).message);
  }
  if (values.help) throw new Failure(USAGE, 0);
  const [minutes, seed, graphs] = [values.minutes, values.seed, values.graphs].map(Number);
  const { device } = values;
  const without = values.without.split(',').filter((name) => name !== '');
  const unknown = without.find((name) => !(name in ACTIONS));
  if (!(minutes > 0)) throw wrong(`--minutes is ${values.minutes}, expected a positive number`);
  if (!Number.isInteger(seed)) throw wrong(`--seed is ${values.seed}, expected an integer`);
  if (!Number.isInteger(graphs) || graphs < 1) {
    throw wrong(`--graphs is ${values.graphs}, expected a positive integer`);
  }
  if (device !== 'cpu' && device !== 'gpu') throw wrong(`--device is ${device}, expected cpu or gpu`);
  if (unknown !== undefined) throw wrong(`--without names ${unknown}, expected some of the actions`);
  return { minutes, seed, graphs, device, without, json: values.json };
}

/**
 * Returns the actions of a run by name, each repeated according to its weight.
 * @param {Pick<Options, 'device' | 'without'>} choice
 */
function urnOf({ device, without }) {
  const usable = Object.entries(ACTIONS).filter(([name, { gpu }]) => !without.includes(name) && (device === 'gpu' || !gpu));
  return usable.flatMap(([name, { weight }]) => Array.from({ length: weight }, () => name));
}

/**
 * Draws the actions that run together next.
 * @param {ReturnType<typeof generator>} random
 * @param {string[]} urn
 */
function draw(random, urn) {
  const drawn = Array.from({ length: 1 + random.below(MAX_TOGETHER) }, () => random.pick(urn));
  const alone = drawn.find((name) => ACTIONS[name].alone);
  return alone === undefined ? drawn : [alone];
}

/**
 * Runs actions until the time is over, and returns the samples.
 * @param {Churn} churn
 * @param {Options} options
 */
async function soak(churn, { minutes, seed, ...choice }) {
  const random = generator(seed);
  const urn = urnOf(choice);
  const start = performance.now();
  const end = start + minutes * 60_000;
  const interval = Math.max(MIN_INTERVAL, (end - start) / SAMPLES);
  const samples = [];
  let [nextSample, nextProgress, actions] = [start, start + PROGRESS, 0];
  while (performance.now() < end) {
    const names = draw(random, urn);
    const seeds = names.map(() => random.below(2 ** 32));
    await Promise.all(names.map((name, i) => churn.act(name, seeds[i])));
    actions += names.length;
    if (performance.now() >= nextSample) {
      samples.push(await sample(start));
      nextSample = performance.now() + interval;
    }
    if (performance.now() >= nextProgress) {
      say(`${shown(samples[samples.length - 1])}; ${actions} actions, ${churn.compared} results compared, ${churn.refused} refused`);
      nextProgress += PROGRESS;
    }
  }
  return samples;
}

await entry(async () => {
  const options = readOptions();
  if (globalThis.gc === undefined || process.platform !== 'linux') {
    throw new Failure('The soak needs Linux, whose /proc it reads, and node --expose-gc.', 2);
  }
  say(`seed ${options.seed}, ${options.minutes} minutes on the ${options.device}`);
  const reference = await ml.createContext({ accelerated: false, numThreads: 1 });
  const churn = new Churn(options.device, reference, options.graphs);
  const samples = await soak(churn, options);
  say(`${JSON.stringify(churn.done)}; ${churn.compared} results compared, ${churn.refused} refused`);
  if (options.json !== undefined) writeFileSync(options.json, `${JSON.stringify(samples)}\n`);
  judge(samples);
});
