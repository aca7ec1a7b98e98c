// Bars, charts and small pictures in a terminal: block characters in colour where the reader can
// see them, plain ASCII everywhere else (a file, a pipe, NO_COLOR).

/** Bits of colour: plain ASCII, the 256 colour palette, or truecolor. */
export const PLAIN = 0;
export const PALETTE = 8;
export const TRUECOLOR = 24;

/** Colours as [red, green, blue], 0 to 255. */
export const GREEN = [126, 211, 133];
export const RED = [240, 113, 120];
export const AMBER = [255, 190, 92];
export const GRAY = [118, 124, 140];

/**
 * The ends of a picture's shades. The palette has no fine steps but of gray.
 * @type {Record<number, { paper: number[], ink: number[] }>}
 */
const SHADES = {
  [TRUECOLOR]: { paper: [26, 28, 38], ink: [255, 244, 214] },
  [PALETTE]: { paper: [28, 28, 28], ink: [238, 238, 238] },
};

const HORIZONTAL_EIGHTHS = ['', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];
const VERTICAL_EIGHTHS = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const ASCII_SHADES = ' .:-=+*#%@';

/**
 * How many bits of colour to write to a stream.
 * @param {import('node:tty').WriteStream} stream
 * @param {NodeJS.ProcessEnv} env
 * @returns {0 | 8 | 24}
 */
export function colorDepth(stream, env = process.env) {
  if (!stream.isTTY || env.NO_COLOR) return PLAIN;
  const bits = stream.getColorDepth(env);
  return bits >= TRUECOLOR ? TRUECOLOR : bits >= PALETTE ? PALETTE : PLAIN;
}

const CUBE_LEVELS = [0, 95, 135, 175, 215, 255];

const distance = (/** @type {number[]} */ a, /** @type {number[]} */ b) => a.reduce((sum, value, i) => sum + (value - b[i]) ** 2, 0);

/**
 * The nearest entry of the 256 colour palette: the 6x6x6 cube or the ramp of 24 grays.
 * @param {number[]} color
 */
function paletteIndex(color) {
  const nearest = color.map((value) => {
    const gaps = CUBE_LEVELS.map((level) => Math.abs(level - value));
    return gaps.indexOf(Math.min(...gaps));
  });
  const cube = nearest.map((i) => CUBE_LEVELS[i]);
  const mean = (color[0] + color[1] + color[2]) / 3;
  const step = Math.min(23, Math.max(0, Math.round((mean - 8) / 10)));
  const gray = Array(3).fill(8 + 10 * step);
  return distance(gray, color) < distance(cube, color) ? 232 + step : 16 + 36 * nearest[0] + 6 * nearest[1] + nearest[2];
}

/**
 * @param {number[]} color
 * @param {number} depth
 */
function colorCode(color, depth) {
  return depth === TRUECOLOR ? `2;${color.join(';')}` : `5;${paletteIndex(color)}`;
}

/**
 * The text in a colour, unchanged when the depth is `PLAIN`.
 * @param {string} text
 * @param {number} depth
 * @param {{ color?: number[], background?: number[], bold?: boolean }} style
 */
export function paint(text, depth, { color, background, bold = false }) {
  if (depth === PLAIN) return text;
  const codes = [];
  if (bold) codes.push('1');
  if (color) codes.push(`38;${colorCode(color, depth)}`);
  if (background) codes.push(`48;${colorCode(background, depth)}`);
  return `\x1b[${codes.join(';')}m${text}\x1b[0m`;
}

/**
 * A probability as text of seven characters: " 96.1 %".
 * @param {number} probability
 */
export function percent(probability) {
  return `${(100 * probability).toFixed(1).padStart(5)} %`;
}

/**
 * A bar from left to right; `fraction` of `width` columns, without padding behind it.
 * @param {number} fraction
 * @param {number} width
 * @param {number} depth
 * @param {number[]} color
 */
export function horizontalBar(fraction, width, depth, color) {
  if (depth === PLAIN) return '#'.repeat(Math.round(fraction * width));
  const eighths = Math.round(fraction * width * 8);
  const bar = '█'.repeat(Math.floor(eighths / 8)) + HORIZONTAL_EIGHTHS[eighths % 8];
  return bar === '' ? '' : paint(bar, depth, { color });
}

/**
 * Bars side by side, one column each and one column between them, every bar at least a base line.
 * @param {ArrayLike<number>} fractions 0 to 1
 * @param {number} height lines
 * @param {number} depth
 * @param {(index: number) => number[]} colorOf the colour of a bar
 * @returns {string[]} `height` lines of `2 * fractions.length` columns, the top one first
 */
export function columnChart(fractions, height, depth, colorOf) {
  const cell = (/** @type {number} */ fraction, /** @type {number} */ index, /** @type {number} */ level) => {
    if (depth === PLAIN) {
      const filled = Math.round(fraction * height) > level;
      return filled ? '#' : level === 0 ? '.' : ' ';
    }
    const eighths = Math.max(1, Math.round(fraction * height * 8));
    const part = Math.min(8, Math.max(0, eighths - 8 * level));
    return part === 0 ? ' ' : paint(VERTICAL_EIGHTHS[part], depth, { color: colorOf(index) });
  };
  return Array.from({ length: height }, (_, line) => Array.from(fractions, (fraction, index) => `${cell(fraction, index, height - 1 - line)} `).join(''));
}

/**
 * The colour of a pixel: paper at 0, ink at 1.
 * @param {number} value
 * @param {number} depth
 */
function shade(value, depth) {
  const { paper, ink } = SHADES[depth];
  return paper.map((from, i) => Math.round(from + (ink[i] - from) * value));
}

/**
 * The picture at twice its size, bilinear: the value at column and row of the large one.
 * @param {ArrayLike<number>} ink
 * @param {number} size
 */
function doubled(ink, size) {
  const at = (/** @type {number} */ row, /** @type {number} */ column) => ink[row * size + column];
  const clamp = (/** @type {number} */ value) => Math.min(size - 1, Math.max(0, value));
  return (/** @type {number} */ row, /** @type {number} */ column) => {
    const [y, x] = [(row - 0.5) / 2, (column - 0.5) / 2];
    const [top, left] = [Math.floor(y), Math.floor(x)];
    const [t, u] = [y - top, x - left];
    const line = (/** @type {number} */ r) => at(clamp(r), clamp(left)) * (1 - u) + at(clamp(r), clamp(left + 1)) * u;
    return line(top) * (1 - t) + line(top + 1) * t;
  };
}

/**
 * A square gray picture, drawn twice as wide as high because terminal cells are twice as high as
 * wide: smoothed in half blocks with colour, two equal characters per pixel without.
 * @param {ArrayLike<number>} ink row-major, 0 (paper) to 1 (ink)
 * @param {number} size pixels per side
 * @param {number} depth
 * @returns {string[]} `size` lines of `2 * size` columns
 */
export function picture(ink, size, depth) {
  const columns = Array.from({ length: 2 * size }, (_, column) => column);
  const lines = Array.from({ length: size }, (_, line) => line);
  if (depth === PLAIN) {
    const character = (/** @type {number} */ line, /** @type {number} */ column) =>
      ASCII_SHADES[Math.round(ink[line * size + (column >> 1)] * (ASCII_SHADES.length - 1))];
    return lines.map((line) => columns.map((column) => character(line, column)).join(''));
  }
  const large = doubled(ink, size);
  // The upper half block shows two pixels: the upper one as text, the lower one as background.
  const cell = (/** @type {number} */ line, /** @type {number} */ column) =>
    paint('▀', depth, {
      color: shade(large(2 * line, column), depth),
      background: shade(large(2 * line + 1, column), depth),
    });
  return lines.map((line) => columns.map((column) => cell(line, column)).join(''));
}
