// `npm run bench -- threads`: threads that compete for too few cores, with other programs, and with each other; and the
// latency of a request. Both cases of a row are measured in turns, each sample in a process of its own.

import { availableParallelism } from 'node:os';
import { parseArgs } from 'node:util';
import { fileURLToPath } from 'node:url';
import { median } from 'd3-array';
import { Output } from '../../packages/cli/lib/output.mjs';
import { withProgress } from '../../packages/cli/lib/progress.mjs';
import { entry, Failure, withUsage } from '../../scripts/process.mjs';
import { modelsToMeasure } from '../models.mjs';
import { sampleInTurns } from '../turns.mjs';

const USAGE = `usage: npm run bench -- threads [OPTION ...]

  --models DIR     folder of other models, as of npm run bench -- models
  --filter RE      only models whose name matches (^(mobilenet_v2|minilm_l6)$)
  --rounds N       samples of each case (5)
  --seconds N      how long a sample lasts (1)`;

/**
 * @typedef {{ model: string, inputs: Record<string, string>, threads: number, contexts: number, atOnce: boolean, neighbors: number, seconds: number }} ModelParameters
 * @typedef {{ pauseMs: number, seconds: number }} RequestParameters of a graph without work
 */

const WORKER = fileURLToPath(new URL('measure.mjs', import.meta.url));

const CORES = availableParallelism();

/** One context, with as many threads as there are cores. */
const USUAL = { threads: CORES, contexts: 1, atOnce: false, neighbors: 0 };

/** The cases to compare, and the minimum speed of the first relative to the second. */
const ROWS = [
  { first: `${2 * CORES} threads`, second: `${CORES} threads`, least: 0.95, cases: [{ ...USUAL, threads: 2 * CORES }, USUAL] },
  {
    first: `${CORES} threads beside a busy neighbor`,
    second: `${CORES - 1} beside it`,
    least: 1,
    cases: [
      { ...USUAL, neighbors: 1 },
      { ...USUAL, threads: CORES - 1, neighbors: 1 },
    ],
  },
  {
    first: '4 contexts at once',
    second: 'one after the other',
    least: 1,
    cases: [
      { ...USUAL, contexts: 4, atOnce: true },
      { ...USUAL, contexts: 4 },
    ],
  },
];

/** Milliseconds after which all threads sleep. */
const PAUSE_MS = 5;

function readArguments() {
  const options = /** @type {const} */ ({
    models: { type: 'string' },
    filter: { type: 'string', default: '^(mobilenet_v2|minilm_l6)$' },
    rounds: { type: 'string', default: '5' },
    seconds: { type: 'string', default: '1' },
  });
  return withUsage(USAGE, () => {
    const { values } = parseArgs({ options });
    const [rounds, seconds] = [values.rounds, values.seconds].map(Number);
    if (!(Number.isInteger(rounds) && rounds > 0 && seconds > 0)) throw new Error('--rounds must be an integer from 1, --seconds above 0');
    return { ...values, filter: new RegExp(values.filter), rounds, seconds };
  });
}

/**
 * Returns the medians of two cases.
 *
 * @param {string} label
 * @param {[object, object]} cases
 * @param {number} rounds
 */
async function compare(label, [first, second], rounds) {
  const processOf = (/** @type {string} */ name) => ({ worker: WORKER, parameters: name === 'first' ? first : second });
  const taken = await withProgress(
    label,
    (advance) => /** @type {Promise<Record<string, { ms: number }[]>>} */ (sampleInTurns(['first', 'second'], processOf, rounds, advance)),
    2 * rounds,
  );
  return [taken.first, taken.second].map((samples) => /** @type {number} */ (median(samples, ({ ms }) => ms)));
}

await entry(async () => {
  const { models, filter, rounds, seconds } = readArguments();
  if (CORES < 2) throw new Failure('this compares threads on 2 cores or more, but there is only one', 2);
  const rows = [];
  for (const { name, file, inputs } of await modelsToMeasure(models, filter)) {
    for (const { first, second, least, cases } of ROWS) {
      const [one, other] = cases.map((parameters) => ({ ...parameters, model: file, inputs, seconds }));
      const [ms, otherMs] = await compare(`${name}: ${first}`, [one, other], rounds);
      rows.push([name, first, ms.toFixed(2), second, otherMs.toFixed(2), (otherMs / ms).toFixed(2), least.toFixed(2)]);
    }
  }
  const [warm, cold] = await compare(
    'requests',
    [
      { pauseMs: 0, seconds },
      { pauseMs: PAUSE_MS, seconds },
    ],
    rounds,
  );
  const output = new Output();
  output.heading(`Milliseconds of a run, medians of ${rounds}`);
  output.table(['model', 'case', 'ms', 'compared with', 'ms', 'times as fast', 'at least'], rows);
  output.heading('Microseconds from dispatch() to the result of a graph without work');
  output.table(
    ['requests', 'us'],
    [
      ['one after the other', (1000 * warm).toFixed(1)],
      [`after ${PAUSE_MS} ms`, (1000 * cold).toFixed(1)],
    ],
  );
});
