// The benchmark on a GPU: its report, on made-up measurements, its targets and its command line.

import assert from 'node:assert/strict';
import test from 'node:test';
import { adapterOf } from '../../bench/gpu/run.mjs';
import { judge, TARGETS } from '../../bench/gpu/targets.mjs';
import { readOptions } from '../../bench/options.mjs';
import { gpuHeadOf, gpuMarkdown, gpuTablesOf, sharesOf, SOFTWARE } from '../../bench/report/gpu.mjs';
import { withParts } from '../../bench/report/results.mjs';
import { workOfSteps } from '../../bench/work.mjs';
import { defined } from '../lib/types.mjs';

const graph = { devices: ['gpu'], adapter: 'Card (vulkan)', multiplyAdds: 5e9, bytes: 2e9 };
/** @returns {import('../../bench/gpu/measure.mjs').GpuResult} */
const ours = (ms) => ({ engine: 'webnn-node', status: 'ok', version: '0.1.0', latencies: [3, 1, 2], bursts: [2 * ms, ms], graph });
/** @returns {import('../../bench/gpu/measure.mjs').GpuResult} */
const peer = (ms) => ({ engine: 'pytorch', status: 'ok', version: '2', latencies: [4, 4], bursts: [ms] });
const flops = (name, perSecond) => ({ name, ms: 1, perSecond, unit: /** @type {const} */ ('FLOP/s') });

/** @returns {import('../../bench/report/gpu.mjs').GpuRun} */
const run = () => ({
  date: '2026-11-20T12:00:00.000Z',
  machine: { cpu: 'CPU', cacheBytes: 2 ** 25, processors: 2, memoryBytes: 2 ** 34, system: 'Linux', node: 'v20' },
  adapter: { name: 'Card', type: 'discrete', backend: 'vulkan', driver: 'driver 1.2' },
  engines: ['webnn-node', 'pytorch'],
  without: null,
  versions: { 'webnn-node': '0.1.0', pytorch: '2' },
  limits: { copyGbps: 1000, float32Gflops: 50_000, float16Gflops: 100_000 },
  rates: [
    { name: 'copy', ms: 1, perSecond: 0.9e12, unit: 'B/s' },
    flops('product float32 2048', 30e12),
    flops('product float32 4096', 40e12),
    flops('product float16 4096', 64e12),
  ],
  models: [
    { name: 'gpt2_decode', kind: 'float32', results: [ours(4), peer(8)] },
    { name: 'minilm_l6_b8', kind: 'float32', results: [ours(4), peer(2)] },
    { name: 'odd', kind: 'float32', results: [ours(4), { engine: 'pytorch', status: 'unsupported', reason: 'no layer', latencies: [], bursts: [] }] },
  ],
});

/** @returns {import('../../bench/report/gpu.mjs').GpuRun} */
const software = () => ({
  ...run(),
  adapter: { name: 'llvmpipe', type: 'software', backend: 'vulkan', driver: 'Mesa' },
  limits: null,
  without: 'there is no CUDA',
});

test('the shares are those of the fastest throughput', () => {
  const {
    models: [model],
  } = run();
  assert.deepEqual(sharesOf(run(), model), { copy: 0.5, arithmetic: 0.05 });
  // Without another program, our own copy and our own largest product.
  const alone = defined(sharesOf({ ...run(), limits: null }, model));
  assert.ok(Math.abs(alone.copy - 5 / 9) < 1e-9 && alone.arithmetic === 2.5 / 40);
  assert.equal(sharesOf(run(), { name: 'none', kind: 'float32', results: [] }), null);
});

test('targets pass, fail, or were not measured', () => {
  const [, , { rows }] = gpuTablesOf(run());
  assert.equal(rows.length, TARGETS.length);
  assert.deepEqual(
    rows.map((row) => row.slice(2)),
    [
      ['60.0 %', 'pass'],
      ['80.0 %', 'pass'],
      ['–', 'not measured'],
      ['0.500 times', 'fail'],
      ['50.0 %', 'fail'],
      ['1.60 times', 'pass'],
      ['64.0 TFLOP/s', 'fail'],
    ],
  );
  const product = (kind) => (kind === 'float16' ? 40e12 : 10e12);
  const facts = { product, peak: () => undefined, copyShare: () => undefined, ratio: () => NaN };
  const verdicts = judge(facts).map(({ verdict }) => verdict);
  assert.deepEqual(verdicts, ['not measured', 'not measured', 'not measured', 'not measured', 'not measured', 'pass', 'pass']);
});

test('the tables of a run', () => {
  const [models, rates] = gpuTablesOf(run());
  for (const { head, rows } of gpuTablesOf(run())) assert.ok(rows.every((row) => row.length === head.length));
  assert.deepEqual(models.rows[0], ['gpt2_decode', 'webnn-node', '2.00', '2.90', '250', '–', '50.0 %', '5.0 %']);
  assert.deepEqual(models.rows[1], ['', 'pytorch', '4.00', '4.00', '125', '2.00×', '–', '–']);
  assert.deepEqual(models.rows[5], ['', 'pytorch', 'unsupported', '–', '–', '–', '–', '–']);
  assert.equal(models.head.at(-1), '>of arithmetic');
  assert.deepEqual(rates.rows[0], ['copy', '1.00', '900', 'GB/s']);
  assert.match(gpuHeadOf(run())[0], /Card \(discrete\), vulkan, driver driver 1\.2, .* webnn-node 0\.1\.0, pytorch 2\./);
});

test('a run on software says so, has no verdicts, and calls no product a peak', () => {
  const tables = gpuTablesOf(software());
  assert.deepEqual(
    tables.map(({ title }) => title),
    ['Models on the GPU', 'Rates of the GPU'],
  );
  assert.equal(tables[0].head.at(-1), '>of our largest product');
  assert.deepEqual(gpuHeadOf(software()).slice(1), [
    `${SOFTWARE}.`,
    'Without PyTorch: there is no CUDA.',
    'The peak of arithmetic was not measured in this run.',
  ]);
});

test('RESULTS.md keeps the part that was not measured', () => {
  const gpu = gpuMarkdown(run());
  assert.match(gpu, /^# Results on a GPU\n/);
  assert.match(gpu, /\n- pytorch, odd: unsupported: no layer\n/);
  const both = withParts('# Results of the benchmark\n\nold\n', { gpu });
  assert.ok(both.startsWith('# Results of the benchmark\n\nold\n\n# Results on a GPU\n'));
  const renewed = withParts(both, { cpu: '# Results of the benchmark\n\nnew\n' });
  assert.ok(renewed.startsWith('# Results of the benchmark\n\nnew\n\n# Results on a GPU\n') && renewed.endsWith(gpu.trim() + '\n'));
  assert.equal(withParts(renewed, { gpu: '# Results on a GPU\n\nother\n' }), '# Results of the benchmark\n\nnew\n\n# Results on a GPU\n\nother\n');
});

test('the adapter is the one that the graphs name', () => {
  const adapter = { name: 'Card', type: 'discrete', backend: 'vulkan', driver: '1', unused: null };
  /** @type {any} */
  const system = { gpuAdapters: [{ ...adapter, backend: 'gl' }, adapter], gpuReason: null };
  assert.equal(adapterOf(graph, system), adapter);
  assert.throws(
    () => adapterOf({ devices: ['cpu'], adapter: null }, { ...system, gpuReason: 'no driver' }),
    /computed on cpu, adapter null, expected a GPU: no driver/,
  );
});

test('the work of steps', () => {
  const steps = [
    { multiplyAdds: 2, bytesRead: 3, bytesWritten: 5 },
    { multiplyAdds: 10, bytesRead: 1, bytesWritten: 1 },
  ];
  assert.deepEqual(workOfSteps(steps), { multiplyAdds: 12, bytes: 10 });
});

test('the command line', () => {
  const { device, engines, gpuLimits, python } = readOptions(['--device', 'gpu', '--gpu-limits', 'f', '--python', 'p']);
  assert.deepEqual({ device, gpuLimits, python }, { device: 'gpu', gpuLimits: 'f', python: 'p' });
  assert.deepEqual(engines, ['webnn-node', 'pytorch', 'pytorch-compiled', 'pytorch-float16', 'pytorch-compiled-float16']);
  assert.deepEqual(readOptions(['--device', 'gpu', '--against', 'none']).engines, ['webnn-node']);
  assert.throws(() => readOptions(['--device', 'tpu']), { message: /--device is tpu, expected cpu or gpu/, exitCode: 2 });
  assert.throws(() => readOptions(['--device', 'gpu', '--against', 'ncnn']), { message: /--against names ncnn/, exitCode: 2 });
});
