// What the benchmark makes of its numbers.

import assert from 'node:assert/strict';
import test from 'node:test';
import { compareOutput, QUANTIZATION_STEPS, TOLERANCES, worst } from '../../bench/check.mjs';
import { forShares, strongest } from '../../bench/limits.mjs';
import { parseCacheSize, parseMachineTime, parseProcessTime } from '../../bench/machine.mjs';
import { DIRTY_ABOVE, geometricMean, isDirty, summarizeSamples } from '../../packages/cli/lib/statistics.mjs';
import { shareOfLimit, workOf } from '../../bench/work.mjs';
import { defined } from '../lib/types.mjs';

const sample = (ms, foreign = 0) => ({ ms, iterations: 1, foreign });
const float32 = (...numbers) => ({ dataType: 'float32', data: Float32Array.from(numbers) });
const isRight = ({ error, allowed }) => error <= allowed;

test('a sample is dirty when others kept more than the stated load', () => {
  assert.equal(isDirty(sample(1, DIRTY_ABOVE)), false);
  assert.equal(isDirty(sample(1, DIRTY_ABOVE + 0.01)), true);
});

test('the median is of all samples, the fastest one is clean', () => {
  assert.deepEqual(summarizeSamples([sample(5), sample(1, 1), sample(3)]), { median: 3, fastest: 3, clean: 2, foreign: 1 / 3 });
});

test('without a clean sample the fastest one is of all', () => {
  assert.deepEqual(summarizeSamples([sample(5, 1), sample(4, 1)]), { median: 4.5, fastest: 4, clean: 0, foreign: 1 });
});

test('the geometric mean', () => {
  assert.ok(Math.abs(defined(geometricMean([2, 8])) - 4) < 1e-12);
  assert.equal(geometricMean([]), null);
});

test('CPU time of the machine leaves out waiting, and names what was stolen', () => {
  const text = 'cpu  10 20 30 1000 50 6 7 80 0 0\ncpu0 1 2 3 4 5 6 7 8 0 0\n';
  assert.deepEqual(parseMachineTime(text), { busy: 730, steal: 800 });
});

test('CPU time of a process whose name looks like fields', () => {
  const text = '12 (a) b (c) 1) S 1 2 3 4 5 6 7 8 9 10 30 12 0 0 20 0 1 0 99';
  assert.equal(parseProcessTime(text), 420);
});

test('sizes of caches', () => {
  assert.deepEqual(['512', '32K\n', '260M'].map(parseCacheSize), [512, 32 * 2 ** 10, 260 * 2 ** 20]);
});

test('float32 outputs are compared in standard deviations of the reference', () => {
  const expected = float32(-1, 1, -1, 1);
  const off = (difference) => compareOutput(float32(-1 + difference, 1, -1, 1), expected, 'float32');
  assert.equal(isRight(off(0)), true);
  assert.equal(isRight(off(TOLERANCES.float32)), true);
  assert.equal(isRight(off(3 * TOLERANCES.float32)), false);
  assert.equal(isRight(compareOutput(float32(-1.01, 1, -1, 1), expected, 'float16')), true);
});

test('what is no number, or not there, is wrong', () => {
  assert.equal(isRight(compareOutput(float32(NaN, 1), float32(0, 1), 'float32')), false);
  assert.equal(isRight(compareOutput(float32(0, NaN), float32(0, 1), 'int8')), false);
  assert.equal(isRight(compareOutput(float32(1), float32(1, 2), 'float32')), false);
  assert.equal(isRight(compareOutput(float32(Infinity), float32(1), 'float32')), false);
});

test('an output without any deviation is compared with its value', () => {
  assert.equal(isRight(compareOutput(float32(3.5), float32(3.5), 'float32')), true);
  assert.equal(isRight(compareOutput(float32(3.6), float32(3.5), 'float32')), false);
  assert.equal(isRight(compareOutput(float32(1, 1), float32(0, 0), 'float32')), false);
});

test('quantized outputs are compared in quantization steps', () => {
  const expected = float32(0, 0.5, 1, 3);
  assert.equal(compareOutput(float32(0, 0.5, 2, 3), expected, 'int8').error, QUANTIZATION_STEPS);
  assert.equal(isRight(compareOutput(float32(0, 0.5, 2, 3), expected, 'int8')), true);
  assert.equal(isRight(compareOutput(float32(0, 0.5, 2.5, 3), expected, 'int8')), false);
  assert.equal(compareOutput(float32(2, 2), float32(2, 2), 'int8').error, 0);
});

test('outputs of dynamically quantized models are compared with what quantization changed', () => {
  const [expected, unquantized] = [float32(0, 1, 2, 3), float32(0.5, 0.5, 2.5, 2.5)];
  const off = (...values) => compareOutput(float32(...values), expected, 'int8', unquantized);
  assert.equal(off(0, 1, 2, 3).error, 0);
  assert.equal(off(0, 1, 2.5, 2.5).error, Math.SQRT1_2);
  assert.equal(isRight(off(1, 1, 2, 3)), true);
  assert.equal(isRight(off(1.5, 1, 2, 3)), false);
  for (const values of [
    [NaN, 1, 2, 3],
    [0, 1, 2],
    [Infinity, 1, 2, 3],
  ]) {
    assert.equal(isRight(off(...values)), false);
  }
});

test('the worst comparison is the one furthest above what it is allowed', () => {
  const [a, b] = [
    { error: 1, allowed: 2, unit: 'largest' },
    { error: 0.5, allowed: 0.1, unit: 'largest' },
  ];
  assert.equal(worst([a, b]), b);
  assert.equal(worst([b, a]), b);
});

const value = (id, kind, bytes) => ({ id, kind, bytes });

test('work: constants count once, those that are selected from as much as is selected', () => {
  /** @type {any} its parts that count */
  const description = {
    compiled: {
      values: [
        value(0, 'input', 8),
        value(1, 'constant', 1000),
        value(2, 'node', 40),
        value(3, 'constant', 600),
        value(4, 'node', 20),
        value(5, 'constant', 300),
      ],
      nodes: [
        { operator: 'gather', inputs: [1, 0], outputs: [2] },
        { operator: 'matmul', inputs: [2, 3, null], outputs: [4] },
        { operator: 'gather', inputs: [5, 0], outputs: [2] },
        { operator: 'matmul', inputs: [4, 3, 5], outputs: [4] },
      ],
      inputs: [{ name: 'x', value: 0 }],
      outputs: [{ name: 'y', value: 4 }],
    },
    steps: [{ multiplyAdds: 0 }, { multiplyAdds: 70 }, { multiplyAdds: 30 }],
  };
  assert.deepEqual(workOf(description), { multiplyAdds: 100, bytes: 40 + 600 + 300 + 8 + 20 });
});

test('the share of the limit is that of computing or of reading, whichever is more', () => {
  const limits = { fmaGflops: 100, int8Gops: 400, readGbps: 10, cacheBytes: 2e6 };
  const work = { multiplyAdds: 50e6, bytes: 1e6 };
  assert.deepEqual(shareOfLimit(work, 'float32', limits, 2), { share: 0.5, bound: 'compute' });
  assert.deepEqual(shareOfLimit(work, 'int8', limits, 2), { share: 0.125, bound: 'compute' });
  assert.deepEqual(shareOfLimit(work, 'int8', { ...limits, int8Gops: null }, 2), { share: 0.5, bound: 'compute' });
  assert.deepEqual(shareOfLimit({ ...work, bytes: 15e6 }, 'float32', limits, 2), { share: 0.75, bound: 'memory' });
  assert.deepEqual(shareOfLimit({ ...work, bytes: 15e6 }, 'float32', { ...limits, cacheBytes: 15e6 }, 2), { share: 0.5, bound: 'compute' });
});

test('of two measurements of the machine the larger numbers count', () => {
  /** @returns {import('../../bench/limits.mjs').Limits[]} */
  const limits = (fmaGflops, int8Gops, gbps) => [
    {
      threads: 1,
      fmaGflops,
      int8Gops,
      bf16Gflops: null,
      reading: [
        { bytes: 1, pages: 'small', gbps },
        { bytes: 1, pages: 'huge', gbps: 7 },
      ],
    },
  ];
  const [merged] = strongest(limits(100, 300, 9), limits(110, 200, 8));
  assert.deepEqual(merged, limits(110, 300, 9)[0]);
  assert.deepEqual(forShares(merged, { cacheBytes: 5 }), { fmaGflops: 110, int8Gops: 300, readGbps: 9, cacheBytes: 5 });
});
