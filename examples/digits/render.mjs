import { AMBER, columnChart, GRAY, GREEN, paint, percent, picture, PLAIN, RED } from './terminal.mjs';
import { argMax, FULL_INK, SIDE } from './model.mjs';

const CHART_HEIGHT = 5;
const GAP = '  ';
const BETWEEN_PANELS = '   ';

/** Columns of one panel: the picture, a gap, ten bars with a space behind each. */
const PANEL_WIDTH = 2 * SIDE + GAP.length + 2 * 10;

/**
 * The picture, what was read, and a bar for the probability of each digit.
 * @param {import('./pictures.mjs').LabelledPicture} shown
 * @param {Float32Array} probabilities of the digits 0 to 9
 * @param {number} depth bits of colour
 * @returns {string[]} 8 lines of 38 columns
 */
export function panel({ name, label, pixels }, probabilities, depth) {
  const digit = argMax(probabilities);
  const right = digit === label;
  const mark = depth === PLAIN ? (right ? 'ok' : 'NO') : right ? '✓ ' : '✗ ';
  const verdict = right ? GREEN : RED;
  const title = paint(`reads ${digit}`, depth, { bold: true }) + `  ${percent(probabilities[digit])}  ` + paint(mark, depth, { color: verdict, bold: true });
  const chart = [
    title,
    paint(name.padEnd(20), depth, { color: GRAY }),
    ...columnChart(probabilities, CHART_HEIGHT, depth, (i) => (i === digit ? verdict : i === label ? AMBER : GRAY)),
    Array.from(probabilities, (_, i) => paint(`${i} `, depth, i === digit ? { color: verdict, bold: true } : { color: GRAY })).join(''),
  ];
  const ink = pixels.map((value) => value / FULL_INK);
  return picture(ink, SIDE, depth).map((line, i) => line + GAP + chart[i]);
}

/**
 * Panels side by side, as many as fit, with an empty line after each row of panels.
 * @param {string[][]} panels
 * @param {number} columns width of the terminal
 * @returns {string}
 */
export function layout(panels, columns) {
  const fitting = Math.floor((columns + BETWEEN_PANELS.length) / (PANEL_WIDTH + BETWEEN_PANELS.length));
  const perRow = Math.max(1, fitting);
  let text = '';
  for (let start = 0; start < panels.length; start += perRow) {
    const row = panels.slice(start, start + perRow);
    for (const i of row[0].keys()) {
      text += `${row
        .map((lines) => lines[i])
        .join(BETWEEN_PANELS)
        .trimEnd()}\n`;
    }
    text += '\n';
  }
  return text;
}
