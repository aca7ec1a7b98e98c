import assert from 'node:assert/strict';
import test from 'node:test';
import { chromeTrace } from '../../lib/pages/profile.mjs';
import { HOSTILE, profile } from './by-hand.mjs';

const trace = JSON.parse(JSON.stringify(chromeTrace(profile)));
const slices = trace.traceEvents.filter(({ ph }) => ph === 'X');

test('a trace names its process and its only thread', () => {
  const names = trace.traceEvents.filter(({ ph }) => ph === 'M').map(({ name, args }) => [name, args.name]);
  assert.deepEqual(names, [
    ['process_name', 'webnn-node'],
    ['thread_name', 'steps'],
  ]);
  assert.ok(trace.traceEvents.every(({ pid, tid, ts }) => pid === 1 && tid === 1 && Number.isFinite(ts)));
  assert.deepEqual(trace.otherData, { isa: 'avx2', threads: '2' });
});

test('runs are slices in microseconds, and their steps lie within them', () => {
  const runs = slices.filter(({ cat }) => cat === 'run');
  assert.deepEqual(
    runs.map(({ name, ts, dur }) => [name, ts, dur]),
    [
      ['run 0', 0, 0.1],
      ['run 1', 1, 0.2],
      ['run 2', 2, 0.12],
    ],
  );
  const steps = slices.filter(({ cat }) => cat !== 'run');
  assert.equal(steps.length, 6);
  steps.forEach(({ ts, dur }, i) => {
    const run = runs[Math.floor(i / 2)];
    assert.ok(ts >= run.ts && ts + dur <= run.ts + run.dur);
  });
});

test('a step says what it computed, on which shapes, with which kernel', () => {
  const [step, copy] = slices.filter(({ cat }) => cat !== 'run');
  assert.equal(step.name, `matmul ${HOSTILE}`);
  assert.deepEqual(step.args, {
    step: 0,
    kernel: 'gemm',
    inputs: ['float32 2×3', 'float32 3×4'],
    outputs: ['float32 2×4'],
    epilogue: ['relu'],
    multiplyAdds: 24,
    bytesRead: 72,
    bytesWritten: 32,
  });
  assert.equal(copy.name, 'copy');
  assert.deepEqual(copy.args, { step: 1, kernel: 'copy', multiplyAdds: 0, bytesRead: 32, bytesWritten: 32 });
});
