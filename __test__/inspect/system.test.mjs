import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';
import { availableParallelism, totalmem } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';

import { GPU_WANTED, resultOf } from '../runtime/helpers.mjs';
import { describeGraph, squeezed, systemInfo } from './helpers.mjs';

test('the system is described', async () => {
  const info = systemInfo();
  const { version, isa, features, logicalCores, threads, memoryLimitBytes, environment, limits } = info;
  assert.equal(Object.keys(info).length, 10);
  assert.match(version, /^\d+\.\d+\.\d+/);
  const { context, graph } = await squeezed({ accelerated: false });
  assert.equal(isa, describeGraph(graph).isa);
  assert.equal(threads, describeGraph(graph).threads);
  assert.ok(features.every((name) => typeof name === 'string'));
  assert.equal(logicalCores, availableParallelism());
  assert.ok(memoryLimitBytes === null || (memoryLimitBytes > 0 && memoryLimitBytes <= totalmem()));
  assert.equal(limits.maxTensorByteLength, context.opSupportLimits().maxTensorByteLength);
  assert.deepEqual({ maxRank: limits.maxRank, maxTensorCount: limits.maxTensorCount }, { maxRank: 8, maxTensorCount: 8192 });
  for (const { name, value, meaning, problem } of environment) {
    assert.match(name, /^WEBNN_[A-Z_]+$/);
    assert.equal(value, process.env[name] || null);
    assert.ok(meaning.length > 10);
    assert.equal(problem, null);
  }
});

/**
 * The folder of this process's control group for memory, and the name of its limit.
 *
 * @returns {{ folder: string, name: string }}
 */
function memoryGroup() {
  const groups = readFileSync('/proc/self/cgroup', 'utf8');
  const first = /^\d+:(?:[^:]*,)?memory(?:,[^:]*)?:(.*)$/m.exec(groups)?.[1];
  if (first !== undefined) return { folder: join('/sys/fs/cgroup/memory', first), name: 'memory.limit_in_bytes' };
  return { folder: join('/sys/fs/cgroup', /^0::(.*)$/m.exec(groups)?.[1] ?? ''), name: 'memory.max' };
}

test('the limit of a control group holds for the groups within it', { skip: process.platform !== 'linux' }, async (t) => {
  const { folder, name } = memoryGroup();
  const outer = join(folder, `webnn-test-${process.pid}`);
  const inner = join(outer, 'inner');
  t.after(() => [inner, outer].filter(existsSync).forEach((group) => rmdirSync(group)));
  try {
    mkdirSync(inner, { recursive: true });
    writeFileSync(join(outer, name), String(2 ** 30));
  } catch (error) {
    t.skip(`this user may not make control groups here: ${/** @type {Error} */ (error).message}`);
    return;
  }
  const limit = await resultOf(
    `import { writeFileSync } from 'node:fs';
     writeFileSync(${JSON.stringify(join(inner, 'cgroup.procs'))}, String(process.pid));
     const { systemInfo } = await import('webnn-node/inspect');
     console.log(systemInfo().memoryLimitBytes);`,
    { helpers: false },
  );
  assert.equal(limit, 2 ** 30);
});

test('GPUs are listed with what they are used for, or why they are not', async () => {
  const { gpuAdapters, gpuReason } = systemInfo();
  for (const { name, type, backend, driver, features, maxBufferBytes, maxBindingBytes, check, unused, ...rest } of gpuAdapters) {
    assert.deepEqual(rest, {});
    assert.ok(name.length > 0 && typeof driver === 'string' && features.every((feature) => /^[A-Z0-9_]+$/.test(feature)));
    assert.ok(['discrete', 'integrated', 'virtual', 'software', 'other'].includes(type), type);
    assert.ok(['vulkan', 'metal', 'dx12'].includes(backend), backend);
    assert.ok(maxBufferBytes >= maxBindingBytes && maxBindingBytes >= 2 ** 27);
    assert.ok(unused === null || unused.length > 10, unused);
    assert.ok(check === null || check.verdict === 'right' || Object.values(check.families).some((problem) => problem !== null), name);
  }
  const usable = gpuAdapters.filter(({ unused }) => unused === null);
  assert.equal(gpuReason === null, usable.length > 0, gpuReason);
  const { graph } = await squeezed(GPU_WANTED);
  assert.deepEqual(graph.devices, [usable.length > 0 ? 'gpu' : 'cpu']);
});

const INFO = `
import { systemInfo } from 'webnn-node/inspect';
const { threads, isa, environment } = systemInfo();
const result = { threads, isa, problems: environment.flatMap(({ problem }) => problem ?? []) };
console.log(JSON.stringify({ ...result, ...Object.fromEntries(environment.map(({ name, value }) => [name, value])) }));`;

test('variables show', async () => {
  const env = { WEBNN_NUM_THREADS: '3', WEBNN_ISA: 'portable', WEBNN_FILL_ARENA: '' };
  const { threads, isa, WEBNN_NUM_THREADS, WEBNN_FILL_ARENA } = await resultOf(INFO, { env });
  assert.deepEqual({ threads, isa, WEBNN_NUM_THREADS, WEBNN_FILL_ARENA }, { threads: 3, isa: 'portable', WEBNN_NUM_THREADS: '3', WEBNN_FILL_ARENA: null });
});

test('a variable that makes no sense is a problem that names it, its value and what is expected', async () => {
  for (const [name, value, unknown] of [
    ['WEBNN_NUM_THREADS', 'many', 'threads'],
    ['WEBNN_ISA', 'mmx', 'isa'],
    ['WEBNN_DISABLE_PASSES', 'everything'],
    ['WEBNN_FILL_ARENA', 'yes'],
    ['WEBNN_KEPT_SIZES', '0'],
    ['WEBNN_GPU_SOFTWARE', '2'],
    ['WEBNN_GPU_LIMITS', 'none'],
  ]) {
    const {
      problems: [problem, ...others],
      ...result
    } = await resultOf(INFO, { env: { [name]: value } });
    assert.ok(problem.startsWith(`${name} is ${JSON.stringify(value)}, expected `), problem);
    assert.deepEqual(others, []);
    for (const what of ['threads', 'isa']) assert.equal(result[what] === null, what === unknown, what);
  }
});
