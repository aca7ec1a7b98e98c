import assert from 'node:assert/strict';
import test from 'node:test';
import { formatBytes, formatCount, formatShare, formatTime } from '../../lib/format.mjs';
import { stepName, summarize } from '../../lib/pages/summary.mjs';
import { description, HOSTILE, profile } from './by-hand.mjs';

test('times are medians, rates count two operations per multiply-add', () => {
  const { runs, perStep, perOperator } = summarize(profile);
  assert.deepEqual(runs, {
    count: 3,
    median: 120,
    fastest: 100,
    slowest: 200,
    p95: 192,
    betweenSteps: 24, // of 100 - 80, 200 - 150, 120 - 96
    multiplyAdds: 24,
    bytes: 168,
    gflops: 48 / 120,
    gigabytesPerSecond: 168 / 120,
  });
  assert.deepEqual(perStep, [
    {
      index: 0,
      kernel: 'gemm',
      operator: 'matmul',
      operators: ['matmul', 'relu'],
      label: HOSTILE,
      node: 1,
      median: 80,
      share: 80 / 120,
      multiplyAdds: 24,
      bytes: 104,
      gflops: 48 / 80,
      gigabytesPerSecond: 104 / 80,
    },
    {
      index: 1,
      kernel: 'copy',
      operator: 'copy',
      operators: ['copy'],
      label: '',
      node: null,
      median: 20,
      share: 20 / 120,
      multiplyAdds: 0,
      bytes: 64,
      gflops: null,
      gigabytesPerSecond: 64 / 20,
    },
  ]);
  assert.deepEqual(
    perOperator.map(({ operator, steps, median }) => [operator, steps, median]),
    [
      ['matmul', 1, 80],
      ['copy', 1, 20],
    ],
  );
});

test('the time of an operator is the median of its sums, not the sum of its medians', () => {
  const twice = { ...description, steps: description.steps.map((step) => ({ ...step, operator: 'matmul' })) };
  const { perOperator } = summarize({ ...profile, description: twice });
  assert.equal(perOperator.length, 1);
  assert.equal(perOperator[0].median, 96); // of 80, 150, 96
  assert.deepEqual(perOperator[0].kernels, ['gemm', 'copy']);
});

test('a step says what it computes', () => {
  const fused = {
    ...description,
    compiled: { ...description.compiled, nodes: [{ ...description.compiled.nodes[1], operator: 'fused', epilogue: [], origins: [0, 3] }] },
  };
  const [step] = summarize({ ...profile, description: { ...fused, steps: description.steps.map((step) => ({ ...step, operator: 'fused' })) } }).perStep;
  assert.deepEqual(step.operators, ['neg', 'relu']);
  assert.equal(stepName(step), 'fused: neg · relu');
  assert.equal(stepName(summarize(profile).perStep[0]), 'matmul + relu');
});

test('a time of zero has no rate', () => {
  const still = {
    description,
    runs: [
      {
        start: 0,
        duration: 0,
        steps: [
          { start: 0, duration: 0 },
          { start: 0, duration: 0 },
        ],
      },
    ],
  };
  const { runs, perStep } = summarize(still);
  assert.equal(runs.gflops, null);
  assert.deepEqual([perStep[0].share, perStep[0].gflops, perStep[0].gigabytesPerSecond], [0, null, null]);
});

test('profiles without runs, or with runs that do not fit the steps, are refused', () => {
  assert.throws(() => summarize({ description, runs: [] }), new RangeError('the profile has no runs, expected at least 1'));
  const short = { description, runs: [...profile.runs, { start: 0, duration: 1, steps: [] }] };
  assert.throws(() => summarize(short), new RangeError('run 3 of the profile has 0 steps, expected 2'));
});

test('numbers are written with a unit and three digits', () => {
  assert.deepEqual([0, 7, 999.9, 4511, 1.2e6, 2.4e9, 7.2e12].map(formatTime), ['0 ns', '7.00 ns', '1.00 µs', '4.51 µs', '1.20 ms', '2.40 s', '7200 s']);
  assert.deepEqual([0, 999, 1500, 48e5, 7e10].map(formatBytes), ['0 B', '999 B', '1.46 KiB', '4.58 MiB', '65.2 GiB']);
  assert.deepEqual([0, 9999, 12345, 1.23e6, 4.56e9].map(formatCount), ['0', '9999', '12.3 thousand', '1.23 million', '4.56 billion']);
  assert.deepEqual([0, 0.00001, 0.0012, 0.123, 1].map(formatShare), ['0 %', '< 0.01 %', '0.12 %', '12.3 %', '100.0 %']);
});
