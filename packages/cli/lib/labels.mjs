// Class names: reads label files, computes probabilities, finds the most likely classes.
import { max } from 'd3-array';
import { numbersOf } from 'webnn-node-text/elements';
import { Failure } from './errors.mjs';
import { readText } from './files.mjs';
import { formatShape, printable } from './format.mjs';

/** The sum of a float16 distribution may differ from 1 by this. */
const SUM_TOLERANCE = 1e-2;

/**
 * Reads labels: one per line, a JSON array, or a JSON object from index to label (like `id2label`).
 * @param {string} path
 * @returns {Promise<string[]>}
 * @throws {Failure} if the file cannot be read or holds no labels
 */
export async function readLabels(path) {
  const text = await readText(path, 'labels');
  const labels = /^\s*[[{]/.test(text) ? jsonLabels(text, path) : text.replace(/\s+$/, '').split(/\r?\n/);
  if (labels.length === 0 || labels[0] === '') throw new Failure(`${printable(path)}: the file has no labels`);
  return labels;
}

/**
 * @param {string} text
 * @param {string} path
 * @returns {string[]}
 */
function jsonLabels(text, path) {
  let parsed;
  try {
    parsed = JSON.parse(text);
  } catch (cause) {
    throw new Failure(`${printable(path)}: neither lines nor JSON: ${/** @type {Error} */ (cause).message}`, { cause });
  }
  const labels = Array.isArray(parsed) ? parsed : Array.from({ length: Object.keys(parsed).length }, (_, i) => parsed[i]);
  const wrong = labels.findIndex((label) => typeof label !== 'string');
  if (wrong !== -1) throw new Failure(`${printable(path)}: label ${wrong} is ${JSON.stringify(labels[wrong])}, expected a string`);
  return labels;
}

/**
 * Finds the output with a score per label.
 * @template {import('./types.mjs').Tensor & { name: string }} Output
 * @param {Output[]} outputs
 * @param {number} count of labels
 * @throws {Failure} if none has an axis of that size
 */
export function scoresAmong(outputs, count) {
  const found = outputs.find(({ shape }) => classAxis(shape, count) !== -1);
  if (found === undefined) {
    const shapes = outputs.map(({ name, shape }) => `${printable(name)} ${formatShape(shape)}`).join(', ');
    throw new Failure(`there are ${count} labels, but no output has an axis of that size: ${shapes}`);
  }
  return found;
}

/**
 * Returns the axis of the classes: the last one of that size that only axes of size 1 follow.
 * @param {readonly number[]} shape
 * @param {number} count
 */
function classAxis(shape, count) {
  const axis = shape.findLastIndex((dimension) => dimension !== 1);
  if (axis === -1) return count === 1 ? 0 : -1;
  return shape[axis] === count ? axis : -1;
}

/**
 * Whether numbers are already probabilities of classes.
 * @param {number[]} numbers
 */
function isDistribution(numbers) {
  const sum = numbers.reduce((total, value) => total + value, 0);
  return numbers.every((value) => value >= 0) && Math.abs(sum - 1) <= SUM_TOLERANCE;
}

/** @param {number[]} numbers */
function softmax(numbers) {
  const largest = max(numbers) ?? 0;
  const exponentials = numbers.map((value) => Math.exp(value - largest));
  const sum = exponentials.reduce((total, value) => total + value, 0);
  return exponentials.map((value) => value / sum);
}

/**
 * Returns the most likely classes of each item in the batch.
 * @param {import('./types.mjs').Tensor} output scores, see `scoresAmong`
 * @param {string[]} labels
 * @param {number} top number of classes
 * @returns {{ softmax: boolean, items: { index: number, label: string, probability: number }[][] }} `softmax`: whether
 *   the scores were not a distribution and softmax was applied
 */
export function classify(output, labels, top) {
  const numbers = Array.from(numbersOf(output));
  const rows = [];
  for (let start = 0; start < numbers.length; start += labels.length) rows.push(numbers.slice(start, start + labels.length));
  const needsSoftmax = !rows.every(isDistribution);
  const items = rows.map((row) =>
    (needsSoftmax ? softmax(row) : row)
      .map((probability, index) => ({ index, label: labels[index], probability }))
      .sort((a, b) => b.probability - a.probability)
      .slice(0, top),
  );
  return { softmax: needsSoftmax, items };
}
