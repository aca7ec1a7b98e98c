import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Worker } from 'node:worker_threads';
import { HELPERS, chained, floats, ml, resultOf } from './helpers.mjs';

const MODULE = JSON.stringify(HELPERS);

/** A worker with an ES module of its own; it tells what it has done through messages. */
function startWorker(source) {
  const program = `
    import(${MODULE}).then(async (helpers) => {
      const { parentPort } = await import('node:worker_threads');
      ${source}
    });`;
  return new Worker(program, { eval: true });
}

/** The next message of a worker, or its failure. */
const message = (worker) =>
  new Promise((resolve, reject) => {
    worker.once('message', resolve);
    worker.once('error', reject);
    worker.once('exit', () => reject(new Error('the worker ended without a message')));
  });

/** A worker's program that starts long work and tells before it is done. */
const LONG_WORK = `
  const context = await helpers.ml.createContext({ numThreads: 1 + (Math.random() < 0.5) });
  const { run, y } = await helpers.slowGraph(context, 50);
  for (let i = 0; i < 400; i++) run();
  globalThis.pending = context.readTensor(y);
  globalThis.unfinished = [context.createTensor(helpers.floats(1000)), helpers.chain(context, 200)];
  parentPort.postMessage('running');`;

test('a worker computes what the main thread does', async () => {
  const worker = startWorker(`
    const context = await helpers.ml.createContext();
    const { run, links, x, y } = await helpers.slowGraph(context, 20);
    context.writeTensor(x, new Float32Array(helpers.SLOW_ELEMENTS).fill(1));
    run();
    const [value] = await helpers.read(context, y);
    parentPort.postMessage({ value, links });`);
  const { value, links } = await message(worker);
  assert.ok(Math.abs(value - chained(1, links)) < 1e-3);
  await worker.terminate();
});

test('a worker with nothing pending ends by itself', async () => {
  const worker = startWorker(`
    const context = await helpers.ml.createContext();
    const tensor = await context.createTensor(helpers.floats(4));
    parentPort.postMessage((await context.readTensor(tensor)).byteLength);`);
  const ended = new Promise((resolve) => worker.once('exit', resolve));
  assert.equal(await message(worker), 16);
  assert.equal(await ended, 0);
});

test('20 workers are terminated in the middle of a dispatch, and the main thread goes on', async () => {
  const result = await resultOf(
    `import { Worker } from 'node:worker_threads';
     const context = await helpers.ml.createContext({ numThreads: 1 });
     const { run, links, x, y } = await helpers.slowGraph(context, 50);
     context.writeTensor(x, new Float32Array(helpers.SLOW_ELEMENTS).fill(1));
     const codes = [];
     const values = [];
     for (let round = 0; round < 4; round++) {
       const workers = Array.from({ length: 5 }, () => new Worker(${JSON.stringify(`
         import(${MODULE}).then(async (helpers) => {
           const { parentPort } = await import('node:worker_threads');
           ${LONG_WORK}
         });`)}, { eval: true }));
       await Promise.all(workers.map((worker) => new Promise((resolve, reject) => {
         worker.once('message', resolve);
         worker.once('error', reject);
       })));
       run();
       const pending = helpers.read(context, y);
       codes.push(...await Promise.all(workers.map((worker) => worker.terminate())));
       values.push((await pending)[0]);
     }
     // What the workers had queued, some minutes of work, is not done.
     let idle = false;
     const deadline = Date.now() + 60_000;
     while (!idle && Date.now() < deadline) {
       const before = process.cpuUsage();
       await new Promise((resolve) => setTimeout(resolve, 300));
       const { user } = process.cpuUsage(before);
       idle = user < 30_000;
     }
     console.log(JSON.stringify({ codes, values, links, idle }));`,
  );
  assert.deepEqual(result.codes, Array(20).fill(1));
  for (const value of result.values) {
    assert.ok(Math.abs(value - chained(1, result.links)) < 1e-3);
  }
  assert.ok(result.idle, 'work of the terminated workers goes on');
});

test('a worker that exits by itself in the middle of its work leaves the main thread alone', async () => {
  const worker = startWorker(`${LONG_WORK} process.exit(3);`);
  assert.equal(await new Promise((resolve) => worker.once('exit', resolve)), 3);
  const context = await ml.createContext();
  const tensor = await context.createTensor(floats(4));
  assert.equal((await context.readTensor(tensor)).byteLength, 16);
});

test('a worker that throws in the middle of its work leaves the main thread alone', async () => {
  const worker = startWorker(`${LONG_WORK} throw new RangeError('on purpose');`);
  const error = await new Promise((resolve) => worker.once('error', resolve));
  assert.equal(error.message, 'on purpose');
});

test('a worker that is terminated while it loads the package does no harm', async () => {
  for (let i = 0; i < 10; i++) {
    const worker = new Worker(
      `import(${JSON.stringify(new URL('../../index.js', import.meta.url).href)}).then(async ({ ml }) => {
         const context = await ml.createContext();
         await context.createTensor({ dataType: 'int8', shape: [1 << 20] });
       });`,
      { eval: true },
    );
    await new Promise((resolve) => setTimeout(resolve, i * 5));
    await worker.terminate();
  }
});

test('threads survive the workers that started them, in a process whose main thread comes later', async () => {
  const bytes = await resultOf(
    `import { Worker } from 'node:worker_threads';
     const program = ${JSON.stringify(`
       import(${MODULE}).then(async (helpers) => {
         const { parentPort } = await import('node:worker_threads');
         ${LONG_WORK}
       });`)};
     for (let i = 0; i < 4; i++) {
       const worker = new Worker(program, { eval: true });
       await new Promise((resolve, reject) => {
         worker.once('message', resolve);
         worker.once('error', reject);
       });
       await worker.terminate();
       // Time for threads to run into memory that is gone.
       await new Promise((resolve) => setTimeout(resolve, 100 * (i % 2)));
     }
     const { ml } = await import('webnn-node');
     const context = await ml.createContext();
     const tensor = await context.createTensor({ dataType: 'int8', shape: [12], readable: true });
     console.log(JSON.stringify((await context.readTensor(tensor)).byteLength));`,
    { helpers: false },
  );
  assert.equal(bytes, 12);
});

test('objects of the interfaces cannot be sent to a worker', async () => {
  const context = await ml.createContext();
  const tensor = await context.createTensor(floats(4));
  const { port1, port2 } = new MessageChannel();
  for (const [thing, transfer] of [[context], [tensor], [{ nested: [tensor] }], [ml], [tensor, [tensor]]]) {
    assert.throws(
      () => port1.postMessage(thing, transfer),
      (error) => {
        assert.ok(error instanceof DOMException || error instanceof TypeError);
        return error.name === 'DataCloneError' || error.code === 'ERR_INVALID_TRANSFER_OBJECT';
      },
    );
    assert.throws(() => structuredClone(thing), { name: 'DataCloneError' });
  }
  port1.close();
  port2.close();
});

test('a SharedArrayBuffer carries data between a worker and a tensor', async () => {
  const shared = new SharedArrayBuffer(16);
  const worker = new Worker(
    `const { parentPort, workerData } = require('node:worker_threads');
     new Float32Array(workerData).set([1, 2, 3, 4]);
     parentPort.postMessage('written');`,
    { eval: true, workerData: shared },
  );
  await message(worker);
  const context = await ml.createContext();
  const tensor = await context.createTensor(floats(4));
  context.writeTensor(tensor, shared);
  new Float32Array(shared).fill(0);
  await context.readTensor(tensor, shared);
  assert.deepEqual([...new Float32Array(shared)], [1, 2, 3, 4]);
});
