// Models and child processes for the tests.

import { writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import * as processes from '../../../__test__/lib/processes.mjs';
import * as onnx from '../../../__test__/onnx/model-writer.mjs';

export const { BOOL, DOUBLE, FLOAT, FLOAT16, INT32, INT64, STRING, node, value, weight, writeModel } = onnx;
export const root = fileURLToPath(new URL('..', import.meta.url));
export const require = createRequire(import.meta.url);

/** `y = -x`, for as many numbers as are fed. */
export const negate = (elementType = FLOAT, shape = /** @type {(string | number)[]} */ (['n'])) =>
  writeModel({
    inputs: [value('x', elementType, shape)],
    outputs: [value('y', elementType, shape)],
    nodes: [node('Neg', ['x'], ['y'])],
  });

/** `sum = a + b` and `difference = a - b` of matrices with two columns. */
export const sums = () =>
  writeModel({
    inputs: [value('a', FLOAT, ['rows', 2]), value('b', FLOAT, ['rows', 2])],
    outputs: [value('sum', FLOAT, ['rows', 2]), value('difference', FLOAT, ['rows', 2])],
    nodes: [node('Add', ['a', 'b'], ['sum']), node('Sub', ['a', 'b'], ['difference'])],
  });

/** `y = x + w` of a million numbers: much memory and little work. */
export const million = () =>
  writeModel({
    inputs: [value('x', FLOAT, [1_000_000])],
    outputs: [value('y', FLOAT, [1_000_000])],
    nodes: [node('Add', ['x', 'w'], ['y'])],
    weights: [weight('w', [1_000_000], new Float32Array(1_000_000).fill(1))],
  });

/** Products of square matrices, one after the other: as much work as a test needs. */
export const products = (size, count) =>
  writeModel({
    inputs: [value('x', FLOAT, [size, size])],
    outputs: [value('y', FLOAT, [size, size])],
    nodes: Array.from({ length: count }, (_, at) => {
      const [from, to] = [at === 0 ? 'x' : `h${at}`, at === count - 1 ? 'y' : `h${at + 1}`];
      return node('MatMul', [from, 'w'], [to]);
    }),
    weights: [weight('w', [size, size], new Float32Array(size * size).fill(1 / size))],
  });

/** Text of a module that creates a session with some work for each run. */
export const BUSY = `
  import { InferenceSession, Tensor } from 'webnn-node-ort';
  import { products } from './__test__/support.mjs';
  const session = await InferenceSession.create(products(512, 20));
  const feeds = { x: new Tensor('float32', new Float32Array(512 * 512).fill(1), [512, 512]) };`;

/** Writes a file into a folder. @returns {string} its path */
export function write(directory, name, contents) {
  const path = join(directory, name);
  writeFileSync(path, contents);
  return path;
}

/** Runs Node to its end; what it prints comes without spaces at both ends. */
export async function runNode(args, options) {
  const { code, signal, stdout, stderr } = await processes.runNode(args, options);
  return { code, signal, stdout: stdout.trim(), stderr: stderr.trim() };
}

/** Runs the text of a module that can import this package by its name. */
export const runProgram = (program, ...args) => runNode(['--input-type=module', '--eval', program, ...args], { cwd: root });
