// Quantities as text.

const BYTES = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
const COUNTS = ['', 'k', 'M', 'G', 'T', 'P'];

/** Three digits that matter, and no exponent for the numbers that people read: 0.0123, 1.23, 123, 1234. */
function digits(value) {
  const magnitude = Math.abs(value);
  if (magnitude === 0) return '0';
  if (magnitude >= 100) return value.toFixed(0);
  return value.toPrecision(3);
}

function scaled(value, units, base) {
  let unit = 0;
  let rest = value;
  // 999.5 would be rounded to 1000.
  while (rest >= (unit === 0 ? base : base - 0.5) && unit < units.length - 1) {
    rest /= base;
    unit += 1;
  }
  return { text: unit === 0 ? String(rest) : digits(rest), unit: units[unit] };
}

/** Bytes in binary units: "12 B", "4.77 MiB". */
export function formatBytes(bytes) {
  const { text, unit } = scaled(bytes, BYTES, 1024);
  return `${text} ${unit}`;
}

/** A count in decimal units: "950", "1.25 M". */
export function formatCount(count) {
  const { text, unit } = scaled(count, COUNTS, 1000);
  return unit === '' ? text : `${text} ${unit}`;
}

/** A duration given in milliseconds: "850 ns", "12.3 µs", "4.56 ms", "1.23 s". */
export function formatDuration(milliseconds) {
  if (milliseconds >= 1000) return `${digits(milliseconds / 1000)} s`;
  if (milliseconds >= 1) return `${digits(milliseconds)} ms`;
  if (milliseconds >= 1e-3) return `${digits(milliseconds * 1e3)} µs`;
  return `${digits(milliseconds * 1e6)} ns`;
}

/** A fraction as a percentage with one decimal: "96.1 %". */
export function formatPercent(fraction) {
  return `${(100 * fraction).toFixed(1)} %`;
}

/** A rate with three digits that matter, "-" where it is not known. */
export function formatRate(rate) {
  return Number.isFinite(rate) && rate > 0 ? digits(rate) : '-';
}

/** A number of a tensor, short: integers as they are, others with five digits that matter. */
export function formatNumber(value) {
  if (typeof value === 'bigint' || Number.isInteger(value) || !Number.isFinite(value)) return String(value);
  return String(Number(value.toPrecision(5)));
}

/** A number of things: "1 node", "3 nodes". */
export function formatPlural(count, noun) {
  return `${count} ${noun}${count === 1 ? '' : 's'}`;
}

/** A shape with its symbolic names: "[batch, 3, 224, 224]"; null is one that a model does not tell. */
export function formatShape(shape) {
  return shape === null ? 'unknown' : `[${shape.join(', ')}]`;
}

/**
 * Text of a file as it may be printed: control characters, which a terminal would obey, and characters that turn the
 * direction of writing, are written as escapes.
 */
export function printable(text) {
  return String(text).replace(
    /[\u0000-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}
