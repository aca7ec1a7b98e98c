// The speed of engines on each model as an SVG bar chart.

import { max, ticks } from 'd3-array';
import { escapeXml } from '../../packages/cli/lib/histogram.mjs';
import { OURS } from '../peers.mjs';
import { rightTime, rowOf } from './rows.mjs';

/** Colors of the engines on light and dark backgrounds, this package first. */
const COLORS = [
  ['#2563eb', '#60a5fa'],
  ['#a1a1aa', '#71717a'],
  ['#d97706', '#fbbf24'],
  ['#059669', '#34d399'],
  ['#be185d', '#f472b6'],
];

const SIZE = { width: 800, left: 180, right: 60, top: 78, bottom: 44, bar: 11, gap: 12 };

/** Faster bars are cut off and labeled with their value: they would make the others too small to compare. */
const MAX_SPEED = 3;

const STYLE = [
  'svg{background:#ffffff}text{fill:#27272a}.grid{stroke:#e4e4e7}.one{stroke:#52525b}',
  ...COLORS.map(([light], i) => `.engine${i}{fill:${light}}`),
  '@media (prefers-color-scheme:dark){svg{background:#18181b}text{fill:#e4e4e7}.grid{stroke:#3f3f46}.one{stroke:#a1a1aa}',
  ...COLORS.map(([, dark], i) => `.engine${i}{fill:${dark}}`),
  '}',
].join('');

/**
 * Returns speeds relative to a reference, per model.
 *
 * @param {import('./rows.mjs').Run} run
 * @param {string} reference the engine whose speed is 1
 * @param {number} threads
 * @returns {{ name: string, speeds: (number | null)[] }[]} in the order of the engines; null if an engine has no
 *   correct result
 */
export function relativeSpeeds(run, reference, threads) {
  const { engines, models } = run;
  return models
    .map((model) => rowOf(model, run))
    .filter((row) => row.threads === threads)
    .flatMap(({ name, times }) => {
      const fastest = engines.map((engine) => rightTime(times[engine]));
      const one = rightTime(times[reference]);
      return one === null ? [] : [{ name, speeds: fastest.map((time) => (time === null ? null : one / time)) }];
    });
}

/**
 * Returns the chart of a run, for its smallest number of threads.
 *
 * @param {import('./rows.mjs').Run} run
 * @returns {string}
 */
export function chartSvg(run) {
  const { engines } = run;
  const threads = Math.min(...run.models.map((model) => model.threads));
  const reference = engines.find((name) => name !== OURS) ?? OURS;
  const groups = relativeSpeeds(run, reference, threads);
  const { width, left, right, top, bottom, bar, gap } = SIZE;
  const groupHeight = engines.length * bar + gap;
  const height = top + groups.length * groupHeight + bottom;
  const longest = Math.min(
    MAX_SPEED,
    Math.max(
      1.2,
      max(
        groups.flatMap(({ speeds }) => speeds),
        (speed) => speed ?? 0,
      ) ?? 1,
    ),
  );
  const x = (/** @type {number} */ speed) => left + (Math.min(speed, longest) / longest) * (width - left - right);
  const at = (/** @type {number} */ number) => number.toFixed(1);
  const label = (/** @type {string} */ engine) => `${engine} ${run.versions[engine] ?? ''}`.trim();

  const legend = engines.map((engine, i) => {
    const place = left + (i % 3) * 200;
    const line = 34 + Math.floor(i / 3) * 18;
    return `<rect class="engine${i}" x="${place}" y="${line}" width="11" height="11"/><text x="${place + 17}" y="${line + 10}">${escapeXml(label(engine))}</text>`;
  });
  const grid = ticks(0, longest, 6).map(
    (tick) =>
      `<line class="${tick === 1 ? 'one' : 'grid'}" x1="${at(x(tick))}" x2="${at(x(tick))}" y1="${top - 4}" y2="${height - bottom + 4}"/><text x="${at(x(tick))}" y="${height - bottom + 18}" text-anchor="middle">${tick}×</text>`,
  );
  const bars = groups.flatMap(({ name, speeds }, g) => {
    const y = top + g * groupHeight;
    /** @type {(speed: number | null, i: number) => string} */
    const one = (speed, i) => {
      if (speed === null) return '';
      const place = y + i * bar;
      const value = `<text x="${at(x(speed) + 4)}" y="${at(place + bar - 2)}" font-size="9">${speed.toFixed(2)}×</text>`;
      return `<rect class="engine${i}" x="${left}" y="${at(place)}" width="${at(x(speed) - left)}" height="${bar - 1}"><title>${escapeXml(`${name}, ${engines[i]}: ${speed.toFixed(2)}×`)}</title></rect>${value}`;
    };
    const middle = y + (engines.length * bar) / 2 + 4;
    return [`<text x="${left - 8}" y="${at(middle)}" text-anchor="end">${escapeXml(name)}</text>`, ...speeds.map(one)];
  });
  const title = `Speed relative to ${reference}, ${threads === 1 ? '1 thread' : `${threads} threads`} (longer is faster)`;
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img" aria-labelledby="title" font-family="system-ui, sans-serif" font-size="12">`,
    `<style>${STYLE}</style>`,
    `<title id="title">${escapeXml(title)}</title>`,
    `<text x="${left}" y="22" font-size="15" font-weight="600">${escapeXml(title)}</text>`,
    ...legend,
    ...grid,
    ...bars,
    `<text x="${left}" y="${height - 8}">${escapeXml(`${run.machine.cpu}, ${run.date.slice(0, 10)}`)}</text>`,
    '</svg>',
    '',
  ].join('\n');
}
