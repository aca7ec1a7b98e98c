import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { test } from 'node:test';
import { URL } from 'node:url';
import { resultOf } from './helpers.mjs';

/** Threads that the contexts of the programs below ask for. */
const POOL = 2;

/** Threads for work that finds the pool busy, for models that are opened, and for idle memory. */
const MORE = Math.max(4, availableParallelism()) + 4 + 1;

/** Threads that the system lets the user of a program have, besides those that there are. */
const ROOM = 40;

/**
 * What the programs below share: they leave root, for whom there are no limits, and become a user whom nobody else is.
 * `count()` counts threads, and `limit()` sets how many more the user may have.
 */
const PROGRAM = `
import { spawn, spawnSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import { loadModel } from 'webnn-node/onnx';

const { ml, read, floats, MLGraphBuilder, operand } = helpers;
const options = { accelerated: false, numThreads: ${POOL} };
const model = new Uint8Array(Buffer.from(${JSON.stringify(readFileSync(new URL('../../packages/cli/__test__/files/conv.onnx', import.meta.url)).toString('base64'))}, 'base64'));

if (process.getuid() === 0) process.setuid(20_000 + (process.pid % 40_000));
const uid = process.getuid();

const count = () => readdirSync('/proc/self/task').length;

/** Threads of the user, in all processes. */
function threadsOfUser() {
  let threads = 0;
  for (const id of readdirSync('/proc')) {
    if (!/^[0-9]+$/.test(id)) continue;
    try {
      const status = readFileSync('/proc/' + id + '/status', 'utf8');
      if (Number(/^Uid:\\t(\\d+)/m.exec(status)[1]) === uid) threads += Number(/^Threads:\\t(\\d+)/m.exec(status)[1]);
    } catch {
      // It has ended in the meantime.
    }
  }
  return threads;
}

function limit(threads) {
  const { status, stderr } = spawnSync('prlimit', ['--pid', process.pid, '--nproc=' + threads], { encoding: 'utf8' });
  if (status !== 0) throw new Error('prlimit: ' + stderr);
}

/** A graph that takes some milliseconds, and what it is read from. */
async function busy(context) {
  const { x, y } = { x: await context.createTensor(floats(1 << 16)), y: await context.createTensor(floats(1 << 16)) };
  const builder = new MLGraphBuilder(context);
  let value = builder.input('x', operand(1 << 16));
  for (let i = 0; i < 50; i++) value = builder.sin(value);
  const graph = await builder.build({ y: value });
  context.writeTensor(x, new Float32Array(1 << 16).fill(1));
  return async () => {
    context.dispatch(graph, { x }, { y });
    const result = await read(context, y);
    if (Math.abs(result[65_535] - helpers.chained(1, 50)) > 1e-3) throw new Error('wrong result ' + result[65_535]);
  };
}

// The threads of the runtime itself.
await readFile('/proc/self/status');
`;

/** Only Linux limits threads by user, and lists them. */
const onLinux = { skip: process.platform !== 'linux' };

test('hundreds of models and contexts share a few threads, and leave room for workers and processes', onLinux, async () => {
  const { before, peak, sum, exit, refused } = await resultOf(
    `${PROGRAM}
     const before = count();
     limit(threadsOfUser() + ${ROOM});
     let peak = before;
     const watch = setInterval(() => { peak = Math.max(peak, count()); }, 1);

     // Models that are destroyed or collected: each has a context of its own.
     for (let round = 0; round < 6; round++) {
       const models = await Promise.all(Array.from({ length: 100 }, () => loadModel(model, { device: 'cpu', numThreads: ${POOL} })));
       models.forEach((model, index) => { if (index % 2 === 0) model.destroy(); });
       await helpers.collectGarbage();
       peak = Math.max(peak, count());
     }

     // Contexts that compute at once.
     const contexts = await Promise.all(Array.from({ length: 200 }, () => ml.createContext(options)));
     const runs = await Promise.all(contexts.map(busy));
     const results = Promise.all(runs.map((run) => run()));
     peak = Math.max(peak, count());
     clearInterval(watch);
     const worker = new Worker('require("node:worker_threads").parentPort.postMessage(6 * 7)', { eval: true, execArgv: [] });
     const sum = await new Promise((resolve, reject) => worker.on('message', resolve).on('error', reject));
     const exit = await new Promise((resolve, reject) => spawn('true').on('exit', resolve).on('error', reject));
     await results;
     contexts.forEach((context) => context.destroy());

     // The limit is one.
     let refused = false;
     const sleepers = [];
     while (!refused && sleepers.length <= ${ROOM}) {
       const child = spawn('sleep', ['60']).on('error', () => {});
       refused = child.pid === undefined;
       sleepers.push(child);
     }
     // The one that was refused has no process, and would signal the whole group.
     sleepers.forEach((child) => child.pid !== undefined && child.kill());
     console.log(JSON.stringify({ before, peak, sum, exit, refused }));`,
    { flags: ['--expose-gc'], env: { WEBNN_NUM_THREADS: '' } },
  );
  assert.ok(refused, 'the system lets the user have any number of threads, so nothing was shown');
  assert.ok(peak <= before + POOL + MORE, `${peak} threads, ${before} of them before`);
  assert.deepEqual({ sum, exit }, { sum: 42, exit: 0 });
});

test('where no thread can be started, work is done by those that run, or is refused', onLinux, async () => {
  const result = await resultOf(
    `${PROGRAM}
     const first = await ml.createContext(options);
     await (await busy(first))();
     const own = () => readdirSync('/proc/self/task').map((id) => readFileSync('/proc/self/task/' + id + '/comm', 'utf8').trim());
     await helpers.until(() => own().every((name) => !name.startsWith('webnn-') || /^webnn-[0-9]+$/.test(name)), 'only the pool is left');
     limit(1);
     const refusals = [];
     const refused = (promise) => promise.then(() => refusals.push('done'), (error) => refusals.push(error.name + ': ' + error.message));
     await refused(ml.createContext({ ...options, numThreads: 64 }));
     await refused(loadModel(model, { device: 'cpu', numThreads: ${POOL} }));
     await refused(new Promise((resolve, reject) => spawn('true').on('exit', resolve).on('error', reject)));
     const before = count();
     const contexts = await Promise.all(Array.from({ length: 100 }, () => ml.createContext(options)));
     const runs = await Promise.all(contexts.map(busy));
     await Promise.all(runs.map((run) => run()));
     contexts.forEach((context) => context.destroy());
     await (await busy(first))();
     console.log(JSON.stringify({ refusals, more: count() - before }));`,
    { env: { WEBNN_NUM_THREADS: '' } },
  );
  const [context, opened, spawned] = result.refusals;
  assert.match(spawned, /EAGAIN/, 'the system lets the user have any number of threads, so nothing was shown');
  assert.match(context, /^OperationError: .*64 threads did not start: .*; numThreads or WEBNN_NUM_THREADS ask for fewer/);
  assert.match(opened, /^OperationError: .*no thread could be started: /);
  assert.equal(result.more, 0);
});
