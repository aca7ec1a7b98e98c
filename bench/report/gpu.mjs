// The report of a run on a GPU.

import { median, quantile } from 'd3-array';
import { formatRate, formatShare } from '../../packages/cli/lib/format.mjs';
import { judge, quotient } from '../gpu/targets.mjs';
import { OURS } from '../peers.mjs';
import { markdownTable, notesAsMarkdown } from './markdown.mjs';
import { notesOf } from './rows.mjs';

/**
 * @typedef {object} GpuRun all measurements of one run of the benchmark on a GPU
 * @property {string} date
 * @property {ReturnType<typeof import('../machine.mjs').describeMachine>} machine
 * @property {{ name: string, type: string, backend: string, driver: string }} adapter
 * @property {string[]} engines this package first
 * @property {string | null} without the reason if there are no others
 * @property {Record<string, string>} versions by engine
 * @property {{ copyGbps: number, float32Gflops: number, float16Gflops: number } | null} limits measured by another
 *   program
 * @property {ReturnType<import('../gpu/measure.mjs').Rates['results']>} rates
 * @property {{ name: string, kind: import('../types.mjs').Kind, results: import('../gpu/measure.mjs').GpuResult[] }[]} models
 */

/** The note about a run on software. */
export const SOFTWARE = 'software adapter: these numbers say nothing about GPUs';
const isSoftware = (/** @type {Pick<GpuRun, 'adapter'>} */ { adapter }) => adapter.type === 'software';

/** @typedef {'float32' | 'float16'} Precision */

const NONE = '–';
const PERCENTILE = 0.95;

/**
 * @param {GpuRun} run
 * @param {string} name of a graph of one operator
 */
const rate = (run, name) => run.rates.find((one) => one.name === name)?.perSecond;

/**
 * Returns the rate of the fastest product of a data type.
 *
 * @param {GpuRun} run
 * @param {Precision} kind
 */
const largestProduct = (run, kind) => Math.max(...run.rates.filter(({ name }) => name.startsWith(`product ${kind} `)).map(({ perSecond }) => perSecond));

/**
 * Returns the bytes per second of a copy; if another program has measured it as well, the larger number.
 *
 * @param {GpuRun} run
 */
const copyRate = (run) => Math.max(rate(run, 'copy') ?? NaN, (run.limits?.copyGbps ?? 0) * 1e9);

/**
 * Returns the FLOP/s of multiply-adds in registers, if another program has measured them.
 *
 * @param {GpuRun} run
 * @param {Precision} kind
 */
const peak = ({ limits }, kind) => (limits === null ? undefined : limits[/** @type {const} */ (`${kind}Gflops`)] * 1e9);

/**
 * Returns the FLOP/s that count as 100 %; without limits, those of our own products.
 *
 * @param {GpuRun} run
 * @param {Precision} kind
 */
const arithmetic = (run, kind) => peak(run, kind) ?? largestProduct(run, kind);

/**
 * Returns the fastest time per run of many, in milliseconds; `undefined` if there is none.
 *
 * @param {GpuRun} run
 * @param {string} model
 * @param {string} engine
 */
function burstOf({ models }, model, engine) {
  const result = models.find(({ name }) => name === model)?.results.find((one) => one.engine === engine);
  return result?.status === 'ok' ? Math.min(...result.bursts) : undefined;
}

/**
 * Returns the shares of the device's peak rates that our time of a model reaches.
 *
 * @param {GpuRun} run
 * @param {GpuRun['models'][number]} model
 * @returns {{ copy: number, arithmetic: number } | null}
 */
export function sharesOf(run, { name, kind, results }) {
  const graph = results.find(({ engine }) => engine === OURS)?.graph;
  const ms = burstOf(run, name, OURS);
  if (graph === undefined || ms === undefined) return null;
  const perSecond = (/** @type {number} */ amount) => (amount / ms) * 1000;
  return {
    copy: perSecond(graph.bytes) / copyRate(run),
    arithmetic: perSecond(2 * graph.multiplyAdds) / arithmetic(run, kind === 'float16' ? 'float16' : 'float32'),
  };
}

/**
 * Returns the facts of a run for the targets.
 *
 * @param {GpuRun} run
 * @returns {import('../gpu/targets.mjs').Facts}
 */
function factsOf(run) {
  return {
    product: (kind, size) => rate(run, `product ${kind} ${size}`),
    peak: (kind) => peak(run, kind),
    copyShare: (name) => run.models.filter((model) => model.name === name).map((model) => sharesOf(run, model)?.copy)[0],
    ratio: (name) => quotient(burstOf(run, name, 'pytorch'), burstOf(run, name, OURS)),
  };
}

const times = (/** @type {import('../gpu/measure.mjs').GpuResult} */ { status, latencies, bursts }) =>
  status === 'ok'
    ? [formatRate(median(latencies) ?? null), formatRate(quantile(latencies, PERCENTILE) ?? null), formatRate(1000 / Math.min(...bursts))]
    : [status, NONE, NONE];

/** @param {GpuRun} run */
function modelsTable(run) {
  const share = run.limits === null ? 'of our largest product' : 'of arithmetic';
  const rows = run.models.flatMap((model) => {
    const shares = sharesOf(run, model);
    const ours = burstOf(run, model.name, OURS);
    return model.results.map((result, i) => {
      const isOurs = result.engine === OURS;
      const burst = burstOf(run, model.name, result.engine);
      return [
        i === 0 ? model.name : '',
        result.engine,
        ...times(result),
        isOurs || ours === undefined || burst === undefined ? NONE : `${(burst / ours).toFixed(2)}×`,
        isOurs && shares !== null ? formatShare(shares.copy) : NONE,
        isOurs && shares !== null ? formatShare(shares.arithmetic) : NONE,
      ];
    });
  });
  return {
    title: 'Models on the GPU',
    remark:
      'Latency: milliseconds of one run, from inputs on the CPU to outputs there. Throughput: runs per second of many in flight, ' +
      'with inputs on the GPU, waiting only for the last; the fastest sample. ×: speed of webnn-node relative to this engine, ' +
      'by throughput. Of copy: bytes that the steps read and write, relative to what a copy moves in the same time. ' +
      (run.limits === null
        ? 'Of our largest product: multiply-adds relative to our own largest matrix product, which is not a limit of the device.'
        : 'Of arithmetic: multiply-adds relative to those in registers.'),
    head: ['model', 'engine', '>latency', '>95th percentile', '>throughput', '>×', '>of copy', `>${share}`],
    rows,
  };
}

/** @param {GpuRun} run */
function ratesTable(run) {
  const shown = run.rates.map(({ name, ms, perSecond, unit }) => [name, formatRate(ms), formatRate(perSecond / 1e9), unit === 'B/s' ? 'GB/s' : 'GFLOP/s']);
  const limits =
    run.limits === null
      ? []
      : [
          ['copy, by another program', NONE, formatRate(run.limits.copyGbps), 'GB/s'],
          ['float32 in registers, by another program', NONE, formatRate(run.limits.float32Gflops), 'GFLOP/s'],
          ['float16 in registers, by another program', NONE, formatRate(run.limits.float16Gflops), 'GFLOP/s'],
        ];
  return {
    title: 'Rates of the GPU',
    remark: 'Our own single-operator graphs, in turns with the models; the fastest sample. Products are of square matrices.',
    head: ['what', '>milliseconds', '>rate', 'unit'],
    rows: [...shown, ...limits],
  };
}

/** @param {GpuRun} run */
function targetsTable(run) {
  /** @type {(value: number | null, unit: string) => string} */
  const shown = (value, unit) => (value === null ? NONE : unit === 'share' ? formatShare(value) : `${formatRate(value)} ${unit}`);
  return {
    title: 'Targets',
    remark: 'Set for an NVIDIA H200.',
    head: ['target', '>at least', '>measured', 'verdict'],
    rows: judge(factsOf(run)).map(({ name, wanted, unit, got, verdict }) => [name, shown(wanted, unit), shown(got, unit), verdict]),
  };
}

/**
 * Returns the tables of a run, without targets on software.
 *
 * @param {GpuRun} run
 * @returns {import('./tables.mjs').ReportTable[]}
 */
export function gpuTablesOf(run) {
  return [modelsTable(run), ratesTable(run), ...(isSoftware(run) ? [] : [targetsTable(run)])];
}

/**
 * Returns the lines above the tables: the adapter, and what is missing.
 *
 * @param {GpuRun} run
 * @returns {string[]}
 */
export function gpuHeadOf({ date, machine, adapter, without, versions, ...run }) {
  const { name, type, backend, driver } = adapter;
  const engines = Object.entries(versions).map(([engine, version]) => `${engine} ${version}`);
  return [
    `${date.slice(0, 10)}, ${name} (${type}), ${backend}, driver ${driver}, ${machine.system}, Node ${machine.node}. ${engines.join(', ')}.`,
    ...(isSoftware({ adapter }) ? [`${SOFTWARE}.`] : []),
    ...(without === null ? [] : [`Without PyTorch: ${without}.`]),
    ...(run.limits === null ? ['The peak of arithmetic was not measured in this run.'] : []),
  ];
}

/**
 * Returns the part of RESULTS.md about GPUs.
 *
 * @param {GpuRun} run on hardware
 * @returns {string}
 */
export function gpuMarkdown(run) {
  return [
    '# Results on a GPU',
    ...gpuHeadOf(run).flatMap((line) => ['', line]),
    ...gpuTablesOf(run).flatMap((table) => ['', `## ${table.title}`, '', table.remark, '', ...markdownTable(table)]),
    ...notesAsMarkdown(notesOf(run.models)),
    '',
  ].join('\n');
}
