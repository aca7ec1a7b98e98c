// `npm run bench -- generate`: speed of text generation in webnn-node and other engines. --help lists the options.

import { fileURLToPath } from 'node:url';
import { formatPlural, formatRate } from '../../packages/cli/lib/format.mjs';
import { withLabel, withProgress } from '../../packages/cli/lib/progress.mjs';
import { entry, Failure, say } from '../../scripts/process.mjs';
import { buildLimits, forShares, measureLimits, strongest } from '../limits.mjs';
import { describeMachine } from '../machine.mjs';
import { printTables, writeFiles } from '../report/print.mjs';
import { versionsOf } from '../report/rows.mjs';
import { bytesPerToken } from './catalog.mjs';
import { installEngines } from './engines.mjs';
import { measure } from './measure.mjs';
import { writeModels } from './models.mjs';
import { readOptions } from './options.mjs';
import { generateMarkdown, generateNotes, tablesOf } from './report.mjs';
import { mistakesOf, rowsOf } from './rows.mjs';

const RESULTS = fileURLToPath(new URL('RESULTS.md', import.meta.url));

/**
 * Prints the speed of the engines in one line.
 *
 * @param {string} label
 * @param {import('./measure.mjs').Measurement} measurement
 */
function sayMeasured(label, measurement) {
  const rows = rowsOf(measurement, { bytesPerToken: {}, reading: null });
  const rates = rows
    .filter(({ prompt }) => prompt === rows[0].prompt)
    .map(({ engine, status, summary }) => `${engine} ${summary === undefined ? status : formatRate(summary.perSecond)}`);
  say(`${label}: ${rates.join(', ')} tokens/s`);
}

/**
 * Measures everything; the machine's limits before and after the rest.
 *
 * @param {import('./options.mjs').Options} options
 * @returns {Promise<import('./rows.mjs').Run>}
 */
async function measureAll(options) {
  const { types, threads, engines, tokens, rounds } = options;
  await installEngines();
  const models = await writeModels(options);
  if (options.limits) await buildLimits();
  const limitsNow = async () => (options.limits ? withLabel('limits of the machine', () => measureLimits(threads)) : null);

  const before = await limitsNow();
  const measurements = [];
  for (const type of types) {
    for (const count of threads) {
      const label = `${type}, ${formatPlural(count, 'thread')}`;
      const measurement = await withProgress(label, (advance) => measure({ models, type, threads: count }, options, advance), 1);
      sayMeasured(label, measurement);
      measurements.push(measurement);
    }
  }
  const after = await limitsNow();
  const machine = describeMachine();
  const limits = before === null || after === null ? null : strongest(before, after);
  return {
    date: new Date().toISOString(),
    machine,
    engines,
    versions: versionsOf(measurements.flatMap(({ results }) => results)),
    tokens,
    rounds,
    bytesPerToken: bytesPerToken(models),
    reading: limits?.map((one) => ({ threads: one.threads, gbps: forShares(one, machine).readGbps })) ?? null,
    measurements,
  };
}

await entry(async () => {
  const options = readOptions(process.argv.slice(2));
  if (process.platform !== 'linux') {
    throw new Failure('The benchmark needs Linux: only its /proc shows what else the machine is doing.');
  }
  const run = await measureAll(options);
  printTables(tablesOf(run), generateNotes(run));
  writeFiles([
    [options.json, () => `${JSON.stringify(run, undefined, 1)}\n`],
    [options.write ? RESULTS : undefined, () => generateMarkdown(run)],
  ]);
  const mistakes = mistakesOf(run.measurements.flatMap((one) => rowsOf(one, run)));
  if (mistakes.length > 0) {
    throw new Failure(mistakes.join('\n'));
  }
});
