// `npm run bench -- loading`: what loading costs for each type in which weights are stored, beside float16. The models are
// products with square matrices. Linux only: it reads `/proc/self/status`.

import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs, promisify } from 'node:util';
import { fileURLToPath } from 'node:url';
import { median } from 'd3-array';
import { Output } from '../../packages/cli/lib/output.mjs';
import { withProgress } from '../../packages/cli/lib/progress.mjs';
import * as writer from '../../__test__/onnx/model-writer.mjs';
import { entry, withUsage } from '../../scripts/process.mjs';

const USAGE = `usage: npm run bench -- loading [OPTION ...]

  --filter RE     only types that match
  --weights N     millions of weights per model (16)
  --rounds N      how often everything is measured (5)`;

/** Rows and columns of each matrix. */
const SIZE = 1024;

/** Weights per scale of types in blocks. */
const BLOCK = 32;

const BFLOAT16 = 16;

const WORKER = fileURLToPath(new URL('load.mjs', import.meta.url));

/** All models are compared with this one. */
const YARDSTICK = 'float16';

/** @typedef {{ load: number, run: number, peak: number, left: number }} Sample see load.mjs */

/** The elements of matrix `index`, in [-127, 127]; each matrix has others. @param {number} index */
function elements(index) {
  let state = (index + 1) * 2654435761;
  return Int8Array.from({ length: SIZE * SIZE }, () => {
    state = (Math.imul(state, 1664525) + 1013904223) | 0;
    return (state >> 24) % 128;
  });
}

/** The upper halves of float32 numbers. @param {Float32Array} floats */
const upperHalves = (floats) => Uint16Array.from(new Uint32Array(floats.buffer), (bits) => bits >>> 16);

/** The lower halves of bytes, two in each. @param {Int8Array} bytes */
const halves = (bytes) => Uint8Array.from({ length: bytes.length / 2 }, (_, i) => (bytes[2 * i] & 15) | ((bytes[2 * i + 1] & 15) << 4));

/** Float16 numbers of integers below 2048, scaled by 2^-10. @param {Int8Array} all */
function float16(all) {
  const bits = Uint16Array.from({ length: 128 }, (_, n) => {
    if (n === 0) return 0;
    const exponent = 31 - Math.clz32(n);
    return ((exponent - 10 + 15) << 10) | ((n << (10 - exponent)) & 1023);
  });
  return Uint16Array.from(all, (n) => (n < 0 ? 0x8000 | bits[-n] : bits[n]));
}

const scaled = (/** @type {Int8Array} */ all) => Float32Array.from(all, (n) => n / 1024);

/**
 * Stored floats that are cast to `dataType`, the type of the product.
 *
 * @param {number} type
 * @param {(all: Int8Array) => ArrayBufferView} store
 */
const floats = (type, store, isCast = true) => ({
  weights: (/** @type {string} */ name, /** @type {Int8Array} */ all) => [writer.weight(name, [SIZE, SIZE], store(all), type)],
  nodes: (/** @type {string} */ name) => (isCast ? [writer.node('Cast', [name], [`${name}_read`], { to: { i: writer.FLOAT } })] : []),
  read: (/** @type {string} */ name) => (isCast ? `${name}_read` : name),
});

/**
 * Stored integers that DequantizeLinear reads.
 *
 * @param {number} type
 * @param {(all: Int8Array) => ArrayBufferView} store
 * @param {'matrix' | 'column' | 'block'} per what has a scale of its own
 */
const quantized = (type, store, per) => {
  /** @type {number[]} */
  const dims = { matrix: [], column: [SIZE], block: [SIZE / BLOCK, SIZE] }[per];
  /** @type {Record<string, object>} */
  const attributes = { matrix: {}, column: { axis: { i: 1 } }, block: { axis: { i: 0 }, block_size: { i: BLOCK } } }[per];
  const count = dims.reduce((product, size) => product * size, 1);
  const scale = new Float32Array(count).fill(1 / 1024);
  return {
    weights: (/** @type {string} */ name, /** @type {Int8Array} */ all) => [
      writer.weight(name, [SIZE, SIZE], store(all), type),
      writer.weight(`${name}_scale`, dims, scale),
    ],
    nodes: (/** @type {string} */ name) => [writer.node('DequantizeLinear', [name, `${name}_scale`], [`${name}_read`], attributes)],
    read: (/** @type {string} */ name) => `${name}_read`,
  };
};

const FOUR_BITS = /** @type {const} */ ([
  ['int4', writer.INT4, halves],
  ['uint4', writer.UINT4, halves],
  ['int8', writer.INT8, (/** @type {Int8Array} */ all) => all],
]);

const TYPES = {
  float32: floats(writer.FLOAT, scaled, false),
  [YARDSTICK]: floats(writer.FLOAT16, float16),
  bfloat16: floats(BFLOAT16, (all) => upperHalves(scaled(all))),
  double: floats(writer.DOUBLE, (all) => Float64Array.from(all, (n) => n / 1024)),
  int16: quantized(writer.INT16, (all) => Int16Array.from(all), 'matrix'),
  ...Object.fromEntries(
    FOUR_BITS.flatMap(([name, type, store]) =>
      /** @type {const} */ (['matrix', 'column', 'block']).map((per) => [`${name}, a scale per ${per}`, quantized(type, store, per)]),
    ),
  ),
};

/** The bytes of a model of `count` matrices. @param {ReturnType<typeof floats>} type @param {number} count */
function modelOf(type, count) {
  const names = Array.from({ length: count }, (_, i) => `w${i}`);
  return writer.writeModel({
    inputs: [writer.value('x', writer.FLOAT, ['rows', SIZE])],
    outputs: [writer.value(`y${count - 1}`, writer.FLOAT, ['rows', SIZE])],
    weights: names.flatMap((name, i) => type.weights(name, elements(i))),
    nodes: names.flatMap((name, i) => [...type.nodes(name), writer.node('MatMul', [i === 0 ? 'x' : `y${i - 1}`, type.read(name)], [`y${i}`])]),
    opset: 21,
  });
}

function readArguments() {
  const options = /** @type {const} */ ({
    filter: { type: 'string', default: '' },
    weights: { type: 'string', default: '16' },
    rounds: { type: 'string', default: '5' },
  });
  return withUsage(USAGE, () => {
    const { values } = parseArgs({ options });
    const [weights, rounds] = [values.weights, values.rounds].map(Number);
    if (![weights, rounds].every((value) => Number.isInteger(value) && value > 0)) throw new Error('numbers must be integers from 1');
    return { filter: new RegExp(values.filter), weights: weights * 1e6, rounds };
  });
}

await entry(async () => {
  const { filter, weights, rounds } = readArguments();
  const count = Math.ceil(weights / SIZE ** 2);
  const folder = mkdtempSync(join(tmpdir(), 'webnn-loading-'));
  try {
    const types = Object.entries(TYPES).filter(([name]) => name === YARDSTICK || filter.test(name));
    const processes = types.flatMap(([name]) => ['path', 'bytes'].map((from) => ({ name, from })));
    /** @type {Map<string, Sample[]>} */
    const taken = new Map(processes.map(({ name, from }) => [`${name}, ${from}`, []]));
    const fileOf = (/** @type {string} */ name) => join(folder, `${name.replaceAll(/\W+/g, '-')}.onnx`);
    types.forEach(([name, type]) => writeFileSync(fileOf(name), modelOf(type, count)));
    let done = 0;
    // All take turns: changes of the machine's state then affect all of them.
    const measure = async (/** @type {(done: number) => void} */ advance) => {
      for (let round = 0; round < rounds; round++) {
        for (const { name, from } of processes) {
          const parameters = JSON.stringify({ file: fileOf(name), from, depth: SIZE });
          const { stdout } = await promisify(execFile)(process.execPath, [WORKER, parameters]);
          taken.get(`${name}, ${from}`)?.push(JSON.parse(stdout));
          advance(++done);
        }
      }
    };
    await withProgress('loading', measure, rounds * processes.length);
    const each = (/** @type {string} */ name, /** @type {string} */ from, /** @type {(sample: Sample) => number} */ of) =>
      /** @type {number} */ (median(taken.get(`${name}, ${from}`) ?? [], of)) / (count * SIZE ** 2);
    const nanoseconds = (/** @type {Sample} */ { load, run }) => Math.max(0, load - run) * 1e9;
    const rows = processes.map(({ name, from }) => [
      name,
      from,
      each(name, from, nanoseconds).toFixed(2),
      (each(name, from, nanoseconds) / each(YARDSTICK, from, nanoseconds)).toFixed(2),
      each(name, from, ({ peak }) => peak).toFixed(2),
      each(name, from, ({ left }) => left).toFixed(2),
    ]);
    const output = new Output();
    output.heading(`${count} matrices of ${SIZE} x ${SIZE} weights; medians of ${rounds}`);
    output.table(['weights', 'loaded from', 'CPU ns per weight', `times ${YARDSTICK}`, 'peak bytes per weight', 'bytes left'], rows);
  } finally {
    rmSync(folder, { recursive: true });
  }
});
