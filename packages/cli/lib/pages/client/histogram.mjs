// Durations of runs as a bar chart, and as a table.

import { dataTable, html, svg } from './dom.mjs';

const CHART_WIDTH = 420;
const CHART_HEIGHT = 170;
const CHART_BOTTOM = 24;
const CHART_TOP = 18;
const CHART_SIDE = 10;

/** @param {{ from: string, to: string, count: number }[]} bins */
export function histogramChart(bins) {
  const most = Math.max(...bins.map(({ count }) => count));
  const width = (CHART_WIDTH - 2 * CHART_SIDE) / bins.length;
  const height = (/** @type {number} */ count) => ((CHART_HEIGHT - CHART_BOTTOM - CHART_TOP) * count) / most;
  const bars = bins.map(({ count }, i) => {
    const x = CHART_SIDE + i * width;
    const y = CHART_HEIGHT - CHART_BOTTOM - height(count);
    return svg(
      'g',
      {},
      svg('rect', { x: x + 1, y, width: Math.max(width - 2, 1), height: height(count), class: 'count' }),
      ...(count === 0 ? [] : [svg('text', { x: x + width / 2, y: y - 4, class: 'count-label' }, String(count))]),
    );
  });
  const label = (/** @type {number} */ x, /** @type {string} */ anchor, /** @type {string} */ text) =>
    svg('text', { x, y: CHART_HEIGHT - 8, 'text-anchor': anchor, class: 'tick-label' }, text);
  const last = bins[bins.length - 1];
  const summary = `${bins.reduce((total, { count }) => total + count, 0)} runs between ${bins[0].from} and ${last.to}`;
  const chart = svg(
    'svg',
    { viewBox: `0 0 ${CHART_WIDTH} ${CHART_HEIGHT}`, role: 'img', 'aria-label': `Histogram: ${summary}` },
    ...bars,
    svg('path', { d: `M${CHART_SIDE} ${CHART_HEIGHT - CHART_BOTTOM}H${CHART_WIDTH - CHART_SIDE}`, class: 'axis' }),
    label(CHART_SIDE, 'start', bins[0].from),
    label(CHART_WIDTH - CHART_SIDE, 'end', last.to),
  );
  const rows = bins.map(({ from, to, count }) => [`${from} to ${to}`, String(count)]);
  return [chart, html('details', {}, html('summary', {}, 'As a table'), dataTable([{ name: 'Duration' }, { name: 'Runs', numeric: true }], rows))];
}
