import assert from 'node:assert/strict';
import { test } from 'node:test';

import { PATIENCE, untilBusy } from '../lib/wait.mjs';
import { randomFloats } from '../lib/random.mjs';
import { exception, invalidState, rejects, typeError } from '../lib/exceptions.mjs';
import { GPU_WANTED, HELPERS, IS_ON_SOFTWARE_VULKAN, resultOf, slowGraph } from '../runtime/helpers.mjs';
import { MLGraphBuilder, describeGraph, floats, ml, profileGraph, squeezed } from './helpers.mjs';

const read = async (context, tensor) => new Float32Array(await context.readTensor(tensor));

test('a profile has the times of every run and step', async () => {
  const { context, graph, inputs, outputs } = await squeezed();
  const profile = await profileGraph(context, graph, inputs, outputs, { runs: 7, warmup: 1 });
  assert.deepEqual(Object.keys(profile).sort(), ['description', 'runs']);
  assert.deepEqual(profile.description, describeGraph(graph));
  assert.equal(profile.runs.length, 7);
  assert.equal(profile.runs[0].start, 0);
  let runEnd = 0;
  for (const { start, duration, steps } of profile.runs) {
    assert.ok(start >= runEnd && duration > 0);
    runEnd = start + duration;
    assert.equal(steps.length, profile.description.steps.length);
    let stepEnd = 0;
    for (const step of steps) {
      assert.deepEqual(Object.keys(step), ['start', 'duration']);
      assert.ok(step.start >= stepEnd && step.duration >= 0);
      stepEnd = step.start + step.duration;
    }
    assert.ok(stepEnd <= duration);
  }
});

test('without options there are 10 runs', async () => {
  const { context, graph, inputs, outputs } = await squeezed();
  assert.equal((await profileGraph(context, graph, inputs, outputs)).runs.length, 10);
  assert.equal((await profileGraph(context, graph, inputs, outputs, { warmup: 0 })).runs.length, 10);
  assert.equal((await profileGraph(context, graph, inputs, outputs, null)).runs.length, 10);
});

test('profiled or not, a graph computes the same bits', async () => {
  const { context, graph, inputs, outputs } = await squeezed();
  context.dispatch(graph, inputs, outputs);
  const expected = await read(context, outputs.classes);
  assert.ok(Math.abs(expected.reduce((a, b) => a + b) - 1) < 1e-5);
  context.writeTensor(outputs.classes, new Float32Array(5));
  await profileGraph(context, graph, inputs, outputs, { runs: 2 });
  assert.deepEqual(await read(context, outputs.classes), expected);
});

test('a profile keeps its place among writes, dispatches and reads', async () => {
  const { context, graph, inputs, outputs } = await squeezed();
  const profile = profileGraph(context, graph, inputs, outputs, { runs: 3 });
  const before = read(context, outputs.classes);
  context.writeTensor(inputs.image, randomFloats(3 * 17 * 17, 4));
  context.dispatch(graph, inputs, outputs);
  const after = read(context, outputs.classes);
  // The graph goes when everything before is done.
  graph.destroy();
  await profile;
  assert.notDeepEqual(await before, await after);
});

test('arguments are converted and checked as those of dispatch', async () => {
  const { context, graph, inputs, outputs } = await squeezed();
  const refused = (args, pattern) => rejects(() => profileGraph(...args), typeError(pattern));
  await refused([], /^profileGraph: 4 arguments required, 0 given$/);
  await refused([{}, graph, inputs, outputs], /^profileGraph: context is an object, expected an MLContext$/);
  await refused([context, context, inputs, outputs], /^profileGraph: graph is an object, expected an MLGraph$/);
  await refused([context, graph, 1, outputs], /^profileGraph: inputs is 1, expected an object$/);
  await refused([context, graph, inputs, { classes: {} }], /^profileGraph: outputs\["classes"\] is an object, expected an MLTensor$/);
  await refused([context, graph, inputs, outputs, 5], /^profileGraph: options is 5, expected an object$/);
  await refused([context, graph, {}, outputs], /^profileGraph: inputs do not match the graph: "image" missing/);
  const twice = { image: inputs.image };
  await refused([context, graph, twice, { classes: inputs.image }], /^profileGraph: .*"classes" is passed more than once$/);
  const small = await context.createTensor(floats(1, 4));
  await refused([context, graph, inputs, { classes: small }], /^profileGraph: output "classes" needs float32 \[1, 5\], the tensor is float32 \[1, 4\]$/);
  const constant = await context.createConstantTensor(floats(1, 3, 17, 17), randomFloats(3 * 17 * 17));
  await refused([context, graph, { image: constant }, outputs], /^profileGraph: input "image" is a constant tensor/);
  const other = await ml.createContext();
  await refused([other, graph, inputs, outputs], /^profileGraph: graph belongs to another context$/);
  small.destroy();
  await refused([context, graph, inputs, { classes: small }], /^profileGraph: .*"classes" is destroyed$/);
});

test('options out of range are refused', async () => {
  const { context, graph, inputs, outputs } = await squeezed();
  const refused = (options, pattern) => rejects(() => profileGraph(context, graph, inputs, outputs, options), typeError(pattern));
  for (const runs of [0, 10_001, 2 ** 32 - 1]) {
    await refused({ runs }, new RegExp(`^profileGraph: options\\.runs is ${runs}, expected 1 to 10000$`));
  }
  for (const runs of [-1, NaN, Infinity, 2 ** 32, 'many', {}]) {
    await refused({ runs }, /^profileGraph: options\.runs is .*, expected an integer from 0 to 4294967295$/);
  }
  await refused({ runs: 5n }, /^profileGraph: options\.runs is 5n, expected a number$/);
  await refused({ warmup: 10_001 }, /^profileGraph: options\.warmup is 10001, expected 0 to 10000$/);
  const thrown = new Error('from a getter');
  const options = {
    get runs() {
      throw thrown;
    },
  };
  await rejects(
    () => profileGraph(context, graph, inputs, outputs, options),
    (error) => error === thrown,
  );
});

test('more timings than a profile holds are refused', async () => {
  const context = await ml.createContext({ numThreads: 1 });
  const builder = new MLGraphBuilder(context);
  let y = builder.input('x', floats(1));
  for (let i = 0; i < 200; i++) {
    y = builder.softmax(y, 0);
  }
  const graph = await builder.build({ y });
  const [inputs, outputs] = [{ x: await context.createTensor(floats(1)) }, { y: await context.createTensor(floats(1)) }];
  await rejects(
    () => profileGraph(context, graph, inputs, outputs, { runs: 10_000 }),
    typeError(/^profileGraph: 10000 runs of 200 steps are 2000000 timings, expected at most 1048576$/),
  );
  const { runs } = await profileGraph(context, graph, inputs, outputs, { runs: 100 });
  assert.equal(runs.length * runs[0].steps.length, 20_000);
});

test('a graph that is destroyed is refused', async () => {
  const { context, graph, inputs, outputs } = await squeezed();
  graph.destroy();
  await rejects(() => profileGraph(context, graph, inputs, outputs), invalidState);
});

/** Options of contexts that use this machine's processors, which shows that a profile runs: nothing else tells before its end. */
const COMPUTES_HERE = { numThreads: 1, ...(IS_ON_SOFTWARE_VULKAN ? GPU_WANTED : { accelerated: false }) };

test('a context that is lost ends its profile', { timeout: PATIENCE }, async () => {
  const context = await ml.createContext(COMPUTES_HERE);
  const { graph, x, y } = await slowGraph(context, 100);
  // 1000 seconds, were it not lost.
  const profile = profileGraph(context, graph, { x }, { y }, { runs: 1, warmup: 10_000 });
  await untilBusy(50);
  context.destroy();
  await assert.rejects(profile, exception('InvalidStateError'));
  await rejects(() => profileGraph(context, graph, { x }, { y }), invalidState);
});

test('a process ends in the middle of a profile', async () => {
  const source = `
    import { profileGraph } from 'webnn-node/inspect';
    const context = await helpers.ml.createContext(${JSON.stringify(COMPUTES_HERE)});
    const { graph, x, y } = await helpers.slowGraph(context, 50);
    profileGraph(context, graph, { x }, { y }, { runs: 1, warmup: 10000 });
    await helpers.untilBusy(50);
    console.log('1');
    process.exit();`;
  // It would go on for minutes, and is not waited for so long.
  assert.equal(await resultOf(source), 1);
});

test('a worker that is terminated in the middle of a profile leaves nothing running', async () => {
  const worker = `
    import(${JSON.stringify(HELPERS)}).then(async (helpers) => {
      const { profileGraph } = await import('webnn-node/inspect');
      const { parentPort } = await import('node:worker_threads');
      const context = await helpers.ml.createContext(${JSON.stringify(COMPUTES_HERE)});
      const { graph, x, y } = await helpers.slowGraph(context, 20);
      profileGraph(context, graph, { x }, { y }, { runs: 1, warmup: 10000 });
      await helpers.untilBusy(50);
      parentPort.postMessage('running');
    });`;
  const source = `
    import { once } from 'node:events';
    import { Worker } from 'node:worker_threads';
    const worker = new Worker(${JSON.stringify(worker)}, { eval: true });
    await once(worker, 'message');
    await worker.terminate();
    // 200 seconds, were it not lost with the worker.
    await helpers.untilIdle();
    console.log(true);`;
  assert.equal(await resultOf(source), true);
});
