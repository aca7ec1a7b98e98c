// `npm run bench -- models`: speed of models in webnn-node and other engines, and the limits of the machine. --help lists the
// options.

import { existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { withProgress } from '../packages/cli/lib/progress.mjs';
import { entry, Failure, say } from '../scripts/process.mjs';
import { measureGpu } from './gpu/run.mjs';
import { buildLimits, measureLimits, strongest } from './limits.mjs';
import { describeMachine } from './machine.mjs';
import { measure } from './measure.mjs';
import { findModels, modelsToMeasure } from './models.mjs';
import { readOptions } from './options.mjs';
import { install, OURS } from './peers.mjs';
import { chartSvg } from './report/chart.mjs';
import { gpuHeadOf, gpuMarkdown, gpuTablesOf, SOFTWARE } from './report/gpu.mjs';
import { printTables, writeFiles } from './report/print.mjs';
import { resultsMarkdown, withParts } from './report/results.mjs';
import { notesOf, versionsOf } from './report/rows.mjs';
import { tablesOf } from './report/tables.mjs';
import { workOf } from './work.mjs';

const inBench = (/** @type {string} */ file) => fileURLToPath(new URL(file, import.meta.url));

/** Number of dispatches in flight when their cost is measured, and repetitions. */
const BURST = { count: 1000, repeats: 20 };

/**
 * Returns the shortest time per dispatch of many.
 *
 * @param {import('../packages/cli/lib/bench/process.mjs').EngineProcess} process
 */
async function burst(process) {
  let fastest = Infinity;
  for (let i = 0; i < BURST.repeats; i++) {
    const { ms } = await process.request('burst', { count: BURST.count });
    fastest = Math.min(fastest, ms / BURST.count);
  }
  return { burst: fastest };
}

const describe = async (/** @type {import('../packages/cli/lib/bench/process.mjs').EngineProcess} */ process) => ({
  work: workOf(await process.request('describe')),
});

/**
 * Measures one model with one number of threads.
 *
 * @param {import('./models.mjs').BenchModel} model
 * @param {import('./options.mjs').Options} options
 * @param {number} threads
 * @param {(process: import('../packages/cli/lib/bench/process.mjs').EngineProcess) =>
 *   Promise<import('./measure.mjs').Extra>} ask makes further measurements of this package
 * @returns {Promise<import('./report/rows.mjs').Measurement>}
 */
async function measureModel(model, options, threads, ask) {
  const { engines, samples, loads } = options;
  const plan = { engines, samples, loads, threads };
  const label = `${model.name}, ${threads === 1 ? '1 thread' : `${threads} threads`}`;
  const results = await withProgress(label, (advance) => measure(model, plan, { advance, extra: { [OURS]: ask } }), 1);
  const { name, kind, weightBytes } = model;
  const work = results.find(({ engine }) => engine === OURS)?.extra?.work ?? null;
  const fastest = results.map(({ engine, status, samples: taken }) =>
    taken === undefined ? `${engine} ${status}` : `${engine} ${Math.min(...taken.map(({ ms }) => ms)).toPrecision(3)}`,
  );
  say(`${label}: ${fastest.join(', ')} ms`);
  return { name, kind, weightBytes, threads, work, results };
}

/**
 * Measures everything; the machine's limits before and after the rest.
 *
 * @param {import('./options.mjs').Options} options
 * @returns {Promise<import('./report/rows.mjs').Run>}
 */
async function measureAll(options) {
  const models = await modelsToMeasure(options.models, options.filter);
  await install(options.engines);
  if (options.limits) await buildLimits();
  const limitsNow = () => (options.limits ? withProgress('limits of the machine', async () => measureLimits(options.threads)) : null);

  const before = await limitsNow();
  /** @type {Pick<import('./report/rows.mjs').Run, 'models' | 'calls'>} */
  const measured = { models: [], calls: [] };
  const [tiny] = findModels(inBench('tiny'), /^add$/);
  for (const threads of options.threads) {
    measured.calls.push(await measureModel(tiny, options, threads, burst));
  }
  for (const model of models) {
    for (const threads of options.threads) {
      measured.models.push(await measureModel(model, options, threads, describe));
    }
  }
  const after = await limitsNow();
  const results = [...measured.models, ...measured.calls].flatMap((one) => one.results);
  return {
    date: new Date().toISOString(),
    machine: describeMachine(),
    engines: options.engines,
    versions: versionsOf(results),
    limits: before === null || after === null ? null : strongest(before, after),
    ...measured,
  };
}

const RESULTS = inBench('RESULTS.md');

/** Returns the current RESULTS.md. */
const results = () => (existsSync(RESULTS) ? readFileSync(RESULTS, 'utf8') : '');

/**
 * @param {import('./report/gpu.mjs').GpuRun} run
 * @param {import('./options.mjs').Options} options
 */
function writeGpu(run, { json, write: writeResults }) {
  if (writeResults && run.adapter.type === 'software') {
    throw new Failure(`RESULTS.md is not written: ${SOFTWARE}.`, 2);
  }
  writeFiles([
    [json, () => `${JSON.stringify(run, undefined, 1)}\n`],
    [writeResults ? RESULTS : undefined, () => withParts(results(), { gpu: gpuMarkdown(run) })],
  ]);
}

/**
 * @param {import('./report/rows.mjs').Run} run
 * @param {import('./options.mjs').Options} options
 */
function write(run, { json, svg, write: writeResults }) {
  writeFiles([
    [json, () => `${JSON.stringify(run, undefined, 1)}\n`],
    [svg, () => chartSvg(run)],
    [writeResults ? RESULTS : undefined, () => withParts(results(), { cpu: resultsMarkdown(run) })],
    [writeResults ? inBench('results.svg') : undefined, () => chartSvg(run)],
  ]);
}

/**
 * @param {import('./report/rows.mjs').Outcomes[]} measured
 * @throws {Failure} when this package did not compute everything correctly
 */
function requireOurs(measured) {
  const bad = measured.flatMap(({ name, threads, results: all }) =>
    all
      .filter(({ engine, status }) => engine === OURS && status !== 'ok')
      .map(({ status, reason }) => `${name}${threads === undefined ? '' : `, ${threads} threads`}: ${status}: ${reason}`),
  );
  if (bad.length > 0) {
    throw new Failure(`${OURS} does not compute everything correctly:\n${bad.join('\n')}`);
  }
}

await entry(async () => {
  const options = readOptions(process.argv.slice(2));
  if (process.platform !== 'linux') {
    throw new Failure('The benchmark needs Linux: only its /proc shows what else the machine is doing.');
  }
  if (options.device === 'gpu') {
    const run = await measureGpu(options);
    gpuHeadOf(run).forEach((line) => console.log(line));
    printTables(gpuTablesOf(run), notesOf(run.models));
    writeGpu(run, options);
    requireOurs(run.models);
    return;
  }
  const run = await measureAll(options);
  const measured = [...run.models, ...run.calls];
  printTables(tablesOf(run), notesOf(measured));
  write(run, options);
  requireOurs(measured);
});
