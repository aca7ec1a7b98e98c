// Quantities as text with three significant digits, for the terminal and the pages.
export { formatShape, printable } from 'webnn-node-text/format';

const DIGITS = 3;

/** Maximum number of decimals: smaller values read as 0. */
const MAX_DECIMALS = 6;

/** Values that would round up to the next unit are written in that unit: not `1000 µs`, but `1.00 ms`. */
const ALMOST = 0.9995;

/**
 * Formats `value` with three significant digits and no exponent: 0.0123, 1.23, 12.3, 123, 1234.
 * @param {number} value
 */
function significant(value) {
  if (value === 0) return '0';
  // Uses the rounded value: 0.9996 becomes 1.00, not 1.000.
  const magnitude = Math.floor(Math.log10(Math.abs(Number(value.toPrecision(DIGITS)))));
  return value.toFixed(Math.min(Math.max(DIGITS - 1 - magnitude, 0), MAX_DECIMALS));
}

/**
 * Formats `value` in the largest of `units` ([factor, name], ascending) that keeps it at 1 or above, or in the first
 * one.
 * @param {number} value
 * @param {[factor: number, name: string][]} units
 */
function inUnit(value, units) {
  const [factor, name] = units.findLast(([size]) => Math.abs(value) >= ALMOST * size) ?? units[0];
  return `${significant(value / factor)} ${name}`;
}

/**
 * Formats bytes in binary units: "12 B", "4.77 MiB".
 * @param {number} bytes
 */
export function formatBytes(bytes) {
  return bytes < 1024
    ? `${bytes} B`
    : inUnit(bytes, [
        [2 ** 10, 'KiB'],
        [2 ** 20, 'MiB'],
        [2 ** 30, 'GiB'],
        [2 ** 40, 'TiB'],
      ]);
}

/**
 * Formats a count: "950", "1.23 million", "4.56 billion"; whole below ten thousand.
 * @param {number} count
 */
export function formatCount(count) {
  return count < 1e4
    ? String(count)
    : inUnit(count, [
        [1e3, 'thousand'],
        [1e6, 'million'],
        [1e9, 'billion'],
        [1e12, 'trillion'],
      ]);
}

/**
 * Formats a duration in nanoseconds: "812 ns", "4.51 µs", "1.20 ms", "2.40 s".
 * @param {number} nanoseconds
 */
export function formatTime(nanoseconds) {
  return inUnit(nanoseconds, [
    [1, 'ns'],
    [1e3, 'µs'],
    [1e6, 'ms'],
    [1e9, 's'],
  ]);
}

/**
 * Formats the processor of a GraphDescription: "avx2, 2 threads", or the adapter of a GPU.
 * @param {{ adapter: string | null, isa: string | null, threads: number | null }} description
 */
export function formatProcessor({ adapter, isa, threads }) {
  return adapter ?? `${isa}, ${formatPlural(/** @type {number} */ (threads), 'thread')}`;
}

/**
 * Returns the processor of a GraphDescription as names and values.
 * @param {{ adapter: string | null, isa: string | null, threads: number | null }} description
 * @returns {[name: string, value: string][]}
 */
export function processorFacts({ adapter, isa, threads }) {
  return adapter === null
    ? [
        ['Instruction set', String(isa)],
        ['Threads', String(threads)],
      ]
    : [['GPU', adapter]];
}

/**
 * Formats a duration in milliseconds like `formatTime`.
 * @param {number} milliseconds
 */
export function formatDuration(milliseconds) {
  return formatTime(milliseconds * 1e6);
}

/**
 * Formats a share of 1 in percent: "12.3 %", "0.04 %", "< 0.01 %", "0 %".
 * @param {number} share
 */
export function formatShare(share) {
  if (share === 0) return '0 %';
  if (share > 0 && share < 0.0001) return '< 0.01 %';
  return `${(share * 100).toFixed(share < 0.01 ? 2 : 1)} %`;
}

/**
 * Formats a rate (GFLOP/s, GB/s, runs/s); an en dash for `null`.
 * @param {number | null} rate
 */
export function formatRate(rate) {
  return rate === null ? '–' : significant(rate);
}

/**
 * Formats an element of a tensor: integers in full, others with five significant digits.
 * @param {number | bigint} value
 */
export function formatNumber(value) {
  if (typeof value === 'bigint' || Number.isInteger(value) || !Number.isFinite(value)) return String(value);
  return String(Number(value.toPrecision(5)));
}

/**
 * Formats a number of things: "1 node", "3 nodes".
 * @param {number} count
 * @param {string} noun
 * @param {string} [plural]
 */
export function formatPlural(count, noun, plural = `${noun}s`) {
  return `${count} ${count === 1 ? noun : plural}`;
}
