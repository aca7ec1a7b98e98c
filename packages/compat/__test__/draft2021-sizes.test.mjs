/** How often graphs of the draft of 2021 with unknown dimensions are compiled: seen on this thread, without the bridge. */

import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { after, before, beforeEach, describe, test } from 'node:test';
import { MLGraphBuilder, ml } from 'webnn-node';

const require = createRequire(import.meta.url);
const { Compiled } = require('../lib/draft2021/compiled.js');
const { Program } = require('../lib/draft2021/program.js');

const LENGTHS = [1, 4, 2, 4, 9, 1];
const { build } = MLGraphBuilder.prototype;
let context;
let builds;

before(async () => {
  context = await ml.createContext({ accelerated: false, extensions: ['dynamic-shapes'] });
  MLGraphBuilder.prototype.build = function count(outputs) {
    builds++;
    return build.call(this, outputs);
  };
});
beforeEach(() => {
  builds = 0;
});
after(() => {
  MLGraphBuilder.prototype.build = build;
  context.destroy();
});

/** Runs a graph of the input x, float32 [-1, 2], for all lengths; the results as lists by length. */
async function results(append) {
  const program = new Program(context);
  const x = program.input('float32', [-1, 2]);
  const graph = new Compiled(context, program, [await append(program, x)]);
  await graph.prepare();
  assert.equal(builds, 0, 'sizes are not known yet');
  const all = [];
  for (const length of LENGTHS) {
    const values = Float32Array.from({ length: 2 * length }, (_, i) => i - 2);
    const {
      buffer,
      outputs: [{ shape, byteOffset, byteLength }],
    } = await graph.compute([[x, [length, 2]]], [[x, new Uint8Array(values.buffer)]], [0]);
    all.push({ shape, data: [...new Float32Array(buffer.slice(byteOffset, byteOffset + byteLength))] });
  }
  graph.release();
  program.release();
  return all;
}

describe('a graph with unknown dimensions', () => {
  test('is built once for all sizes', async () => {
    const all = await results(async (program, x) => {
      const weights = await program.constant('float32', [2, 3], Float32Array.of(1, 2, 3, 4, 5, 6).buffer);
      const [product] = program.operator('matmul', [x, weights], {});
      const [limited] = program.operator('clamp', [product], { minValue: program.scalar('float32', 0) });
      return program.operator('reduceMax', [limited], { axes: [-1], keepDimensions: true })[0];
    });
    assert.equal(builds, 1);
    LENGTHS.forEach((length, at) => {
      const expected = Array.from({ length }, (_, i) => Math.max(0, 3 * (2 * i - 2) + 6 * (2 * i - 1)));
      assert.deepEqual(all[at], { shape: [length, 1], data: expected });
    });
  });

  test('is built for each choice of sizes where an operator needs numbers, and once for a choice that is kept', async () => {
    const all = await results((program, x) => program.operator('reshape', [x, [null]], {})[0]);
    assert.equal(builds, new Set(LENGTHS).size);
    LENGTHS.forEach((length, at) => {
      assert.deepEqual(all[at], { shape: [2 * length], data: Array.from({ length: 2 * length }, (_, i) => i - 2) });
    });
  });
});
