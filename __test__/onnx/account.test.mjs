// What the garbage collector is told of memory that models and results keep alive outside of its heap.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isGlibc } from '../lib/platform.mjs';
import { resultOf } from '../runtime/helpers.mjs';

const WRITER = new URL('./model-writer.mjs', import.meta.url);

/** Elements of a row of the cache: a quarter of a MiB. */
const ROW = 1 << 16;

/** Rows of a prompt: 16 MiB. */
const ROWS = 64;

/** MiB that are left of everything that is small. */
const SMALL = 4;

const PROGRAM = `
import { importModel, inspectModel, loadModel } from 'webnn-node/onnx';
import { FLOAT, INT64, node, value, weight, writeModel } from ${JSON.stringify(WRITER)};
import { createRequire } from 'node:module';
const { reportedBytes } = createRequire(${JSON.stringify(import.meta.url)})('../../lib/native.js');
const { collectGarbage, collectUntil, ml, MLGraphBuilder } = helpers;
const MiB = 2 ** 20;
/** MiB that the collector was told of. */
const known = () => reportedBytes() / MiB;
const context = await ml.createContext({ numThreads: 1, accelerated: false });
const row = (count) => ({ data: new Float32Array(count * ${ROW}), shape: [1, 1, count, ${ROW}] });
/** A cache that grows, and a table in which an index of a feed is looked up. */
const cached = () => writeModel({
  inputs: [value('past', FLOAT, [1, 1, 'n', ${ROW}]), value('fresh', FLOAT, [1, 1, 'm', ${ROW}]), value('at', INT64, [1])],
  outputs: [value('present', FLOAT, [1, 1, 'l', ${ROW}]), value('found', FLOAT, [1])],
  weights: [weight('table', [4], new Float32Array(4))],
  nodes: [node('Concat', ['past', 'fresh'], ['present'], { axis: { i: 2 } }), node('Gather', ['table', 'at'], ['found'])],
});
const step = async (model, past, count, at = 0n) => (await model.run({ past, fresh: row(count), at: BigInt64Array.of(at) })).present;
/** A model with 64 MiB of weights; nothing is compiled before the sizes are known. */
const weighty = () => writeModel({
  inputs: [value('x', FLOAT, ['n', 1])],
  outputs: [value('y', FLOAT, ['n', 16 * MiB])],
  weights: [weight('w', [16 * MiB], new Float32Array(16 * MiB).fill(1))],
  nodes: [node('Add', ['x', 'w'], ['y'])],
});
await collectGarbage();
const start = known();
const more = () => Math.round((known() - start) * 10) / 10;
`;

const run = (source) => resultOf(PROGRAM + source, { flags: ['--expose-gc'] });

test('a cache that was fed counts as long as somebody holds it, and once', async () => {
  const { held, fed, grown, left } = await run(`
    const model = await loadModel(cached(), { context });
    let present = await step(model, row(0), ${ROWS});
    await collectGarbage();
    const before = known();
    const prompt = present;
    await step(model, prompt, 1);
    await collectGarbage();
    const held = more();
    const fed = known() - before;
    present = prompt;
    for (let i = 0; i < 8; i++) present = await step(model, present, 1);
    await collectGarbage();
    const grown = known() - before;
    present.data; prompt.data;
    await collectGarbage();
    model.destroy();
    await context.readTensor(await context.createTensor(helpers.floats(1)));
    console.log(JSON.stringify({ held, fed, grown, left: more() }));`);
  const block = (ROWS * 1.5 * ROW * 4) / 2 ** 20;
  assert.ok(held >= block, `${held} MiB with a block of ${block} MiB`);
  assert.ok(Math.abs(fed) < SMALL, `${fed} MiB more after it was fed`);
  // The prompt was continued twice: the second time in a copy.
  assert.ok(grown < block + SMALL + 2, `${grown} MiB more for a copy of the block`);
  assert.ok(left < SMALL, `${left} MiB when all is read and the model destroyed`);
});

test('a run that fails leaves no weight behind', async () => {
  const { failures, held, left } = await run(`
    const model = await loadModel(cached(), { context });
    let present = await step(model, row(0), ${ROWS});
    const failures = [];
    for (let i = 0; i < 4; i++) await step(model, present, 1, 9n).catch(({ code }) => failures.push(code));
    await collectGarbage();
    const held = more();
    present = undefined;
    model.destroy();
    await collectUntil(() => more() < ${SMALL}, 'the cache is given back');
    console.log(JSON.stringify({ failures, held, left: more() }));`);
  assert.deepEqual(failures, Array(4).fill('ERR_WEBNN_INDEX'));
  assert.ok(held >= 24, `${held} MiB`);
  assert.ok(left < SMALL);
});

test('a model from bytes counts at its full size, until it is destroyed', async () => {
  const { loaded, constant, destroyed } = await run(`
    const model = await loadModel(weighty(), { context });
    const loaded = more();
    model.destroy();
    const destroyed = more();
    const other = await loadModel(writeModel({
      inputs: [value('x', FLOAT, ['n', 1]), value('w', FLOAT, ['m'])],
      outputs: [value('y', FLOAT, ['n', 'm'])],
      nodes: [node('Add', ['x', 'w'], ['y'])],
    }), { context, constants: { w: { data: new Float32Array(16 * MiB), shape: [16 * MiB] } } });
    const constant = more();
    other.destroy();
    console.log(JSON.stringify({ loaded, constant, destroyed }));`);
  assert.ok(loaded >= 64, `${loaded} MiB`);
  assert.ok(destroyed < SMALL, `${destroyed} MiB`);
  assert.ok(constant >= 64, `${constant} MiB of constants`);
});

test('a model from bytes that is dropped is collected for its weight alone', async () => {
  const { peak } = await run(`
    const bytes = weighty();
    let peak = 0;
    for (let i = 0; i < 40; i++) {
      await loadModel(bytes, { context });
      peak = Math.max(peak, more());
      await new Promise((resolve) => setImmediate(resolve));
    }
    console.log(JSON.stringify({ peak }));`);
  assert.ok(peak >= 64 && peak < 40 * 32, `${peak} MiB of 2560 MiB at once`);
});

test('a builder counts a model from bytes that is imported, and other uses leave nothing', async () => {
  const { imported, built, inspected, refused } = await run(`
    const bytes = weighty();
    inspectModel(bytes);
    const inspected = more();
    await loadModel(bytes.subarray(0, bytes.length - 5), { context }).catch(() => {});
    const refused = more();
    let builder = new MLGraphBuilder(context);
    const { y } = importModel(builder, bytes, {}, { freeDimensions: { n: 1 } });
    const imported = more();
    const graph = await builder.build({ y });
    const built = more();
    graph.destroy();
    console.log(JSON.stringify({ imported, built, inspected, refused }));`);
  assert.ok(inspected < SMALL, `${inspected} MiB after inspectModel()`);
  assert.ok(refused < SMALL, `${refused} MiB after a model was refused`);
  assert.ok(imported >= 64, `${imported} MiB`);
  assert.ok(built >= 64 && built < 64 + 64 + SMALL, `${built} MiB`);
});

test('results take the memory of those that were collected', { skip: !isGlibc && 'other allocators have rules of their own' }, async () => {
  // Each time, 30 MiB of results that are read and dropped; V8 frees them on a thread of its own.
  const shares = await run(`
    const size = 20 * ${ROW};
    const model = await loadModel(writeModel({
      inputs: [value('x', FLOAT, [size / 4])], outputs: [value('y', FLOAT, [size / 4])], nodes: [node('Abs', ['x'], ['y'])],
    }), { context });
    const x = new Float32Array(size / 4).fill(1);
    const faults = () => process.resourceUsage().minorPageFault;
    const shares = [];
    for (let round = 0; round < 8; round++) {
      const [before, kept] = [faults(), []];
      for (let i = 0; i < 24; i++) kept.push((await model.run({ x })).y.data);
      // Of the pages of the results, those that the system had to provide.
      shares.push((faults() - before) / ((kept.length * size) / 4096));
      kept.length = 0;
      await collectGarbage();
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    console.log(JSON.stringify(shares));`);
  const later = shares.slice(2).sort((a, b) => a - b);
  assert.ok(later[later.length >> 1] < 0.25, `new pages, as a share of the results' of each round: ${shares}`);
});
