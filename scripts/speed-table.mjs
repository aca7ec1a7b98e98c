// Reads bench/RESULTS.md: README.md and docs/speed.md show its comparison with onnxruntime-node and OpenVINO.

import { Failure } from './process.mjs';

const TIMES = { 'Times with 1 thread': 1, 'Times with 2 threads': 2 };
const MEMORY = 'Loading and memory';

/** @typedef {string[][]} Table a row of names and the rows below it */
/** @typedef {{ name: string, speeds: string[], memory: number }} ModelResults */
/** @typedef {{ models: ModelResults[], means: string[], memory: number }} Results */

/** @type {Record<string, number>} */
const UNITS = { KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30 };

/**
 * Parses a size such as `1.03 GiB` to bytes.
 * @param {string} text
 */
function bytesOf(text) {
  const [number, unit] = text.split(' ');
  if (!(unit in UNITS)) {
    throw new Failure(`bench/RESULTS.md: "${text}" is not a memory size`);
  }
  return Number(number) * UNITS[unit];
}

/**
 * Returns the rows of the table below a heading, each a list of cells.
 * @param {string} markdown
 * @param {string} heading
 * @returns {Table}
 */
function rowsBelow(markdown, heading) {
  const [, section] = markdown.split(`\n## ${heading}\n`);
  const lines =
    section
      ?.split('\n## ')[0]
      .split('\n')
      .filter((line) => line.startsWith('| ')) ?? [];
  if (lines.length < 2) {
    throw new Failure(`bench/RESULTS.md has no table below "${heading}"`);
  }
  return lines.map((line) =>
    line
      .slice(1, -1)
      .split('|')
      .map((cell) => cell.trim()),
  );
}

/**
 * @template T
 * @param {Map<string, T>} values
 * @param {string} key
 * @throws {Failure} when there is none
 */
function valueOf(values, key) {
  const value = values.get(key);
  if (value === undefined) {
    throw new Failure(`bench/RESULTS.md has no value for ${key}`);
  }
  return value;
}

/**
 * Returns the speed of webnn-node relative to `engine` by model, as in the report (`1.04×`).
 * @param {Table} table
 * @param {string} engine
 */
function speedsOf([header, ...rows], engine) {
  const column = header.indexOf(engine) + 1;
  if (column === 0) {
    throw new Failure(`bench/RESULTS.md has no column "${engine}"`);
  }
  const speeds = new Map(rows.map((row) => [row[0], row[column]]));
  const models = rows.filter(([, time]) => time !== '').map(([name]) => name);
  return { models, speeds, mean: valueOf(speeds, 'geometric mean') };
}

/**
 * Returns the resident bytes after all runs, above those before the library was loaded, by model and engine.
 * @param {Table} table
 * @returns {Map<string, number>}
 */
function memoryOf([header, ...rows]) {
  const column = header.indexOf('after runs');
  const bytes = new Map();
  let model;
  for (const row of rows) {
    model = row[0] || model;
    if (row[column] !== '–') {
      bytes.set(`${model} ${row[2]}`, bytesOf(row[column]));
    }
  }
  return bytes;
}

/**
 * Reads the report.
 *
 * @param {string} markdown of bench/RESULTS.md
 * @returns {Results} `speeds` in the order onnxruntime-node with 1 and 2 threads, OpenVINO with 1 and 2 threads;
 *   `memory` is webnn-node's as a fraction of onnxruntime-node's; the one of the result is the geometric mean
 * @throws {Failure} when a table is missing
 */
export function readResults(markdown) {
  const speeds = ['onnxruntime-node', 'openvino'].flatMap((engine) => Object.keys(TIMES).map((heading) => speedsOf(rowsBelow(markdown, heading), engine)));
  const bytes = memoryOf(rowsBelow(markdown, MEMORY));
  const models = speeds[0].models.map((name) => ({
    name,
    speeds: speeds.map((column) => valueOf(column.speeds, name)),
    memory: valueOf(bytes, `${name} webnn-node`) / valueOf(bytes, `${name} onnxruntime-node`),
  }));
  const memory = Math.exp(models.reduce((sum, model) => sum + Math.log(model.memory), 0) / models.length);
  return { models, means: speeds.map(({ mean }) => mean), memory };
}

const percent = (/** @type {number} */ part) => `${Math.round(part * 100)} %`;

const factor = (/** @type {string} */ speed) => speed.replace('×', '');

/**
 * Returns the claim in the first sentence of README.md.
 * @param {Results} results
 */
export function speedClaim({ models, means, memory }) {
  return `${factor(means[0])} times as fast as onnxruntime-node in ${percent(memory)} of its memory (geometric means of ${models.length} models with random weights`;
}

/**
 * Returns README.md's sentence about two threads.
 * @param {Results} results
 */
export function speedLoss({ models, means }) {
  const lost = models.filter(({ speeds }) => Number(factor(speeds[1])) < 1).length;
  return `On two threads, onnxruntime-node is faster on ${lost} of ${models.length} models; overall, webnn-node runs at ${factor(means[1])} times its speed (geometric mean).`;
}

/**
 * Returns the table of speeds as Markdown.
 * @param {Results} results
 */
export function speedTable({ models, means, memory }) {
  const row = (/** @type {string} */ name, /** @type {string[]} */ speeds, /** @type {number} */ part) => `| ${[name, ...speeds, percent(part)].join(' | ')} |`;
  return [
    '| Model | onnxruntime-node, 1 thread | 2 threads | OpenVINO, 1 thread | 2 threads | memory of onnxruntime-node |',
    '|---|--:|--:|--:|--:|--:|',
    ...models.map(({ name, speeds, memory: part }) => row(name, speeds, part)),
    row('geometric mean', means, memory),
  ].join('\n');
}
