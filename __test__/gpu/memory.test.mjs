/** Memory of the GPU: what happens at its end, and that nothing grows. */

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { GPU_WANTED, ml, resultOf, runProcess } from '../runtime/helpers.mjs';

/** The bytes of tensors that are created until there is no more memory. */
const LARGE = 2 ** 26;

/** The address space that a process may take for them, in bytes. llvmpipe's memory is the process's own. */
const SPACE = 2 ** 30;

/** What a process runs to take no more than that from here on. */
const LIMIT_SPACE = `
     const { readFileSync } = await import('node:fs');
     const { execFileSync } = await import('node:child_process');
     const pages = Number(readFileSync('/proc/self/statm', 'utf8').split(' ')[0]);
     execFileSync('prlimit', ['--pid', String(process.pid), '--as=' + (pages * 4096 + ${SPACE})]);`;

test('tensors beyond the memory are refused, and those before go on', async () => {
  const result = await resultOf(
    `const context = await helpers.ml.createContext(helpers.GPU_WANTED);
     const large = { dataType: 'uint8', shape: [${LARGE}], readable: true, writable: true };
     const first = await context.createTensor(large);
     context.writeTensor(first, new Uint8Array(${LARGE}).fill(7));
     await context.readTensor(first);
     // What was written and read would otherwise be freed in the middle of the test, and make room for two more.
     await helpers.collectGarbage();
     ${LIMIT_SPACE}
     const kept = [];
     let refused;
     while (refused === undefined && kept.length < 100) {
       await context.createTensor(large).then((tensor) => kept.push(tensor), (error) => { refused = [error.name, error.message]; });
     }
     const created = kept.length;
     for (const tensor of kept.splice(1)) tensor.destroy();
     const again = await context.createTensor(large);
     const bytes = await Promise.all([first, kept[0], again].map(async (tensor) => new Uint8Array(await context.readTensor(tensor))[${LARGE} - 1]));
     console.log(JSON.stringify({ refused, created, bytes }));`,
    { flags: ['--expose-gc'] },
  );
  assert.deepEqual(result.refused[0], 'UnknownError', result.refused[1]);
  assert.match(result.refused[1], new RegExp(`no memory for ${LARGE} bytes \\(a tensor\\) on the GPU`));
  assert.ok(result.created > 4 && result.created <= SPACE / LARGE, `${result.created} tensors`);
  assert.deepEqual(result.bytes, [7, 0, 0]);
});

test('a graph beyond the memory is refused, and those before go on', async () => {
  const { refused, built, result } = await resultOf(
    `const context = await helpers.ml.createContext(helpers.GPU_WANTED);
     const operand = (size) => ({ dataType: 'float32', shape: [size] });
     // y = size * (size + 1) / 2 * x, by way of tensors of that size.
     const sum = (size) => {
       const builder = new helpers.MLGraphBuilder(context);
       const all = builder.cumulativeSum(builder.expand(builder.input('x', operand(1)), [size]), 0);
       return builder.build({ y: builder.slice(builder.cumulativeSum(all, 0), [size - 1], [1]) });
     };
     const small = await sum(4);
     ${LIMIT_SPACE}
     const kept = [];
     let refused;
     // Graphs share the memory for intermediate results, but each keeps that of its size until it runs.
     while (refused === undefined && kept.length < 100) {
       await sum((kept.length + 1) * ${LARGE} / 4).then((graph) => kept.push(graph), (error) => { refused = [error.name, error.message]; });
     }
     const built = kept.length;
     const [x, y] = await Promise.all([1, 2].map(() => context.createTensor({ ...operand(1), readable: true, writable: true })));
     context.writeTensor(x, Float32Array.of(2));
     context.dispatch(small, { x }, { y });
     const result = new Float32Array(await context.readTensor(y))[0];
     for (const graph of kept) graph.destroy();
     await sum(${LARGE} / 4);
     console.log(JSON.stringify({ refused, built, result }));`,
  );
  assert.equal(refused[0], 'OperationError', refused[1]);
  assert.match(refused[1], /^build: no memory for \d+ bytes \(intermediate results\) on the GPU/);
  assert.ok(built > 1 && built < SPACE / LARGE, `${built} graphs`);
  assert.equal(result, 20);
});

test('a tensor larger than the context says is refused at once', async () => {
  const context = await ml.createContext(GPU_WANTED);
  const { maxTensorByteLength } = context.opSupportLimits();
  const descriptor = (bytes) => ({ dataType: /** @type {const} */ ('uint8'), shape: [bytes] });
  (await context.createTensor(descriptor(maxTensorByteLength))).destroy();
  await assert.rejects(context.createTensor(descriptor(maxTensorByteLength + 1)), (/** @type {Error} */ error) => {
    assert.equal(error.name, 'TypeError');
    assert.ok(error.message.includes(`${maxTensorByteLength}`), error.message);
    return true;
  });
});

/** MiB that may be more after four rounds: what was copied and not yet written, 8 MiB for each write. A round writes 400 MiB. */
const GROWTH = 60;

test('writing again and again without a dispatch does not take more memory', async (t) => {
  const { rounds } = await resultOf(
    `const MiB = 2 ** 20;
     const context = await helpers.ml.createContext(helpers.GPU_WANTED);
     const tensor = await context.createTensor({ dataType: 'uint8', shape: [8 * MiB], readable: true, writable: true });
     const data = new Uint8Array(8 * MiB);
     const rounds = [];
     for (let round = 0; round < 6; round++) {
       for (let i = 0; i < 50; i++) {
         data.fill(i);
         context.writeTensor(tensor, data);
         // Lets the context keep up: what is copied and not yet written is memory that is needed.
         if (i % 10 === 9) await context.createTensor({ dataType: 'uint8', shape: [1] });
       }
       rounds.push(process.memoryUsage.rss() / MiB);
     }
     const last = new Uint8Array(await context.readTensor(tensor));
     if (last[0] !== 49 || last.at(-1) !== 49) throw new Error('wrong contents ' + last[0]);
     console.log(JSON.stringify({ rounds }));`,
  );
  t.diagnostic(`MiB after each round: ${rounds.map((size) => size.toFixed(0))}`);
  const growth = rounds.at(-1) - rounds[1];
  assert.ok(growth < GROWTH, `resident memory in MiB after each round: ${rounds}`);
});

/** Processes that end in the middle of their work. */
const ENDS = 50;

test('process.exit() in the middle of work on the GPU is a clean end', async () => {
  for (let i = 0; i < ENDS; i++) {
    const { code, signal, stderr } = await runProcess(
      `const context = await helpers.ml.createContext(helpers.GPU_WANTED);
       const { x, y } = await helpers.slowTensors(context);
       const graph = await helpers.chain(context, 8);
       for (let i = 0; i < 20; i++) context.dispatch(graph, { x }, { y });
       context.readTensor(y);
       helpers.chain(context, 30);
       setTimeout(() => process.exit(0), ${i % 10});`,
    );
    assert.deepEqual({ code, signal, stderr }, { code: 0, signal: null, stderr: '' }, `process ${i}`);
  }
});
