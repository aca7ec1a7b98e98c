import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { temporaryFolder } from '../lib/folders.mjs';
import { resultOf } from './helpers.mjs';

test('a process that computes can start others that do', async () => {
  const sums = await resultOf(
    `import { spawn } from 'node:child_process';
     const context = await helpers.ml.createContext();
     const { run, y } = await helpers.slowGraph(context, 50);
     for (let i = 0; i < 5; i++) run();
     const end = context.readTensor(y);
     const program = \`
       const { ml } = require('webnn-node');
       ml.createContext().then(async (context) => {
         const tensor = await context.createTensor({ dataType: 'int8', shape: [8], readable: true, writable: true });
         context.writeTensor(tensor, new Int8Array(8).fill(3));
         console.log(new Int8Array(await context.readTensor(tensor)).reduce((a, b) => a + b));
       });\`;
     const sums = await Promise.all([1, 2, 3].map(() => new Promise((resolve) => {
       let text = '';
       const child = spawn(process.execPath, ['-e', program], { stdio: ['ignore', 'pipe', 'inherit'] });
       child.stdout.on('data', (data) => { text += data; });
       child.on('close', () => resolve(Number(text)));
     })));
     await end;
     console.log(JSON.stringify(sums));`,
  );
  assert.deepEqual(sums, [24, 24, 24]);
});

test('processes of a cluster compute side by side', async (t) => {
  const folder = temporaryFolder(t, {
    'member.mjs': `
      const helpers = await import(process.argv[2]);
      const context = await helpers.ml.createContext({ numThreads: 1 });
      const { run, links, x, y } = await helpers.slowGraph(context, 20);
      context.writeTensor(x, new Float32Array(helpers.SLOW_ELEMENTS).fill(1));
      run();
      const [value] = await helpers.read(context, y);
      process.send(Math.abs(value - helpers.chained(1, links)) < 1e-3, () => process.disconnect());`,
  });
  const results = await resultOf(
    `import cluster from 'node:cluster';
     cluster.setupPrimary({ exec: ${JSON.stringify(join(folder, 'member.mjs'))}, args: [helpers.HELPERS], execArgv: [] });
     const results = [];
     cluster.on('message', (_, result) => results.push(result));
     const codes = await Promise.all([1, 2, 3].map(() => new Promise((resolve) => {
       cluster.fork().on('exit', resolve);
     })));
     console.log(JSON.stringify([...results, ...codes]));`,
  );
  assert.deepEqual(results, [true, true, true, 0, 0, 0]);
});

test('forked processes compute and send their results', async (t) => {
  const folder = temporaryFolder(t, {
    'child.mjs': `
      const helpers = await import(process.argv[2]);
      const context = await helpers.ml.createContext({ numThreads: 1 });
      const tensor = await context.createTensor(helpers.floats(4));
      process.once('message', async (values) => {
        context.writeTensor(tensor, Float32Array.from(values));
        process.send([...await helpers.read(context, tensor)], () => process.disconnect());
      });
      process.send('ready');`,
  });
  const results = await resultOf(
    `import { fork } from 'node:child_process';
     const context = await helpers.ml.createContext();
     const { run, y } = await helpers.slowGraph(context, 50);
     for (let i = 0; i < 5; i++) run();
     const end = context.readTensor(y);
     const results = await Promise.all([1, 2, 3].map((number) => new Promise((resolve, reject) => {
       const child = fork(${JSON.stringify(join(folder, 'child.mjs'))}, [helpers.HELPERS], { execArgv: [] });
       const received = [];
       child.on('message', (message) => {
         received.push(message);
         if (message === 'ready') child.send([number, 0.5, -1, 0]);
       });
       child.on('error', reject);
       child.on('exit', (code) => resolve([...received, code]));
     })));
     await end;
     console.log(JSON.stringify(results));`,
  );
  assert.deepEqual(
    results,
    [1, 2, 3].map((number) => ['ready', [number, 0.5, -1, 0], 0]),
  );
});
