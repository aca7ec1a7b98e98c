// Distributions of durations, in the terminal and as SVG.
import { bin, quantileSorted, ticks } from 'd3-array';
import { formatDuration } from './format.mjs';

const BINS = 16;

/** Samples above this quantile go into the last bin: a single outlier must not flatten the rest. */
const UPPER_QUANTILE = 0.98;

/** Even equal samples get distinguishable bins, which reach up to this multiple of the smallest sample. */
const MIN_SPREAD = 1.1;

/**
 * Computes bins shared by all series.
 * @param {{ name: string, samples: number[] }[]} series milliseconds
 * @returns {{ from: number, to: number, open: boolean, counts: number[] }[]} `open`: the bin also counts everything
 *   above `to`; `counts`: per series
 */
export function sharedBins(series) {
  const all = Float64Array.from(series.flatMap(({ samples }) => samples)).sort();
  const [low, max] = [all[0], all[all.length - 1]];
  const high = Math.max(quantileSorted(all, UPPER_QUANTILE), low * MIN_SPREAD);
  const edges = ticks(low, high, BINS);
  const binned = series.map(({ samples }) => bin().domain([low, high]).thresholds(edges)(samples.map((sample) => Math.min(sample, high))));
  return binned[0].map(({ x0, x1 }, index) => ({
    from: x0,
    to: x1,
    open: index === binned[0].length - 1 && max > high,
    counts: binned.map((bins) => bins[index].length),
  }));
}

/**
 * Formats the range of a bin: "4.10 to 4.20 ms".
 * @param {{ from: number, to: number, open: boolean }} range
 */
function rangeText({ from, to, open }) {
  return open ? `from ${formatDuration(from)}` : `${formatDuration(from)} – ${formatDuration(to)}`;
}

/**
 * Returns lines of bars, one per bin, with the series side by side.
 * @param {{ name: string, samples: number[] }[]} series milliseconds
 * @param {number} width columns
 * @param {(index: number, text: string) => string} paint colors the bars of a series
 * @returns {string[]}
 */
export function histogramLines(series, width, paint) {
  const bins = sharedBins(series);
  const labels = bins.map(rangeText);
  const labelWidth = Math.max(...labels.map((label) => label.length));
  const countWidth = Math.max(...bins.flatMap(({ counts }) => counts)).toString().length;
  const barWidth = Math.max(8, Math.floor((width - labelWidth) / series.length) - countWidth - 4);
  const largest = series.map((_, i) => Math.max(1, ...bins.map(({ counts }) => counts[i])));
  const cell = (/** @type {number} */ count, /** @type {number} */ i) => {
    const length = Math.round((count / largest[i]) * barWidth);
    // Nonzero counts stay visible.
    const bar = '█'.repeat(count > 0 ? Math.max(1, length) : 0);
    return `${paint(i, bar)}${' '.repeat(barWidth - bar.length)} ${count === 0 ? '' : count}`;
  };
  const pad = (/** @type {string} */ text, /** @type {number} */ columns, visible = text.length) => text + ' '.repeat(Math.max(0, columns - visible));
  const columnWidth = barWidth + 1 + countWidth;
  const row = (/** @type {number[]} */ counts) =>
    counts.map((count, i) => pad(cell(count, i), columnWidth, barWidth + 1 + (count === 0 ? 0 : String(count).length))).join('   ');
  const head =
    series.length > 1
      ? [
          `${' '.repeat(labelWidth)}  ${series.map(({ name }, i) => paint(i, name) + ' '.repeat(Math.max(0, columnWidth + 3 - name.length))).join('')}`.trimEnd(),
        ]
      : [];
  return [...head, ...bins.map(({ counts }, i) => `${labels[i].padStart(labelWidth)}  ${row(counts)}`.trimEnd())];
}

const SIZE = { width: 760, height: 360, left: 56, right: 20, top: 64, bottom: 52 };
const COLORS = ['#2563eb', '#d97706'];

/**
 * Escapes text for XML content or attributes.
 * @param {unknown} text
 */
export function escapeXml(text) {
  return (
    String(text)
      // XML 1.0 does not allow these characters, not even escaped.
      .replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f]/g, '\ufffd')
      .replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`)
  );
}

/**
 * Draws the histogram as an SVG picture.
 * @param {{ name: string, samples: number[], median: number }[]} series one or two; milliseconds
 * @param {string} title
 * @returns {string}
 */
export function histogramSvg(series, title) {
  const bins = sharedBins(series);
  const { width, height, left, right, top, bottom } = SIZE;
  const last = bins[bins.length - 1];
  const [low, high] = [bins[0].from, last.to];
  const share = (/** @type {number} */ count, /** @type {number} */ i) => count / series[i].samples.length;
  const tallest = Math.max(...bins.flatMap(({ counts }) => counts.map(share)));
  const x = (/** @type {number} */ value) => left + ((value - low) / (high - low)) * (width - left - right);
  const y = (/** @type {number} */ value) => height - bottom - (value / tallest) * (height - top - bottom);
  const at = (/** @type {number} */ number) => number.toFixed(2);
  const bars = bins.flatMap(({ from, to, open, counts }) =>
    counts.flatMap((count, i) => {
      if (count === 0) return [];
      const slot = (x(to) - x(from)) / series.length;
      const [barLeft, barTop] = [x(from) + i * slot + 0.5, y(share(count, i))];
      return `<rect x="${at(barLeft)}" y="${at(barTop)}" width="${at(Math.max(0.5, slot - 1))}" height="${at(height - bottom - barTop)}" fill="${COLORS[i]}"><title>${escapeXml(`${series[i].name}: ${count} runs, ${rangeText({ from, to, open })}`)}</title></rect>`;
    }),
  );
  const xAxis = ticks(low, high, 7).map(
    (tick) => `<text x="${at(x(tick))}" y="${height - bottom + 18}" text-anchor="middle">${escapeXml(formatDuration(tick))}</text>`,
  );
  const yAxis = ticks(0, tallest, 4).map(
    (tick) =>
      `<line x1="${left}" x2="${width - right}" y1="${at(y(tick))}" y2="${at(y(tick))}" stroke="#d4d4d8"/><text x="${left - 8}" y="${at(y(tick) + 4)}" text-anchor="end">${Math.round(100 * tick)} %</text>`,
  );
  const medians = series.map(({ median }, i) =>
    median > high
      ? ''
      : // With a white outline, to stand out from a bar of the same color.
        `<g stroke-width="2"><path d="M${at(x(median))} ${top}V${height - bottom}" stroke="#ffffff"/><path d="M${at(x(median))} ${top}V${height - bottom}" stroke="${COLORS[i]}" stroke-dasharray="4 4"/></g>`,
  );
  const legend = series.map(
    ({ name, median, samples }, i) =>
      `<rect x="${left + i * 330}" y="36" width="12" height="12" fill="${COLORS[i]}"/><text x="${left + 18 + i * 330}" y="46">${escapeXml(`${name}: median ${formatDuration(median)}, ${samples.length} runs`)}</text>`,
  );
  const description = series.map(({ name, median }) => `${name}: median ${formatDuration(median)}`).join('; ');
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img" aria-labelledby="title description" font-family="system-ui, sans-serif" font-size="12" fill="#27272a">`,
    `<title id="title">${escapeXml(title)}</title>`,
    `<desc id="description">${escapeXml(description)}</desc>`,
    `<rect width="${width}" height="${height}" fill="#ffffff"/>`,
    `<text x="${left}" y="24" font-size="15" font-weight="600">${escapeXml(title)}</text>`,
    ...legend,
    ...yAxis,
    ...bars,
    ...medians,
    ...xAxis,
    `<text x="${at((left + width - right) / 2)}" y="${height - 10}" text-anchor="middle">${last.open ? 'time of one run; the last bin holds all longer ones' : 'time of one run'}</text>`,
    '</svg>',
    '',
  ].join('\n');
}
