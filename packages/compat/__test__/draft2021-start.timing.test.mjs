import assert from 'node:assert/strict';
import test from 'node:test';
import { run } from './helpers.mjs';

test('a thread that fails while it starts is not waited for', async () => {
  const lines = await run(`
    const threads = require('node:worker_threads');
    threads.Worker = class extends threads.Worker {
      constructor(file, options) { super(file, { ...options, workerData: { ...options.workerData, port: undefined } }); }
    };
    const { draft2021: { ml, MLGraphBuilder } } = require(COMPAT);
    const start = performance.now();
    try { new MLGraphBuilder(ml.createContext()); } catch (error) { console.log(error.name, error.message); }
    console.log(performance.now() - start < 30_000);`);
  assert.deepEqual(lines, ['OperationError the thread that computes for contexts of the draft of 2021 has ended', 'true']);
});
