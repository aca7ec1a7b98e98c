// Numbers as people read them. The unit is chosen per number, with three significant digits.

const DIGITS = 3;

/** `value` with three significant digits and no exponent: 0.0123, 1.23, 12.3, 123, 1234. */
export function significant(value) {
  if (value === 0) {
    return '0';
  }
  // Of the rounded value, because 0.9996 becomes 1.00 and not 1.000.
  const magnitude = Math.floor(Math.log10(Math.abs(Number(value.toPrecision(DIGITS)))));
  return value.toFixed(Math.min(Math.max(DIGITS - 1 - magnitude, 0), 6));
}

/** What is rounded up to the next unit is written in it: not `1000 µs`, but `1.00 ms`. */
const ALMOST = 0.9995;

/** The largest unit of `units` ([factor, name], ascending) that keeps `value` at 1 or above, or the first one. */
function inUnit(value, units) {
  const [factor, name] = units.findLast(([size]) => Math.abs(value) >= ALMOST * size) ?? units[0];
  return `${significant(value / factor)} ${name}`;
}

/** A duration in nanoseconds: `812 ns`, `4.51 µs`, `1.20 ms`, `2.40 s`. */
export function formatTime(nanoseconds) {
  return inUnit(nanoseconds, [[1, 'ns'], [1e3, 'µs'], [1e6, 'ms'], [1e9, 's']]);
}

/** A number of bytes in decimal units: `16 B`, `1.50 kB`, `4.80 MB`. */
export function formatBytes(bytes) {
  return bytes < 1e3 ? `${bytes} B` : inUnit(bytes, [[1e3, 'kB'], [1e6, 'MB'], [1e9, 'GB']]);
}

/** A count: `950`, `1.23 million`, `4.56 billion`; whole below ten thousand. */
export function formatCount(count) {
  return count < 1e4 ? String(count) : inUnit(count, [[1e3, 'thousand'], [1e6, 'million'], [1e9, 'billion']]);
}

/** Rate in GFLOP/s or GB/s, or an en dash where there is none (`null`). */
export function formatRate(rate) {
  return rate === null ? '–' : significant(rate);
}

/** A share of 1 in percent: `12.3 %`, `0.04 %`, `< 0.01 %`. */
export function formatShare(share) {
  if (share > 0 && share < 0.0001) {
    return '< 0.01 %';
  }
  return `${(share * 100).toFixed(share < 0.01 ? 2 : 1)} %`;
}

/** `1×3×224×224`, or `scalar` for the empty shape. */
export function formatShape(shape) {
  return shape.length === 0 ? 'scalar' : shape.join('×');
}

/** Data type and shape of a value of a graph listing: `float32 1×3×224×224`. */
export function formatType({ dataType, shape }) {
  return `${dataType} ${formatShape(shape)}`;
}
