// Canceled work stops early: loads whose signal aborts, and runs of models that are destroyed.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { loadModel } from '../../onnx.js';
import { FLOAT, INT64, node, value, weight, writeModel } from './model-writer.mjs';

/** Milliseconds of all threads that `work` takes, and what follows until the process is at rest. */
async function cpu(/** @type {() => Promise<unknown>} */ work) {
  const used = () => {
    const { user, system } = process.cpuUsage();
    return (user + system) / 1000;
  };
  const start = used();
  await work();
  for (let before = -Infinity, now = used(); now - before > 10; ) {
    await sleep(50);
    [before, now] = [now, used()];
  }
  return used() - start;
}

/** A model whose import takes long: running sums of constants, each quadratic in the reference. */
function longImport() {
  const count = 4096;
  const nodes = Array.from({ length: 60 }, (_, at) => node('CumSum', [at === 0 ? 'w' : `s${at - 1}`, 'axis'], [`s${at}`]));
  return writeModel({
    inputs: [value('x', FLOAT, [count])],
    outputs: [value('y', FLOAT, [count])],
    nodes: [...nodes, node('Add', ['x', 's59'], ['y'])],
    weights: [weight('w', [count], new Float32Array(count)), weight('axis', [], BigInt64Array.of(0n))],
  });
}

test('a load whose signal aborts ends', { timeout: 300_000 }, async () => {
  const bytes = longImport();
  const whole = await cpu(async () => (await loadModel(bytes)).destroy());
  assert.ok(whole > 200, `${whole} ms: too short to be told from nothing`);
  const aborted = await cpu(async () => {
    const abort = new AbortController();
    const loading = loadModel(bytes, { signal: abort.signal });
    setTimeout(() => abort.abort(), whole / 20);
    await assert.rejects(loading, { name: 'AbortError' });
  });
  assert.ok(aborted < whole / 2, `${aborted} of ${whole} ms`);
});

test('a run ends on the host when its model is destroyed', { timeout: 300_000 }, async () => {
  const model = writeModel({
    inputs: [value('x', FLOAT, ['n'])],
    outputs: [value('y', FLOAT, ['m']), value('places', INT64, ['m'])],
    nodes: [node('Unique', ['x'], ['y', 'places'])],
  });
  const x = new Float32Array(12_000_000).map((_, at) => (at * 7919) % 1_000_003);
  const load = () => loadModel(model);
  const loaded = await load();
  const whole = await cpu(() => loaded.run({ x }));
  loaded.destroy();
  assert.ok(whole > 200, `${whole} ms: too short to be told from nothing`);
  const destroyed = await load();
  const part = await cpu(async () => {
    const running = destroyed.run({ x });
    setTimeout(() => destroyed.destroy(), whole / 20);
    await assert.rejects(running, { code: 'ERR_WEBNN_DESTROYED' });
  });
  assert.ok(part < whole / 2, `${part} of ${whole} ms`);
});
