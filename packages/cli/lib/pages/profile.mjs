// The page of `webnn-node profile`: time per operator type and per step, on a timeline, and over runs.

import { bin, extent, ticks } from 'd3-array';
import { formatBytes, formatCount, formatRate, formatShare, formatTime, processorFacts } from '../format.mjs';
import { CATEGORIES, categoryOf } from './categories.mjs';
import { htmlPage } from './html.mjs';
import { stepName, summarize } from './summary.mjs';
import { shapeText } from './types.mjs';

export { stepName, summarize } from './summary.mjs';
export { chromeTrace } from './trace.mjs';

const SCRIPTS = ['dom.mjs', 'text.mjs', 'sortable.mjs', 'timeline.mjs', 'histogram.mjs', 'profile.mjs'];
const STYLES = ['base.css', 'profile.css'];

/** Ticks of the timeline at its smallest magnification. */
const TIMELINE_TICKS = 8;
/**
 * Magnifications of the timeline. At the last one, a step that takes a hundredth of a run is half as wide as the page.
 */
const ZOOM_LEVELS = [1, 2, 4, 8, 16, 32, 64];
const MAX_BINS = 24;

/** Creates a table cell: the text to show, and the sort value (`null` sorts last). */
const cell = (/** @type {number | string | null} */ value, text = String(value)) => ({ value, text });

/** The last cells of a row in both tables. */
const workCells = (
  /** @type {import('./data.mjs').StepSummary | import('./data.mjs').OperatorSummary} */ { median, share, multiplyAdds, bytes, gflops, gigabytesPerSecond },
) => [
  cell(median, formatTime(median)),
  cell(share, formatShare(share)),
  cell(multiplyAdds, multiplyAdds === 0 ? '–' : formatCount(multiplyAdds)),
  cell(gflops, formatRate(gflops)),
  cell(bytes, formatBytes(bytes)),
  cell(gigabytesPerSecond, formatRate(gigabytesPerSecond)),
];

const WORK_COLUMNS = [
  { name: 'Time', numeric: true },
  { name: 'Share', numeric: true, bar: true },
  { name: 'Multiply-adds', numeric: true },
  { name: 'GFLOP/s', numeric: true },
  { name: 'Bytes', numeric: true },
  { name: 'GB/s', numeric: true },
];

/**
 * Returns the table of operator types, slowest first.
 * @param {import('./data.mjs').Summary} summary
 * @returns {import('./data.mjs').TableData}
 */
function operatorTable({ perOperator }) {
  return {
    columns: [{ name: 'Operator' }, { name: 'Kernels' }, { name: 'Steps', numeric: true }, ...WORK_COLUMNS],
    sortedBy: { column: 3, descending: true },
    rows: perOperator.map((entry) => ({
      category: categoryOf(entry.operator),
      cells: [cell(entry.operator), cell(entry.kernels.join(', ')), cell(entry.steps, String(entry.steps)), ...workCells(entry)],
    })),
  };
}

/**
 * Returns the shapes of a step's results; empty for a copy to an output, which belongs to no node.
 * @param {import('webnn-node/inspect').GraphDescription} description
 */
function resultShapes({ compiled }) {
  const values = /** @type {import('./data.mjs').Total<number, import('webnn-node/inspect').ListedValue>} */ (
    new Map(compiled.values.map((value) => [value.id, value]))
  );
  const nodes = new Map(compiled.nodes.map((node) => [node.id, node]));
  return (/** @type {number | null} */ id) =>
    (id === null ? undefined : nodes.get(id))?.outputs.map((value) => shapeText(values.get(value).shape)).join(', ') ?? '';
}

/**
 * Returns the table of steps, in execution order.
 * @param {import('./data.mjs').Summary} summary
 * @param {import('webnn-node/inspect').GraphDescription} description
 * @returns {import('./data.mjs').TableData}
 */
function stepTable({ perStep }, description) {
  const shapeOf = resultShapes(description);
  return {
    columns: [{ name: 'Step', numeric: true }, { name: 'Operator' }, { name: 'Name' }, { name: 'Kernel' }, { name: 'Result' }, ...WORK_COLUMNS],
    sortedBy: { column: 0, descending: false },
    rows: perStep.map((step) => ({
      category: categoryOf(step.operator),
      cells: [cell(step.index, String(step.index)), cell(stepName(step)), cell(step.label), cell(step.kernel), cell(shapeOf(step.node)), ...workCells(step)],
    })),
  };
}

/**
 * Returns the indices of notable runs, each once: the (lower) median, the fastest and the slowest.
 * @param {import('webnn-node/inspect').TimeSpan[]} runs
 */
function telltaleRuns(runs) {
  const byDuration = [...runs.keys()].sort((a, b) => runs[a].duration - runs[b].duration);
  /** @type {[name: string, place: number][]} */
  const named = [
    ['median', byDuration[Math.floor((runs.length - 1) / 2)]],
    ['fastest', byDuration[0]],
    ['slowest', byDuration[byDuration.length - 1]],
  ];
  return named.filter(([, place], i) => named.findIndex((other) => other[1] === place) === i);
}

/**
 * Returns runs as a timeline: slices (start and duration in nanoseconds) and, per magnification, ticks.
 * @param {import('webnn-node/inspect').GraphProfile} profile
 * @param {import('./data.mjs').Summary} summary
 * @returns {import('./data.mjs').TimelineData}
 */
function timeline({ runs }, { perStep }) {
  return {
    zooms: ZOOM_LEVELS,
    steps: perStep.map((step) => ({
      index: step.index,
      name: stepName(step),
      label: step.label,
      kernel: step.kernel,
      category: categoryOf(step.operator),
      usual: formatTime(step.median),
    })),
    runs: telltaleRuns(runs).map(([name, place]) => {
      const { duration, steps } = runs[place];
      return {
        name: `${name} (run ${place}): ${formatTime(duration)}`,
        duration,
        slices: steps.map((step) => [step.start, step.duration, formatTime(step.duration)]),
        ticks: ZOOM_LEVELS.map((zoom) => ticks(0, duration, TIMELINE_TICKS * zoom).map((at) => [at, formatTime(at)])),
      };
    }),
  };
}

/**
 * Returns the durations of the runs in bins of equal width.
 * @param {import('webnn-node/inspect').TimeSpan[]} runs
 * @returns {import('./data.mjs').HistogramBin[]}
 */
function histogram(runs) {
  const durations = runs.map(({ duration }) => duration);
  const [least, most] = /** @type {[number, number]} */ (extent(durations));
  // If all runs took the same time, there is only one bin.
  const bins =
    least === most
      ? [Object.assign([...durations], { x0: least, x1: most })]
      : bin()
          .domain([least, most])
          .thresholds(ticks(least, most, Math.min(MAX_BINS, 2 * Math.ceil(Math.sqrt(runs.length)))))(durations);
  return bins.map((members) => ({ from: formatTime(members.x0), to: formatTime(members.x1), count: members.length }));
}

/**
 * Returns the figures at the top of the page.
 * @param {import('./data.mjs').Summary} summary
 * @param {import('webnn-node/inspect').GraphDescription} description
 * @returns {import('./data.mjs').Fact[]}
 */
function figures({ runs: { count, median, fastest, slowest, p95, betweenSteps, gflops, gigabytesPerSecond } }, description) {
  return [
    ['Run, median', formatTime(median)],
    ['Fastest', formatTime(fastest)],
    ['95th percentile', formatTime(p95)],
    ['Slowest', formatTime(slowest)],
    ['Runs', String(count)],
    ['Steps', String(description.steps.length)],
    ['Between steps', `${formatTime(betweenSteps)}`],
    ['GFLOP/s', formatRate(gflops)],
    ['GB/s', formatRate(gigabytesPerSecond)],
    ...processorFacts(description),
  ];
}

/** The page's markup; the script fills in everything that depends on the model. */
const BODY = `
<header class="top">
  <h1 id="title"></h1>
  <dl id="figures" class="figures"></dl>
</header>
<main>
  <section class="card" aria-labelledby="operators-title">
    <div class="card-head"><h2 id="operators-title">By operator type</h2><ul id="legend" class="legend" aria-label="Colors"></ul></div>
    <div class="scroller" id="operators" tabindex="0" role="region" aria-label="Table by operator type"></div>
  </section>
  <section class="card" aria-labelledby="histogram-title">
    <div class="card-head"><h2 id="histogram-title">Durations of the runs</h2></div>
    <div id="histogram"></div>
  </section>
  <section class="card wide" aria-labelledby="timeline-title">
    <div class="card-head">
      <h2 id="timeline-title">Timeline</h2>
      <label>Run <select id="run"></select></label>
      <p class="note">Arrow keys go from step to step, + and − zoom</p>
      <div class="zoom"><button type="button" id="zoom-out" aria-label="Timeline: smaller">−</button><button type="button" id="zoom-in" aria-label="Timeline: larger">+</button></div>
    </div>
    <div class="scroller" id="timeline" tabindex="-1"></div>
    <p id="slice" class="slice"></p>
  </section>
  <section class="card wide" aria-labelledby="steps-title">
    <div class="card-head">
      <h2 id="steps-title">By step</h2>
      <label for="filter" class="visually-hidden">Filter of the steps</label>
      <input id="filter" type="text" autocomplete="off" spellcheck="false" placeholder="Filter by operator, name, kernel">
      <p class="note" id="filter-count"></p>
    </div>
    <div class="scroller" id="steps" tabindex="0" role="region" aria-label="Table by step"></div>
  </section>
</main>
<div id="live" class="visually-hidden" role="status" aria-live="polite"></div>`;

/**
 * Returns the page of a profile.
 *
 * @param {{ title: string, profile: import('webnn-node/inspect').GraphProfile }} parts
 * @returns {string} a self-contained HTML page
 * @throws {RangeError} when the profile has no runs or does not fit its description
 */
export function profilePage({ title, profile }) {
  const summary = summarize(profile);
  /** @type {import('./data.mjs').ProfileData} */
  const data = {
    title,
    categories: CATEGORIES,
    figures: figures(summary, profile.description),
    operators: operatorTable(summary),
    steps: stepTable(summary, profile.description),
    timeline: timeline(profile, summary),
    histogram: histogram(profile.runs),
  };
  return htmlPage({ title: `${title} – profile`, body: BODY, data, scripts: SCRIPTS, styles: STYLES });
}
