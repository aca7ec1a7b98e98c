import assert from 'node:assert/strict';
import { test } from 'node:test';
import { resultOf } from './helpers.mjs';

/** Counts what the process has; nothing where the system does not list it. */
const TOOLS = `
import { existsSync, readdirSync } from 'node:fs';
import { createRequire } from 'node:module';
const require = createRequire(process.cwd() + '/');
const length = (folder) => (existsSync(folder) ? readdirSync(folder).length : 0);
const counts = () => ({ threads: length('/proc/self/task'), handles: length('/proc/self/fd') });
`;

/** MiB that loading may take: the pages of the binary that are touched, and the JavaScript. 8 were measured. */
const LOADED = 32;

test('loading starts no thread, opens nothing and takes little memory', async (t) => {
  const { before, after, memory } = await resultOf(
    `${TOOLS}
     counts();
     const start = process.memoryUsage.rss();
     const before = counts();
     for (const name of ['webnn-node', 'webnn-node/auto', 'webnn-node/onnx', 'webnn-node/inspect']) require(name);
     const after = counts();
     console.log(JSON.stringify({ before, after, memory: (process.memoryUsage.rss() - start) / 2 ** 20 }));`,
    { helpers: false },
  );
  assert.deepEqual(after, before);
  t.diagnostic(`${memory.toFixed(1)} MiB`);
  assert.ok(memory < LOADED, `${memory} MiB`);
});

test('one environment loads the package again and again', async () => {
  const { results, first, last } = await resultOf(
    `${TOOLS}
     const once = async (i) => {
       for (const file of Object.keys(require.cache)) delete require.cache[file];
       const { ml } = require('webnn-node');
       const context = await ml.createContext({ numThreads: 1 });
       const tensor = await context.createTensor(descriptor);
       context.writeTensor(tensor, new Int32Array([i, -i]));
       const result = [...new Int32Array(await context.readTensor(tensor))];
       context.destroy();
       return [ml, result];
     };
     const descriptor = { dataType: 'int32', shape: [2], readable: true, writable: true };
     const copies = new Set();
     const results = [];
     let first;
     for (let i = 0; i < 100; i++) {
       const [ml, result] = await once(i);
       copies.add(ml);
       results.push(result);
       if (i === 20) first = counts();
     }
     if (copies.size !== 100) throw new Error(copies.size + ' copies');
     console.log(JSON.stringify({ results, first, last: counts() }));`,
    { helpers: false },
  );
  assert.deepEqual(
    results,
    Array.from({ length: 100 }, (_, i) => [i, i === 0 ? 0 : -i]),
  );
  for (const what of ['threads', 'handles']) {
    assert.ok(last[what] < first[what] + 10, `${what}: ${first[what]}, then ${last[what]}`);
  }
});
