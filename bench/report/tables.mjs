// The tables of a run as text, for the terminal and for RESULTS.md.

import { formatBytes, formatRate, formatShare } from '../../packages/cli/lib/format.mjs';
import { loadTime } from '../measure.mjs';
import { OURS } from '../peers.mjs';
import { DIRTY_ABOVE } from '../../packages/cli/lib/statistics.mjs';
import { comparedWith, rowOf } from './rows.mjs';

/**
 * @typedef {object} ReportTable
 * @property {string} title
 * @property {string} [remark] how to read it
 * @property {string[]} head a leading ">" aligns a column to the right
 * @property {string[][]} rows
 */

/** @typedef {ReturnType<typeof rowOf>} Row */

const NONE = '–';

/**
 * Formats median and fastest clean sample: `6.94 / 6.88`; with an asterisk if no sample is clean.
 *
 * @param {import('./rows.mjs').Times} times
 */
function timeCell({ status, median, fastest, clean }, factor = 1) {
  if (median === undefined) return status === 'unsupported' ? 'not supported' : status;
  const text = `${formatRate(median * factor)} / ${formatRate(fastest * factor)}${clean === 0 ? '*' : ''}`;
  return status === 'wrong' ? `wrong: ${text}` : text;
}

const ratioCell = (/** @type {import('./rows.mjs').Times} */ { ratio }) => (ratio === undefined || ratio === null ? NONE : `${ratio.toFixed(2)}×`);

/** @param {Record<string, import('./rows.mjs').Times>} times */
function cleanCell(times) {
  const counted = Object.values(times).filter((one) => one.total !== undefined);
  const sum = (/** @type {'clean' | 'total'} */ key) => counted.reduce((total, one) => total + one[key], 0);
  return counted.length === 0 ? NONE : `${sum('clean')}/${sum('total')}`;
}

const limitCell = (/** @type {Row['limit']} */ limit) => (limit === null ? NONE : `${formatShare(limit.share)} ${limit.bound === 'compute' ? 'C' : 'M'}`);

/**
 * @param {Row[]} rows
 * @param {string[]} peers
 * @param {number} threads
 */
function meanRows(rows, peers, threads) {
  if (peers.length === 0) return [];
  const compared = peers.map((peer) => comparedWith(rows, peer, threads));
  const cell = (/** @type {{ mean: number | null }} */ { mean }) => (mean === null ? NONE : `${mean.toFixed(2)}×`);
  return [
    ['geometric mean', '', '', ...compared.flatMap((one) => ['', cell(one)]), ''],
    ['not slower', '', '', ...compared.flatMap(({ ahead, models }) => ['', `${ahead} of ${models}`]), ''],
  ];
}

/**
 * @param {import('./rows.mjs').Run} run
 * @param {number} threads
 * @returns {ReportTable} times of the models with this number of threads
 */
function timesTable(run, threads) {
  const { engines, models } = run;
  const peers = engines.filter((name) => name !== OURS);
  const rows = models.map((model) => rowOf(model, run)).filter((row) => row.threads === threads);
  return {
    title: `Times with ${threads === 1 ? '1 thread' : `${threads} threads`}`,
    remark:
      'Milliseconds: median / fastest clean sample. ×: speed of webnn-node relative to this engine, by the fastest ' +
      "clean samples. Limit: share of the machine's peak arithmetic (C) or memory bandwidth (M, if the model " +
      'does not fit into the cache), whichever is larger. Clean: ' +
      `samples during which others kept at most ${DIRTY_ABOVE} processors busy; *: no clean sample.`,
    head: ['model', `>${OURS}`, '>limit', ...peers.flatMap((name) => [`>${name}`, '>×']), '>clean'],
    rows: [
      ...rows.map(({ name, times, limit }) => [
        name,
        timeCell(times[OURS]),
        limitCell(limit),
        ...peers.flatMap((peer) => [timeCell(times[peer]), ratioCell(times[peer])]),
        cleanCell(times),
      ]),
      ...meanRows(rows, peers, threads),
    ],
  };
}

/**
 * Formats resident bytes at a time: above those of the empty process, and in total.
 *
 * @param {import('../measure.mjs').Result['memory']} memory
 * @param {'loaded' | 'afterRuns'} time
 */
function memoryCells(memory, time) {
  const bytes = memory?.[time];
  return memory === undefined || bytes === undefined ? [NONE, NONE] : [formatBytes(Math.max(0, bytes - memory.empty)), formatBytes(bytes)];
}

/**
 * @param {import('./rows.mjs').Run} run
 * @returns {ReportTable} load times and memory with the smallest number of threads
 */
function loadTable({ models }) {
  const threads = Math.min(...models.map((model) => model.threads));
  const cells = (/** @type {import('../measure.mjs').Result} */ { loadMs, memory }) => [
    loadMs === undefined ? NONE : `${formatRate(loadTime({ loadMs }))} / ${formatRate(Math.min(...loadMs))}`,
    ...memoryCells(memory, 'loaded'),
    ...memoryCells(memory, 'afterRuns'),
  ];
  return {
    title: 'Loading and memory',
    remark:
      'Load: milliseconds from the file to a model that is ready to run, median / fastest. Memory: resident bytes when the model is ' +
      'loaded and after all runs, above those of the process before the library was loaded, and in total.',
    head: ['model', '>weights', 'engine', '>load', '>loaded', '>in all', '>after runs', '>in all'],
    rows: models
      .filter((model) => model.threads === threads)
      .flatMap(({ name, weightBytes, results }) =>
        results.map((result, i) => [...(i === 0 ? [name, formatBytes(weightBytes)] : ['', '']), result.engine, ...cells(result)]),
      ),
  };
}

/**
 * @param {import('./rows.mjs').Run} run
 * @returns {ReportTable} the cost of a call
 */
function callTable(run) {
  const { engines, calls } = run;
  const rows = calls.map((call) => ({ ...rowOf(call, run), burst: call.results.find(({ engine }) => engine === OURS)?.extra?.burst }));
  const microseconds = 1000;
  return {
    title: 'One addition of one number',
    remark:
      'Microseconds from writing the input to having read the output: median / fastest clean sample. Amortized: one of many ' +
      'dispatches, waiting only for the last one.',
    head: ['>threads', ...engines.map((name) => `>${name}`), '>amortized'],
    rows: rows.map(({ threads, times, burst }) => [
      String(threads),
      ...engines.map((name) => timeCell(times[name], microseconds)),
      burst === undefined ? NONE : formatRate(burst * microseconds),
    ]),
  };
}

/**
 * @param {import('../limits.mjs').Limits[]} limits
 * @returns {ReportTable} the limits of the machine
 */
function limitsTable(limits) {
  const { reading } = limits[0];
  return {
    title: 'Limits of the machine',
    head: [
      '>threads',
      '>float32 GFLOP/s',
      '>int8 GOP/s',
      '>bfloat16 GFLOP/s',
      ...reading.map(({ bytes, pages }) => `>${formatBytes(bytes)}, ${pages} pages, GB/s`),
    ],
    rows: limits.map(({ threads, fmaGflops, int8Gops, bf16Gflops, reading: readings }) => [
      String(threads),
      formatRate(fmaGflops),
      formatRate(int8Gops),
      formatRate(bf16Gflops),
      ...readings.map(({ gbps }) => formatRate(gbps)),
    ]),
  };
}

/**
 * Returns all tables of a run.
 *
 * @param {import('./rows.mjs').Run} run
 * @returns {ReportTable[]}
 */
export function tablesOf(run) {
  const threads = [...new Set(run.models.map((model) => model.threads))];
  return [...threads.map((count) => timesTable(run, count)), loadTable(run), callTable(run), ...(run.limits === null ? [] : [limitsTable(run.limits)])];
}
