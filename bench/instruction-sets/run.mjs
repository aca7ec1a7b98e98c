// `npm run bench -- instruction-sets`: what models take with each instruction set of the processor, beside the best one.
// Samples are taken in turns, each in a process of its own.

import { parseArgs } from 'node:util';
import { fileURLToPath } from 'node:url';
import { geometricMean } from '../../packages/cli/lib/statistics.mjs';
import { Output } from '../../packages/cli/lib/output.mjs';
import { withProgress } from '../../packages/cli/lib/progress.mjs';
import { entry, withUsage } from '../../scripts/process.mjs';
import { min } from 'd3-array';
import { modelsToMeasure } from '../models.mjs';
import { sampleInTurns } from '../turns.mjs';

/** Instruction sets of each architecture, the best one last. */
const LEVELS = /** @type {Record<string, string[]>} */ ({ x64: ['portable', 'avx2', 'avx512'], arm64: ['portable', 'neon'] })[process.arch];

const USAGE = `usage: npm run bench -- instruction-sets [OPTION ...]

  --levels LIST    of ${LEVELS.join(', ')} (all; the last one is compared with)
  --models DIR     folder of other models, as of npm run bench -- models
  --filter RE      only models whose name matches
  --threads N      threads of each run (1)
  --rounds N       samples of each case (3)
  --seconds N      how long a sample lasts (1)`;

const WORKER = fileURLToPath(new URL('../threads/measure.mjs', import.meta.url));

function readArguments() {
  const options = /** @type {const} */ ({
    levels: { type: 'string', default: LEVELS.join(',') },
    models: { type: 'string' },
    filter: { type: 'string', default: '' },
    threads: { type: 'string', default: '1' },
    rounds: { type: 'string', default: '3' },
    seconds: { type: 'string', default: '1' },
  });
  return withUsage(USAGE, () => {
    const { values } = parseArgs({ options });
    const [threads, rounds, seconds] = [values.threads, values.rounds, values.seconds].map(Number);
    const levels = values.levels.split(',');
    const unknown = levels.find((level) => !LEVELS.includes(level));
    if (unknown !== undefined) throw new Error(`--levels: ${unknown} is none of ${LEVELS.join(', ')}`);
    if (![threads, rounds].every((count) => Number.isInteger(count) && count > 0)) throw new Error('--threads and --rounds must be integers from 1');
    if (!(seconds > 0)) throw new Error('--seconds must be above 0');
    return { ...values, filter: new RegExp(values.filter), levels, threads, rounds, seconds };
  });
}

await entry(async () => {
  const { models, filter, levels, threads, rounds, seconds } = readArguments();
  const rows = [];
  /** @type {number[][]} */
  const ratios = levels.map(() => []);
  for (const { name, file, inputs } of await modelsToMeasure(models, filter)) {
    const parameters = { model: file, inputs, threads, contexts: 1, atOnce: false, neighbors: 0, seconds };
    const processOf = (/** @type {string} */ level) => ({ worker: WORKER, parameters, env: { WEBNN_ISA: level } });
    const taken = await withProgress(
      name,
      (advance) => /** @type {Promise<Record<string, { ms: number }[]>>} */ (sampleInTurns(levels, processOf, rounds, advance)),
      levels.length * rounds,
    );
    const times = levels.map((level) => /** @type {number} */ (min(taken[level], ({ ms }) => ms)));
    times.forEach((ms, index) => ratios[index].push(ms / times[levels.length - 1]));
    rows.push([name, ...times.map((ms, index) => `${ms.toPrecision(3)} (${ratios[index].at(-1)?.toFixed(2)})`)]);
  }
  rows.push(['geometric mean', ...ratios.map((all) => `(${/** @type {number} */ (geometricMean(all)).toFixed(2)})`)]);
  const output = new Output();
  output.heading(`Milliseconds of a run, best of ${rounds}; in parentheses, relative to ${levels.at(-1)}`);
  output.table(['model', ...levels], rows);
});
