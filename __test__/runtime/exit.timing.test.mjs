import assert from 'node:assert/strict';
import { test } from 'node:test';
import { temporaryFolder } from '../lib/folders.mjs';
import { IS_ON_SOFTWARE_VULKAN, resultOf, runProcess } from './helpers.mjs';

/**
 * How soon a process is gone after it decided to end, in milliseconds. What was handed to a GPU cannot be taken back:
 * on software Vulkan that is work for some times as long as it would be on the CPU.
 */
const PROMISED_TIME = IS_ON_SOFTWARE_VULKAN ? 4000 : 1000;

/** The bound for a single run, in milliseconds: other programs may hold all cores. */
const TOLERATED_TIME = 10_000;

const RUNS = 5;

/** Work of every kind for a minute or more; `leave` prints the time at which the process decides to end. */
const WORK = `
const context = await helpers.ml.createContext({ numThreads: 2 });
const { run, y } = await helpers.slowGraph(context, 50);
const begin = () => {
  for (let i = 0; i < 1000; i++) run();
  helpers.chain(context, 2000).catch(() => {});
  context.createTensor(helpers.floats(1000)).catch(() => {});
};
const leave = () => console.log(Date.now());
/** Begins, and resolves when a dispatch is behind and the next one runs. */
const middle = () => {
  run();
  const first = context.readTensor(y);
  begin();
  context.readTensor(y);
  return first;
};
`;

/** Runs the program some times; each must end with the code, soon, and not by a signal. */
async function checkEnd(source, expectedCode, stderr = /^$/) {
  const times = [];
  for (let i = 0; i < RUNS; i++) {
    const result = await runProcess(WORK + source);
    assert.deepEqual([result.code, result.signal], [expectedCode, null], result.stderr);
    assert.match(result.stderr, stderr);
    times.push(result.ended - Number(result.stdout));
  }
  times.sort((a, b) => a - b);
  const median = times[RUNS >> 1];
  assert.ok(median < PROMISED_TIME && times.at(-1) < TOLERATED_TIME, `the ends took ${times} ms`);
}

test('process.exit() with work and reads pending', () => checkEnd('begin(); context.readTensor(y); leave(); process.exit(7);', 7));

test('process.exit() in the middle of a dispatch', () => checkEnd('await middle(); leave(); process.exit(0);', 0));

test('process.exit() while a graph is compiled', () =>
  checkEnd(
    `const builder = new helpers.MLGraphBuilder(context);
     let z = builder.constant(helpers.operand(1 << 21), new Float32Array(1 << 21));
     for (let i = 0; i < 2000; i++) z = builder.sin(z);
     builder.build({ z: builder.add(z, builder.input('x', helpers.operand(1))) });
     // A compilation tells nothing until its end.
     await helpers.untilBusy(30);
     leave();
     process.exit(0);`,
    0,
  ));

test('process.exit() in an exit handler and in a completion', () =>
  checkEnd(
    `process.on('exit', () => { context.readTensor(y); run(); });
     const tensor = await context.createTensor(helpers.floats(1));
     context.readTensor(tensor).then(() => { begin(); leave(); process.exit(5); });`,
    5,
  ));

test('the natural end with dispatches that nobody waits for', () => checkEnd('for (let i = 0; i < 1000; i++) run(); leave();', 0));

test('the natural end after the context is destroyed with work in its queue', () =>
  checkEnd('begin(); context.readTensor(y).catch(() => {}); leave(); context.destroy();', 0));

test('the natural end while kernels are compiled for the first time', async (t) => {
  for (let i = 0; i < RUNS; i++) {
    const { code, signal, stderr } = await runProcess(
      `const context = await helpers.ml.createContext();
       const builder = new helpers.MLGraphBuilder(context);
       const x = builder.input('x', helpers.operand(64));
       const outputs = { a: builder.relu(x), b: builder.tanh(x), c: builder.abs(x) };
       const graph = await builder.build(outputs);
       const [from, a, b, c] = await Promise.all([0, 1, 2, 3].map(() => context.createTensor(helpers.floats(64))));
       context.dispatch(graph, { x: from }, { a, b, c });
       // At several moments while they are on their way.
       setTimeout(() => {}, ${4 * i});`,
      { env: { XDG_CACHE_HOME: temporaryFolder(t) } },
    );
    assert.deepEqual([code, signal], [0, null], stderr);
  }
});

test('an uncaught exception', () => checkEnd("begin(); context.readTensor(y); leave(); throw new Error('on purpose');", 1, /on purpose/));

test('an unhandled rejection of the API', () =>
  checkEnd('begin(); const read = context.readTensor(y); leave(); y.destroy(); await read;', 1, /InvalidStateError/));

test('process.exit() of the main thread while a worker computes', () =>
  checkEnd(
    `import { Worker } from 'node:worker_threads';
     const worker = new Worker(\`
       import(\${JSON.stringify(helpers.HELPERS)}).then(async (helpers) => {
         const context = await helpers.ml.createContext({ numThreads: 1 });
         const { run, y } = await helpers.slowGraph(context, 50);
         for (let i = 0; i < 1000; i++) run();
         context.readTensor(y);
         (await import('node:worker_threads')).parentPort.postMessage(1);
       });\`, { eval: true });
     worker.on('message', () => { leave(); process.exit(6); });`,
    6,
  ));

test('a signal ends the process in the middle of a dispatch', async () => {
  const { code, signal } = await runProcess(`${WORK} await middle(); process.kill(process.pid, 'SIGTERM');`);
  assert.deepEqual([code, signal], [null, 'SIGTERM']);
});

test('a pending promise keeps the process alive until it is settled, nothing else does', async () => {
  for (const pending of [
    'context.readTensor(y)',
    'context.createTensor(helpers.floats(1))',
    'context.createConstantTensor(helpers.operand(1), new Float32Array(1))',
    'helpers.chain(context, 300)',
  ]) {
    const settled = await resultOf(`${WORK} for (let i = 0; i < 5; i++) run(); ${pending}.then(() => console.log('"settled"'));`);
    assert.equal(settled, 'settled');
  }
  const idle = await runProcess(`${WORK} globalThis.kept = context; await context.readTensor(y); leave();`);
  assert.equal(idle.code, 0);
  assert.ok(idle.ended - Number(idle.stdout) < TOLERATED_TIME);
});
